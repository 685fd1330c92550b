"""PDF, DOCX, PPTX, XLSX, ODT and EPUB: pages, headings, slides, rows and chapters."""

from __future__ import annotations

import posixpath
import re
import threading
import zipfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.parsers import expat

from stratagraph.ingest.files.made import (
    CELLS,
    DEPTH,
    ENTRIES,
    ENTRY,
    INSTALL,
    PAGES,
    TAGS,
    Headings,
    Made,
    Unreadable,
    Writer,
    reading,
)
from stratagraph.ingest.files.markup import html_text

_lock = threading.Lock()  # PDFium is not thread-safe
_HEADING = re.compile(r"^heading (\d)$", re.IGNORECASE)
_PREFIXES = {
    f"urn:oasis:names:tc:opendocument:xmlns:{each}:1.0": each for each in ("draw", "office", "table", "text")
}  # of OpenDocument
_NAMED = {"title", "creator", "initial-creator"}
_BLOCKS = {"text:h", "text:p"}
_SILENT = {"text:tracked-changes", "office:annotation", "office:forms", "draw:object"}
_SPACES = {"text:s": " ", "text:tab": "\t", "text:line-break": "\n"}
_MOST_SPACES = 10  # that one element may stand for
_MOST_NAMED = 1000  # characters of a title


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
    pdf = writer.made({"title": title, "pages": count})
    if not pdf.text:
        raise Unreadable(f"PDF of {count} pages without any text, such as scans; it needs OCR first")
    return pdf


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
    properties = document.core_properties
    return writer.made({"title": properties.title, "author": properties.author})


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


class _Handler:
    """Receives the elements of an XML file; names have the prefixes in `_PREFIXES`, or none."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""

    def text(self, text: str) -> None:
        """Text of the innermost element, or a part of it."""

    def end(self, tag: str) -> None:
        """An element ends."""

    def read(self, content: bytes) -> None:
        """Parse a whole file. Entities of its own, which can grow without end, are refused."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.EntityDeclHandler = _refuse
        parser.StartElementHandler = self._start
        parser.CharacterDataHandler = self.text
        parser.EndElementHandler = self._end
        parser.Parse(content, True)

    _depth = 0

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEPTH:
            raise Unreadable(f"XML, nested more than {DEPTH} deep")
        self.start(_name(tag), {_name(key): value for key, value in attributes.items()})

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self.end(_name(tag))


def _name(tag: str) -> str:
    namespace, _, name = tag.rpartition(" ")
    prefix = _PREFIXES.get(namespace)
    return name if prefix is None else f"{prefix}:{name}"


def _refuse(*_: object) -> None:
    raise Unreadable("XML with entities of its own")


class _Metadata(_Handler):
    """The first title and creator of a file of metadata, and the attributes of named elements."""

    def __init__(self, *tags: str) -> None:
        self.values: dict[str, str] = {}
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._tags = tags
        self._open = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._open = tag if tag in _NAMED and tag not in self.values else ""
        if tag in self._tags:
            self.elements.append((tag, attributes))
            if len(self.elements) > 2 * ENTRIES:
                raise Unreadable(f"a list of more than {ENTRIES:,} files")

    def text(self, text: str) -> None:
        if self._open and len(self.values.get(self._open, "")) < _MOST_NAMED:
            self.values[self._open] = self.values.get(self._open, "") + text

    def end(self, tag: str) -> None:
        self._open = ""

    @property
    def title_and_author(self) -> Mapping[str, str]:
        author = self.values.get("creator") or self.values.get("initial-creator", "")
        return {"title": self.values.get("title", "").strip(), "author": author.strip()}


