"""The files of a generation: which arrays are in them, opening them, and what their numbers must obey."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.errors import Damaged
from stratarag.store.arrays import SUFFIX, Arrays, open_arrays, open_npy
from stratarag.store.checksums import Check, problem
from stratarag.store.files import Directory
from stratarag.store.layout import CORPUS
from stratarag.store.manifest import Manifest
from stratarag.store.view import INDICES, INDPTR

CHUNK_ARRAYS = "chunks.arrays"
DOCUMENTS = "documents"
"""Name of the array with the place of each chunk's document in the sorted document ids."""
VECTOR_ARRAYS = "vectors.arrays"
VECTORS = "vectors"
PARTS = "parts"

_ROWS = 1 << 16  # vectors looked at at a time
_LARGEST = 2.0  # vectors are of unit length; the products of much larger values are infinite
_PART = re.compile(rf"{PARTS}/([^/]+){re.escape(SUFFIX)}")
# The first format had a file for each array.
_NPY_PART = re.compile(r"arrays/methods/([^/]+)/([^/]+)\.npy")
_NPY_CORPUS = {"arrays/vectors.npy": VECTORS, "arrays/chunk_documents.npy": DOCUMENTS}


def part_file(part: str) -> str:
    """Path of a part's arrays in its generation."""
    return f"{PARTS}/{part}{SUFFIX}"


@dataclass
class Contents:
    """The arrays of a generation, by name: of the corpus, and of each part; and the file of each."""

    corpus: dict[str, NDArray[Any]] = field(default_factory=dict)
    parts: defaultdict[str, dict[str, NDArray[Any]]] = field(default_factory=lambda: defaultdict(dict))
    files: dict[tuple[str | None, str], str] = field(default_factory=dict)

    def take(self, directory: Directory, file: str, descriptor: int) -> None:
        """Open the arrays in a file of the generation."""
        part: str | None = None
        if found := _NPY_PART.fullmatch(file):
            part, name = found.groups()
            arrays = {name: open_npy(directory, file, descriptor)}
        elif file in _NPY_CORPUS:
            arrays = {_NPY_CORPUS[file]: open_npy(directory, file, descriptor)}
        elif file.endswith(SUFFIX):
            arrays = open_arrays(directory, file, descriptor)
            part = found[1] if (found := _PART.fullmatch(file)) else None
        else:
            return
        (self.corpus if part is None else self.parts[part]).update(arrays)
        self.files.update({(part, name): file for name in arrays})


@contextmanager
def opened(directory: Directory, file: str) -> Iterator[int]:
    """The descriptor of a file of a generation, by its path in it."""
    with directory.holding(file) as (holder, name):
        descriptor = holder.descriptor(name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_contents(directory: Directory, manifest: Manifest, check: Check) -> Contents:
    """Check the files of a generation as far as `check` says, and open their arrays.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    Damaged
        If one is not as it was written, or holds numbers that cannot be.
    """
    contents = Contents()
    if CORPUS not in manifest.files:
        raise Damaged(f"{directory.path}: the manifest names no {CORPUS}")
    for file, entry in manifest.files.items():
        with opened(directory, file) as descriptor:
            if wrong := problem(descriptor, entry, check):
                raise Damaged(f"{directory.path / file}: {wrong}")
            contents.take(directory, file, descriptor)
    for wrong in meanings(contents, manifest):
        raise Damaged(f"{directory.path / wrong}")
    return contents


def meanings(contents: Contents, manifest: Manifest) -> Iterator[str]:
    """What is wrong with the arrays that the store itself reads, each with its file's name first."""
    yield from _corpus(contents, manifest)
    for name, nodes in manifest.nodes.items():
        yield from _sources(contents, name, nodes, manifest.chunks)


def _corpus(contents: Contents, manifest: Manifest) -> Iterator[str]:
    vectors, documents = contents.corpus.get(VECTORS), contents.corpus.get(DOCUMENTS)
    shape = (manifest.chunks, manifest.dimension)
    if vectors is None:
        yield f"{VECTOR_ARRAYS}: holds no {VECTORS}"
    elif vectors.shape != shape or vectors.dtype != np.float32:
        file = contents.files[None, VECTORS]
        yield f"{file}: shape {vectors.shape} of {vectors.dtype}, not {shape} of float32"
    if documents is None:
        yield f"{CHUNK_ARRAYS}: holds no {DOCUMENTS}"
    elif (
        documents.shape != shape[:1]
        or documents.dtype != np.int32
        or not _within(documents, manifest.documents)
    ):
        file = contents.files[None, DOCUMENTS]
        yield f"{file}: does not give each chunk one of {manifest.documents} documents"


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
    """Names of arrays of vectors that hold something else than numbers, or what no unit vector holds."""
    for name, array in arrays.items():
        if name.endswith(VECTORS) and array.dtype.kind == "f" and not _finite(array):
            yield name


def _finite(array: NDArray[Any]) -> bool:
    parts = (array[start : start + _ROWS] for start in range(0, len(array), _ROWS))
    return all(bool((np.abs(part) <= _LARGEST).all()) for part in parts)  # false of NaN too


def _within(rows: NDArray[Any], size: int) -> bool:
    return not rows.size or (int(rows.min()) >= 0 and int(rows.max()) < size)
