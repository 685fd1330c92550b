"""Read files and folders as documents."""

from __future__ import annotations

import codecs
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from stratagraph.ingest.bounded_reading import BoundedReader
from stratagraph.ingest.files.contents import STREAMED_ABOVE, FileContents, documents_in, guarded, is_apart
from stratagraph.ingest.files.walk import FoundFile, Roots, Walk, real_path
from stratagraph.mapping import as_mapper, in_order
from stratagraph.types.protocols import Mapper
from stratagraph.types.records import Document, StreamedDocument

StrPath = str | os.PathLike[str]
Listener = Callable[[str, str], None]

_AT_ONCE = 2**18  # bytes of files that a worker reads at a time
_OPENING = 2**14  # bytes that opening a file costs as much as


def read_documents(
    paths: StrPath | Iterable[StrPath],
    *,
    on_skip: Listener | None = None,
    on_warning: Listener | None = None,
    include: StrPath | Iterable[StrPath] = (),
    exclude: StrPath | Iterable[StrPath] = (),
    mapper: str | Mapper | None = None,
    encoding: str | None = None,
    name: str | None = None,
    moved: Mapping[str, str] | None = None,
) -> FileDocuments:
    """Read the documents in files and folders, in a stable order.

    Folders are read recursively, sorted by name, without hidden files, linked folders, index folders,
    `node_modules`, style sheets, scripts and binary files. A path that is given by itself is always read. The
    content decides the file type, and for text the name; `docs/how-to/files.md` says what is read of each.

    - PDF, XLSX (extra `files`), DOCX, PPTX, ODT, EPUB, HTML, Markdown, reStructuredText, mail and notebooks
      become one document each, whose chunks have `page`, `slide`, `sheet` or `headings` in their metadata.
    - CSV and JSON: one document per row, `file:id` by a column `id`, or else `file:` and a hash of the row.
      Its columns are metadata too. What stands beside the rows of JSON is the document `file`.
    - `.mbox`: one document per message, `file:message-id`.
    - `.jsonl`: one document per line, with `text` or `contents`, and optionally `id`, `title` (prepended to
      the text), and `metadata`. Other keys become metadata. A line without a text is a row.
    - Other text: one document, above 8 MiB a `StreamedDocument`. Text that is not UTF-8 is read as its file
      declares, else as Windows-1252 unless its letters speak for another encoding, with a warning.

    Parsers of archives, PDF, HTML, JSON and mail run in another process, with bounds of memory and time.
    Whatever cannot be read is skipped, and the other files are read.

    A document's id, and its metadata's `source`, is the path inside the folder that was given, such as
    `sub/b.txt`. Of several folders, ids begin with the folder's name; the id of a file that is given by
    itself is its name. The files of an index keep their ids, however their folder is given again.

    Parameters
    ----------
    paths
        Files and folders.
    on_skip
        Called with a name and a reason for everything left out, but for what is hidden or excluded. None
        warns (`UserWarning`), but not of what a name tells, such as pictures.
    on_warning
        Called with a name and what is wrong with a file that is read, such as another encoding than UTF-8, or
        what is left out of it. None warns.
    include
        Globs of the only files to read in folders, such as `"*.md"` or `"src/**/*.js"`. They also admit
        files that are left out by default. A glob is compared with the path and with its end from each
        slash on; an absolute one with the absolute path.
    exclude
        Globs of files and folders to ignore in folders.
    mapper
        Where files are read, as for `build_index`. Large files are read here, and so are all files if the
        workers do not see them.
    encoding
        The encoding of text that is not UTF-8, such as `"cp1250"`.
    name
        With which ids of the one given folder that is new begin, as `name/sub/b.txt`.
    moved
        For an index: former paths of its folders, and where they are now.

    Returns
    -------
    An iterator over documents, to be read once. Given as it is to `build_index` or `Index.insert`, it lets
    them delete the rows that its files have no more.

    Raises
    ------
    FileNotFoundError
        At once, if a path does not exist.
    ValueError
        At once, if the encoding is unknown. When reading begins, if two files have one id, or a file has that
        of one of another folder of the index. At the end, if there was nothing to read, and no file of the
        index vanished; the message lists what was skipped.
    """
    given = [Path(path) for path in _listed(paths)]
    for path in given:
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {str(path)!r}")
    try:
        known = None if encoding is None else codecs.lookup(encoding).name
        b"".decode(known or "utf-8")
    except LookupError:
        raise ValueError(
            f"encoding={encoding!r} is no encoding that Python knows, such as 'cp1252'"
        ) from None
    include, exclude = ([os.fspath(each) for each in _listed(globs)] for globs in (include, exclude))
    return FileDocuments(
        given,
        include=include,
        exclude=exclude,
        on_skip=on_skip,
        on_warning=on_warning,
        mapper=as_mapper(mapper),
        encoding=known,
        name=name,
        moved=moved,
    )