class _Text(_Handler):
    """Writes the paragraphs, headings and table rows of an OpenDocument text."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._headings = Headings()
        self._paragraphs: list[list[str]] = []  # a footnote has paragraphs inside a paragraph
        self._levels: list[int] = []
        self._rows: list[list[list[str]]] = []  # rows, their cells, and the blocks of each
        self._silent = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._silent += tag in _SILENT
        if tag in _BLOCKS:
            self._paragraphs.append([])
            level = attributes.get("text:outline-level", "1") if tag == "text:h" else "0"
            self._levels.append(int(level) if level.isdigit() else 1)
        elif tag in _SPACES:
            count = attributes.get("text:c", "1")
            self.text(_SPACES[tag] * min(int(count) if count.isdigit() else 1, _MOST_SPACES))
        elif tag == "table:table-row":
            self._rows.append([])
        elif tag == "table:table-cell" and self._rows:
            self._rows[-1].append([])

    def text(self, text: str) -> None:
        if self._paragraphs and not self._silent:
            self._paragraphs[-1].append(text)

    def end(self, tag: str) -> None:
        if tag in _BLOCKS:
            text, level = "".join(self._paragraphs.pop()), self._levels.pop()
            if level and text.strip() and not self._rows and not self._silent:
                self._writer.section(self._headings.enter(level, text))
            self._add(text)
        elif tag == "table:table-row":
            cells = [" ".join(" ".join(blocks).split()) for blocks in self._rows.pop()]
            self._add(" | ".join(cells).strip(" |") and " | ".join(cells))
        self._silent -= tag in _SILENT

    def _add(self, block: str) -> None:
        if self._silent or not block.strip():
            return
        if self._rows and self._rows[-1]:
            self._rows[-1][-1].append(block)
        else:
            self._writer.add(block)


@reading("ODT")
def from_odt(path: Path) -> Made:
    """Paragraphs and tables in order; a heading begins a section with `headings`."""
    writer, metadata = Writer(), _Metadata()
    with zipfile.ZipFile(path) as archive:
        if b"encryption-data" in _part(archive, "META-INF/manifest.xml", b""):
            raise Unreadable("ODT, encrypted; save it without a password")
        _Text(writer).read(_part(archive, "content.xml"))
        metadata.read(_part(archive, "meta.xml", b"<none/>"))
    return writer.made(metadata.title_and_author)


@reading("EPUB")
def from_epub(path: Path) -> Made:
    """The chapters of a book in reading order; a heading begins a section with `headings`."""
    writer, tags = Writer(), 0
    with zipfile.ZipFile(path) as archive:
        container = _Metadata("rootfile")
        container.read(_part(archive, "META-INF/container.xml"))
        package = container.elements[0][1]["full-path"]
        contents = _Metadata("item", "itemref")
        contents.read(_part(archive, package))
        items = {own["id"]: own["href"] for name, own in contents.elements if name == "item"}
        order = dict.fromkeys(own["idref"] for name, own in contents.elements if name == "itemref")
        hidden = _Metadata("CipherReference")
        hidden.read(_part(archive, "META-INF/encryption.xml", b"<none/>"))
        locked = {unquote(own["URI"]) for _, own in hidden.elements}
        for each in order:
            name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(items[each])))
            if name in locked:
                raise Unreadable("EPUB, encrypted (DRM)")
            content = _part(archive, name)
            text = content.decode(
                "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8", "replace"
            )
            tags += text.count("<")
            if tags > TAGS:
                raise Unreadable(f"EPUB of more than {TAGS:,} tags")
            _add_chapter(writer, html_text(text))
    return writer.made(contents.title_and_author)


def _add_chapter(writer: Writer, chapter: Made) -> None:
    starts = [section.start for section in chapter.sections]
    metadata: list[Mapping[str, Any]] = [{}, *(section.metadata for section in chapter.sections)]
    for start, end, own in zip([0, *starts], [*starts, len(chapter.text)], metadata, strict=True):
        if chapter.text[start:end].strip():
            writer.section(own)
            writer.add(chapter.text[start:end])


def _part(archive: zipfile.ZipFile, name: str, default: bytes | None = None) -> bytes:
    """The content of a file in an archive, or `default` if the archive does not have it."""
    if default is not None and name not in archive.NameToInfo:
        return default
    if archive.getinfo(name).file_size > ENTRY:
        raise Unreadable(f"an archive with a part of more than {ENTRY:,} bytes")
    return archive.read(name)
