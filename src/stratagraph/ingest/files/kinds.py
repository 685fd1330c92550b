"""The kind of a file, by its first bytes and its name, and how its text is encoded."""

from __future__ import annotations

import codecs
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from stratagraph.ingest.files.reading import ENTRIES, LARGEST, MARKUP, Binary, Unreadable

Kind = Literal[
    "PDF", "DOCX", "PPTX", "XLSX", "ODT", "EPUB", "HTML", "Markdown", "reStructuredText", "CSV", "JSON",
    "JSON lines", "mail", "mailbox", "notebook", "text", "archive",
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
_SAMPLE = 2**16  # bytes that decide how a file is encoded that is not UTF-8
_FEW = 4  # letters beyond ASCII, below which a text is Western European
_CLEARLY = 0.1  # share of letters by which an alphabet must fit better than those of Western Europe
_WESTERN = (
    *("àâæçéèêëîïôœùûüÿ", "äöüß", "áéíóúüñ¿¡ºª", "ãáâàçéêíóôõúüºª", "åæøéèêóòô", "åäöéü", "àèéìíîòóùú"),
    *("áðéíóúýþæö", "ëïéèóöüáàêû", "àçèéíïòóúü·"),
)
_ALPHABETS = {
    "cp1252": _WESTERN,
    "cp1250": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "ăâîşţ", "čšžćđ"),
    "cp1254": ("çğıöşüâîû",),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž", "äöõüšž"),
}
"""Letters beyond ASCII of the languages that are written in an encoding."""
_SIGNS = "“”„‘’‚‹›«»–—…€§°©®™·•\xa0×±´"
_OTHER_SCRIPTS = [
    "cp1251", "koi8_r", "cp866", "cp1253", "cp1255", "cp1256", "cp932", "euc_jp", "gb18030", "big5", "cp949",
]  # fmt: skip
_HIGH = re.compile(rb"[\x80-\xff]")
_IN_HTML = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]+)|^\s*<\?xml[^>]*?encoding=[\"']([\w.-]+)", re.I
)
_IN_TEXT = re.compile(
    rb"^\s*<\?xml[^>]*?encoding=[\"']([\w.-]+)|\A(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)"
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


def kind_of(path: Path, head: bytes) -> Kind:
    """The kind of a file by its name and beginning; `text` if it may be any.

    `Unreadable` if it is a kind that is not read.
    """
    if b"%PDF-" in head[:1024]:
        return "PDF"
    if head.startswith(b"PK\x03\x04"):
        return "archive"
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


def kind_in_archive(path: Path) -> Kind:
    """The kind of a ZIP archive; `Unreadable` if it is none that is read, or unpacks to too much."""
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


def text_encoding(path: Path, head: bytes, kind: Kind, given: str | None) -> tuple[str, str]:
    """How a text file that begins with `head` is decoded, and what is wrong; `Binary` if it is no text.

    By its byte order mark, as UTF-8 if it is valid, by `given`, by what the file declares, and else by its
    letters: as Windows-1252 unless they speak for another encoding.
    """
    name = next((name for bom, name in _BOMS if head.startswith(bom)), "utf-8")
    if "\0" in codecs.getincrementaldecoder(name)("replace").decode(head):
        raise Binary(f"binary; {_CONVERT}")
    declared = given or _declared(head, kind)
    if not (b"\x1b" in head and declared.startswith("iso2022")):  # which looks like UTF-8
        try:
            for _ in text_blocks(path, name, errors="strict"):
                pass
            return name, ""
        except UnicodeDecodeError:
            if name != "utf-8":
                return name, f"not valid {name.upper()}: undecodable bytes became U+FFFD"
    with path.open("rb") as file:
        sample = file.read(_SAMPLE)
    if len(_CONTROLS.findall(sample)) * 50 > len(sample):
        raise Binary(f"binary; {_CONVERT}")
    if declared:
        return declared, ""
    if 2 * sum(map(len, _MULTIBYTE.findall(sample))) > len(_HIGH.findall(sample)):
        return "utf-8", "not valid UTF-8: undecodable bytes became U+FFFD"
    name = _guessed(sample)
    return name, f"not valid UTF-8: read as {name}; if that is wrong, give encoding='NAME'"


def _declared(head: bytes, kind: Kind) -> str:
    """The encoding that HTML, XML or source code states, in Python's name; empty if it states none."""
    pattern = _IN_HTML if kind == "HTML" else _IN_TEXT
    if (stated := pattern.search(head)) is None:
        return ""
    name = next(filter(None, stated.groups())).decode().lower()
    try:
        known = codecs.lookup("cp1252" if name in ("iso-8859-1", "latin-1", "latin1", "us-ascii") else name)
        b"".decode(known.name)
    except LookupError:
        return ""
    return "" if known.name.startswith("utf") else known.name


def _guessed(sample: bytes) -> str:
    """The encoding of a text that is not UTF-8, by its letters beyond ASCII.

    Where these stand alone among ASCII, encodings are compared by their alphabets. Where they stand together,
    the script is not Latin.
    """
    high = _HIGH.findall(sample)
    together = sum(len(run) for run in re.findall(rb"[\x80-\xff]{2,}", sample))
    if together > 0.6 * len(high):
        try:
            from charset_normalizer import from_bytes
        except ImportError:
            raise Unreadable(f"text of an encoding that is not known; telling which needs {_EXTRA}") from None
        best = from_bytes(sample, cp_isolation=_OTHER_SCRIPTS).best()
        if best is not None:
            return str(best.encoding)

    def fit(encoding: str) -> float:
        """How many of the letters are in the alphabet that has the most of them."""
        letters = Counter(each.decode(encoding, "replace").lower() for each in high)
        signs = sum(letters[each] for each in _SIGNS)
        return max(
            signs + sum(letters[each] for each in alphabet) for alphabet in _ALPHABETS[encoding]
        ) / len(high)

    fits = {name: fit(name) for name in _ALPHABETS} if len(high) >= _FEW else {"cp1252": 1.0}
    best_name = max(fits, key=lambda name: fits[name])
    return best_name if fits[best_name] > fits["cp1252"] + _CLEARLY else "cp1252"


def text_blocks(path: Path, encoding: str, errors: str = "replace") -> Iterator[str]:
    """The text of a file in blocks; line ends are kept."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield decoder.decode(block)
    yield decoder.decode(b"", final=True)
