"""The day of a document, read from its metadata."""

from __future__ import annotations

import re
from datetime import date
from typing import Any, NamedTuple

_ISO = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ]\d\d.*)?)?)?", re.ASCII | re.DOTALL)
_LAST_DAYS = (31, 30, 29, 28)


class Day(NamedTuple):
    """The last day that a date can mean, and the date as far as it is known: `2024`, `2024-06`, `2024-06-30`.

    A document dated 2024 may say what held until the end of that year, so the whole year counts.
    """

    last: date
    text: str


def day_of(value: Any) -> Day | None:
    """The day of a value of metadata: text in ISO 8601, or the number of a year; None if it is neither.

    The time of the day is ignored. Other forms, such as `03/04/2024`, are not guessed.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if 1000 <= value <= 9999 else ""
    if not isinstance(value, str):
        return None
    text = value.strip()
    if re.fullmatch(r"[0-9]{8}", text):
        text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    if not (stated := _ISO.fullmatch(text)):
        return None
    year, month, day = (int(part) if part else None for part in stated.groups())
    for last in (day,) if day is not None else _LAST_DAYS:
        try:
            return Day(date(year or 0, month or 12, last), "-".join(filter(None, stated.groups())))
        except ValueError:
            continue
    return None
