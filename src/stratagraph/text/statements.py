"""What a text states: sentences, and records.

A record is one statement, whatever stops its values hold: a row of a table, a line `name: value; name: value`
or `name=value name=value`, a line of a log, a block of `name: value` lines or of other short lines, a list, a
block of code. Above `LONGEST` words a record is divided between its fields. `heads` are the lines that must
stand above each part, and above each row of a table: the first field, the header row, the line that leads to
a list.

Lines are looked at once and alone, so the time is linear in the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from stratagraph.text import CountTokens
from stratagraph.text.sentences import clip, sentences
from stratagraph.text.stopwords import FUNCTION, OPENERS

LONGEST = 60
"""Words of a statement that is no sentence, at most."""
_LETTERS = 12  # characters that count as a word where words are not separated
_SHORT_LINE = 60  # characters
_SHORT_VALUE = 12  # words; values of a record have fewer on average, and turns of a chat more
_STOPS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")
_COLONS = (":", "\uff1a")
_NAME = r"[^\W\d_][^\n:=;|\uff1a]{0,40}?"
_FIELD = rf"[\"']?{_NAME}(?:;[^\n:]{{1,60}})?[\"']?[^\S\n]{{0,3}}(?::(?!//|\d\d\b)|\uff1a|=(?!=))"
_LINE = re.compile(
    r"[^\S\n]*(?:(?P<fence>`{3,}|~{3,})"
    r"|(?P<row>\|)"
    r"|(?P<log>[\[(<]?(?:\d{4}-\d\d-\d\d[T ]\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:"
    r"|\d\d?[./]\d\d?[./]\d{2,4}[ ,]+\d\d?:\d\d))"
    r"|(?P<section>\[[^\[\]\n]{1,60}\][^\S\n]*$)"
    r"|(?P<item>(?:[-*+\u2022]|\d{1,3}[.)])[^\S\n]+)?"
    rf"(?P<field>{_FIELD})?)",
    re.MULTILINE,
)
_BODY = re.compile(r"\S[^\n]*")
_MARK = re.compile(r"[:=|\uff1a]")
_STARTS = frozenset("-*+\u2022`~[(<0123456789")  # of lines that may have a kind without a mark inside
_KEYED = re.compile(r"(?:^|\s)[\w.-]{1,40}(?:=[^\s=]|: )")
_ONE_OF_SEVERAL = re.compile(rf";[^\S\n]{{1,3}}(?={_NAME}:(?:\s|$))")
_BORDER = re.compile(rf"\n|;[^\S\n]{{1,3}}(?={_NAME}:(?:\s|$))|[^\S\n]\|[^\S\n]|[^\S\n](?=[\w.-]{{1,40}}=)")
_UNENDED = re.compile(r"(?<=[^\s.,;:!?|\u3002\uff1a])\n")
_RULE = re.compile(r"[\s|:+=-]*-[\s|:+=-]*")
_NUMBER = re.compile(r"\W*+\d[\d\s.,:/%-]*+\W*+")
_YEAR = re.compile(r"\s*(?:1\d|20)\d\d\s*")


LONGEST_TITLE = 100  # characters
_MARKUP = re.compile(r"\s*(?:#{1,6}\s+|[Tt]itle:\s+)?")
_UNDERLINE = re.compile(r"(?:={2,}|-{2,})[^\S\n]*\n")
_LIKE_A_TITLE = re.compile(
    r"(?=[^\W_]|[\"\u201c\u00ab\u300a])(?:\S+ ){0,11}\S*[^\s.,;:!?\u3002\uff01\uff1f\u061f-]\Z"
)


class Statement(NamedTuple):
    """Where a statement is in its text, and the lines that must stand above it."""

    start: int
    end: int
    record: bool = False
    heads: tuple[str, ...] = ()
    item: bool = False
    """Whether it is an entry of a list, which the line that leads to the list takes along."""
    cut: bool = False
    """Whether more of its list follows."""

    def sentences(self, text: str) -> list[tuple[int, int]]:
        """Offsets of itself, or of the lines and sentences of a record."""
        if not self.record:
            return [(self.start, self.end)]
        found = sentences(text[self.start : self.end])
        return [(self.start + start, self.start + end) for start, end in found]

    def shown(self, text: str) -> str:
        """The statement under its heads."""
        own = text[self.start : self.end]
        return "\n".join([*self.heads, own]) if self.heads else own

    def line(self, text: str) -> str:
        """The statement in one line after its heads: "Port | Fare: Soll | 17", "Port: Soll; Fare: 17"."""
        own = text[self.start : self.end]
        if not self.record:
            return " ".join(own.split())
        heads = [line.strip().rstrip(":") for head in self.heads for line in head.split("\n")]
        above = "".join(f"{head}: " for head in heads if not _RULE.fullmatch(head))
        lines = [" ".join(each.split()) for each in own.split("\n")]
        return above + _UNENDED.sub("; ", "\n".join(filter(None, lines))).replace("\n", " ")


class _Line(NamedTuple):
    start: int
    end: int
    indent: int
    kind: str  # fence, row, log, section, item, field, several or text
    name: str  # of the field
    apart: bool  # after a blank line

    @property
    def short(self) -> bool:
        return self.end - self.start < _SHORT_LINE


def statements(text: str, begin: int = 0, header: str = "") -> list[Statement]:
    """The statements of a text from an offset on, in order.

    Parameters
    ----------
    header
        The header row of a table that began before the text.
    """
    lines = _lines(text, begin)
    found: list[Statement] = []
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end].kind == "text" and not lines[end].short:
            end += 1
        while at < end < len(lines) and not lines[end].apart:  # the block of the last one goes on
            end -= 1
        if at < end:
            found += _prose(text, lines[at].start, lines[end - 1].end)
        else:
            end, own = _group(text, lines, at, header if not at else "")
            found += own
        at = end
    return _led(text, found)


def whole_statements(text: str, max_tokens: int, count_tokens: CountTokens) -> str:
    """The longest beginning of a text of whole statements that has at most `max_tokens`; maybe none."""
    if count_tokens(text) <= max_tokens:
        return text
    longest = len(clip(text, max_tokens, count_tokens))
    return text[: max((each.end for each in statements(text) if each.end <= longest), default=0)]


def whole_fields(text: str, max_tokens: int, count_tokens: CountTokens) -> str:
    """The longest beginning of a record that ends between two fields, or, if not even one fits, two words."""
    shown = clip(text, max_tokens, count_tokens)
    if len(shown) == len(text):
        return text
    ends = [border.start() for border in _BORDER.finditer(text, 0, len(shown) + 2)]
    return text[: max((end for end in ends if 0 < end <= len(shown)), default=len(shown))]


def title_line(text: str) -> tuple[str, int]:
    """The title of a text and where the rest begins; empty and 0 if there is none."""
    line, newline, rest = text.partition("\n")
    underline = _UNDERLINE.match(rest)
    begin = len(line) + 1 + (underline.end() if underline else 0)
    head, below = markup_free(line), text[begin:].lstrip()
    if not newline or not 0 < len(head) <= LONGEST_TITLE or not below or not _LIKE_A_TITLE.match(head):
        return "", 0
    is_field_of_several = (
        _MARK.search(head)
        and all(  # `name: value`
            (match := _LINE.match(line)) and match["field"] and line[match.end() :].strip()
            for line in (head, rest.partition("\n")[0])
        )
    )
    is_text = below[0].islower() or head.lower() in OPENERS or head.rpartition(" ")[2] in FUNCTION
    return ("", 0) if " | " in head or is_field_of_several or is_text else (head, begin)


def markup_free(line: str) -> str:
    """A heading without its marks."""
    return _MARKUP.sub("", line, count=1).strip()


def size(text: str, start: int, end: int) -> int:
    """Words of a part of a text; of one whose words are not separated, what its length comes to."""
    return max(len(text[start:end].split()), (end - start) // _LETTERS)


def _lines(text: str, begin: int) -> list[_Line]:
    """The lines that are not blank."""
    lines: list[_Line] = []
    last = begin - 2
    for match in _BODY.finditer(text, begin):
        start, body = match.start(), match[0].rstrip()
        margin = max(text.rfind("\n", begin, start) + 1, begin)
        marked = body[0] in _STARTS or _MARK.search(body)
        kind, name = _kind(body) if marked else ("text", "")
        lines.append(_Line(start, start + len(body), start - margin, kind, name, margin > last + 1))
        last = match.end()
    if len(lines) > 2 and lines[0].kind == "item" and lines[1].kind == "field":
        # A passage lost the blanks before its first entry: those of the next one tell its depth.
        depth = next((line.indent for line in lines[1:] if line.kind == "item"), 0)
        if lines[0].indent < depth < lines[1].indent:
            lines[0] = lines[0]._replace(indent=depth)
    return lines


def _kind(body: str) -> tuple[str, str]:
    """The kind of a line without its indent, and the name of its field."""
    match = _LINE.match(body)
    assert match is not None
    kind, name = match.lastgroup or "text", ""
    if kind == "field":
        name = body[match.start("field") : match.end()].strip(" \t:=\"'\uff1a")
        kind = "item" if match["item"] else "field"
    if kind in ("field", "text", "log", "item"):
        if " | " in body:
            kind = "row"
        elif (name and "; " in body and _ONE_OF_SEVERAL.search(body)) or (
            (body.count("=") > 1 or body.count(": ") > 2)
            and kind in ("field", "text")
            and len(_KEYED.findall(body)) > 2 - ("=" in body)
        ):
            kind = "several"
    return kind, name


def _group(text: str, lines: Sequence[_Line], at: int, header: str) -> tuple[int, list[Statement]]:
    """The statements of the lines that belong together with the one at a place, and where the next begins."""
    first = lines[at]
    end = at + 1
    if first.kind == "fence":
        mark = text[first.start : first.start + 3]
        close = next((n for n in range(end, len(lines)) if text.startswith(mark, lines[n].start)), None)
        if close is not None:
            code: list[Statement] = []  # long code is in parts of whole lines
            for line in lines[at : close + 1]:
                if code and size(text, code[-1].start, line.end) <= LONGEST:
                    code[-1] = code[-1]._replace(end=line.end)
                else:
                    code.append(Statement(line.start, line.end, record=True, item=True))
            return close + 1, code
    if first.kind == "row":
        while end < len(lines) and lines[end].kind == "row" and not lines[end].apart:
            end += 1
        return end, _table(text, lines[at:end], header)
    if first.kind in ("several", "log"):
        while end < len(lines) and lines[end].indent > first.indent and not lines[end].apart:
            end += 1
        return end, _record(text, lines[at:end], one=True)
    if first.kind == "item":
        counted = text[first.start].isdigit()
        while end < len(lines) and (
            lines[end].indent > first.indent
            if lines[end].kind != "item"
            else not lines[end].apart or text[lines[end].start].isdigit() == counted
        ):
            end += 1
        return end, _list(text, lines[at:end])
    while (
        end < len(lines)
        and not lines[end].apart
        and lines[end].kind not in ("fence", "row", "several", "log")
    ):
        if lines[end].kind == "item" and lines[end].indent <= first.indent:
            break
        end += 1
    return end, _block(text, lines[at:end])


def _table(text: str, rows: Sequence[_Line], header: str) -> list[Statement]:
    """Rows under their header row; rules between them are left out."""
    ruled = [n for n, row in enumerate(rows) if _RULE.fullmatch(text, row.start, row.end)]
    head, names_columns = header, 1 in ruled
    if not header and len(rows) > 1 and not names_columns:  # no number, or years above other numbers
        first, second = (text[row.start : row.end].strip("| ").split("|") for row in rows[:2])
        numbers = [cell for cell in first if _NUMBER.fullmatch(cell)]
        names_columns = all(map(_YEAR.fullmatch, numbers)) and not (
            numbers and any(map(_YEAR.fullmatch, second))
        )
    if not header and len(rows) > 1 and names_columns:
        stop = 2 if ruled[:1] == [1] else 1
        head = text[rows[0].start : rows[stop - 1].end]
        if len(rows) == stop:
            return [Statement(rows[0].start, rows[-1].end, record=True)]
        rows, ruled = rows[stop:], [n - stop for n in ruled]
    found: list[Statement] = []
    for n, row in enumerate(rows):
        if n not in ruled[:1] or n or len(rows) == 1:
            found += divided(text, LONGEST, row.start, row.end, (head,) if head else ())
    return found


def _list(text: str, lines: Sequence[_Line]) -> list[Statement]:
    """The entries of a list: records if they have fields; of a long entry its sentences."""
    outer = [n for n, line in enumerate(lines) if line.kind == "item" and line.indent <= lines[0].indent]
    records = [lines[start:end] for start, end in zip(outer, [*outer[1:], len(lines)], strict=True)]
    if all(len(own) > 1 and own[0].name and own[1].kind == "field" for own in records):
        return [each for own in records for each in _record(text, own)]
    starts = [n for n, line in enumerate(lines) if line.kind == "item"]
    found: list[Statement] = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        place = lines[start].start, lines[end - 1].end
        long = size(text, *place) > LONGEST // 2
        found += _prose(text, *place) if long else [Statement(*place, item=True)]
    return found


def _block(text: str, lines: Sequence[_Line]) -> list[Statement]:
    """The records of a block of fields or of other short lines, or else its sentences."""
    if len(lines) < 2 or not all(line.name or line.short or line.indent > lines[0].indent for line in lines):
        return _prose(text, lines[0].start, lines[-1].end)
    bodies = [text[line.start : line.end] for line in lines]
    ended = sum(body.endswith(_STOPS) for body in bodies)
    told = sum(len(body.split()) for body in bodies) <= _SHORT_VALUE * len(lines)
    if 2 * ended >= len(lines) and not (told and all(line.name for line in lines)):
        return _prose(text, lines[0].start, lines[-1].end)
    starts = _starts(text, lines)
    if 2 * ended >= len(lines) and len(starts) == 1 and size(text, lines[0].start, lines[-1].end) > LONGEST:
        starts = list(range(len(lines)))  # definitions: each line is one
    found: list[Statement] = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        found += _record(text, lines[start:end])
    return found


def _starts(text: str, lines: Sequence[_Line]) -> list[int]:
    """Which lines of a block begin a record: those named as the first, sections, and maps of one depth."""
    named = [(n, (line.name, line.indent)) for n, line in enumerate(lines) if line.name]
    leads = {n for n, line in enumerate(lines) if text.endswith(_COLONS, line.start, line.end)}
    sections = [n for n, line in enumerate(lines) if line.kind == "section"]
    counts = Counter(name for _, name in named)
    first = next((name for n, name in named if n not in leads), None)
    if first is not None and counts[first] < 2 and size(text, lines[0].start, lines[-1].end) > LONGEST:
        first = next((name for _, name in named if counts[name] > 2), None)
    if first is not None and counts[first] > 1:
        keys = {*leads, *sections}  # the key of a map belongs to its first field
        again = [n - (n - 1 in keys) for n, name in named if name == first]
        is_key = again[0] - 1 in keys or (again[0] == 1 and not lines[0].name)
        return sorted({0, *again[is_key or not again[0] :]})
    if sections:
        return sorted({0, *sections})
    maps = [
        (line.indent, n)
        for n, (line, after) in enumerate(pairwise(lines))
        if after.indent > line.indent and text.endswith(_COLONS, line.start, line.end)
    ]
    for _, own in groupby(sorted(maps), key=lambda each: each[0]):
        places = [n for _, n in own]
        if len(places) > 1:
            return sorted({0, *places})
    return [0]


def _record(text: str, lines: Sequence[_Line], *, one: bool = False) -> list[Statement]:
    """A record; a long one in parts, or, if it has no fields, its lines or sentences."""
    start, end = lines[0].start, lines[-1].end
    if size(text, start, end) <= LONGEST:
        return [Statement(start, end, record=True)]
    if one or lines[0].name or lines[0].kind == "section":
        return divided(text, LONGEST, start, end)
    return _prose(text, start, end)


def divided(
    text: str, words: int = LONGEST, start: int = 0, end: int | None = None, heads: tuple[str, ...] = ()
) -> list[Statement]:
    """A record in parts of at most `words`, cut between fields; the first field is the head of the others.

    A field that is longer is divided between its sentences.
    """
    end = len(text) if end is None else end
    if size(text, start, end) <= words:
        return [Statement(start, end, record=True, heads=heads)]
    borders = [(border.start(), border.end()) for border in _BORDER.finditer(text, start, end)]
    borders = [(stop, begin) for stop, begin in borders if stop > start + 1 and begin < end]
    if not borders:
        return [each._replace(heads=heads) for each in _prose(text, start, end)]
    first = text[start : borders[0][0]].rstrip()
    lead = size(first, 0, len(first))
    found: list[Statement] = []
    fields = zip(
        [start, *(begin for _, begin in borders)], [*(stop for stop, _ in borders), end], strict=True
    )
    for begin, stop in fields:
        long = size(text, begin, stop) > words
        for each in _prose(text, begin, stop) if long else [Statement(begin, stop)]:
            last = found[-1] if found else None
            if last and size(text, last.start, each.end) + lead * (last.start > start) <= words:
                found[-1] = last._replace(end=each.end)
            else:
                above = (*heads, first) if each.start > start else heads
                found.append(Statement(each.start, each.end, record=True, heads=above))
    return found


def _prose(text: str, start: int, end: int) -> list[Statement]:
    return [Statement(start + left, start + right) for left, right in sentences(text[start:end])]


def _led(text: str, found: Sequence[Statement]) -> list[Statement]:
    """Statements in which a line that ends in a colon has taken along what it leads to.

    Of a list it takes as many entries as `LONGEST` words hold; the parts of a longer list have it as their
    head. A short list with no such line is one statement.
    """
    led: list[Statement] = []
    at = 0
    while at < len(found):
        each = found[at]
        at += 1
        if not each.item and (each.record or text[each.end - 1] not in _COLONS):
            led.append(each)
            continue
        leads = not (each.record or each.item) and text.endswith(_COLONS, each.start, each.end)
        end = at
        counted = end < len(found) and text[found[end].start].isdigit()
        while end < len(found) and found[end].item and text[found[end].start].isdigit() == counted:
            end += 1
        while leads and end < len(found) and not found[end - 1].item:  # short lines below one another
            before, line = found[end - 1], found[end]
            if line.record or line.end - line.start >= _SHORT_LINE:
                break
            if text.count("\n", before.end, line.start) != 1:
                break
            end += 1
        if leads and end == at and end < len(found) and not found[end].heads:
            end += size(text, each.start, found[end].end) <= LONGEST  # no list: the next statement alone
        entries = found[at:end]
        if each.item and size(text, each.start, found[end - 1].end) > LONGEST:
            led += [each, *(entry._replace(record=True) for entry in entries)]
        elif leads or each.item:
            led += _parts(text, each, entries)
        else:
            led.append(each)
            end = at
        at = end
    return led


def _parts(text: str, lead: Statement, entries: Sequence[Statement]) -> list[Statement]:
    """The line that leads to a list, or its first entry, with as many entries as fit; the others after it."""
    head = text[lead.start : lead.end]
    words = size(head, 0, len(head))
    parts = [lead]
    for entry in entries:
        last = parts[-1]
        if size(text, last.start, entry.end) + words * (len(parts) > 1) <= LONGEST:
            parts[-1] = last._replace(end=entry.end, record=True)
        else:
            parts[-1] = last._replace(cut=True)
            parts.append(Statement(entry.start, entry.end, record=True, heads=(head,)))
    return parts
