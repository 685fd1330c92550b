"""The files of a generation: their arrays, how they are opened, and what their numbers must obey."""

from __future__ import annotations

import os
import random
import re
from collections import ChainMap, defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.kernels.float16 import blocks
from stratagraph.store import nodes, pool
from stratagraph.store.arrays import SUFFIX, Arrays, NamedArrays, OpenFile, open_arrays
from stratagraph.store.checksums import Check, problem
from stratagraph.store.external import ExternalPool
from stratagraph.store.files import Directory, naming
from stratagraph.store.manifest import Manifest
from stratagraph.store.nodes import INDICES, INDPTR
from stratagraph.store.patches import Patched
from stratagraph.store.pool import Pool, PooledVectors
from stratagraph.store.records import CHUNKS, DOCUMENTS, NODES, Kind, NodeRecord, Records, T
from stratagraph.store.rows import TableRows
from stratagraph.store.segments import segment_order

CHUNK_ARRAYS = "chunks.arrays"
CHUNK_DOCUMENTS = "documents"
"""Name of the array with the number of each chunk's document."""
PARTS = "parts"
NUMBERS = "numbers"
"""Folder of arrays that hold rows or measures (`types.built.Holds`). Those of content are in `PARTS`."""
PATCHES = "patches"
"""Folder of patches, which make the arrays of a part from those of an earlier generation."""
SLOTS = "slots"
VECTOR_SLOTS = "vectors.slots"
"""Name of the array with the slot of each chunk's vector."""

LOOKED_INTO = 32
"""Segments of a folder whose checksums are compared at most, unless everything is compared."""
_LARGEST = 2.0  # vectors are of unit length; the products of much larger values are infinite
_SEGMENT = re.compile(rf"(?:{pool.FOLDER}|(?:{NODES.folder}|corpus)/[^/]+)/[^/]+")


def part_file(part: str, folder: str = PARTS) -> str:
    """Path of a part's arrays in `PARTS` or `NUMBERS`."""
    return f"{folder}/{part}{SUFFIX}"


ArrayGroup = tuple[str, str]
"""A part, and the folder of one of its files of arrays: `PARTS` or `NUMBERS`."""


class Contents:
    """The arrays of a generation: call `take` for each file of the manifest, and then `combine`.

    `known` are files that an earlier snapshot has open, by path, and `opened` those that are open now. After
    `combine`, `parts` has the arrays of each part, `groups` the arrays of each file before patches, and
    `files` the file of each array by part and name.
    """

    def __init__(self, manifest: Manifest, known: Mapping[str, OpenFile] = MappingProxyType({})) -> None:
        self.manifest = manifest
        self.known = known
        self.opened: dict[str, OpenFile] = {}
        self.groups: dict[ArrayGroup, Arrays] = {}
        self.parts: dict[str, Arrays] = {}
        self.files: dict[tuple[str, str], str] = {}

    def take(self, directory: Directory, file: str, descriptor: int) -> None:
        """Open a file; call `combine` after the last one."""
        if file.endswith(SUFFIX):
            arrays = open_arrays(directory, file, descriptor)
            self.opened[file] = OpenFile(arrays, _identity(os.fstat(descriptor)))

    def arrays(self, file: str) -> NamedArrays:
        """The arrays in a file; none if it was not opened."""
        return self.opened[file].arrays if file in self.opened else {}

    def folder(self, folder: str) -> dict[str, NamedArrays]:
        """The arrays of each opened file in a folder, by its name there."""
        named = ((file.rpartition("/"), each) for file, each in self.opened.items())
        return {name: each.arrays for (above, _, name), each in named if above == folder}

    def combine(self) -> Iterator[str]:
        """Combine the arrays of each part; yields problems of patches, each with its file."""
        for part in self.manifest.parts:
            layers: list[Arrays] = []
            for folder in (PARTS, NUMBERS):
                file = part_file(part, folder)
                patch = f"{PATCHES}/{file}"
                if file not in self.opened:
                    if patch in self.opened:
                        yield f"{patch}: there is no {file}"
                    continue
                arrays: Arrays = self.arrays(file)
                self.groups[part, folder] = arrays
                self.files.update({(part, name): file for name in arrays})
                if patch in self.opened:
                    try:
                        arrays = Patched(arrays, self.arrays(patch))
                    except (ValueError, TypeError, LookupError, RecursionError) as error:
                        yield f"{patch}: cannot be applied to {file} ({error})"
                        continue
                    self.files.update({(part, name): patch for name in arrays})
                layers.append(arrays)
            self.parts[part] = ChainMap(*layers)  # type: ignore[arg-type]  # nothing writes to it

    def pool(self, dimension: int, rows: TableRows | None) -> Pool:
        """The vectors; in `rows` if they are in a vector store."""
        segments = self.folder(pool.FOLDER)
        files = sorted(segments, key=segment_order)
        hashes = [segments[file][pool.HASHES] for file in files]
        if rows is not None:
            return ExternalPool(files, hashes, rows)
        return Pool(files, [segments[file][pool.HALVES] for file in files], hashes, dimension)

    def nodes(self, part: str) -> Records[NodeRecord]:
        """The nodes of a part."""
        segments = self.folder(f"{NODES.folder}/{part}")
        return Records(NODES, f"part '{part}'", segments, self.parts[part][NODES.slots])

    def corpus_records(self, path: Path) -> tuple[Path, Records[Any], Records[Any], NDArray[np.int32]]:
        """The arguments of `corpus.Corpus`. `path` is that of the generation."""
        arrays = self.arrays(CHUNK_ARRAYS)
        chunks, documents = (
            Records(kind, str(path / kind.folder), self.folder(kind.folder), arrays[kind.slots])
            for kind in _CORPUS
        )
        return path, chunks, documents, arrays[CHUNK_DOCUMENTS]


