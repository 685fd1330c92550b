"""The files of a generation: their arrays, how they are opened, and what their numbers must obey."""

from __future__ import annotations

import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.store import corpus, node_records, pool
from stratagraph.store.arrays import SUFFIX, Arrays, Layers, open_arrays
from stratagraph.store.blocks import Columns, Records, misfit
from stratagraph.store.checksums import Check, problem
from stratagraph.store.corpus import (
    CHUNK_COLUMNS,
    CHUNK_SLOTS,
    DOCUMENT_COLUMNS,
    DOCUMENT_SLOTS,
    StoredCorpus,
)
from stratagraph.store.external import ExternalPool
from stratagraph.store.files import Directory, naming
from stratagraph.store.manifest import Manifest
from stratagraph.store.patches import Patched
from stratagraph.store.pieces import Pieces, of_files
from stratagraph.store.pool import Pool
from stratagraph.store.rows import TableRows
from stratagraph.store.segments import segment_order
from stratagraph.store.view import INDICES, INDPTR

CHUNK_ARRAYS = "chunks.arrays"
DOCUMENTS = "documents"
"""Name of the array with the place of each chunk's document in the sorted document ids."""
VECTORS = "vectors"
PARTS = "parts"
NUMBERS = "numbers"
"""Folder of arrays of numbers of rows, and of measures: nothing of what a row says; others are in `PARTS`."""
PATCHES = "patches"
"""Folder of what makes the arrays of a part of those of an earlier generation."""
SLOTS = "slots"
VECTOR_SLOTS = "vectors.slots"
"""Name of the array with the slot of each chunk's vector."""

LOOKED_INTO = 32
"""Segments of a folder that are held against their checksums where not everything is."""
PIECES_LOOKED_INTO = 8
"""Likewise of pieces: they are larger."""
_ROWS = 1 << 16  # vectors looked at at a time
_LARGEST = 2.0  # vectors are of unit length; the products of much larger values are infinite
_PART = re.compile(rf"(?:({PATCHES})/)?({PARTS}|{NUMBERS})/([^/]+){re.escape(SUFFIX)}")
_PIECE = re.compile(rf"{PARTS}/([^/]+)/([^/]+\.piece)")
_OF_PART = re.compile(rf"(?:{PATCHES}/)?(?:{PARTS}|{NUMBERS})/([^/]+?)(?:{re.escape(SUFFIX)}|/[^/]+)?")
_SLOTS = re.compile(rf"{SLOTS}/([^/]+){re.escape(SUFFIX)}")
_VECTORS = re.compile(rf"{pool.FOLDER}/([^/]+)")
_NODES = re.compile(rf"{node_records.FOLDER}/([^/]+)/([^/]+)")
_TEXTS = re.compile(rf"{corpus.FOLDER}/({corpus.CHUNKS}|{corpus.DOCUMENTS})/([^/]+)")
_CORPUS_COLUMNS = {corpus.CHUNKS: CHUNK_COLUMNS, corpus.DOCUMENTS: DOCUMENT_COLUMNS}


def part_file(part: str, folder: str = PARTS) -> str:
    """Path of a part's arrays in `PARTS` or `NUMBERS`."""
    return f"{folder}/{part}{SUFFIX}"


def patch_file(part: str, folder: str) -> str:
    """Path of the patch of these arrays."""
    return f"{PATCHES}/{part_file(part, folder)}"


def slots_file(part: str) -> str:
    """Path of the slots of a part's vectors in its generation."""
    return f"{SLOTS}/{part}{SUFFIX}"


def pieces_folder(part: str) -> str:
    """Folder of the pieces of a part's arrays in `PARTS`, if these are large."""
    return f"{PARTS}/{part}"


def part_of(file: str) -> str:
    """The part whose arrays a file holds; the file itself if it belongs to none."""
    return found[1] if (found := _OF_PART.fullmatch(file)) else file


NamedArrays = dict[str, NDArray[Any]]
ArrayGroup = tuple[str, str]
"""A part, and the folder of those of its arrays that are in one file: `PARTS` or `NUMBERS`."""


