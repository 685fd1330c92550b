"""Read files and folders as documents."""

from __future__ import annotations

import codecs
import json
import os
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from stratagraph.ingest.files.html import from_html
from stratagraph.ingest.files.kinds import encoding_of, kind_of, text_blocks
from stratagraph.ingest.files.mail import from_mail, mailbox_rows
from stratagraph.ingest.files.markdown import from_markdown, from_notebook, from_rst
from stratagraph.ingest.files.office import from_docx, from_epub, from_odt, from_pptx
from stratagraph.ingest.files.pdf import from_pdf
from stratagraph.ingest.files.reading import Binary, FileText, Unreadable
from stratagraph.ingest.files.rows import bounded_lines, csv_rows, from_xlsx, json_rows
from stratagraph.ingest.files.walk import Found, Walk, printable
from stratagraph.mapping import as_mapper, in_order
from stratagraph.types.protocols import Mapper
from stratagraph.types.records import Document, StreamedDocument, content_id

StrPath = str | os.PathLike[str]
Listener = Callable[[str, str], None]

STREAMED_ABOVE = 8 * 2**20  # bytes; a larger file is not held in memory
_AT_ONCE = 2**18  # bytes of files that a worker reads at a time
_OPENING = 2**14  # bytes that opening a file costs as much as
_HEAD = 8 * 2**10  # bytes that decide whether a file is text
_MOST_HTML = 16 * 2**20  # bytes
_READERS = {
    "PDF": from_pdf,
    "DOCX": from_docx,
    "PPTX": from_pptx,
    "XLSX": from_xlsx,
    "ODT": from_odt,
    "EPUB": from_epub,
    "mail": from_mail,
    "notebook": from_notebook,
}
_TEXT_READERS = {"HTML": from_html, "Markdown": from_markdown, "reStructuredText": from_rst}
_ROW_DIGITS = 12  # hexadecimal digits of the hash of a row


def read_documents(
    paths: StrPath | Iterable[StrPath],
    *,
    on_skip: Listener | None = None,
    on_warning: Listener | None = None,
    include: StrPath | Iterable[StrPath] = (),
    exclude: StrPath | Iterable[StrPath] = (),
    mapper: str | Mapper | None = None,
) -> FileDocuments:
    """Read the documents in files and folders, in a stable order.

    Folders are read recursively, sorted by name. Left out are hidden files, linked folders, index folders,
    `node_modules`, style sheets and scripts, pictures, sound, videos, fonts, programs and other binary files.
    A path that is given by itself is always read. The content decides the file type, and for text the name:

    - PDF, DOCX, PPTX, XLSX, HTML, EPUB (extra `files`), ODT, Markdown and reStructuredText become one
      document each. Their chunks have `page`, `slide`, `sheet` or `headings` in their metadata; front matter,
      titles and authors become metadata.
    - CSV, and JSON with a list of objects: one document per row, `file:id` by a column `id`, or else `file:`
      and a hash of the row. Repeated ids are numbered. Its columns are its metadata, and its text unless
      there is a column `text`.
    - `.eml`, and the messages of an `.mbox`: one document each, `file` and `file:message-id`, with `subject`,
      `from`, `to`, `date` and `attachments` (names) as metadata. `.ipynb`: its Markdown and code cells.
    - `.jsonl`: one document per line, with `text` or `contents`, and optionally `id` (by default as of a
      row), `title` (prepended to the text), and `metadata`. Other keys become metadata.
    - Other text: one document. UTF-8, and UTF-16 with a byte order mark, are read exactly; other encodings
      are detected, with a warning. Text above 8 MiB becomes a `StreamedDocument`.

    A document's id, and its metadata's `source`, is the path as given, joined with the path inside the
    folder, such as `notes/sub/b.txt`. It has forward slashes and no leading `./`; absolute paths stay
    absolute.

    Parameters
    ----------
    paths
        Files and folders.
    on_skip
        Called with a name and a reason for everything left out, but for what is hidden or excluded. None
        warns (`UserWarning`), but not of what a name tells, such as pictures.
    on_warning
        Called with a name and the fault of a file that is read although it is not UTF-8. None warns.
    include
        Globs of the only files to read in folders, such as `"*.md"` or `"src/**/*.js"`. They also admit
        files that are left out by default. A glob is compared with the path and with its end from each
        slash on; an absolute one with the absolute path.
    exclude
        Globs of files and folders to ignore in folders.
    mapper
        Where files are read, as for `build_index`. Large files are read here, and so are all files if the
        workers do not see them.

    Returns
    -------
    An iterator over documents, to be read once. Given as it is to `build_index` or `Index.insert`, it lets
    them delete the rows that its files have no more.

    Raises
    ------
    FileNotFoundError
        At once, if a path does not exist.
    ValueError
        At the end, if there was nothing to read; the message lists what was skipped.
    """
    given = [Path(path) for path in _listed(paths)]
    for path in given:
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {str(path)!r}")
    patterns = [[os.fspath(each) for each in _listed(globs)] for globs in (include, exclude)]
    return FileDocuments(given, patterns[0], patterns[1], on_skip, on_warning, as_mapper(mapper))


