"""Dates by their numbers, so that "September 2024" in a question and "2024-09" in a graph are one name."""

from __future__ import annotations

import datetime
import re

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ),
        1,
    )
    for name in names.split()
}
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_YEAR}[-/.](?P<month>\d{{1,2}})(?:[-/.](?P<day>\d{{1,2}}))?",
        rf"(?:the )?{_DAY} (?:of )?{_MONTH},? {_YEAR}",
        rf"{_MONTH} {_DAY},? {_YEAR}",
        rf"{_MONTH},? (?:of )?{_YEAR}",
    )
)


def iso_date(name: str) -> str | None:
    """A date as ISO 8601 writes it, `2024-09-15` or `2024-09`, if a name is one and nothing else.

    Months are read in English and as numbers after a year of four digits; of other forms, as 05/06/2024,
    nobody can tell which number is the month. A year alone is written in one way anyhow: None.
    """
    text = " ".join(name.split())
    for form in _FORMS:
        if (found := form.fullmatch(text)) is not None:
            parts = found.groupdict()
            month = _MONTHS.get(parts["month"].lower()) or int(parts["month"])
            return _valid(int(parts["year"]), month, parts.get("day"))
    return None


def _valid(year: int, month: int, day: str | None) -> str | None:
    try:
        date = datetime.date(year, month, 1 if day is None else int(day))
    except ValueError:
        return None
    return f"{year}-{month:02}" if day is None else date.isoformat()
