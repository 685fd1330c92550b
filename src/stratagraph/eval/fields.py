"""Objects of JSON files whose fields are checked as they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from stratagraph.importing.lines import json_lines, json_objects


class Record(NamedTuple):
    """An object of a file, and its place as `file:line`. A field of another type raises `ValueError`."""

    place: str
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> list[Self]:
        """The objects of JSON lines (`.jsonl`), or of a JSON list."""
        objects = json_lines(path) if path.suffix == ".jsonl" else json_objects(path)
        return [cls(place, fields) for place, fields in objects]

    def wrong(self, key: str, wanted: str) -> ValueError:
        """The error for a field that is not what is wanted."""
        return ValueError(f"{self.place}: {key!r} must be {wanted}, not {self.fields.get(key)!r:.60}")

    def texts(self, *keys: str) -> tuple[str, ...]:
        """Answers or ids under some keys, one or a list each, as strings without blank ones."""
        return tuple(text for key in keys for text in texts(self.fields.get(key), f"{self.place}: {key!r}"))

    def word(self, *keys: str) -> str:
        """The string or number under the first key that has one, else empty."""
        for key in keys:
            value = self.fields.get(key)
            if value is not None and not _is_plain(value):
                raise self.wrong(key, "a string")
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
            raise self.wrong(key, "a string")
        return str(value)


def texts(values: Any, what: str) -> tuple[str, ...]:
    """A string or number, or a list of them, without blank ones; `what` names the place and the key."""
    listed = [each for each in (values if isinstance(values, list) else [values]) if each is not None]
    for value in listed:
        if not _is_plain(value):
            raise ValueError(f"{what} must be a string, a number or a list of them, not {value!r:.60}")
    return tuple(text for text in map(str, listed) if text.strip())


def _is_plain(value: Any) -> bool:
    """Whether a value can be shown as text; true and false have no agreed wording."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)