class FileDocuments(Iterator[Document | StreamedDocument]):
    """What `read_documents` returns: documents, and which files they were read from so far.

    Attributes
    ----------
    files
        Names of the files that were read to their end.
    unread
        Names of files and folders that could not be read, or not to their end.
    left_out
        Names of those that were left out by a rule, or because they are binary; that is no failure.
    """

    def __init__(
        self,
        given: Sequence[Path],
        include: Sequence[str],
        exclude: Sequence[str],
        on_skip: Listener | None,
        on_warning: Listener | None,
        mapper: Mapper,
    ) -> None:
        self.files: set[str] = set()
        self.unread: set[str] = set()
        self.left_out: set[str] = set()
        self._given = given
        self._begun = self._current = ""
        self._skipped: list[str] = []
        self._on_skip = on_skip
        self._warn = on_warning or _warn
        self._mapper = mapper
        self._documents = self._all(Walk(self._skip, self._leave_out, include, exclude))

    def __iter__(self) -> FileDocuments:
        """Itself. From now on, `files` has only the files that are read from their beginning."""
        self.files.clear()
        self._begun = self._current
        return self

    def __next__(self) -> Document | StreamedDocument:
        return next(self._documents)

    def is_unread(self, file: str) -> bool:
        """Whether a file, or a folder above it, could not be read."""
        above = file
        while above and above not in self.unread:
            above = above.rpartition("/")[0]
        return bool(above) or "." in self.unread

    def vanished(self, file: str) -> bool:
        """Whether a file is below the given paths, but not on the disk."""
        roots = [printable(path) for path in self._given]
        below = any(
            file == root or file.startswith(f"{root}/") or (root == "." and not file.startswith(("/", "../")))
            for root in roots
        )
        return below and not self.is_unread(file) and not os.path.lexists(file)

    def _skip(self, name: str, reason: str) -> None:
        """Note what could not be read, and say why."""
        self.unread.add(name)
        if self._on_skip is None:
            _warn(f"skipped {name}", reason)
        self._tell(name, reason)

    def _leave_out(self, name: str, reason: str) -> None:
        self.left_out.add(name)
        self._tell(name, reason)

    def _tell(self, name: str, reason: str) -> None:
        self._skipped.append(f"{name} ({reason})")
        if self._on_skip is not None:
            self._on_skip(name, reason)

    def _all(self, walk: Walk) -> Iterator[Document | StreamedDocument]:
        any_read = False
        for document in self._read(walk.files(self._given)):
            any_read = True
            yield document
        if not any_read and not self.files:
            where = ", ".join(repr(str(path)) for path in self._given) or "an empty list of paths"
            what = "; ".join(self._skipped[:5])
            more = f"; and {len(self._skipped) - 5} more" if len(self._skipped) > 5 else ""
            raise ValueError(f"no readable text in {where}: found {what + more or 'no files'}")

    def _read(self, files: Iterable[Found]) -> Iterator[Document | StreamedDocument]:
        mapper = self._mapper
        if not (mapper.apart and mapper.shared_files):
            for file in files:
                yield from self._read_here(file)
            return
        waiting: deque[list[Found]] = deque()

        def sent() -> Iterator[list[Found]]:
            for batch in _by_size(files):
                waiting.append(batch)
                yield [file for file in batch if not _is_large(file)]

        for from_worker in in_order(mapper, _read_in_worker, sent()):
            read = iter(from_worker)
            for file in waiting.popleft():
                if _is_large(file):
                    yield from self._read_here(file)
                else:
                    contents = next(read)
                    self._current = file.name
                    yield from contents.documents
                    self._note(file, contents)

    def _read_here(self, file: Found) -> Iterator[Document | StreamedDocument]:
        contents = _Contents()
        self._current = file.name
        yield from _or_skipped(file, contents)
        self._note(file, contents)

    def _note(self, file: Found, contents: _Contents) -> None:
        for each in contents.skipped:
            self._skip(*each)
        if contents.binary:
            if self._on_skip is None:
                _warn(f"skipped {file.name}", contents.binary)
            self._leave_out(file.name, contents.binary)
        for each in contents.warned:
            self._warn(*each)
        if contents.skipped or contents.binary:
            self.unread.add(file.name)
        elif file.name != self._begun:
            self.files.add(file.name)


