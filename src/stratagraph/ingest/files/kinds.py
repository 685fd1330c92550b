"""The kind of a file: by its first bytes, and by its name where these can be text."""

from __future__ import annotations

import re
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Literal

from stratagraph.ingest.files.made import ENTRIES, LARGEST, MARKUP, Binary, Unreadable

Kind = Literal[
    "PDF", "DOCX", "PPTX", "XLSX", "ODT", "EPUB", "HTML", "Markdown", "reStructuredText", "CSV", "JSON",
    "JSON lines", "mail", "mailbox", "notebook", "text",
]  # fmt: skip
_SUFFIXES: dict[str, Kind] = {
    **dict.fromkeys((".htm", ".html", ".xhtml"), "HTML"),
    **dict.fromkeys((".md", ".markdown"), "Markdown"),
    **dict.fromkeys((".csv", ".tsv"), "CSV"),
    **dict.fromkeys((".jsonl", ".ndjson"), "JSON lines"),
    ".json": "JSON",
    ".rst": "reStructuredText",
    ".eml": "mail",
    ".mbox": "mailbox",
    ".ipynb": "notebook",
}
_PARTS: dict[str, Kind] = {
    "word/document.xml": "DOCX",
    "ppt/presentation.xml": "PPTX",
    "xl/workbook.xml": "XLSX",
    "META-INF/container.xml": "EPUB",
}
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."
_MARKUP = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf")
_SVG = re.compile(rb"(?>\s|<\?.*?\?>|<!--.*?-->|<!doctype svg[^>]*>)*+<(?:\w+:)?svg[\s>]", re.DOTALL)
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def kind_of(path: Path, head: bytes) -> Kind:
    """The kind of a file; `text` if it may be any.

    Raises
    ------
    Unreadable
        If it is a kind that is not read.
    """
    if b"%PDF-" in head[:1024]:
        return "PDF"
    if head.startswith(b"PK\x03\x04"):
        return _in_archive(path)
    if head.startswith(_OLD_OFFICE):
        raise Unreadable(
            "an encrypted Office file, or one from before 2007; save it without a password as DOCX"
        )
    if head.startswith(b"{\\rtf"):
        raise Unreadable("RTF; save it as DOCX or text")
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "HTML"
    if _SVG.match(start):
        raise Binary("a picture (SVG)")
    return _SUFFIXES.get(path.suffix.lower(), "text")


def _in_archive(path: Path) -> Kind:
    open_document = b""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            with suppress(KeyError), archive.open("mimetype") as file:
                open_document = file.read(100).strip()
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, zlib.error) as error:
        raise Unreadable(f"a damaged archive ({error})") from None
    if sum(entry.file_size for entry in entries) > LARGEST:
        raise Unreadable(f"an archive that unpacks to more than {LARGEST:,} bytes")
    if len(entries) > ENTRIES:
        raise Unreadable(f"an archive of more than {ENTRIES:,} files")
    markup = (entry.file_size for entry in entries if entry.filename.endswith(_MARKUP))
    if sum(markup) > MARKUP:
        raise Unreadable(f"an archive whose XML unpacks to more than {MARKUP:,} bytes")
    if open_document.startswith(_OPEN_DOCUMENT):
        if open_document != _OPEN_DOCUMENT + b"text":
            raise Unreadable("OpenDocument that is no text; save it as XLSX or PPTX")
        return "ODT"
    names = {entry.filename for entry in entries}
    kind = next((kind for part, kind in _PARTS.items() if part in names), None)
    if kind is None:
        raise Unreadable("an archive; unpack it first")
    return kind
