"""PDF, DOCX, PPTX and XLSX: pages, headings, slides and rows."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import wraps
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from stratagraph.ingest.files.made import CELLS, INSTALL, PAGES, Headings, Made, Unreadable, Writer

_lock = threading.Lock()  # PDFium is not thread-safe
_HEADING = re.compile(r"^heading (\d)$", re.IGNORECASE)


def reading(kind: str) -> Callable[[Callable[[Path], Made]], Callable[[Path], Made]]:
    """Turn a missing library and any error of a parser into `Unreadable`."""

    def decorated(read: Callable[[Path], Made]) -> Callable[[Path], Made]:
        @wraps(read)
        def guarded(path: Path) -> Made:
            try:
                made = read(path)
            except ImportError:
                raise Unreadable(f"{kind}; {INSTALL}") from None
            except (Unreadable, MemoryError):
                raise
            except Exception as error:
                raise Unreadable(f"{kind}, damaged ({type(error).__name__}: {error})") from error
            if not made.text:
                raise Unreadable(f"{kind} without any text")
            return made

        return guarded

    return decorated


def from_pdf(path: Path) -> Made:
    """The pages of a PDF, each a section with its number as `page`.

    Raises
    ------
    Unreadable
        If it is encrypted, damaged, or holds no text (a scan).
    """
    try:
        import pypdfium2
    except ImportError:
        raise Unreadable(f"PDF; {INSTALL}") from None
    writer = Writer()
    with _lock:
        try:
            document = pypdfium2.PdfDocument(path)
        except pypdfium2.PdfiumError as error:
            locked = "password" in str(error).lower()
            reason = "encrypted; save it without a password" if locked else f"damaged ({error})"
            raise Unreadable(f"PDF, {reason}") from None
        with closing(document):
            count = len(document)
            if count > PAGES:
                raise Unreadable(f"PDF of {count:,} pages; at most {PAGES:,} are read")
            for number, text in enumerate(_pages(document), 1):
                writer.section({"page": number})
                writer.add(text)
            title = document.get_metadata_dict().get("Title", "").strip()
    made = writer.made({"title": title, "pages": count})
    if not made.text:
        raise Unreadable(f"PDF of {count} pages without any text, such as scans; it needs OCR first")
    return made


def _pages(document: Any) -> Iterator[str]:
    for index in range(len(document)):
        with closing(document[index]) as page, closing(page.get_textpage()) as text:
            yield text.get_text_bounded().replace("\r\n", "\n").replace("\ufffe", "").replace("\0", "")


@reading("DOCX")
def from_docx(path: Path) -> Made:
    """Paragraphs and tables in order; a heading begins a section with `headings`."""
    from docx import Document
    from docx.table import Table

    document = Document(str(path))
    writer, headings = Writer(), Headings()
    for block in document.iter_inner_content():
        if isinstance(block, Table):
            writer.add("\n".join(_table(row.cells for row in block.rows)))
            continue
        style = block.style.name if block.style is not None else ""
        if (heading := _HEADING.match(style or "")) and block.text.strip():
            writer.section(headings.enter(int(heading[1]), block.text))
        writer.add(block.text)
    known = document.core_properties
    return writer.made({"title": known.title, "author": known.author})


def _table(rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    for row in rows:
        cells = list(dict.fromkeys(row))  # a merged cell stands in each place that it covers
        yield " | ".join(" ".join(cell.text.split()) for cell in cells)


@reading("PPTX")
def from_pptx(path: Path) -> Made:
    """Slides in order, each a section with its number as `slide`; notes follow their slide."""
    from pptx import Presentation

    deck = Presentation(str(path))
    writer = Writer()
    for number, slide in enumerate(deck.slides, 1):
        writer.section({"slide": number})
        for text in _texts(slide.shapes):
            writer.add(text)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            writer.add(slide.notes_slide.notes_text_frame.text)
    return writer.made({"title": deck.core_properties.title, "slides": len(deck.slides)})


def _texts(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _texts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text.replace("\v", "\n")
        elif getattr(shape, "has_table", False):
            yield "\n".join(_table(row.cells for row in shape.table.rows))


@reading("XLSX")
def from_xlsx(path: Path) -> Made:
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
                writer.add(named_row(names, row))
    return writer.made({"sheets": len(book.sheetnames)})


def named_row(names: list[str], values: Iterable[Any]) -> str:
    """A row as lines `column: value`, without empty cells."""
    pairs = zip(chain(names, repeat("")), values, strict=False)
    fields = [(name, " ".join(str(value).split())) for name, value in pairs if value not in (None, "")]
    return "\n".join(f"{name}: {value}" if name else value for name, value in fields)