class OpenFile(NamedTuple):
    """The arrays of a file, and the file's device, inode, size and modification time."""

    arrays: NamedArrays
    identity: tuple[int, ...]


@dataclass
class Contents:
    """The arrays of a generation by name, and the file of each.

    Attributes
    ----------
    corpus, parts
        Arrays of the corpus, and of each part.
    groups, pieces, patched
        Arrays of parts as they are in their files; files in pieces; patches.
    slots
        The vectors of each part.
    vectors, nodes, texts
        Segments by file name; `texts` are those of chunks and of documents.
    opened, known
        Open segment files by path; those that an earlier snapshot has open, which are not opened again.
    """

    corpus: NamedArrays = field(default_factory=dict)
    parts: defaultdict[str, Arrays] = field(default_factory=lambda: defaultdict(dict))
    groups: dict[ArrayGroup, Arrays] = field(default_factory=dict)
    patched: dict[ArrayGroup, NamedArrays] = field(default_factory=dict)
    slots: defaultdict[str, NamedArrays] = field(default_factory=lambda: defaultdict(dict))
    vectors: dict[str, NamedArrays] = field(default_factory=dict)
    nodes: defaultdict[str, dict[str, NamedArrays]] = field(default_factory=lambda: defaultdict(dict))
    texts: defaultdict[str, dict[str, NamedArrays]] = field(default_factory=lambda: defaultdict(dict))
    files: dict[tuple[str, str], str] = field(default_factory=dict)
    opened: dict[str, OpenFile] = field(default_factory=dict)
    known: Mapping[str, OpenFile] = field(default_factory=dict)
    pieces: Mapping[str, Pieces] = field(default_factory=dict)

    @classmethod
    def of(cls, manifest: Manifest, known: Mapping[str, OpenFile] = MappingProxyType({})) -> Contents:
        """Contents of a generation, to which no file was added yet."""
        sizes = {file: entry.bytes for file, entry in manifest.files.items()}
        return cls(pieces=of_files(sizes, _PIECE), known=known)

    def took_known(self, holder: Directory, file: str) -> bool:
        """Use an open file of the earlier snapshot, if it is the one in this directory."""
        if file not in self.known:
            return False
        found = holder.status(file.rpartition("/")[2])
        if found is None or _identity(found) != self.known[file].identity:
            return False
        self.opened[file] = self.known[file]
        return self._took_segment(file, lambda: self.known[file].arrays)

    def take(self, directory: Directory, file: str, descriptor: int) -> None:
        """Open the arrays in a file; call `settle` after the last one."""
        if file.endswith(SUFFIX) and self._took_segment(
            file, lambda: self._open(directory, file, descriptor)
        ):
            return
        if found := _PIECE.fullmatch(file):
            self.pieces[found[1]].put(found[2], descriptor)
        elif found := _PART.fullmatch(file):
            patch, folder, part = found.groups()
            arrays = open_arrays(directory, file, descriptor)
            if patch:
                self.patched[part, folder] = arrays
            else:
                self._add((part, folder), arrays, file)
        elif file.endswith(SUFFIX):
            self.corpus.update(open_arrays(directory, file, descriptor))

    def _open(self, directory: Directory, file: str, descriptor: int) -> NamedArrays:
        arrays = open_arrays(directory, file, descriptor)
        self.opened[file] = OpenFile(arrays, _identity(os.fstat(descriptor)))
        return arrays

    def _add(self, group: ArrayGroup, arrays: NamedArrays, file: str) -> None:
        self.groups[group] = arrays
        self.files.update({(group[0], name): file for name in arrays})

    def settle(self) -> Iterator[str]:
        """Combine the arrays of each part; yields problems of pieces and patches, each with its file."""
        for part, pieces in self.pieces.items():
            if pieces.wrong is not None:
                yield f"{pieces_folder(part)}: {pieces.wrong}"
            elif (part, PARTS) in self.groups:
                yield f"{pieces_folder(part)}: there is {part_file(part)} beside these pieces"
            elif pieces.complete:
                yield from self._take_pieces(part, pieces)
        layers: defaultdict[str, list[Arrays]] = defaultdict(list)
        for group, before in self.groups.items():
            part, folder = group
            arrays = before
            if group in self.patched:
                file = patch_file(part, folder)
                try:
                    arrays = Patched(before, self.patched[group])
                except (ValueError, TypeError, LookupError, RecursionError) as error:
                    yield f"{file}: cannot be applied to {part_file(part, folder)} ({error})"
                    continue
                self.files.update({(part, name): file for name in arrays})
            layers[part].append(arrays)
        for part, folder in self.patched.keys() - self.groups.keys():
            yield f"{patch_file(part, folder)}: there is no {part_file(part, folder)}"
        for part, found in layers.items():
            self.parts[part] = found[0] if len(found) == 1 else Layers(*found)

    def _take_pieces(self, part: str, pieces: Pieces) -> Iterator[str]:
        try:
            arrays = pieces.arrays(Path(pieces_folder(part)))
        except Damaged as error:
            yield str(error)
            return
        self._add((part, PARTS), arrays, pieces_folder(part))

    def _took_segment(self, file: str, arrays: Callable[[], NamedArrays]) -> bool:
        if found := _VECTORS.fullmatch(file):
            self.vectors[found[1]] = arrays()
        elif found := _NODES.fullmatch(file):
            self.nodes[found[1]][found[2]] = arrays()
        elif found := _TEXTS.fullmatch(file):
            self.texts[found[1]][found[2]] = arrays()
        elif found := _SLOTS.fullmatch(file):
            self.slots[found[1]] = arrays()
        else:
            return False
        return True

    def pool(self, dimension: int, rows: TableRows | None) -> Pool:
        """The vectors; in `rows` if they are in a vector store."""
        files = sorted(self.vectors, key=segment_order)
        if rows is not None:
            return ExternalPool(files, [self.vectors[file] for file in files], rows)
        return Pool(files, [self.vectors[file] for file in files], dimension)

    def records(self, part: str) -> Records:
        """The records of a part's nodes."""
        return _records(node_records.label(part), self.nodes[part], node_records.COLUMNS)

    def stored_corpus(self, path: Path) -> StoredCorpus:
        """Chunks and documents. `path` is that of the generation."""
        chunks, documents = (
            _records(str(path / corpus.FOLDER / folder), self.texts[folder], columns)
            for folder, columns in _CORPUS_COLUMNS.items()
        )
        slots = self.corpus[CHUNK_SLOTS], self.corpus[DOCUMENT_SLOTS]
        return StoredCorpus(path, chunks, slots[0], documents, slots[1], self.corpus[DOCUMENTS])


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _records(name: str, segments: Mapping[str, NamedArrays], columns: Columns) -> Records:
    files = sorted(segments, key=segment_order)
    return Records(name, files, [segments[file] for file in files], columns)


