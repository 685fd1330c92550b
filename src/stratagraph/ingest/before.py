"""The previous generation's graph, found by the keys of ids. Reads arrays, and no nodes."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import VECTORS
from stratagraph.kernels.ranges import borders, ranges
from stratagraph.types.protocols import Rows, Stored, Vectors


class Before:
    """The previous graph, by the rows of the present one.

    Parameters
    ----------
    previous, stored
        The previous graph, which is the attribute `stored`, and the present one.
    chunks
        The previous row of each chunk, or -1.
    """

    def __init__(self, previous: Stored, stored: Stored, chunks: Rows) -> None:
        self.stored, self.chunks, self._now = previous, chunks, stored

    @property
    def size(self) -> int:
        """How many rows the previous graph has."""
        return len(self.stored.keys)

    @cached_property
    def rows_before(self) -> Rows:
        """The previous row of the node with the same id, or -1, shape (rows,)."""
        return self.stored.find(self._now.keys)

    @cached_property
    def now(self) -> Rows:
        """The present row of each previous node, or -1, shape (size,)."""
        rows = np.full(self.size, -1, np.int64)
        rows[self.rows_before[self.rows_before >= 0]] = np.flatnonzero(self.rows_before >= 0)
        return rows

    @cached_property
    def alike(self) -> NDArray[np.bool_]:
        """Whether the vector of an entity is that of the previous node with its id, shape (entities,)."""
        return self.alike_from(VECTORS, 0, 0)

    def alike_from(self, array: str, first: int, first_before: int) -> NDArray[np.bool_]:
        """The same for any array of vectors, which belong to the rows from `first`, before `first_before`."""
        now, before = self._now.arrays[array], self.stored.arrays.get(array)
        if before is None:
            return np.zeros(len(now), np.bool_)
        rows_before = self.rows_before[first : first + len(now)] - first_before
        equal = rows_before >= 0
        rows = np.flatnonzero(equal)
        equal[rows] = alike(now, rows, before, rows_before[rows])
        return equal

    def sources(self, stored: Stored, rows: Rows) -> tuple[Rows, Rows]:
        """The chunks of unchanged previous nodes, as borders and present rows."""
        indptr, indices = stored.arrays["sources.indptr"], stored.arrays["sources.indices"]
        sizes = indptr[rows + 1] - indptr[rows]
        now = np.full(int(self.chunks.max(initial=-1)) + 1, -1, np.int64)
        now[self.chunks[self.chunks >= 0]] = np.flatnonzero(self.chunks >= 0)
        return borders(sizes), now[indices[ranges(indptr[rows], sizes)]]


def alike(now: Vectors, rows: Rows, before: Vectors, places: Rows) -> NDArray[np.bool_]:
    """Whether vectors at some rows equal those at some places of a previous array.

    Arrays of a folder compare slots; others are compared value by value.
    """
    compare = getattr(now, "alike", None)
    if compare is not None:
        return np.asarray(compare(rows, before, places))
    same: NDArray[np.bool_] = (np.asarray(now)[rows] == np.asarray(before)[places]).all(axis=1)
    return same
