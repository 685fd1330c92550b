"""Vectors stored as float16 in several arrays, and other vectors that are read in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels import _native

Matrix = NDArray[np.float32]
Rows = NDArray[np.int64]
Scores = NDArray[np.float32]

BLOCK = 4096
"""Vectors per block."""
_PAIRS = 1024  # pairs whose vectors fit into a cache


class HalfVectors:
    """Vectors of 16-bit floats in segments; a slot is a row counted through all segments.

    Every method raises a `ValueError` if a slot is out of range or shapes do not fit.

    Parameters
    ----------
    segments
        Bits of the vectors, each array of shape (n, dimension), contiguous; may be memory-mapped.
    """

    def __init__(self, segments: Sequence[NDArray[np.uint16]], dimension: int) -> None:
        self._dimension = dimension
        self._native = _native.HalfVectors([each for each in segments if len(each)], dimension)

    def rows(self, slots: Rows, out: Matrix | None = None) -> Matrix:
        """Some vectors in float32, shape (slots, dimension), in the first rows of `out` if it is given."""
        vectors = np.empty((len(slots), self._dimension), np.float32) if out is None else out[: len(slots)]
        self._native.rows(slots, vectors)
        return vectors

    def products(self, query: Matrix, slots: Rows) -> Scores:
        """Inner products of a query of shape (dimension,) with some vectors."""
        scores = np.empty(len(slots), np.float32)
        self._native.products(np.ascontiguousarray(query, np.float32), slots, scores)
        return scores

    def pair_products(self, one: Rows, two: Rows) -> Scores:
        """Inner products of the vectors at some slots with those at as many others."""
        scores = np.empty(len(one), np.float32)
        self._native.pair_products(one, two, scores)
        return scores


@runtime_checkable
class StoredVectors(Protocol):
    """Vectors that are not one array of float32."""

    def blocks(self, size: int) -> Iterator[tuple[int, Matrix]]:
        """The first row of each block and the block, which is valid until the next."""
        ...

    def pair_products(self, one: Rows, two: Rows) -> Scores:
        """Inner products of some rows with as many others."""
        ...


def blocks(vectors: Matrix | StoredVectors, size: int = BLOCK) -> Iterator[tuple[int, Matrix]]:
    """The first row of each block of vectors and the block in float32, which is valid until the next."""
    if isinstance(vectors, StoredVectors):
        yield from vectors.blocks(size)
        return
    for start in range(0, len(vectors), size):
        yield start, np.asarray(vectors[start : start + size], np.float32)


def pair_products(vectors: Matrix | StoredVectors, one: Rows, two: Rows) -> Scores:
    """Inner products of some rows of vectors with as many others, shape (pairs,)."""
    return (
        vectors.pair_products(one, two)
        if isinstance(vectors, StoredVectors)
        else _multiplied(vectors, one, two)
    )


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """Vectors of several arrays as one, without a copy."""
    return cast(Matrix, Stacked(parts))


def chosen(vectors: Matrix, rows: Rows) -> Matrix:
    """Some rows of vectors, which are read when they are asked for."""
    return cast(Matrix, Chosen(vectors, rows))


def nonzero_rows(vectors: Matrix | StoredVectors) -> Rows:
    """The rows that are not zero, ascending."""
    rows = [start + np.flatnonzero(np.any(block, axis=1)) for start, block in blocks(vectors)]
    return np.concatenate([np.zeros(0, np.int64), *rows])


def _multiplied(vectors: Matrix, one: Rows, two: Rows) -> Scores:
    scores = np.empty(len(one), np.float32)
    for start in range(0, len(one), _PAIRS):
        some = slice(start, start + _PAIRS)
        scores[some] = np.einsum("ij,ij->i", vectors[one[some]], vectors[two[some]])
    return scores


class _Gathered:
    """Rows that are read when they are asked for; it passes for an array of float32."""

    ndim = 2
    dtype = np.dtype(np.float32)
    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Matrix:
        if isinstance(rows, tuple):
            columns: Matrix = self[rows[0]][(..., *rows[1:])]
            return columns
        wanted = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        return self._read(np.flatnonzero(wanted) if wanted.dtype == np.bool_ else wanted)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        vectors = np.empty(self.shape, np.float32)
        for start, block in self.blocks(BLOCK):
            vectors[start : start + len(block)] = block
        return vectors if dtype is None else vectors.astype(dtype, copy=False)

    def blocks(self, size: int) -> Iterator[tuple[int, Matrix]]:
        """The first row of each block and the block, which is valid until the next."""
        for start in range(0, len(self), size):
            yield start, self[start : start + size]

    def _read(self, rows: Rows) -> Matrix:
        raise NotImplementedError


class Stacked(_Gathered):
    """Vectors of several arrays, one after the other, of which some may be `StoredVectors`."""

    def __init__(self, parts: Sequence[Matrix]) -> None:
        self._parts = parts
        self._starts = np.cumsum([0, *map(len, parts)])
        self.shape = (int(self._starts[-1]), int(parts[0].shape[1]))

    def _read(self, rows: Rows) -> Matrix:
        of = np.searchsorted(self._starts, rows, "right") - 1
        vectors = np.empty((*rows.shape, self.shape[1]), np.float32)
        for number, part in enumerate(self._parts):
            here = of == number
            if here.any():
                vectors[here] = part[rows[here] - self._starts[number]]
        return vectors

    def blocks(self, size: int) -> Iterator[tuple[int, Matrix]]:
        """The first row of each block and the block, which is valid until the next."""
        for begin, part in zip(self._starts.tolist(), self._parts, strict=False):
            for start, block in blocks(part, size):
                yield begin + start, block

    def pair_products(self, one: Rows, two: Rows) -> Scores:
        """Inner products of some rows with as many others; each of them is read once."""
        wanted = np.zeros(len(self), np.bool_)
        wanted[one] = wanted[two] = True
        places = np.cumsum(wanted) - 1
        return _multiplied(self[np.flatnonzero(wanted)], places[one], places[two])


class Chosen(_Gathered):
    """Some rows of vectors, in order."""

    def __init__(self, vectors: Matrix, rows: Rows) -> None:
        self._vectors = vectors
        self._rows = rows
        self.shape = (len(rows), int(vectors.shape[1]))

    def _read(self, rows: Rows) -> Matrix:
        return np.asarray(self._vectors[self._rows[rows]], np.float32)

    def pair_products(self, one: Rows, two: Rows) -> Scores:
        """Inner products of some rows with as many others."""
        return pair_products(self._vectors, self._rows[one], self._rows[two])
