"""The value of a cell as a spreadsheet shows it."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import Any

_LITERAL = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|_.|\*.')
_DIGITS = re.compile(r"[#0?](?:[#0?,.]*[#0?])?")
_DATE = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|y+|m+|n+|d+|h+|s+|am/pm', re.IGNORECASE)
_MINUTES = re.compile(r"(h+[^a-z]*)(m+)|(m+)(?=[^a-z]*s)", re.IGNORECASE)
_LOCAL = ("", "general", "mm-dd-yy", "m/d/yy h:mm", "d-mmm-yy")  # shown as each country writes dates
_UNITS = {"y": "year", "m": "month", "d": "day", "h": "hour", "n": "minute", "s": "second"}
_NAMES = {"yy": "%y", "yyyy": "%Y", "mmm": "%b", "mmmm": "%B", "ddd": "%a", "dddd": "%A", "am/pm": "%p"}


def shown(value: Any, form: str) -> str:
    """The text of a value in a number format, such as `0.0%` or `dd/mm/yyyy`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, date | time):
        return _date(value, form)
    text = _number(value, form.split(";")[0]) if isinstance(value, int | float) else str(value)
    return " ".join(text.split())


def _number(value: float, form: str) -> str:
    form = _LITERAL.sub(lambda part: next(filter(None, part.groups()), ""), form)
    place = _DIGITS.search(form)
    if place is None or re.search("[/E]|General", form):
        return str(value) if isinstance(value, int) else f"{value:.15g}"
    own = value * 100 if "%" in form else value
    decimals = len(place[0].partition(".")[2])
    number = f"{abs(own):{',' if ',' in place[0] else ''}.{decimals}f}"
    return f"{'-' if own < 0 else ''}{form[: place.start()]}{number}{form[place.end() :]}"


def _date(value: date | time, form: str) -> str:
    form = form.split(";")[0]
    if form.lower() in _LOCAL or not _DATE.search(_LITERAL.sub("", form)):
        return str(value).removesuffix(" 00:00:00")
    moment = value if isinstance(value, datetime) else datetime.min
    moment = datetime.combine(moment, value) if isinstance(value, time) else moment
    twelve = "am/pm" in form.lower()

    def part(code: re.Match[str]) -> str:
        own = code[0].lower()
        if own[0] in '"\\[':
            return "" if own[0] == "[" else code[0].strip('"\\')
        if own in _NAMES:
            return moment.strftime(_NAMES[own])
        number = getattr(moment, _UNITS[own[0]])
        return f"{(number + 11) % 12 + 1 if own[0] == 'h' and twelve else number:0{len(own)}}"

    form = _MINUTES.sub(lambda found: (found[1] or "") + "n" * len(found[2] or found[3]), form)
    return " ".join(_DATE.sub(part, form).split())
