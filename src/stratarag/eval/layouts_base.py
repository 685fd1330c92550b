"""What readers of data sets give, and how they read its values."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from stratarag.records import Metadata

DocumentRecord = tuple[str, str, str, Metadata]
"""Id, title, text, metadata."""
_Asked = tuple[str, str, tuple[str, ...], tuple[str, ...], str]
QuestionRecord = _Asked | tuple[str, str, tuple[str, ...], tuple[str, ...], str, tuple[tuple[str, ...], ...]]
"""Id, question, answers, ids of gold documents, type; and where an answer has parts, the wordings of each."""


class Raw(NamedTuple):
    """What a layout holds, unchecked."""

    documents: Sequence[DocumentRecord]
    questions: Sequence[QuestionRecord]


def several(value: Any) -> list[Any]:
    """A list as it is, nothing as an empty one, anything else as a list of one."""
    return [] if value is None else value if isinstance(value, list) else [value]


def texts(values: Any) -> tuple[str, ...]:
    """Answers and ids as strings, one or a list; numbers are written out, nothing else is taken."""
    if isinstance(values, str | int | float):
        values = [values]
    kept: Iterable[Any] = values if isinstance(values, list) else ()
    return tuple(str(value) for value in kept if isinstance(value, str | int | float) and str(value).strip())


def title_of(record: Mapping[str, Any]) -> str:
    """A record's title, with single spaces; may be empty."""
    return " ".join(str(record.get("title") or "").split())


def text_of(record: Mapping[str, Any], key: str, place: str) -> str:
    """A string, or a whole number written out, under a key.

    Raises
    ------
    ValueError
        If it is anything else; the message names the place.
    """
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{place}: {key!r} must be a string, not {value!r:.60}")
    return str(value)


def list_of(record: Mapping[str, Any], key: str, place: str) -> list[Any]:
    """A list under a key; an empty one where there is nothing. Errors as `text_of`."""
    value = record.get(key)
    if value is not None and not isinstance(value, list):
        raise ValueError(f"{place}: {key!r} must be a list, not {value!r:.60}")
    return value or []


def objects_of(record: Mapping[str, Any], key: str, place: str) -> list[dict[str, Any]]:
    """A list of objects under a key, which must be there. Errors as `text_of`."""
    value = record.get(key)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError(f"{place}: {key!r} must be a list of objects")
    return value


def pairs_of(record: Mapping[str, Any], key: str, place: str) -> list[tuple[str, Any]]:
    """A list of a title and something else under a key, which must be there. Errors as `text_of`."""
    value = record.get(key)
    if not isinstance(value, list) or not all(_is_pair(each) for each in value):
        raise ValueError(f"{place}: {key!r} must be a list of pairs, of which the first is a title")
    return [(title, other) for title, other in value]


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def sentences_of(value: Any, place: str) -> str:
    """A text, given as a string or as a list of its sentences. Errors as `text_of`."""
    parts = several(value)
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{place}: a paragraph must be a string or a list of them, not {value!r:.60}")
    return "".join(parts)


@contextmanager
def table(path: Path) -> Iterator[TextIO]:
    """A file of separated values, open for `csv`; what cannot be read of it is a `ValueError` naming it."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error.reason}") from None
    except csv.Error as error:
        raise ValueError(f"{path}: not readable as separated values: {error}") from None
