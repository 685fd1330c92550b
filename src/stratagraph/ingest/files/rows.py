"""Tables: the rows of CSV, XLSX and JSON as records, each of which is one statement."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime, time
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, TextIO

from stratagraph.ingest.files.reading import CELLS, COLUMNS, LINE, FileText, Unreadable, Writer

Fields = list[tuple[str, str]]
Row = tuple[int, dict[str, Any]]
_PROSE = 30  # words of a value above which it is a text of its own
_STATEMENT = 60  # words of a statement above which a record is divided
_AHEAD = 20  # rows that decide where a table begins, and which are its header
_SAMPLE = 64 * 2**10  # characters that decide by what the cells of CSV are divided
_DEPTH = 15  # levels of a JSON record
_WIDE = 1000  # columns of a merged cell that are filled
_MOST_MERGED = 10_000
_NAMES = ("id", "name", "title")
_TEXTS = ("text", "contents")
_NUMBER = re.compile(r"[^\w]*\d[\d\W]*")
_YEAR = re.compile(r"[12]\d{3}")
_END = re.compile(r"[.!?…。！？][\"'”’)\]]*$")
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]+\d+:[A-Z]+\d+)"')
_NOT_COMPUTED = re.compile(
    rb'<(?:\w+:)?c\s[^>]*?\br="([A-Z]+\d+)"[^>]*><(?:\w+:)?f(?:\s[^>]*)?(?:/>|>[^<]*</(?:\w+:)?f>)'
    rb"\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
_BLOCK = 2**20  # bytes of a sheet that are searched at a time
_BORDER = 2**16  # bytes that two blocks share
_LITERAL = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|_.|\*.')
_FORM_DIGITS = re.compile(r"[#0?](?:[#0?,.]*[#0?])?")
_FORM_DATE = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|y+|m+|n+|d+|h+|s+|am/pm', re.IGNORECASE)
_MINUTES = re.compile(r"(h+[^a-z]*)(m+)|(m+)(?=[^a-z]*s)", re.IGNORECASE)
_LOCAL = ("", "general", "mm-dd-yy", "m/d/yy h:mm", "d-mmm-yy")  # shown as each country writes dates
_UNITS = {"y": "year", "m": "month", "d": "day", "h": "hour", "n": "minute", "s": "second"}
_DATE_NAMES = {"yy": "%y", "yyyy": "%Y", "mmm": "%b", "mmmm": "%B", "ddd": "%a", "dddd": "%A", "am/pm": "%p"}


def statements(fields: Fields) -> str:
    """A record as text: `name: value; name: value.` on one line, whatever its values hold.

    Above 60 words it is divided between fields, and each part begins with the first field. A value of more
    than 30 words follows as prose, each paragraph of which begins with the first field.
    """
    fields = [(" ".join(name.split()), value) for name, value in fields if value.strip()]
    short = [f"{name}: {' '.join(value.split())}" for name, value in fields if not _is_prose(value)]
    lead = short[:1]
    parts: list[list[str]] = [[]]
    for field in short:
        words = sum(len(each.split()) for each in (*parts[-1], field))
        if words > _STATEMENT and len(parts[-1]) > (len(parts) > 1):
            parts.append([*lead])
        parts[-1].append(field)
    lines = [_stopped("; ".join(part)) for part in parts if part]
    for name, value in fields:
        if _is_prose(value):
            paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", value) if each.strip()]
            paragraphs[0] = f"{name}: {paragraphs[0]}"
            lines += [" ".join([*map(_stopped, lead), each]) for each in paragraphs]
    return "\n\n".join(lines)


def _is_prose(value: str) -> bool:
    return len(value.split()) > _PROSE


def _stopped(text: str) -> str:
    return text if _END.search(text) else f"{text}."


def records(
    rows: Iterable[tuple[int, list[str]]], *, lone_header: bool = False
) -> Iterator[tuple[int, str | Fields]]:
    """Titles as text and rows as fields, each with its number, of the table that stands in a grid.

    It may have titles above one or two header rows, or no header. A header without rows is text, if
    `lone_header`.
    """
    coming = _with_single_gaps(rows)
    ahead = list(islice(coming, _AHEAD))
    if not ahead:
        return
    titles, header = _header([row for _, row in ahead])
    for number, row in ahead[:titles]:
        if any(row):
            yield number, " ".join(dict.fromkeys(filter(None, row)))
    head = [row for _, row in ahead[titles : titles + header]]
    names = _names(head)
    for number, row in chain(ahead[titles + header :], coming):
        lone_header = lone_header and not any(row)
        columns = [*names, *(f"column {place}" for place in range(len(names) + 1, len(row) + 1))]
        if fields := [(name, value) for name, value in zip(columns, row, strict=False) if value]:
            yield number, fields
    if head and lone_header:
        yield ahead[titles][0], " | ".join(dict.fromkeys(filter(None, head[0])))


def _with_single_gaps(rows: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """The rows without those blank ones that stand at the beginning or behind another blank one."""
    is_after_row = False
    for number, row in rows:
        if any(row) or is_after_row:
            yield number, row
        is_after_row = any(row)


def _header(grid: list[list[str]]) -> tuple[int, int]:
    """How many rows at the beginning of a table are titles, and how many after them are its header."""
    cells = [len(set(filter(None, row))) for row in grid]
    counts = Counter(filter(None, cells))
    width = max(counts, key=lambda count: (counts[count], count))
    widest, titles = max(counts), 0
    for own, below in pairwise(cells):
        is_title = own == 1 < min(widest, max(width, 2)) and max(cells[titles + 1 :]) > 1
        is_apart = (own < width or own == 1) and not below and any(cells[titles + 1 :])
        if own and not is_title and not is_apart:
            break
        titles += 1
    first, *body = (row for row in grid[titles:] if any(row))
    columns = range(max(map(len, [first, *body])))
    numeric = [place for place in columns if _is_numeric(body, place)]
    data = [place for place in numeric if _is_value(_at(first, place))]
    if data and not any(_at(first, place) and place not in data for place in numeric):
        return titles, 0
    grouped = [  # columns whose name above is that of the column before
        place
        for place in columns[1:]
        if body
        and _at(body[0], place)
        and _at(first, place) in ("", _at(first, place - 1))
        and any(first[:place])
    ]
    is_second = any(_is_numeric(body[1:], place) for place in grouped) and not any(map(_is_value, body[0]))
    return titles, 2 if is_second else 1


def _names(head: list[list[str]]) -> list[str]:
    """One name for each column; that of a group stands before those of its columns."""
    group = ""
    counts: Counter[str] = Counter()
    names = []
    for place in range(max(map(len, head), default=0)):
        above, own = _at(head[0], place), _at(head[-1], place)
        group = above or (group if own else "")
        name = (
            " ".join(" ".join(dict.fromkeys((group, own))).split())
            if len(head) == 2
            else " ".join(own.split())
        )
        name = name or f"column {place + 1}"
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name} {counts[name]}")
    return names


def _at(row: Sequence[str], place: int) -> str:
    return row[place] if place < len(row) else ""


def _is_value(cell: str) -> bool:
    """Whether a cell is a number or date; a year may name a column."""
    return bool(_NUMBER.fullmatch(cell)) and not _YEAR.fullmatch(cell)


def _is_numeric(rows: list[list[str]], place: int) -> bool:
    cells = [row[place] for row in rows if _at(row, place)]
    return 2 * sum(1 for cell in cells if _NUMBER.fullmatch(cell)) > len(cells)


def csv_rows(lines: TextIO, *, tabs: bool = False) -> Iterator[tuple[int, str | Fields]]:
    """Titles and rows of CSV with the number of their last line."""
    start = list(islice(bounded_lines(lines), _AHEAD + 1))
    stated = re.fullmatch(r"sep=(.)\s*", start[0].lstrip("\ufeff"), re.IGNORECASE) if start else None
    if stated:
        start[0] = "\n"
    delimiter = (
        "\t" if tabs else stated[1] if stated else max(",;\t|", key=lambda sign: _divided(start, sign))
    )
    reader = csv.reader(chain(start, bounded_lines(lines)), delimiter=delimiter)

    def rows() -> Iterator[tuple[int, list[str]]]:
        for row in reader:
            if len(row) > COLUMNS:
                raise Unreadable(f"CSV of more than {COLUMNS:,} columns")
            yield reader.line_num, [cell.strip() for cell in row]

    try:
        yield from records(rows())
    except csv.Error as error:
        raise Unreadable(f"CSV, line {reader.line_num}: {error}") from None


def _divided(lines: list[str], sign: str) -> tuple[int, int]:
    """How many lines a sign divides into equally many cells, and into how many."""
    try:
        rows = [len(row) for row in csv.reader((line[:_SAMPLE] for line in lines), delimiter=sign)]
    except csv.Error:
        return 0, 0
    counts = Counter(cells for cells in rows if cells > 1)
    return max(((rows, cells) for cells, rows in counts.items()), default=(0, 0))


def bounded_lines(lines: TextIO) -> Iterator[str]:
    """The lines of a file. Raises `Unreadable` if one has more than `LINE` characters."""
    while line := lines.readline(LINE + 1):
        if len(line) > LINE:
            raise Unreadable(f"a line of more than {LINE:,} characters")
        yield line


def from_xlsx(path: Path) -> FileText:
    """Sheets in order, each a section with its name as `sheet`: titles, and a statement for each row."""
    from openpyxl import load_workbook

    writer, cells = Writer(), 0

    def rows(sheet: Any, merged: dict[int, list[tuple[int, int, int]]]) -> Iterator[tuple[int, list[str]]]:
        nonlocal cells
        covered: list[tuple[int, int, int, str]] = []
        for number, row in enumerate(sheet.iter_rows(), 1):
            cells += 1 + len(row)
            if cells > CELLS:
                raise Unreadable(f"XLSX of more than {CELLS:,} cells (rows x columns)")
            values = [shown(cell.value, getattr(cell, "number_format", "")) for cell in row]
            while values and not values[-1]:
                values.pop()
            if values:
                covered = [each for each in covered if each[0] >= number]
                covered += [(*each, _at(values, each[1])) for each in merged.get(number, ())]
                for _, left, right, value in covered:
                    values += [""] * (right - len(values)) if value else []
                    values[left:right] = [each or value for each in values[left:right]]
            yield number, values

    with closing(load_workbook(path, read_only=True, data_only=True)) as book:
        for sheet in book.worksheets:
            if sheet.sheet_state != "visible":
                writer.note(f"the hidden sheet {sheet.title!r} is left out")
                continue
            writer.section({"sheet": sheet.title})
            sheet.reset_dimensions()  # which a file may state wrongly, and which every row is filled up to
            merged, not_computed = _found_in(sheet)
            if not_computed:
                named = ", ".join(not_computed[:5]) + (", ..." if len(not_computed) > 5 else "")
                writer.note(
                    f"formulas of sheet {sheet.title!r} without a stored value are left out ({named}); open "
                    "the file in a spreadsheet program and save it"
                )
            for _, each in records(rows(sheet, merged), lone_header=True):
                writer.add(each if isinstance(each, str) else statements(each))
    return writer.file_text({"sheets": len(book.sheetnames)})


def _found_in(sheet: Any) -> tuple[dict[int, list[tuple[int, int, int]]], list[str]]:
    """Merged cells by their first row (last row, columns from, to), and formulas that were not computed.

    Both are searched for in the XML: openpyxl tells them only if it holds the whole sheet in memory.
    """
    from openpyxl.utils import range_boundaries

    merged: dict[int, list[tuple[int, int, int]]] = {}
    references, formulas = dict[bytes, None](), dict[bytes, None]()
    with sheet._get_source() as source:
        tail = b""
        while block := source.read(_BLOCK):
            text = tail + block
            references |= dict.fromkeys(islice(_MERGED.findall(text), _MOST_MERGED))
            formulas |= dict.fromkeys(_NOT_COMPUTED.findall(text))
            tail = text[-_BORDER:]
    for reference in islice(references, _MOST_MERGED):
        left, top, right, bottom = range_boundaries(reference.decode())
        merged.setdefault(top, []).append((bottom, left - 1, min(right, left + _WIDE)))
    return merged, [name.decode() for name in formulas]


def json_rows(text: str) -> Iterator[Row]:
    """The records of a JSON file, with their numbers: number 0 holds the fields that stand in no list.

    A list of objects is a table, and so are the lists of objects in an object. Any other object is one
    record, and anything else is text.
    """
    try:
        value = json.loads(text, parse_constant=str)
    except RecursionError:
        raise Unreadable("JSON, nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}") from None
    own = value if isinstance(value, dict) else {"": value}
    beside = {key: each for key, each in own.items() if not _is_table(each)}
    if beside and not isinstance(value, dict):
        yield 0, {"text": text}
        return
    if beside:
        yield 0, {key: each for key, each in as_record(beside).items() if key != "id"}
    about = dict(islice(((key, each) for key, each in beside.items() if key.casefold() in _NAMES), 1))
    tables = (each for each in own.values() if _is_table(each))
    for number, row in enumerate(chain.from_iterable(tables), 1):
        yield number, as_record(row, {} if about.keys() & row.keys() else about)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def as_record(row: dict[str, Any], about: dict[str, Any] | None = None) -> dict[str, Any]:
    """A row as a record with `text`, `metadata` and perhaps `id`.

    The text is that of a column `text` or `contents` if there is nothing else than an id, or else statements
    about all columns, after what `about` says of the table. `id` is that column, in letters of any case.
    """
    name = "id" if "id" in row else next((key for key in row if key.casefold() == "id"), "id")
    fields = {key: value for key, value in row.items() if value not in (None, "", [], {})}
    own = next((key for key in _TEXTS if isinstance(row.get(key), str)), None)
    metadata = {key: value for key, value in fields.items() if key not in (name, own)}
    record = {"metadata": metadata} | ({"id": row[name]} if name in row else {})
    if own is not None and not metadata:
        return {**record, "text": row[own]}
    flat, lists = [*_flat("", about or {}, 0)], list[tuple[str, Any]]()
    for key, value in fields.items():
        if _is_table(value):
            lists += [(key, each) for each in value]
        else:
            flat += _flat(key, value, 0)
    texts = [statements(flat)]
    texts += [statements([*flat[:1], *_flat(key, each, 0)]) for key, each in lists]
    return {**record, "text": "\n\n".join(filter(None, texts))}


def _flat(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """The fields of a value; the names of nested ones follow those above them."""
    if depth > _DEPTH:
        raise ValueError(f"a record that is nested more than {_DEPTH} deep")
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(f"{name} {key}".strip(), each, depth + 1)
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for each in value:
            yield from _flat(name, each, depth + 1)
    elif value not in (None, "", []):
        yield name, _written(value)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_written, value))
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


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
    place = _FORM_DIGITS.search(form)
    if place is None or re.search("[/E]|General", form):
        return str(value) if isinstance(value, int) else f"{value:.15g}"
    own = value * 100 if "%" in form else value
    decimals = len(place[0].partition(".")[2])
    number = f"{abs(own):{',' if ',' in place[0] else ''}.{decimals}f}"
    return f"{'-' if own < 0 else ''}{form[: place.start()]}{number}{form[place.end() :]}"


def _date(value: date | time, form: str) -> str:
    form = form.split(";")[0]
    if form.lower() in _LOCAL or not _FORM_DATE.search(_LITERAL.sub("", form)):
        return str(value).removesuffix(" 00:00:00")
    moment = value if isinstance(value, datetime) else datetime.min
    moment = datetime.combine(moment, value) if isinstance(value, time) else moment
    twelve = "am/pm" in form.lower()

    def part(code: re.Match[str]) -> str:
        own = code[0].lower()
        if own[0] in '"\\[':
            return "" if own[0] == "[" else code[0].strip('"\\')
        if own in _DATE_NAMES:
            return moment.strftime(_DATE_NAMES[own])
        number = getattr(moment, _UNITS[own[0]])
        return f"{(number + 11) % 12 + 1 if own[0] == 'h' and twelve else number:0{len(own)}}"

    form = _MINUTES.sub(lambda found: (found[1] or "") + "n" * len(found[2] or found[3]), form)
    return " ".join(_FORM_DATE.sub(part, form).split())
