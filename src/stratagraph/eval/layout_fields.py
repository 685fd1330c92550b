"""What readers of layouts return, and how they read fields."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from stratagraph.importing.lines import json_lines, json_objects
from stratagraph.types.records import Metadata


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its gold.

    Parameters
    ----------
    id, question
        Name in reports, and the text.
    answers
        Wordings that count as right; may be empty.
    supporting_ids
        Ids of documents with the evidence; may be empty.
    type
        Type such as `2hop`; reports split their metrics by it.
    parts
        Parts of a full answer, each in all wordings that count (ALCE); may be empty.
    source, evidence
        What the answers of GraphRAG-Bench repeat: the name of its corpus, and the evidence in its words.
    """

    id: str
    question: str
    answers: tuple[str, ...] = ()
    supporting_ids: tuple[str, ...] = ()
    type: str = ""
    parts: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    evidence: str | tuple[str, ...] = ""


class DocumentRecord(NamedTuple):
    """An unchecked document, and its place as `file:line` for messages."""

    id: str
    title: str
    text: str
    metadata: Metadata
    place: str


class Raw(NamedTuple):
    """Unchecked contents of a layout."""

    documents: Sequence[DocumentRecord]
    questions: Sequence[Question]


def several(value: Any) -> list[Any]:
    """A value as a list: None is empty, a single value is a list of one."""
    return [] if value is None else value if isinstance(value, list) else [value]


def texts(values: Any, what: str) -> tuple[str, ...]:
    """A string or number, or a list of them, without blank ones; `what` names the place and the key."""
    for value in several(values):
        if value is not None and not _is_plain(value):
            raise ValueError(f"{what} must be a string, a number or a list of them, not {values!r:.60}")
    plain = (str(value) for value in several(values) if value is not None)
    return tuple(text for text in plain if text.strip())


def _is_plain(value: Any) -> bool:
    """Whether a value can be shown as text; true and false have no agreed wording."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def sentences_of(value: Any, place: str) -> str:
    """A text given as a string or as a list of sentences."""
    parts = several(value)
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{place}: a paragraph must be a string or a list of them, not {value!r:.60}")
    return "".join(parts)


class Record(NamedTuple):
    """An object of a file, and its place as `file:line`. A field of another type raises `ValueError`."""

    place: str
    fields: Mapping[str, Any]

    def _wrong(self, key: str, wanted: str) -> ValueError:
        return ValueError(f"{self.place}: {key!r} must be {wanted}, not {self.fields.get(key)!r:.60}")

    def texts(self, *keys: str) -> tuple[str, ...]:
        """Answers or ids under some keys, one or a list each, as strings without blank ones."""
        return tuple(text for key in keys for text in texts(self.fields.get(key), f"{self.place}: {key!r}"))

    def word(self, *keys: str) -> str:
        """The string or number under the first key that has one, else empty."""
        for key in keys:
            value = self.fields.get(key)
            if value is not None and not _is_plain(value):
                raise self._wrong(key, "a string")
            if value is not None and str(value).strip():
                return str(value)
        return ""

    @property
    def title(self) -> str:
        """The title, with single spaces; may be empty."""
        return " ".join(self.word("title").split())

    def text(self, key: str) -> str:
        """The string or whole number under a key, which must exist, as a string."""
        value = self.fields.get(key)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._wrong(key, "a string")
        return str(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false, or 1 or 0, under a key."""
        value = self.fields.get(key)
        if value is not None and (not isinstance(value, int) or value not in (0, 1)):
            raise self._wrong(key, "true or false")
        return default if value is None else bool(value)

    def several(self, key: str) -> list[Any]:
        """The list under a key, or an empty one."""
        value = self.fields.get(key)
        if value is not None and not isinstance(value, list):
            raise self._wrong(key, "a list")
        return value or []

    def objects(self, key: str, *, optional: bool = False, numbered: bool = False) -> list[Record]:
        """The list of objects under a key.

        If `optional`, the key may be missing. If `numbered`, the place of each object ends with its number.
        """
        value = self.fields.get(key)
        if optional and not value:
            return []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise ValueError(f"{self.place}: {key!r} must be a list of objects")
        places = [f"{self.place}[{number}]" if numbered else self.place for number in range(len(value))]
        return [Record(place, each) for place, each in zip(places, value, strict=True)]

    def pairs(self, key: str) -> list[tuple[str, Any]]:
        """The list of pairs of a title and a value under a key, which must exist."""
        value = self.fields.get(key)
        if not isinstance(value, list) or not all(
            isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) for each in value
        ):
            raise ValueError(f"{self.place}: {key!r} must be a list of pairs, of which the first is a title")
        return [(title, other) for title, other in value]


def read_records(path: Path) -> list[Record]:
    """The objects of JSON lines (`.jsonl`), or of a JSON list."""
    objects = json_lines(path) if path.suffix == ".jsonl" else json_objects(path)
    return [Record(place, fields) for place, fields in objects]


@contextmanager
def table(path: Path) -> Iterator[TextIO]:
    """A file of separated values, open for `csv`; what cannot be read raises `ValueError` with its name."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error.reason}") from None
    except csv.Error as error:
        raise ValueError(f"{path}: not readable as separated values: {error}") from None
