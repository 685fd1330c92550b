"""ODT and EPUB: headings, paragraphs and table rows of OpenDocument, and the chapters of a book."""

from __future__ import annotations

import posixpath
import zipfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.parsers import expat

from stratagraph.ingest.files.made import DEPTH, ENTRIES, ENTRY, TAGS, Headings, Made, Unreadable, Writer
from stratagraph.ingest.files.markup import html_text
from stratagraph.ingest.files.office import reading

_PREFIXES = {
    f"urn:oasis:names:tc:opendocument:xmlns:{each}:1.0": each for each in ("draw", "office", "table", "text")
}  # of OpenDocument
_NAMED = {"title", "creator", "initial-creator"}
_BLOCKS = {"text:h", "text:p"}
_SILENT = {"text:tracked-changes", "office:annotation", "office:forms", "draw:object"}
_SPACES = {"text:s": " ", "text:tab": "\t", "text:line-break": "\n"}
_MOST_SPACES = 10  # that one element may stand for
_MOST_NAMED = 1000  # characters of a title


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


class _Known(_Handler):
    """The first title and creator of a file of metadata, and the attributes of named elements."""

    def __init__(self, *tags: str) -> None:
        self.found: dict[str, str] = {}
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._tags = tags
        self._open = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._open = tag if tag in _NAMED and tag not in self.found else ""
        if tag in self._tags:
            self.elements.append((tag, attributes))
            if len(self.elements) > 2 * ENTRIES:
                raise Unreadable(f"a list of more than {ENTRIES:,} files")

    def text(self, text: str) -> None:
        if self._open and len(self.found.get(self._open, "")) < _MOST_NAMED:
            self.found[self._open] = self.found.get(self._open, "") + text

    def end(self, tag: str) -> None:
        self._open = ""

    @property
    def metadata(self) -> Mapping[str, str]:
        """Title and author."""
        author = self.found.get("creator") or self.found.get("initial-creator", "")
        return {"title": self.found.get("title", "").strip(), "author": author.strip()}


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
    writer, known = Writer(), _Known()
    with zipfile.ZipFile(path) as archive:
        if b"encryption-data" in _part(archive, "META-INF/manifest.xml", b""):
            raise Unreadable("ODT, encrypted; save it without a password")
        _Text(writer).read(_part(archive, "content.xml"))
        known.read(_part(archive, "meta.xml", b"<none/>"))
    return writer.made(known.metadata)


@reading("EPUB")
def from_epub(path: Path) -> Made:
    """The chapters of a book in reading order; a heading begins a section with `headings`."""
    writer, tags = Writer(), 0
    with zipfile.ZipFile(path) as archive:
        container = _Known("rootfile")
        container.read(_part(archive, "META-INF/container.xml"))
        package = container.elements[0][1]["full-path"]
        known = _Known("item", "itemref")
        known.read(_part(archive, package))
        items = {own["id"]: own["href"] for name, own in known.elements if name == "item"}
        order = dict.fromkeys(own["idref"] for name, own in known.elements if name == "itemref")
        hidden = _Known("CipherReference")
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
    return writer.made(known.metadata)


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