_CORPUS: tuple[Kind[Any], ...] = (CHUNKS, DOCUMENTS)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def open_contents(
    directory: Directory,
    manifest: Manifest,
    check: Check,
    known: Mapping[str, OpenFile] = MappingProxyType({}),
) -> Contents:
    """Check the files of a generation to the extent of `check`, and open their arrays.

    Files in `known` (by path) were checked when an earlier snapshot opened them. `FileNotFoundError` if a
    file is missing, `Damaged` if one is not as it was written or holds impossible numbers.
    """
    contents = Contents(manifest, {} if check == "full" else known)
    looked_into = set(manifest.files)
    if check != "full":  # of the many segments of a folder, a random sample
        folders: defaultdict[str, list[str]] = defaultdict(list)
        for file in manifest.files:
            if _SEGMENT.fullmatch(file):
                folders[file.rpartition("/")[0]].append(file)
        for within in folders.values():
            looked_into.difference_update(random.sample(within, max(0, len(within) - LOOKED_INTO)))
    for file, entry in manifest.files.items():
        if file in contents.known:  # and still the file that an earlier snapshot has open
            with directory.holding(file) as (holder, name):
                status = holder.status(name)
            if status is not None and _identity(status) == contents.known[file].identity:
                contents.opened[file] = contents.known[file]
                continue
        with naming(directory.path, file), directory.reader(file) as opened:  # a mapping holds a descriptor
            if wrong := problem(opened.fileno(), entry, check if file in looked_into else None):
                raise Damaged(f"{directory.path / file}: {wrong}")
            contents.take(directory, file, opened.fileno())
    for wrong in chain(contents.combine(), meanings(contents, manifest)):
        raise Damaged(f"{directory.path / wrong}")
    return contents


def meanings(contents: Contents, manifest: Manifest) -> Iterator[str]:
    """Problems of the arrays that the store itself reads, each with its file first."""
    for file in filter(_SEGMENT.fullmatch, manifest.files):
        try:
            segment_order(file.rpartition("/")[2])
        except ValueError as error:
            yield f"{file}: {error}"
    corpus = contents.arrays(CHUNK_ARRAYS)
    yield from _vectors(contents, manifest, corpus)
    for kind, count in zip(_CORPUS, (manifest.chunks, manifest.documents), strict=True):
        yield from _records(contents, kind, kind.folder, corpus.get(kind.slots), count, CHUNK_ARRAYS)
    if not _are_rows(corpus.get(CHUNK_DOCUMENTS), np.int32, manifest.chunks, manifest.documents):
        yield f"{CHUNK_ARRAYS}: does not give each chunk one of {manifest.documents} documents"
    for part, count in manifest.nodes.items():
        arrays = contents.parts[part]
        file = contents.files.get((part, NODES.slots), part_file(part, NUMBERS))
        slots = arrays.get(NODES.slots)
        yield from _records(contents, NODES, f"{NODES.folder}/{part}", slots, count, file)
        for name in (nodes.KEYS, nodes.HASHES):
            array = arrays.get(name)
            if array is None or array.dtype != np.uint64 or array.shape != (count,):
                yield f"{contents.files.get((part, name), part_file(part))}: holds no {name} of {count} nodes"
        yield from _sources(contents, part, count, manifest.chunks)


