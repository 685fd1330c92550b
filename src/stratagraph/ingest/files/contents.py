"""What a file holds: its documents, and what is said about it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from stratagraph.ingest.files.html import from_html
from stratagraph.ingest.files.kinds import Kind, kind_in_archive, kind_of, text_blocks, text_encoding
from stratagraph.ingest.files.mail import from_mail, mailbox_rows
from stratagraph.ingest.files.markdown import from_markdown, from_notebook, from_rst
from stratagraph.ingest.files.office import from_docx, from_epub, from_odt, from_pptx
from stratagraph.ingest.files.pdf import from_pdf
from stratagraph.ingest.files.reading import Binary, FileText, Unreadable
from stratagraph.ingest.files.rows import as_record, bounded_lines, csv_rows, from_xlsx, json_rows
from stratagraph.ingest.files.walk import FoundFile
from stratagraph.types.records import Document, StreamedDocument, content_id

STREAMED_ABOVE = 8 * 2**20  # bytes; a larger text is not held in memory
_HEAD = 8 * 2**10  # bytes that decide of what kind a file is
_MOST_HTML = 16 * 2**20  # bytes
_MOST_JSON = 64 * 2**20
_PARSED = {
    "PDF": from_pdf,
    "DOCX": from_docx,
    "PPTX": from_pptx,
    "XLSX": from_xlsx,
    "ODT": from_odt,
    "EPUB": from_epub,
    "mail": from_mail,
    "notebook": from_notebook,
}
_TEXTS = {"HTML": from_html, "Markdown": from_markdown, "reStructuredText": from_rst}
_APART: set[Kind] = {"archive", "PDF", "HTML", "JSON", "mail", "mailbox", "notebook"}
"""Kinds whose parsers may need any time and memory, or end the process."""
_ROW_DIGITS = 12  # hexadecimal digits of the hash of a row


@dataclass(slots=True)
class FileContents:
    """The documents that were read from a file, and messages about it.

    `binary` says why a file is no text by its nature; that is no failure.
    """

    documents: list[Document | StreamedDocument] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    warned: list[tuple[str, str]] = field(default_factory=list)
    binary: str = ""

    def skip(self, name: str, reason: str) -> None:
        """Leave something out, and say why."""
        self.skipped.append((name, reason))


def guarded(
    file: FoundFile, contents: FileContents, documents: Iterable[Document | StreamedDocument]
) -> Iterator[Document | StreamedDocument]:
    """The documents of a file. Any error but `MemoryError` makes it a skipped file with a reason."""
    try:
        for document in documents:
            modified = datetime.fromtimestamp(file.path.stat().st_mtime, UTC).isoformat(timespec="seconds")
            metadata = {"modified": modified, **document.metadata}
            yield replace(document, file=file.name, root=file.root, metadata=metadata)
    except Binary as error:
        if file.named:
            contents.skip(file.name, str(error))
        else:
            contents.binary = str(error)
    except (Unreadable, OSError) as error:
        contents.skip(file.name, getattr(error, "strerror", None) or str(error))
    except ImportError:
        contents.skip(file.name, "reading it needs pip install 'stratagraph[files]'")
    except MemoryError:
        raise
    except Exception as error:
        contents.skip(file.name, f"damaged ({type(error).__name__}: {error})")


def is_apart(file: FoundFile) -> bool:
    """Whether a file is to be read by a process with bounds."""
    try:
        return kind_of(file.path, _head(file)) in _APART
    except (Unreadable, OSError):
        return False


def _head(file: FoundFile) -> bytes:
    if not file.path.is_file():
        raise Unreadable("not a regular file")
    with file.path.open("rb") as opened:
        return opened.read(_HEAD)


def documents_in(
    file: FoundFile, contents: FileContents, encoding: str | None
) -> Iterator[Document | StreamedDocument]:
    """The documents of a file. `encoding` is that of text which is not UTF-8."""
    head = _head(file)
    kind = kind_of(file.path, head)
    kind = kind_in_archive(file.path) if kind == "archive" else kind
    if kind in _PARSED:
        yield _document(file, _PARSED[kind](file.path), contents, kind)
        return
    if kind == "mailbox":
        yield from _rows(file, mailbox_rows(file.path), contents)
        return
    name, fault = text_encoding(file.path, head, kind, encoding)
    if fault:
        contents.warned.append((file.name, fault))
    if kind == "JSON lines":
        yield from _lines(file, name, contents)
    elif kind == "CSV":
        with file.path.open(encoding=name, errors="replace", newline="") as lines:
            rows = csv_rows(lines, tabs=file.path.suffix.lower() == ".tsv")
            records = (
                (number, {"text": row} if isinstance(row, str) else as_record(dict(row)))
                for number, row in rows
            )
            yield from _rows(file, records, contents)
    elif kind == "HTML" and file.size > _MOST_HTML:
        raise Unreadable(f"HTML of more than {_MOST_HTML:,} bytes")
    elif kind == "JSON" and file.size > _MOST_JSON:
        raise Unreadable(f"JSON of more than {_MOST_JSON:,} bytes; write one object a line, as .jsonl")
    elif kind not in ("HTML", "JSON") and file.size > STREAMED_ABOVE:
        read = partial(text_blocks, file.path, name)
        yield StreamedDocument(file.name, read, {"source": file.name})
    else:
        text = "".join(text_blocks(file.path, name))
        if kind == "JSON":
            yield from _rows(file, json_rows(text), contents)
        elif kind in _TEXTS:
            yield _document(file, _TEXTS[kind](text), contents, kind)
        else:
            yield Document(file.name, text, {"source": file.name})


def _document(file: FoundFile, content: FileText, contents: FileContents, kind: Kind) -> Document:
    if not content.text and kind in _APART | _PARSED.keys():
        raise Unreadable(f"{kind} without any text")
    contents.warned += [(file.name, "; ".join(content.notes))] if content.notes else []
    return Document(file.name, content.text, {"source": file.name, **content.metadata}, content.sections)


def _rows(
    file: FoundFile, rows: Iterable[tuple[int, dict[str, Any]]], contents: FileContents
) -> Iterator[Document]:
    """Rows of a table; ids begin with the file's, since tables number their rows alike.

    What stands in row 0, beside the rows, is the document of the file itself.
    """
    ids = _Ids(file.name)
    for number, record in rows:
        given = record.pop("id", None)
        contents.warned += ((f"{file.name}:{number}", note) for note in record.pop("notes", ()))
        try:
            own = file.name if number == 0 else ids.of(given, record)
            yield document_of(record, own, file.name)
        except ValueError as error:
            contents.skip(f"{file.name}:{number}", str(error))


class _Ids:
    """Ids of the rows of a file: by their own id, else by their content. Repeated ones are numbered."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._counts: Counter[str] = Counter()
        self._ids: set[str] = set()

    def of(self, given: object, record: Mapping[str, Any]) -> str:
        """The id of a row."""
        if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
            written = json.dumps(record, sort_keys=True, ensure_ascii=False, default=str)
            given = content_id(written)[:_ROW_DIGITS]
        identity = own = str(given)
        while identity in self._ids:
            self._counts[own] += 1
            identity = f"{own} ({self._counts[own] + 1})"
        self._ids.add(identity)
        return f"{self._file}:{identity}"


