"""Read files and folders as documents."""

from __future__ import annotations

import codecs
import json
import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from stratagraph._files import (
    READERS,
    Kind,
    Made,
    Unreadable,
    bounded_lines,
    csv_rows,
    from_html,
    from_markdown,
    json_rows,
    kind_of,
    mailbox_rows,
)
from stratagraph._mapping import as_mapper, in_order
from stratagraph.protocols import Mapper
from stratagraph.records import Document, StreamedDocument

StrPath = str | os.PathLike[str]
Listener = Callable[[str, str], None]

STREAMED_ABOVE = 8 * 2**20  # bytes; a larger file is not held in memory
_BLOCK = 2**20  # bytes
_AT_ONCE = 2**18  # bytes of files that a worker reads at a time
_OPENING = 2**14  # bytes that opening a file costs as much as
_HEAD = 8 * 2**10  # bytes that decide whether a file is text
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CONVERT = "convert it to plain text first"
_EXTRA = "pip install 'stratagraph[files]'"
_MOST_HTML = 16 * 2**20  # bytes
_SAMPLE = 2**20  # bytes that decide how a file is encoded that is not UTF-8
_WESTERN = 0.06  # share of bytes beyond ASCII up to which a text is taken for Western European
_ENCODINGS = (
    *("cp1252", "cp1251", "cp1250", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r", "cp874"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
"""What files of other systems are in; the many more that there are look too much like these."""
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_MARKER = "stratagraph-index"  # in an index folder from its first moment, as `store.layout` writes it


def read_documents(
    paths: StrPath | Iterable[StrPath],
    *,
    on_skip: Listener | None = None,
    on_warning: Listener | None = None,
    exclude: StrPath | Iterable[StrPath] = (),
    mapper: str | Mapper | None = None,
) -> Iterator[Document | StreamedDocument]:
    """Read the documents in files and folders, in a stable order.

    Folders are read recursively, sorted by name, without hidden files, linked folders and index folders. The
    content decides the file type, and for text the name:

    - PDF, DOCX, PPTX, XLSX, HTML (extra `files`) and Markdown become one document each. Their chunks have
      `page`, `slide`, `sheet` or `headings` in their metadata; front matter, titles and authors become
      metadata.
    - CSV, and JSON with a list of objects: one document per row, `file:id` or `file:row`. Its columns are its
      metadata, and its text unless there is a column `text`.
    - `.eml`, and the messages of an `.mbox`: one document each, `file` and `file:message-id`, with `subject`,
      `from`, `to`, `date` and `attachments` (names) as metadata. `.ipynb`: its Markdown and code cells.
    - `.jsonl`: one document per line, with `text` or `contents`, and optionally `id` (default `file:line`),
    `title`
      (prepended to the text), and `metadata`. Other keys become metadata.
    - Other text: one document. UTF-8, and UTF-16 with a byte order mark, are read exactly; other encodings
    are
      detected, with a warning. Text above 8 MiB becomes a `StreamedDocument`.

    A document's id, and its metadata's `source`, is the path as given, joined with the path inside the
    folder, such as `notes/sub/b.txt`. It has forward slashes and no leading `./`; absolute paths stay
    absolute.

    Parameters
    ----------
    paths
        Files and folders.
    on_skip
        Called with a name and a reason for everything left out. None warns (`UserWarning`).
    on_warning
        Called with a name and the fault of a file that is read although it is not UTF-8. None warns.
    exclude
        Files and folders to ignore inside folders.
    mapper
        Where files are read, as for `build_index`. Large files are read here, and so are all files if the
        workers do not see them.

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
    walk = _Walk(on_skip or _warn_skipped, frozenset(map(os.path.realpath, _listed(exclude))))
    return _read_all(given, walk, on_warning or _warn, as_mapper(mapper))


def _listed(paths: StrPath | Iterable[StrPath]) -> Iterable[StrPath]:
    return [paths] if isinstance(paths, str | os.PathLike) else paths


def _warn_skipped(name: str, reason: str) -> None:
    warnings.warn(f"skipped {name}: {reason}", stacklevel=2)


def _warn(name: str, reason: str) -> None:
    warnings.warn(f"{name}: {reason}", stacklevel=2)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class _Encoding:
    """How a file is decoded, and what is wrong with it."""

    name: str
    fault: str = ""


class _Walk:
    """Finds the files below paths, and remembers what it left out."""

    def __init__(self, on_skip: Listener, excluded: frozenset[str]) -> None:
        self.skipped: list[str] = []
        self._on_skip = on_skip
        self._excluded = excluded

    def skip(self, name: str, reason: str) -> None:
        """Leave something out, and say why."""
        self.skipped.append(f"{name} ({reason})")
        self._on_skip(name, reason)

    def named(self, given: list[Path]) -> Iterator[_File]:
        """Every file below the paths once."""
        seen: set[tuple[int, int]] = set()
        for path in (path for root in given for path in self._files(root)):
            name = _printable(path)
            try:
                status = path.stat()
            except OSError as error:
                self.skip(name, "broken link" if path.is_symlink() else str(error.strerror))
                continue
            if (status.st_dev, status.st_ino) in seen:
                self.skip(name, "the same file as one before")
                continue
            seen.add((status.st_dev, status.st_ino))
            yield _File(path, name, status.st_size)

    def _files(self, root: Path) -> Iterator[Path]:
        if not root.is_dir():
            yield root
            return

        def skip_error(error: OSError) -> None:
            self.skip(_printable(Path(error.filename)), str(error.strerror))

        for folder, folders, files in os.walk(root, onerror=skip_error):
            if _MARKER in files or ("CURRENT" in files and "generations" in folders):
                self.skip(_printable(Path(folder)), "a stratagraph index")
                folders.clear()
                continue
            folders[:] = self._listed_names(folder, folders)
            for name in folders:
                if Path(folder, name).is_symlink():
                    self.skip(_printable(Path(folder, name)), "a link to a folder is not followed")
            yield from (Path(folder, name) for name in self._listed_names(folder, files))

    def _listed_names(self, folder: str, names: list[str]) -> list[str]:
        shown = sorted(name for name in names if not name.startswith("."))
        if not self._excluded:
            return shown
        real = os.path.realpath(folder)
        return [name for name in shown if os.path.join(real, name) not in self._excluded]


@dataclass(slots=True)
class _Contents:
    """What a worker found in a file: documents, and what is to be said of it."""

    documents: list[Document | StreamedDocument] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    warned: list[tuple[str, str]] = field(default_factory=list)


def _read_all(
    given: list[Path], walk: _Walk, warn: Listener, mapper: Mapper
) -> Iterator[Document | StreamedDocument]:
    found = False
    for document in _read(walk.named(given), walk.skip, warn, mapper):
        found = True
        yield document
    if not found:
        where = ", ".join(repr(str(path)) for path in given) or "an empty list of paths"
        what = "; ".join(walk.skipped[:5])
        more = f"; and {len(walk.skipped) - 5} more" if len(walk.skipped) > 5 else ""
        raise ValueError(f"no readable text in {where}: found {what + more or 'no files'}")


def _read(
    files: Iterable[_File], skip: Listener, warn: Listener, mapper: Mapper
) -> Iterator[Document | StreamedDocument]:
    if not (mapper.apart and mapper.shared_files):
        for file in files:
            yield from _or_skipped(file, skip, warn)
        return
    waiting: deque[list[_File]] = deque()

    def sent() -> Iterator[list[_File]]:
        for batch in _by_size(files):
            waiting.append(batch)
            yield [file for file in batch if not _is_large(file)]

    for found in in_order(mapper, _read_in_worker, sent()):
        read = iter(found)
        for file in waiting.popleft():
            if _is_large(file):
                yield from _or_skipped(file, skip, warn)
                continue
            contents = next(read)
            for each in contents.skipped:
                skip(*each)
            for each in contents.warned:
                warn(*each)
            yield from contents.documents


def _or_skipped(file: _File, skip: Listener, warn: Listener) -> Iterator[Document | StreamedDocument]:
    try:
        yield from _documents(file, skip, warn)
    except (Unreadable, OSError) as error:
        skip(file.name, getattr(error, "strerror", None) or str(error))


def _read_in_worker(files: list[_File]) -> list[_Contents]:
    found = []
    for file in files:
        contents = _Contents()
        contents.documents += _or_skipped(
            file,
            lambda *said, kept=contents: kept.skipped.append(said),
            lambda *said, kept=contents: kept.warned.append(said),
        )
        found.append(contents)
    return found


def _by_size(files: Iterable[_File]) -> Iterator[list[_File]]:
    """Batches of files that are about as much to read."""
    batch: list[_File] = []
    size = 0
    for file in files:
        batch.append(file)
        size += file.size + _OPENING
        if size > _AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _is_large(file: _File) -> bool:
    """Whether a file is not to be held in memory whole, of whatever kind it is."""
    return file.size > STREAMED_ABOVE


def _printable(path: PurePath) -> str:
    """A path with forward slashes, in UTF-8 and unmistakable whatever bytes the file system holds."""
    return path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _documents(file: _File, skip: Listener, warn: Listener) -> Iterator[Document | StreamedDocument]:
    if not file.path.is_file():
        raise Unreadable("not a regular file")
    with file.path.open("rb") as opened:
        head = opened.read(_HEAD)
    kind = kind_of(file.path, head)
    if kind in READERS:
        yield _document(file, READERS[kind](file.path))
        return
    if kind == "mailbox":
        yield from _rows(file, mailbox_rows(file.path), skip)
        return
    encoding = _encoding(file.path, head)
    if encoding.fault:
        warn(file.name, encoding.fault)
    if kind == "JSON lines":
        yield from _lines(file, encoding.name, skip)
    elif kind == "CSV":
        with file.path.open(encoding=encoding.name, errors="replace", newline="") as lines:
            yield from _rows(
                file,
                csv_rows(
                    lines,
                    codecs.getincrementaldecoder(encoding.name)("replace").decode(head),
                    tabs=file.path.suffix.lower() == ".tsv",
                ),
                skip,
            )
    elif kind == "HTML" and file.path.stat().st_size > _MOST_HTML:
        raise Unreadable(f"HTML of more than {_MOST_HTML:,} bytes")
    elif kind != "HTML" and file.path.stat().st_size > STREAMED_ABOVE:
        yield StreamedDocument(file.name, partial(_blocks, file.path, encoding.name), {"source": file.name})
    else:
        yield from _whole(file, kind, "".join(_blocks(file.path, encoding.name)), skip)


def _whole(file: _File, kind: Kind, text: str, skip: Listener) -> Iterator[Document]:
    rows = json_rows(text) if kind == "JSON" else None
    if rows is not None:
        yield from _rows(file, rows, skip)
    elif kind == "HTML":
        yield _document(file, from_html(text))
    elif kind == "Markdown":
        yield _document(file, from_markdown(text))
    else:
        yield Document(file.name, text, {"source": file.name})


def _document(file: _File, made: Made) -> Document:
    return Document(file.name, made.text, {"source": file.name, **made.metadata}, made.sections)


def _rows(file: _File, rows: Iterable[tuple[int, dict[str, Any]]], skip: Listener) -> Iterator[Document]:
    """Rows of a table; ids begin with the file's, since tables number their rows alike."""
    for number, record in rows:
        identity = record.pop("id", number)
        try:
            document = document_of(record, f"{file.name}:{identity}", file.name)
            yield replace(document, metadata={**document.metadata, "row": number})
        except ValueError as error:
            skip(f"{file.name}:{number}", str(error))


def _encoding(path: Path, head: bytes) -> _Encoding:
    name = next((name for bom, name in _BOMS if head.startswith(bom)), "utf-8")
    start = codecs.getincrementaldecoder(name)("replace").decode(head)
    if "\0" in start:
        raise Unreadable(f"binary; {_CONVERT}")
    try:
        for _ in _blocks(path, name, errors="strict"):
            pass
    except UnicodeDecodeError:
        if name == "utf-8":
            return _legacy(path)
        return _Encoding(name, f"not valid {name.upper()}: undecodable bytes became U+FFFD")
    return _Encoding(name)


def _legacy(path: Path) -> _Encoding:
    """How a file that is not UTF-8 is read: as damaged UTF-8, Western European, or what it looks like."""
    with path.open("rb") as file:
        sample = file.read(_SAMPLE)
    if len(_CONTROLS.findall(sample)) * 50 > len(sample):
        raise Unreadable(f"binary; {_CONVERT}")
    beyond = len(sample) - len(sample.decode("ascii", "ignore"))
    valid = sum(map(len, _MULTIBYTE.findall(sample)))
    if 2 * valid > beyond:
        return _Encoding("utf-8", "not valid UTF-8: undecodable bytes became U+FFFD")
    name = "cp1252" if beyond <= _WESTERN * len(sample) else _looks_like(sample)
    return _Encoding(name, f"not valid UTF-8: read as {name}")


def _looks_like(sample: bytes) -> str:
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        raise Unreadable(f"text of an encoding that is not known; telling which needs {_EXTRA}") from None
    best = from_bytes(sample, cp_isolation=list(_ENCODINGS)).best()
    if best is None:
        raise Unreadable(f"binary, or text of an unknown encoding; {_CONVERT}")
    return str(best.encoding)


def _blocks(path: Path, encoding: str, errors: str = "replace") -> Iterator[str]:
    """The text of a file in blocks, line ends as they are."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def _lines(file: _File, encoding: str, skip: Listener) -> Iterator[Document]:
    with file.path.open(encoding=encoding, errors="replace", newline="\n") as lines:
        for number, line in enumerate(bounded_lines(lines), 1):
            place = f"{file.name}:{number}"
            if not line.strip():
                continue
            try:
                yield document_of(_record(line), place, file.name)
            except ValueError as error:
                skip(place, str(error))


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