def _listed(paths: StrPath | Iterable[StrPath]) -> Iterable[StrPath]:
    return [paths] if isinstance(paths, str | os.PathLike) else paths


def _warn(name: str, reason: str) -> None:
    warnings.warn(f"{name}: {reason}", stacklevel=2)


@dataclass(slots=True)
class _Contents:
    """The documents that a worker read from a file, and messages about it."""

    documents: list[Document | StreamedDocument] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    warned: list[tuple[str, str]] = field(default_factory=list)
    binary: str = ""

    def skip(self, name: str, reason: str) -> None:
        """Leave something out, and say why."""
        self.skipped.append((name, reason))


def _or_skipped(file: Found, contents: _Contents) -> Iterator[Document | StreamedDocument]:
    """The documents of a file, each with the file's name."""
    try:
        for document in _documents(file, contents):
            yield replace(document, file=file.name)
    except (Unreadable, OSError) as error:
        if isinstance(error, Binary) and not file.named:
            contents.binary = str(error)
            return
        contents.skip(file.name, getattr(error, "strerror", None) or str(error))


def _read_in_worker(files: list[Found]) -> list[_Contents]:
    read = []
    for file in files:
        contents = _Contents()
        contents.documents += _or_skipped(file, contents)
        read.append(contents)
    return read


def _by_size(files: Iterable[Found]) -> Iterator[list[Found]]:
    """Batches of files that are about as much to read."""
    batch: list[Found] = []
    size = 0
    for file in files:
        batch.append(file)
        size += file.size + _OPENING
        if size > _AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _is_large(file: Found) -> bool:
    """Whether a file is too large to be held in memory, whatever its kind."""
    return file.size > STREAMED_ABOVE


def _documents(file: Found, contents: _Contents) -> Iterator[Document | StreamedDocument]:
    if not file.path.is_file():
        raise Unreadable("not a regular file")
    with file.path.open("rb") as opened:
        head = opened.read(_HEAD)
    kind = kind_of(file.path, head)
    if kind in _READERS:
        yield _document(file, _READERS[kind](file.path), contents)
        return
    if kind == "mailbox":
        yield from _rows(file, mailbox_rows(file.path), contents)
        return
    encoding = encoding_of(file.path, head)
    if encoding.fault:
        contents.warned.append((file.name, encoding.fault))
    if kind == "JSON lines":
        yield from _lines(file, encoding.name, contents)
    elif kind == "CSV":
        with file.path.open(encoding=encoding.name, errors="replace", newline="") as lines:
            yield from _rows(
                file,
                csv_rows(
                    lines,
                    codecs.getincrementaldecoder(encoding.name)("replace").decode(head),
                    tabs=file.path.suffix.lower() == ".tsv",
                ),
                contents,
            )
    elif kind == "HTML" and file.path.stat().st_size > _MOST_HTML:
        raise Unreadable(f"HTML of more than {_MOST_HTML:,} bytes")
    elif kind != "HTML" and file.path.stat().st_size > STREAMED_ABOVE:
        yield StreamedDocument(
            file.name, partial(text_blocks, file.path, encoding.name), {"source": file.name}
        )
    else:
        text = "".join(text_blocks(file.path, encoding.name))
        rows = json_rows(text) if kind == "JSON" else None
        if rows is not None:
            yield from _rows(file, rows, contents)
        elif kind in _TEXT_READERS:
            yield _document(file, _TEXT_READERS[kind](text), contents)
        else:
            yield Document(file.name, text, {"source": file.name})


def _document(file: Found, content: FileText, contents: _Contents) -> Document:
    contents.warned += ((file.name, note) for note in content.notes)
    return Document(file.name, content.text, {"source": file.name, **content.metadata}, content.sections)


def _rows(file: Found, rows: Iterable[tuple[int, dict[str, Any]]], contents: _Contents) -> Iterator[Document]:
    """Rows of a table; ids begin with the file's, since tables number their rows alike."""
    ids = _Ids(file.name)
    for number, record in rows:
        given = record.pop("id", None)
        contents.warned += ((f"{file.name}:{number}", note) for note in record.pop("notes", ()))
        try:
            yield document_of(record, ids.of(given, record), file.name)
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


def _lines(file: Found, encoding: str, contents: _Contents) -> Iterator[Document]:
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
    if "\\ud" not in line.lower():
        return record
    # A lone surrogate, as of an emoji cut in two, cannot be stored.
    whole: dict[str, Any] = json.loads(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace"))
    return whole


def _refuse(constant: str) -> None:
    raise ValueError(f"not JSON: {constant}")


def document_of(record: Mapping[str, Any], default_id: str, source: str | None = None) -> Document:
    """Make a document of a record with the keys that `read_documents` describes.

    Raises
    ------
    ValueError
        If there is no text, or a key has a value of the wrong type.
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