def _lines(file: FoundFile, encoding: str, contents: FileContents) -> Iterator[Document]:
    ids = _Ids(file.name)
    with file.path.open(encoding=encoding, errors="replace", newline="\n") as lines:
        for number, line in enumerate(bounded_lines(lines), 1):
            if not line.strip():
                continue
            try:
                record = _record(line)
                default = "" if record.get("id") is not None else ids.of(None, record)
                yield document_of(record, default, file.name)
            except ValueError as error:
                contents.skip(f"{file.name}:{number}", str(error))


def _record(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("not readable: nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    if not isinstance(record, dict):
        raise ValueError(f"a {type(record).__name__}, not an object")
    if "\\ud" in line.lower():
        # A lone surrogate, as of an emoji cut in two, cannot be stored.
        record = json.loads(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace"))
    own: dict[str, Any] = record
    if record.keys() & {"text", "contents"} or not record.keys() - {"id"}:
        return own
    own = as_record(record)
    return own if isinstance(own.get("id", ""), str | int) else {**own, "id": None}


def _refuse(constant: str) -> None:
    raise ValueError(f"not JSON: {constant}")


def document_of(record: Mapping[str, Any], default_id: str, source: str | None = None) -> Document:
    """Make a document of a record with the keys that `read_documents` describes.

    `ValueError` if there is no text, or a key has a value of the wrong type.
    """
    rest = dict(record)
    text = rest.pop("text", None)
    contents = rest.pop("contents", None) if text is None else None
    text = contents if text is None else text
    if not isinstance(text, str):
        raise ValueError('no "text" (or "contents") that is a string')
    identity = rest.pop("id", None)
    if isinstance(identity, bool) or not isinstance(identity, str | int | None) or identity == "":
        raise ValueError(f'"id" is {identity!r}; it must be a string or a whole number')
    own = rest.pop("metadata", None)
    if own is not None and not isinstance(own, dict):
        raise ValueError(f'"metadata" is a {type(own).__name__}, not an object')
    title = rest.get("title")
    if isinstance(title, str) and title.strip() and text.strip() and not text.startswith(title):
        text = f"{title}\n{text}"
    metadata = ({} if source is None else {"source": source}) | rest | (own or {})
    return Document(default_id if identity is None else str(identity), text, metadata)