class FileDocuments(Iterator[Document | StreamedDocument]):
    """What `read_documents` returns: documents, and which files they were read from so far.

    Attributes
    ----------
    files
        Ids of the files that were read to their end.
    unread
        Ids of files and folders that could not be read, or not to their end.
    left_out
        Ids of those that were left out by a rule, or because they are binary; that is no failure.
    """

    def __init__(
        self,
        given: Sequence[Path],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        on_skip: Listener | None = None,
        on_warning: Listener | None = None,
        mapper: Mapper | None = None,
        encoding: str | None = None,
        name: str | None = None,
        moved: Mapping[str, str] | None = None,
        all_apart: bool = False,
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
        self._encoding = encoding
        self._placing = (name, moved)
        self._all_apart = all_apart
        self._walk = Walk(self._skip, self._leave_out, include, exclude)
        self._roots: Roots | None = None
        self._found: list[FoundFile] = []
        self._owners: Mapping[str, str] = {}
        self._documents = self._all()

    def __iter__(self) -> FileDocuments:
        """Itself. From now on, `files` has only the files that are read from their beginning."""
        self.files.clear()
        self._begun = self._current
        return self

    def __next__(self) -> Document | StreamedDocument:
        return next(self._documents)

    def join(self, recorded: Mapping[str, Sequence[str]], owners: Mapping[str, str]) -> None:
        """Find the files, and give them the ids that they have in an index; the first call does it.

        `recorded` are path and prefix of each root of the index by its key, `owners` the key of the root of
        each file that the index has. `ValueError` if two files have one id, of those given or with one of
        another root of the index.
        """
        if self._roots is not None:
            return
        name, moved = self._placing
        roots = Roots(recorded, moved)
        roots.add([real_path(path) for path in self._given], name)
        paths: dict[str, Path] = {}
        for file in self._walk.files(self._given, roots):
            other, owner = paths.setdefault(file.name, file.path), roots.by_key(owners.get(file.name, ""))
            if other != file.path:
                raise ValueError(
                    f"{str(other)!r} and {str(file.path)!r} would both have the id {file.name!r}; give the "
                    "folder above them"
                )
            if owner is not None and owner.key != file.root:
                old, root = owner.path_of(file.name), roots.by_key(file.root)
                assert root is not None
                raise ValueError(
                    f"{str(file.path)!r} would have the id {file.name!r}, which {str(old)!r} has in the "
                    f"index. If the folder moved, give moved={{{str(owner.path)!r}: {str(root.path)!r}}}; if "
                    "it is another one, give name='NAME', with which its ids begin"
                )
            self._found.append(file)
        self._roots, self._owners = roots, owners

    def roots(self) -> dict[str, list[str]]:
        """Path and prefix of each root of the index and of those that were given, by its key."""
        return {} if self._roots is None else self._roots.recorded()

    def vanished(self, file: str, root: str) -> bool:
        """Whether a file of the index, of the root with this key, is below the given paths, but not there."""
        own = None if self._roots is None else self._roots.by_key(root)
        unread = file  # the file, or a folder above it, if it could not be read
        while unread and unread not in self.unread:
            unread = unread.rpartition("/")[0]
        if own is None or unread or "." in self.unread:
            return False
        path = own.path_of(file)
        is_given = any(path.is_relative_to(real_path(each)) for each in self._given)
        return is_given and not os.path.lexists(path)

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

    def _all(self) -> Iterator[Document | StreamedDocument]:
        self.join({}, {})
        any_read = False
        with BoundedReader() as reader:
            for document in self._read(reader):
                any_read = True
                yield document
        if not (any_read or self.files or any(self.vanished(*own) for own in self._owners.items())):
            where = ", ".join(repr(str(path)) for path in self._given) or "an empty list of paths"
            what = "; ".join(self._skipped[:5])
            more = f"; and {len(self._skipped) - 5} more" if len(self._skipped) > 5 else ""
            raise ValueError(f"no readable text in {where}: found {what + more or 'no files'}")

    def _read(self, reader: BoundedReader) -> Iterator[Document | StreamedDocument]:
        mapper = self._mapper
        if mapper is None or not (mapper.apart and mapper.shared_files):
            for file in self._found:
                yield from self._read_here(file, reader)
            return
        waiting: deque[list[FoundFile]] = deque()

        def sent() -> Iterator[list[FoundFile]]:
            for batch in _by_size(self._found):
                waiting.append(batch)
                yield [file for file in batch if file.size <= STREAMED_ABOVE]

        for from_worker in in_order(mapper, partial(_read_in_worker, encoding=self._encoding), sent()):
            read = iter(from_worker)
            for file in waiting.popleft():
                if file.size > STREAMED_ABOVE:
                    yield from self._read_here(file, reader)
                else:
                    contents = next(read)
                    self._current = file.name
                    yield from contents.documents
                    self._note(file, contents)

    def _read_here(self, file: FoundFile, reader: BoundedReader) -> Iterator[Document | StreamedDocument]:
        contents = FileContents()
        self._current = file.name
        yield from _read(file, contents, self._encoding, reader, all_apart=self._all_apart)
        self._note(file, contents)

    def _note(self, file: FoundFile, contents: FileContents) -> None:
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


def _read(
    file: FoundFile,
    contents: FileContents,
    encoding: str | None,
    reader: BoundedReader,
    *,
    all_apart: bool = False,
) -> Iterator[Document | StreamedDocument]:
    """The documents of a file, which the other process reads if its parser needs bounds, or all do."""
    read = reader.read if all_apart or is_apart(file) else documents_in
    try:
        yield from guarded(file, contents, read(file, contents, encoding))
    except MemoryError:
        contents.skip(file.name, "reading it needs more memory than there is")


@cache
def _reader_of_worker() -> BoundedReader:
    """The process that reads for this worker, as long as the worker lives."""
    return BoundedReader()


def _read_in_worker(files: list[FoundFile], encoding: str | None) -> list[FileContents]:
    read = []
    for file in files:
        contents = FileContents()
        contents.documents += _read(file, contents, encoding, _reader_of_worker())
        read.append(contents)
    return read


def _by_size(files: Iterable[FoundFile]) -> Iterator[list[FoundFile]]:
    """Batches of files that are about as much to read."""
    batch: list[FoundFile] = []
    size = 0
    for file in files:
        batch.append(file)
        size += file.size + _OPENING
        if size > _AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
