"""The value of a cell as a spreadsheet shows it."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Any

_LITERAL = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|_.|\*.')
_DIGITS = re.compile(r"[#0?](?:[#0?,.\s]*[#0?])?")
_DATE = re.compile(r"y+|m+|d+|h+|s+(?:\.0+)?|am/pm|a/p", re.IGNORECASE)
_LOCAL = ("", "general", "mm-dd-yy", "m/d/yy h:mm", "d-mmm-yy")  # shown as each country writes dates
_PARTS = {
    **{
        "yyyy": "%Y",
        "yy": "%y",
        "mmmmm": "%b",
        "mmmm": "%B",
        "mmm": "%b",
        "mm": "%m",
        "dddd": "%A",
        "ddd": "%a",
    },
    **{"dd": "%d", "hh": "%H", "ss": "%S", "am/pm": "%p"},
}


def shown(value: Any, form: str) -> str:
    """The text of a value in a number format, such as `0.0%` or `dd/mm/yyyy`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return _number(value, form)
    if isinstance(value, date | time):
        return _date(value, form)
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02}" + (f":{seconds % 60:02}" if seconds % 60 else "")
    return " ".join(str(value).split())


def _plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.15g}"


def _number(value: float, form: str) -> str:
    sections = form.split(";")
    own = len(sections) > 1 and value < 0
    section = sections[2] if len(sections) > 2 and value == 0 else sections[1 if own else 0]
    section = _LITERAL.sub(lambda part: next((each for each in part.groups() if each), ""), section)
    place = _DIGITS.search(section)
    if place is None or "/" in section or "E" in section or re.search(r"[A-Za-z]*General", section):
        return _plain(value)
    digits = place[0]
    percent = "%" in section
    decimals = len(re.sub(r"[^#0?]", "", digits.partition(".")[2]))
    number = f"{abs(value) * (100 if percent else 1):{',' if ',' in digits else ''}.{decimals}f}"
    if section[place.end() :].startswith(","):  # in thousands
        return _plain(value)
    optional = len(re.findall(r"#+$", digits)) and "." in digits
    number = number.rstrip("0").rstrip(".") if optional else number
    sign = "-" if value < 0 and not own else ""
    return " ".join(f"{sign}{section[: place.start()]}{number}{section[place.end() :]}".split())


def _date(value: date | time, form: str) -> str:
    plain = value.isoformat()
    if isinstance(value, datetime):
        plain = value.isoformat(" ").removesuffix(" 00:00:00")
    form = form.split(";")[0]
    if form.lower() in _LOCAL or not _DATE.search(_LITERAL.sub("", form)):
        return plain
    twelve = re.search(r"am/pm|a/p", form, re.IGNORECASE)
    clock = isinstance(value, time)
    parts: list[str] = []
    for literal in re.split(r'("[^"]*"|\\.|\[[^\]]*\])', form):
        if literal[:1] in ('"', "\\", "["):
            parts.append("" if literal[0] == "[" else literal.strip('"\\'))
            continue
        at = 0
        for found in _DATE.finditer(literal):
            parts.append(literal[at : found.start()])
            at = found.end()
            code = found[0].lower().partition(".")[0]
            before = re.search(r"h+[^a-z]*$", literal[: found.start()], re.IGNORECASE)
            after = re.match(r"[^a-z]*s", literal[found.end() :], re.IGNORECASE)
            if code in ("m", "mm") and (before or after):
                text = f"{getattr(value, 'minute', 0):0{len(code)}}"
            elif code[0] == "h" and twelve:
                text = f"{(getattr(value, 'hour', 0) + 11) % 12 + 1:0{len(code)}}"
            elif code in ("m", "d", "h", "s"):
                name = {"m": "month", "d": "day", "h": "hour", "s": "second"}[code]
                text = str(getattr(value, name, 0))
            elif clock and code[0] in "ymd":
                return plain
            else:
                text = value.strftime(_PARTS.get(code, "%Y" if code[0] == "y" else "%p"))
            parts.append(text)
        parts.append(literal[at:])
    return " ".join("".join(parts).split())
