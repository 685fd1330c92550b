"""Files and folders as documents. Whatever is not text is left out and named, never guessed at."""

from __future__ import annotations

import codecs
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from stratarag.records import Document, StreamedDocument

OnSkip = Callable[[str, str], None]

STREAMED_ABOVE = 8 * 2**20  # bytes; a larger file is not held in memory
_BLOCK = 2**20  # bytes
_HEAD = 8 * 2**10  # bytes that decide whether a file is text
_MARKUP = {".htm": "HTML", ".html": "HTML", ".xhtml": "HTML", ".pdf": "PDF", ".rtf": "RTF"}
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CONVERT = "convert it to plain text first"


def read_documents(
    paths: Iterable[str | os.PathLike[str]], *, on_skip: OnSkip | None = None
) -> Iterator[Document | StreamedDocument]:
    """The documents in files and folders, in a stable order.

    A folder is read with all its subfolders, sorted by name; hidden files and linked folders are not
    followed. Any file that is text by its content is one document; its id, and its metadata's `source`,
    is the path below the folder given (for a file given by itself: its name), with forward slashes. A
    name that another path has already taken is replaced by the path as given. UTF-8, and UTF-16 with a
    byte order mark, are read; a file above 8 MiB becomes a `StreamedDocument`.

    In a `.jsonl` file every line is a document: `text` or `contents`, and optionally `id` (else
    `file:line`), `title` (put before the text, and in the metadata), `metadata`; other keys become
    metadata too.

    Parameters
    ----------
    paths
        Files and folders.
    on_skip
        Called with a name and a reason for everything that is left out, and for files in which
        undecodable bytes were replaced by U+FFFD. None: each is a `UserWarning`.

    Raises
    ------
    FileNotFoundError
        At once, if a path does not exist.
    ValueError
        At the end, if there was nothing to read; the message says what was found.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    given = [Path(path) for path in paths]
    for path in given:
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {str(path)!r}")
    return _read_all(given, on_skip or _warn)


def _warn(name: str, reason: str) -> None:
    warnings.warn(f"skipped {name}: {reason}", stacklevel=2)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class _Encoding:
    """How a file is decoded, and whether all of it can be."""

    name: str
    sound: bool


class _Unreadable(Exception):
    """A file that is left out; the message is the reason."""


def _read_all(given: list[Path], on_skip: OnSkip) -> Iterator[Document | StreamedDocument]:
    found = False
    skipped: list[str] = []

    def skip(name: str, reason: str) -> None:
        skipped.append(f"{name} ({reason})")
        on_skip(name, reason)

    for file in _named(given, skip):
        try:
            for document in _documents(file, skip, on_skip):
                found = True
                yield document
        except (_Unreadable, OSError) as error:
            skip(file.name, getattr(error, "strerror", None) or str(error))
    if not found:
        where = ", ".join(repr(str(path)) for path in given) or "an empty list of paths"
        what = "; ".join(skipped[:5]) + (f"; and {len(skipped) - 5} more" if len(skipped) > 5 else "")
        raise ValueError(f"no readable text in {where}: found {what or 'no files'}")


def _named(given: list[Path], skip: OnSkip) -> Iterator[_File]:
    """Every file below the paths once, with a name that no other has."""
    seen: set[tuple[int, int]] = set()
    names: set[str] = set()
    for root in given:
        for path in _files(root, skip):
            relative = path.relative_to(root) if root.is_dir() else PurePath(path.name)
            name = _printable(relative)
            try:
                status = path.stat()
            except OSError as error:
                skip(name, "broken link" if path.is_symlink() else str(error.strerror))
                continue
            if (status.st_dev, status.st_ino) in seen:
                skip(name, "the same file as one before")
                continue
            seen.add((status.st_dev, status.st_ino))
            name = _printable(path) if name in names else name
            names.add(name)
            yield _File(path, name)


def _files(root: Path, skip: OnSkip) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return
    failed = partial(_name_error, root, skip)
    for folder, folders, files in os.walk(root, onerror=failed):
        if "CURRENT" in files and "generations" in folders:
            skip(_printable(Path(folder).relative_to(root)), "a stratarag index")
            folders.clear()
            continue
        for name in folders:
            if Path(folder, name).is_symlink() and not name.startswith("."):
                skip(_printable(Path(folder, name).relative_to(root)), "a link to a folder is not followed")
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))


def _name_error(root: Path, skip: OnSkip, error: OSError) -> None:
    skip(_printable(Path(error.filename).relative_to(root)), str(error.strerror))


def _printable(path: PurePath) -> str:
    """A path with forward slashes that can be written as UTF-8, whatever bytes the file system holds."""
    return path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _documents(file: _File, skip: OnSkip, warn: OnSkip) -> Iterator[Document | StreamedDocument]:
    if not file.path.is_file():
        raise _Unreadable("not a regular file")
    encoding = _encoding(file.path)
    if not encoding.sound:
        warn(file.name, f"read, but not valid {encoding.name.upper()}: undecodable bytes became U+FFFD")
    if file.path.suffix.lower() in (".jsonl", ".ndjson"):
        yield from _lines(file, encoding.name, skip)
        return
    metadata = {"source": file.name}
    streamed = StreamedDocument(file.name, partial(_blocks, file.path, encoding.name), metadata)
    if file.path.stat().st_size > STREAMED_ABOVE:
        yield streamed
    else:
        yield Document(file.name, "".join(streamed.blocks()), metadata)


def _encoding(path: Path) -> _Encoding:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"%PDF-") or path.suffix.lower() in _MARKUP:
        raise _Unreadable(f"{_MARKUP.get(path.suffix.lower(), 'PDF')}; {_CONVERT}")
    name = next((name for bom, name in _BOMS if head.startswith(bom)), "utf-8")
    start = codecs.getincrementaldecoder(name)("replace").decode(head)
    if "\0" in start:
        raise _Unreadable(f"binary; {_CONVERT}")
    if start.count("\ufffd") * 10 > len(start):
        raise _Unreadable(f"binary, or text that is neither UTF-8 nor UTF-16; {_CONVERT}")
    try:
        for _ in _blocks(path, name, errors="strict"):
            pass
    except UnicodeDecodeError:
        return _Encoding(name, sound=False)
    return _Encoding(name, sound=True)


def _blocks(path: Path, encoding: str, errors: str = "replace") -> Iterator[str]:
    """The text of a file in blocks, line ends as they are."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def _lines(file: _File, encoding: str, skip: OnSkip) -> Iterator[Document]:
    with file.path.open(encoding=encoding, errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
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
    """A document from one line's keys, as `read_documents` describes them.

    Raises
    ------
    ValueError
        If there is no text, or a key has a value of the wrong kind.
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
