"""DOCX, PPTX, ODT and EPUB: headings, slides and chapters."""

from __future__ import annotations

import posixpath
import re
import zipfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from html.entities import entitydefs
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element, XMLParser, iterparse

from stratagraph.ingest.files.markup import html_text
from stratagraph.ingest.files.reading import (
    DEPTH,
    ENTRY,
    TAGS,
    FileText,
    Headings,
    Unreadable,
    Writer,
    reading,
)

_HEADING = re.compile(r"^heading (\d)$", re.IGNORECASE)
_OPEN_DOCUMENT = "urn:oasis:names:tc:opendocument:xmlns"
_TEXT, _TABLE = f"{{{_OPEN_DOCUMENT}:text:1.0}}", f"{{{_OPEN_DOCUMENT}:table:1.0}}"
_SILENT = (
    f"{_TEXT}tracked-changes",
    f"{{{_OPEN_DOCUMENT}:office:1.0}}annotation",
    f"{{{_OPEN_DOCUMENT}:office:1.0}}forms",
    f"{{{_OPEN_DOCUMENT}:drawing:1.0}}object",
)
_SPACES = {f"{_TEXT}s": " ", f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_MOST_SPACES = 10  # that one element may stand for
_MOST_NAMED = 1000  # characters of a title


@reading("DOCX")
def from_docx(path: Path) -> FileText:
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
    return writer.file_text({"title": properties.title, "author": properties.author})


def _table(rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    for row in rows:
        cells = list(dict.fromkeys(row))  # a merged cell stands in each place that it covers
        yield " | ".join(" ".join(cell.text.split()) for cell in cells)


@reading("PPTX")
def from_pptx(path: Path) -> FileText:
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
    return writer.file_text({"title": deck.core_properties.title, "slides": len(deck.slides)})


def _texts(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _texts(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text.replace("\v", "\n")
        elif getattr(shape, "has_table", False):
            yield "\n".join(_table(row.cells for row in shape.table.rows))


def _tree(content: bytes) -> Element:
    """The root of an XML file. Entities of its own, which can grow without end, are refused.

    Those of HTML are read where a document type may declare them.
    """
    if b"<!ENTITY" in content.replace(b"\0", b""):  # in UTF-16 too
        raise Unreadable("XML with entities of its own")
    parser = XMLParser()
    parser.entity.update(entitydefs)
    path: list[Element] = []  # from the root
    root, count = Element("none"), 0
    for event, element in iterparse(BytesIO(content), ("start", "end"), parser):
        if event == "end":
            root = path.pop()
            continue
        path.append(element)
        count += 1
        if len(path) > DEPTH:
            raise Unreadable(f"XML, nested more than {DEPTH} deep")
        if count > TAGS:  # each takes some hundred bytes
            raise Unreadable(f"XML of more than {TAGS:,} elements")
    return root


def _named(root: Element, name: str) -> list[Element]:
    """The elements of a name in any namespace."""
    return [each for each in root.iter() if each.tag.rpartition("}")[2] == name]


def _title_and_author(root: Element) -> dict[str, str]:
    title, creator, first_creator = (
        next((text for each in _named(root, name) if (text := (each.text or "").strip())), "")[:_MOST_NAMED]
        for name in ("title", "creator", "initial-creator")
    )
    return {"title": title, "author": creator or first_creator}


def _blocks(element: Element) -> Iterator[tuple[str, int]]:
    """The paragraphs and table rows of an OpenDocument text, each with its level as a heading, or 0.

    What a paragraph holds, such as the paragraphs of a footnote, comes before it.
    """
    if element.tag in _SILENT:
        return
    if element.tag == f"{_TABLE}table-row":
        blocks = [
            [block for child in cell for block, _ in _blocks(child)]
            for cell in element.iterfind(f"{_TABLE}table-cell")
        ]
        cells = [" ".join(" ".join(cell).split()) for cell in blocks]
        yield (" | ".join(cells) if any(cells) else ""), 0
        return
    for child in element:
        yield from _blocks(child)
    if element.tag == f"{_TEXT}p":
        yield _text(element), 0
    elif element.tag == f"{_TEXT}h":
        level = element.get(f"{_TEXT}outline-level", "1")
        yield _text(element), int(level) if level.isdigit() else 1


def _text(element: Element) -> str:
    """The text of a paragraph, without that of paragraphs inside it."""
    parts = [element.text or ""]
    for child in element:
        if child.tag in _SPACES:
            count = child.get(f"{_TEXT}c", "1")
            parts.append(_SPACES[child.tag] * min(int(count) if count.isdigit() else 1, _MOST_SPACES))
        elif child.tag not in (*_SILENT, f"{_TEXT}p", f"{_TEXT}h"):
            parts.append(_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


@reading("ODT")
def from_odt(path: Path) -> FileText:
    """Paragraphs and tables in order; a heading begins a section with `headings`."""
    writer, headings = Writer(), Headings()
    with zipfile.ZipFile(path) as archive:
        if b"encryption-data" in _part(archive, "META-INF/manifest.xml", b""):
            raise Unreadable("ODT, encrypted; save it without a password")
        for block, level in _blocks(_tree(_part(archive, "content.xml"))):
            if level and block.strip():
                writer.section(headings.enter(level, block))
            writer.add(block)
        return writer.file_text(_title_and_author(_tree(_part(archive, "meta.xml", b"<none/>"))))


@reading("EPUB")
def from_epub(path: Path) -> FileText:
    """The chapters of a book in reading order; a heading begins a section with `headings`."""
    writer, tags = Writer(), 0
    with zipfile.ZipFile(path) as archive:
        container = _tree(_part(archive, "META-INF/container.xml"))
        package = _named(container, "rootfile")[0].attrib["full-path"]
        contents = _tree(_part(archive, package))
        items = {each.attrib["id"]: each.attrib["href"] for each in _named(contents, "item")}
        encryption = _tree(_part(archive, "META-INF/encryption.xml", b"<none/>"))
        locked = {unquote(each.attrib["URI"]) for each in _named(encryption, "CipherReference")}
        for each in dict.fromkeys(each.attrib["idref"] for each in _named(contents, "itemref")):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(items[each])))
            if name in locked:
                raise Unreadable("EPUB, encrypted (DRM)")
            content = _part(archive, name)
            is_utf_16 = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
            text = content.decode("utf-16" if is_utf_16 else "utf-8", "replace")
            tags += text.count("<")
            if tags > TAGS:
                raise Unreadable(f"EPUB of more than {TAGS:,} tags")
            chapter = html_text(text)
            borders = [0, *(section.start for section in chapter.sections), len(chapter.text)]
            headings = [{}, *(section.metadata for section in chapter.sections)]
            for (start, end), metadata in zip(pairwise(borders), headings, strict=True):
                if chapter.text[start:end].strip():
                    writer.section(metadata)
                    writer.add(chapter.text[start:end])
    return writer.file_text(_title_and_author(contents))


def _part(archive: zipfile.ZipFile, name: str, default: bytes | None = None) -> bytes:
    """The content of a file in an archive, or `default` if the archive does not have it."""
    if default is not None and name not in archive.NameToInfo:
        return default
    if archive.getinfo(name).file_size > ENTRY:
        raise Unreadable(f"an archive with a part of more than {ENTRY:,} bytes")
    return archive.read(name)
