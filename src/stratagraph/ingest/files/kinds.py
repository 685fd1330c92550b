"""The kind of a file, by its first bytes and its name, and how its text is encoded."""

from __future__ import annotations

import codecs
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stratagraph.ingest.files.reading import ENTRIES, LARGEST, MARKUP, Binary, Unreadable

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
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_BLOCK = 2**20  # bytes
_CONVERT = "convert it to plain text first"
_EXTRA = "pip install 'stratagraph[files]'"
_SAMPLE = 2**20  # bytes that decide how a file is encoded that is not UTF-8
_WESTERN = 0.06  # share of bytes beyond ASCII up to which a text is taken for Western European
_ENCODINGS = (
    *("cp1252", "cp1251", "cp1250", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r", "cp874"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
"""What files of other systems are in; the many more that there are look too much like these."""
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file is decoded, and what is wrong with it."""

    name: str
    fault: str = ""


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


def encoding_of(path: Path, head: bytes) -> Encoding:
    """How a text file that begins with `head` is decoded; `Binary` if it is no text."""
    name = next((name for bom, name in _BOMS if head.startswith(bom)), "utf-8")
    start = codecs.getincrementaldecoder(name)("replace").decode(head)
    if "\0" in start:
        raise Binary(f"binary; {_CONVERT}")
    try:
        for _ in text_blocks(path, name, errors="strict"):
            pass
    except UnicodeDecodeError:
        if name == "utf-8":
            return _legacy(path)
        return Encoding(name, f"not valid {name.upper()}: undecodable bytes became U+FFFD")
    return Encoding(name)


def _legacy(path: Path) -> Encoding:
    """How a file that is not UTF-8 is read: as damaged UTF-8, Western European, or what it looks like."""
    with path.open("rb") as file:
        sample = file.read(_SAMPLE)
    if len(_CONTROLS.findall(sample)) * 50 > len(sample):
        raise Binary(f"binary; {_CONVERT}")
    beyond = len(sample) - len(sample.decode("ascii", "ignore"))
    valid = sum(map(len, _MULTIBYTE.findall(sample)))
    if 2 * valid > beyond:
        return Encoding("utf-8", "not valid UTF-8: undecodable bytes became U+FFFD")
    name = "cp1252"
    if beyond > _WESTERN * len(sample):
        try:
            from charset_normalizer import from_bytes
        except ImportError:
            raise Unreadable(f"text of an encoding that is not known; telling which needs {_EXTRA}") from None
        best = from_bytes(sample, cp_isolation=list(_ENCODINGS)).best()
        if best is None:
            raise Binary(f"binary, or text of an unknown encoding; {_CONVERT}")
        name = str(best.encoding)
    return Encoding(name, f"not valid UTF-8: read as {name}")


def text_blocks(path: Path, encoding: str, errors: str = "replace") -> Iterator[str]:
    """The text of a file in blocks; line ends are kept."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield decoder.decode(block)
    yield decoder.decode(b"", final=True)
