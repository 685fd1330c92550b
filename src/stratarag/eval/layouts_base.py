"""What readers of data sets give, and how they read its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

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
    """Answers and ids as strings; numbers are written out, nothing else is taken."""
    if isinstance(values, str):
        values = [values]
    kept: Iterable[Any] = values if isinstance(values, list) else ()
    return tuple(str(value) for value in kept if isinstance(value, str | int | float) and str(value).strip())


def title_of(record: Mapping[str, Any]) -> str:
    """A record's title, with single spaces; may be empty."""
    return " ".join(str(record.get("title") or "").split())
