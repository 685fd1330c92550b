"""Tables: the rows of CSV, JSON and XLSX."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TextIO

from stratagraph.ingest.files.reading import CELLS, COLUMNS, LINE, FileText, Unreadable, Writer, reading

_TEXTS = ("text", "contents")
_SAMPLE = 64 * 2**10
Row = tuple[int, dict[str, Any]]


def csv_rows(lines: TextIO, sample: str, *, tabs: bool = False) -> Iterator[Row]:
    """Rows with the number of their last line; keys are the first row's."""
    try:
        dialect: Any = csv.excel_tab if tabs else csv.Sniffer().sniff(sample[:_SAMPLE], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    reader = csv.reader(bounded_lines(lines), dialect)
    try:
        first = next(reader, [])
        if len(first) > COLUMNS:
            raise Unreadable(f"CSV of more than {COLUMNS:,} columns")
        names = [name.strip() or f"column {number}" for number, name in enumerate(first, 1)]
        for values in reader:
            row = {name: value for name, value in zip(names, values, strict=False) if value.strip()}
            if row:
                yield reader.line_num, as_record(row)
    except csv.Error as error:
        raise Unreadable(f"CSV, line {reader.line_num}: {error}") from None


def bounded_lines(lines: TextIO) -> Iterator[str]:
    """The lines of a file. Raises `Unreadable` if one has more than `LINE` characters."""
    while line := lines.readline(LINE + 1):
        if len(line) > LINE:
            raise Unreadable(f"a line of more than {LINE:,} characters")
        yield line


def json_rows(text: str) -> Iterator[Row] | None:
    """Objects of a list, or of the only list in an object; None where there is no such list."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise Unreadable("JSON, nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}") from None
    if isinstance(value, dict):
        lists = [each for each in value.values() if _is_table(each)]
        value = lists[0] if len(lists) == 1 else None
    if not _is_table(value):
        return None
    return ((number, as_record(row)) for number, row in enumerate(value, 1))


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def as_record(row: dict[str, Any]) -> dict[str, Any]:
    """A row with a text: its own, else its columns as `name: value` lines; columns are metadata too.

    `id` is that column, in letters of any case.
    """
    name = "id" if "id" in row else next((key for key in row if key.casefold() == "id"), "id")
    identity = {"id": row[name]} if name in row else {}
    if any(isinstance(row.get(key), str) for key in _TEXTS):
        return row | identity
    fields = {key: value for key, value in row.items() if value not in (None, "", [], {})}
    lines = [f"{key}: {_written(value)}" for key, value in fields.items()]
    metadata = {key: value for key, value in fields.items() if key != name}
    return {"text": "\n".join(lines), "metadata": metadata, **identity}


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@reading("XLSX")
def from_xlsx(path: Path) -> FileText:
    """Sheets in order, each row as column names and values; a section has `sheet`."""
    from openpyxl import load_workbook

    writer, cells = Writer(), 0
    with closing(load_workbook(path, read_only=True, data_only=True)) as book:
        for sheet in book.worksheets:
            writer.section({"sheet": sheet.title})
            sheet.reset_dimensions()  # which a file may state wrongly, and which every row is filled up to
            names: list[str] | None = None
            for row in sheet.iter_rows(values_only=True):
                cells += 1 + len(row)
                if cells > CELLS:
                    raise Unreadable(f"XLSX of more than {CELLS:,} cells (rows x columns)")
                if names is None:
                    names = [str(name).strip() if name is not None else "" for name in row]
                    continue
                pairs = zip(chain(names, repeat("")), row, strict=False)
                fields = [
                    (name, " ".join(str(value).split())) for name, value in pairs if value not in (None, "")
                ]
                writer.add("\n".join(f"{name}: {value}" if name else value for name, value in fields))
    return writer.file_text({"sheets": len(book.sheetnames)})