@contextmanager
def opened(directory: Directory, file: str) -> Iterator[int]:
    """The descriptor of a file, by its path in the generation."""
    with directory.holding(file) as (holder, name):
        descriptor = holder.descriptor(name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _folders(directory: Directory) -> Iterator[Callable[[str], Directory]]:
    with ExitStack() as held:
        folders: dict[str, Directory] = {"": directory}

        def folder(path: str) -> Directory:
            if path not in folders:
                above, _, name = path.rpartition("/")
                folders[path] = held.enter_context(folder(above).directory(name))
            return folders[path]

        yield lambda file: folder(file.rpartition("/")[0])


def _looked_into(files: Iterable[str]) -> set[str]:
    """The files that are checked unless all are: a random sample of the segments in each folder."""
    folders: defaultdict[str, list[str]] = defaultdict(list)
    for file in files:
        several = any(each.fullmatch(file) for each in (_VECTORS, _NODES, _TEXTS, _PIECE))
        folders[file.rpartition("/")[0] if several else ""].append(file)
    found: set[str] = set()
    for folder, within in folders.items():
        most = PIECES_LOOKED_INTO if _PIECE.fullmatch(within[0]) else LOOKED_INTO
        found.update(random.sample(within, most) if folder and len(within) > most else within)
    return found


def open_contents(
    directory: Directory,
    manifest: Manifest,
    check: Check,
    known: Mapping[str, OpenFile] = MappingProxyType({}),
) -> Contents:
    """Check the files of a generation to the extent of `check`, and open their arrays.

    Segments in `known` (by path) were checked when an earlier snapshot opened them.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    Damaged
        If a file is not as it was written, or holds impossible numbers.
    """
    contents = Contents.of(manifest, {} if check == "full" else known)
    looked_into = set(manifest.files) if check == "full" else _looked_into(manifest.files)
    with _folders(directory) as folder:
        for file, entry in manifest.files.items():
            holder = folder(file)
            if contents.took_known(holder, file):
                continue
            descriptor = holder.descriptor(file.rpartition("/")[2])
            try:
                if wrong := problem(descriptor, entry, check if file in looked_into else None):
                    raise Damaged(f"{directory.path / file}: {wrong}")
                with naming(directory.path, file):  # a mapping holds a descriptor
                    contents.take(directory, file, descriptor)
            finally:
                os.close(descriptor)
    for wrong in chain(contents.settle(), meanings(contents, manifest)):
        raise Damaged(f"{directory.path / wrong}")
    return contents


def meanings(contents: Contents, manifest: Manifest) -> Iterator[str]:
    """Problems of the arrays that the store itself reads, each with its file first."""
    folders = Counter(file.rpartition("/")[0] for file in manifest.files)
    yield from _segments(contents, manifest, folders)
    yield from _texts(contents, manifest, folders)
    yield from _corpus(contents, manifest, folders)
    for name, nodes in manifest.nodes.items():
        yield from _sources(contents, name, nodes, manifest.chunks)


def _segments(contents: Contents, manifest: Manifest, folders: Counter[str]) -> Iterator[str]:
    """Problems of segments of vectors and nodes, and of the slots that point into them."""
    for file, arrays in contents.vectors.items():
        halves, hashes = arrays.get(pool.HALVES), arrays.get(pool.HASHES)
        if manifest.vectors:
            if hashes is None or hashes.dtype != np.uint64 or hashes.ndim != 1 or halves is not None:
                yield f"{pool.FOLDER}/{file}: does not hold hashes of vectors, and nothing else"
        elif halves is None or halves.dtype != np.float16 or halves.shape[1:] != (manifest.dimension,):
            yield f"{pool.FOLDER}/{file}: holds no vectors of {manifest.dimension} float16"
        elif hashes is None or hashes.dtype != np.uint64 or hashes.shape != halves.shape[:1]:
            yield f"{pool.FOLDER}/{file}: does not have as many hashes as vectors"
        yield from _order(f"{pool.FOLDER}/{file}", file)
    vectors = _count(contents.vectors, pool.HASHES, folders[pool.FOLDER])
    for part, slots in contents.slots.items():
        for name, array in slots.items():
            if array.dtype != np.uint32 or array.ndim != 1 or not _within(array, vectors):
                yield f"{slots_file(part)}: {name} points at vectors beyond the {vectors} that exist"
    for part, nodes in manifest.nodes.items():
        for file, arrays in contents.nodes[part].items():
            if wrong := misfit(arrays, node_records.COLUMNS):
                yield f"{node_records.FOLDER}/{part}/{file}: {wrong}"
            yield from _order(f"{node_records.FOLDER}/{part}/{file}", file)
        records = _count(contents.nodes[part], "lengths", folders[f"{node_records.FOLDER}/{part}"])
        places = contents.parts[part].get(node_records.SLOTS)
        if places is None:
            yield f"{part_file(part, NUMBERS)}: does not say which records its nodes are"
        elif places.dtype != np.uint32 or places.shape != (nodes,) or not _within(places, records):
            file = contents.files[part, node_records.SLOTS]
            yield f"{file}: does not say which of {records} records its {nodes} nodes are"


def _texts(contents: Contents, manifest: Manifest, folders: Counter[str]) -> Iterator[str]:
    """Problems of segments of chunks and documents, and of the slots that point into them."""
    own = {
        corpus.CHUNKS: (contents.corpus.get(CHUNK_SLOTS), manifest.chunks),
        corpus.DOCUMENTS: (contents.corpus.get(DOCUMENT_SLOTS), manifest.documents),
    }
    for kind, (slots, size) in own.items():
        folder = f"{corpus.FOLDER}/{kind}"
        for file, arrays in contents.texts[kind].items():
            wrong = misfit(arrays, _CORPUS_COLUMNS[kind])
            if wrong is None and kind == corpus.DOCUMENTS:
                wrong = corpus.names_misfit(arrays)
            if wrong is not None:
                yield f"{folder}/{file}: {wrong}"
            yield from _order(f"{folder}/{file}", file)
        count = _count(contents.texts[kind], "lengths", folders[folder])
        if slots is None or slots.dtype != np.uint32 or slots.shape != (size,) or not _within(slots, count):
            yield f"{CHUNK_ARRAYS}: does not say which of {count} records its {size} {kind} are"


def _count(segments: Mapping[str, NamedArrays], array: str, files: int) -> int:
    """Number of records in the segments of a folder; unlimited if one of its files could not be opened."""
    if files != len(segments):
        return 1 << 32
    return sum(len(arrays.get(array, ())) for arrays in segments.values())


def _order(path: str, file: str) -> Iterator[str]:
    try:
        segment_order(file)
    except ValueError as error:
        yield f"{path}: {error}"


def _corpus(contents: Contents, manifest: Manifest, folders: Counter[str]) -> Iterator[str]:
    slots, documents = contents.corpus.get(VECTOR_SLOTS), contents.corpus.get(DOCUMENTS)
    shape, count = (manifest.chunks,), _count(contents.vectors, pool.HASHES, folders[pool.FOLDER])
    if slots is None or slots.dtype != np.uint32 or slots.shape != shape or not _within(slots, count):
        yield f"{CHUNK_ARRAYS}: does not give each chunk one of {count} vectors"
    if (
        documents is None
        or documents.dtype != np.int32
        or documents.shape != shape
        or not _within(documents, manifest.documents)
    ):
        yield f"{CHUNK_ARRAYS}: does not give each chunk one of {manifest.documents} documents"


def _sources(contents: Contents, part: str, nodes: int, chunks: int) -> Iterator[str]:
    arrays = contents.parts[part]
    indptr, indices = arrays.get(INDPTR), arrays.get(INDICES)
    if indptr is None or indices is None:
        yield f"{part_file(part)}: holds no sources of its nodes"
        return
    if (
        indptr.shape != (nodes + 1,)
        or indptr.dtype != np.int64
        or int(indptr[0]) != 0
        or indices.shape != (int(indptr[-1]),)
        or (indptr[1:] < indptr[:-1]).any()  # a difference may overflow
    ):
        yield f"{contents.files[part, INDPTR]}: does not divide the sources among {nodes} nodes"
    if indices.dtype not in (np.int32, np.int64) or not _within(indices, chunks):
        yield f"{contents.files[part, INDICES]}: points at chunks beyond the {chunks} that exist"


def infinite(arrays: Arrays) -> Iterator[str]:
    """Names of arrays of vectors with values that no unit vector has."""
    for name in arrays:
        array = arrays[name]
        if name.endswith(VECTORS) and array.dtype.kind == "f":
            parts = (array[start : start + _ROWS] for start in range(0, len(array), _ROWS))
            if not all((np.abs(part) <= _LARGEST).all() for part in parts):  # false of NaN too
                yield name


def _within(rows: NDArray[Any], size: int) -> bool:
    return not rows.size or (int(rows.min()) >= 0 and int(rows.max()) < size)
