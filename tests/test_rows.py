"""Records: the rows of CSV, XLSX and JSON files as statements, each on one line."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg
from tests.cases import cases
from tests.test_files import Read, read_here


def csv_texts(folder: Path, text: str, name: str = "t.csv") -> list[str]:
    (folder / name).write_text(text, "utf-8")
    return [document.text for document in sg.read_documents(folder / name)]


@pytest.mark.parametrize(("text", "rows"), cases(__file__, "a row is one statement"))
def test_a_row_is_one_statement(tmp_path: Path, text: str, rows: list[str]) -> None:
    assert csv_texts(tmp_path, text) == rows


def test_a_long_record_is_divided_between_fields_that_its_first_field_names(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(1, 31)]
    values = [f"{name} a b c" for name in names]
    (text,) = csv_texts(tmp_path, ",".join(["port", *names]) + "\n" + ",".join(["Soll", *values]))
    lines = text.split("\n\n")
    assert len(lines) > 1
    assert all(line.startswith("port: Soll; f") and len(line.split()) <= 60 for line in lines)
    assert [part for line in lines for part in line.rstrip(".").split("; ")[1:]] == [
        f"{name}: {value}" for name, value in zip(names, values, strict=True)
    ]


def test_a_long_value_follows_as_prose_that_the_first_field_begins(tmp_path: Path) -> None:
    words = " ".join(f"w{number}" for number in range(31))
    (text,) = csv_texts(tmp_path, f'port,about,fare\nSoll,"{words}\n\nMore of it.",9\n')
    assert text.split("\n\n") == [
        "port: Soll; fare: 9.",
        f"port: Soll. about: {words}",
        "port: Soll. More of it.",
    ]


def test_rows_have_ids_and_metadata(tmp_path: Path) -> None:
    (tmp_path / "fares.csv").write_text('id;route;note\n7;Ostra;"sails; daily"\n8;Bremen;\n;Vell;slow\n')
    read = Read(tmp_path)
    assert read["fares.csv:7"].text == "id: 7; route: Ostra; note: sails; daily."
    assert read["fares.csv:8"].metadata.items() >= {"source": "fares.csv", "route": "Bremen"}.items()
    (vell,) = [each for each in read.documents.values() if "Vell" in each.text]
    assert (vell.file, vell.text) == ("fares.csv", "route: Vell; note: slow.")


@pytest.mark.parametrize(("value", "texts"), cases(__file__, "no field of json is lost"))
def test_no_field_of_json_is_lost(tmp_path: Path, value: Any, texts: list[str]) -> None:
    (tmp_path / "t.json").write_text(json.dumps(value))
    documents = list(sg.read_documents(tmp_path / "t.json"))
    assert [each.text for each in documents] == texts
    sg.build_index(documents, embedder="hashing", progress=False).close()


def test_lines_without_a_text_are_records(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        '{"id": "x", "port": "Soll", "fare": {"winter": 7}}\n{"text": "Plain."}\n'
    )
    read = Read(tmp_path)
    assert read["x"].text == "id: x; port: Soll; fare winter: 7."
    assert "Plain." in {each.text for each in read.documents.values()}


def sheet_text(folder: Path, rows: list[list[Any]], *, merge: str = "", **formats: str) -> str:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cell, form in formats.items():
        book.active[cell].number_format = form
    for cells in filter(None, merge.split(" ")):
        book.active.merge_cells(cells)
    book.save(folder / "t.xlsx")
    (document,) = sg.read_documents(folder / "t.xlsx")
    return document.text


def test_titles_and_merged_cells_of_a_sheet(tmp_path: Path) -> None:
    rows: list[list[Any]] = [[], ["Fares of 1902"], [], ["Port", "Fares", None], [None, "Winter", "Summer"]]
    rows += [["Soll", 7, 9], [None, 8, 10], ["Vell", "closed", None], ["Moor", 1, 2]]
    text = sheet_text(tmp_path, rows, merge="A2:C2 A4:A5 B4:C4 A6:A7 B8:C8")
    assert text.split("\n\n") == [
        "Fares of 1902",
        "Port: Soll; Fares Winter: 7; Fares Summer: 9.",
        "Port: Soll; Fares Winter: 8; Fares Summer: 10.",
        "Port: Vell; Fares Winter: closed; Fares Summer: closed.",
        "Port: Moor; Fares Winter: 1; Fares Summer: 2.",
    ]


def test_values_are_as_a_spreadsheet_shows_them(tmp_path: Path) -> None:
    cells: list[tuple[Any, str, str]] = [
        (0.075, "0.0%", "7.5%"),
        (-0.12, "0%", "-12%"),
        (0.5, "General", "0.5"),
        (3.0, "General", "3"),
        (1234567, "General", "1234567"),
        (1234567.5, "#,##0.00", "1,234,567.50"),
        (12.5, '"€" #,##0.00', "€ 12.50"),
        (12.5, "#,##0.00 [$kr-414]", "12.50 kr"),
        (True, "General", "TRUE"),
        (datetime.datetime(2024, 5, 3), "yyyy-mm-dd", "2024-05-03"),
        (datetime.datetime(2024, 5, 3), "dd.mm.yyyy", "03.05.2024"),
        (datetime.datetime(2024, 5, 3), "mm-dd-yy", "2024-05-03"),
        (datetime.datetime(2024, 5, 3), "d mmmm yyyy", "3 May 2024"),
        (datetime.datetime(2024, 5, 3, 14, 5), "yyyy-mm-dd hh:mm", "2024-05-03 14:05"),
        (datetime.datetime(2024, 5, 3, 14, 5), "h:mm AM/PM", "2:05 PM"),
        (datetime.time(14, 5), "h:mm", "14:05"),
    ]
    sheet: list[list[Any]] = [["what", "value"], *(["it", value] for value, _, _ in cells)]
    text = sheet_text(tmp_path, sheet, **{f"B{row}": form for row, (_, form, _) in enumerate(cells, 2)})
    assert text.split("\n\n") == [f"what: it; value: {shown}." for _, _, shown in cells]


def test_what_a_sheet_hides_or_did_not_compute_is_said(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["port", "fare"], ["Soll", 7], ["Sum", "=SUM(B2:B2)"]):
        book.active.append(row)
    book.create_sheet("Notes").append(["secret"])
    book["Notes"].sheet_state = "hidden"
    book.create_sheet("Crew").append(["name"])
    book.save(tmp_path / "t.xlsx")
    read = Read(tmp_path)
    assert read["t.xlsx"].text == "port: Soll; fare: 7.\n\nport: Sum.\n\nname"
    assert [each.metadata for each in read["t.xlsx"].sections] == [{"sheet": "Sheet"}, {"sheet": "Crew"}]
    assert "hidden sheet 'Notes'" in read.warned["t.xlsx"]
    assert "without a stored value are left out (B3)" in read.warned["t.xlsx"]


def test_sheets_are_bounded_by_their_cells_and_not_by_their_corners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    read_here(monkeypatch)
    monkeypatch.setattr("stratagraph.ingest.files.rows.CELLS", 200_000)
    for name, rows in (("corners", [100_000]), ("wide", range(2, 16))):
        book = openpyxl.Workbook()
        book.active["A1"] = "first"
        for row in rows:
            book.active[f"XFD{row}"] = "last"
        book.active.merge_cells("A1:XFD1")
        book.save(tmp_path / f"{name}.xlsx")
    read = Read(tmp_path)
    assert read["corners.xlsx"].text == "first\n\nlast"
    assert "200,000 cells" in read.why("wide.xlsx")