def _records(
    contents: Contents,
    kind: Kind[T],
    folder: str,
    slots: NDArray[Any] | None,
    count: int,
    file: str,
) -> Iterator[str]:
    """Problems of segments of records, and of the slots that point into them, which are in `file`."""
    segments = contents.folder(folder)
    for name, arrays in segments.items():
        if wrong := kind.misfit(arrays):
            yield f"{folder}/{name}: {wrong}"
    records = sum(len(arrays.get("lengths", ())) for arrays in segments.values())
    if not _are_rows(slots, np.uint32, count, records):
        yield f"{file}: does not say which of {records} records its {count} {kind.noun}s are"


def _vectors(contents: Contents, manifest: Manifest, corpus: NamedArrays) -> Iterator[str]:
    """Problems of segments of vectors, and of the slots that point into them."""
    segments = contents.folder(pool.FOLDER)
    for file, arrays in segments.items():
        halves, hashes = arrays.get(pool.HALVES), arrays.get(pool.HASHES)
        if manifest.vectors:
            if hashes is None or hashes.dtype != np.uint64 or hashes.ndim != 1 or halves is not None:
                yield f"{pool.FOLDER}/{file}: does not hold hashes of vectors, and nothing else"
        elif halves is None or halves.dtype != np.float16 or halves.shape[1:] != (manifest.dimension,):
            yield f"{pool.FOLDER}/{file}: holds no vectors of {manifest.dimension} float16"
        elif hashes is None or hashes.dtype != np.uint64 or hashes.shape != halves.shape[:1]:
            yield f"{pool.FOLDER}/{file}: does not have as many hashes as vectors"
    count = sum(len(arrays.get(pool.HASHES, ())) for arrays in segments.values())
    if not _are_rows(corpus.get(VECTOR_SLOTS), np.uint32, manifest.chunks, count):
        yield f"{CHUNK_ARRAYS}: does not give each chunk one of {count} vectors"
    for file, slots in contents.folder(SLOTS).items():
        for name, array in slots.items():
            if not _are_rows(array, np.uint32, None, count):
                yield f"{SLOTS}/{file}: {name} points at vectors beyond the {count} that exist"


def _sources(contents: Contents, part: str, count: int, chunks: int) -> Iterator[str]:
    arrays = contents.parts[part]
    if INDPTR not in arrays or INDICES not in arrays:
        yield f"{part_file(part)}: holds no sources of its nodes"
        return
    indptr, indices = arrays[INDPTR], arrays[INDICES]
    if (
        indptr.shape != (count + 1,)
        or indptr.dtype != np.int64
        or int(indptr[0]) != 0
        or indices.shape != (int(indptr[-1]),)
        or (indptr[1:] < indptr[:-1]).any()  # a difference may overflow
    ):
        yield f"{contents.files[part, INDPTR]}: does not divide the sources among {count} nodes"
    if indices.dtype not in (np.int32, np.int64) or not _within(indices, chunks):
        yield f"{contents.files[part, INDICES]}: points at chunks beyond the {chunks} that exist"


def are_infinite(vectors: NDArray[np.floating] | PooledVectors) -> bool:
    """Whether vectors have values that no unit vector has."""
    return not all((np.abs(block) <= _LARGEST).all() for _, block in blocks(vectors))  # false of NaN too


def _are_rows(array: NDArray[Any] | None, dtype: Any, length: int | None, size: int) -> bool:
    """Whether an array is of this type and length (None: any), and holds numbers below `size`."""
    if array is None or array.dtype != dtype or array.ndim != 1:
        return False
    return (length is None or len(array) == length) and _within(array, size)


def _within(rows: NDArray[Any], size: int) -> bool:
    return not rows.size or (int(rows.min()) >= 0 and int(rows.max()) < size)
