"""Finds the rows of a graph that did not change since the previous generation. Reads arrays, and no nodes.

Methods ask here which of their groups consist of unchanged rows alone (`recognised`). Such groups keep their
nodes, texts and vectors, and their members are not read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import VECTORS, Keys, Labels
from stratagraph.kernels.ranges import ranges
from stratagraph.types.protocols import Rows, Stored, Vectors

_STEP, _FIRST, _SECOND = (
    np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class Before:
    """The previous graph, whose rows are found by the keys of ids.

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
        return len(self.stored.arrays["sources.indptr"]) - 1

    @cached_property
    def origin(self) -> Rows:
        """The previous row of the node with the same id, or -1, shape (rows,)."""
        return self.stored.find(self._now.keys)

    @cached_property
    def now(self) -> Rows:
        """The present row of each previous node, or -1, shape (size,)."""
        rows = np.full(self.size, -1, np.int64)
        rows[self.origin[self.origin >= 0]] = np.flatnonzero(self.origin >= 0)
        return rows

    @cached_property
    def same(self) -> NDArray[np.bool_]:
        """Whether a node existed with the same content and sources, shape (rows,)."""
        unchanged = np.zeros(len(self.origin), np.bool_)
        rows = np.flatnonzero((self.origin >= 0) & ~self.rewritten)
        now = _sums_of_sources(
            self._now, rows, lambda chunks: mixed(self.chunks[chunks])
        )  # a new chunk is -1
        unchanged[rows] = now == _sums_of_sources(self.stored, self.origin[rows], mixed)
        return unchanged

    @cached_property
    def rewritten(self) -> NDArray[np.bool_]:
        """Whether a node existed with other content, shape (rows,)."""
        changed = np.zeros(len(self.origin), np.bool_)
        rows = np.flatnonzero(self.origin >= 0)
        changed[rows] = self._now.hashes[rows] != self.stored.hashes[self.origin[rows]]
        return changed

    @cached_property
    def alike(self) -> NDArray[np.bool_]:
        """Whether the vector of an entity is that of the previous node with its id, shape (entities,)."""
        now, before = self._now.arrays[VECTORS], self.stored.arrays.get(VECTORS)
        equal = self.origin[: len(now)] >= 0
        if before is None:
            return np.zeros(len(now), np.bool_)
        rows = np.flatnonzero(equal)
        equal[rows] = alike(now, rows, before, self.origin[rows])
        return equal

    @cached_property
    def _chunks_now(self) -> Rows:
        """The present row of each previous chunk up to the last that is left, or -1."""
        now = np.full(int(self.chunks.max(initial=-1)) + 1, -1, np.int64)
        now[self.chunks[self.chunks >= 0]] = np.flatnonzero(self.chunks >= 0)
        return now

    def sources(self, stored: Stored, rows: Rows) -> tuple[Rows, Rows]:
        """The chunks of unchanged previous nodes, as borders and present rows."""
        indptr, indices = stored.arrays["sources.indptr"], stored.arrays["sources.indices"]
        sizes = indptr[rows + 1] - indptr[rows]
        chunks = self._chunks_now[indices[ranges(indptr[rows], sizes)]]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), chunks


def alike(now: Vectors, rows: Rows, before: Vectors, places: Rows) -> NDArray[np.bool_]:
    """Whether vectors at some rows equal those at some places of a previous array.

    Arrays of a folder compare slots; others are compared value by value.
    """
    compare = getattr(now, "alike", None)
    if compare is not None:
        return np.asarray(compare(rows, before, places))
    same: NDArray[np.bool_] = (np.asarray(now)[rows] == np.asarray(before)[places]).all(axis=1)
    return same


def _sums_of_sources(stored: Stored, rows: Rows, of_chunk: Callable[[Rows], Keys]) -> Keys:
    """For each node, the sum of `of_chunk` over its chunks."""
    indptr, indices = stored.arrays["sources.indptr"], stored.arrays["sources.indices"]
    sizes = indptr[rows + 1] - indptr[rows]
    values = of_chunk(indices[ranges(indptr[rows], sizes)])
    return list_sums(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), values)


def carried_keys(keys_before: Keys, origin: Rows, new_keys: Callable[[list[int]], Keys]) -> Keys:
    """Keys of rows: `keys_before[origin]` of rows with a previous one, and `new_keys(rows)` of the others."""
    keys = np.zeros(len(origin), np.uint64)
    is_carried = origin >= 0
    keys[is_carried] = keys_before[origin[is_carried]]
    new = np.flatnonzero(~is_carried)
    keys[new] = new_keys(new.tolist())
    return keys


def mixed(numbers: NDArray[np.integer]) -> Keys:
    """64 bits for each number, whose sums identify sets (the finaliser of splitmix64)."""
    bits = (numbers.astype(np.uint64) + np.uint64(2)) * _STEP  # so that -1 does not give 0
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


def list_sums(indptr: Rows, values: Keys) -> Keys:
    """The sum of the values of each list, where list i is `values[indptr[i]:indptr[i + 1]]`."""
    totals = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=totals[1:])
    return totals[indptr[1:]] - totals[indptr[:-1]]


def label_sums(labels: Labels, values: Keys, count: int) -> Keys:
    """The sum of the values under each label from 0 to `count - 1`; label -1 is left out."""
    sums = np.zeros(count, np.uint64)
    is_labelled = labels >= 0
    np.add.at(sums, labels[is_labelled], values[is_labelled])
    return sums


def recognised(labels: Labels, origin: Rows, same: NDArray[np.bool_], before: Labels, count: int) -> Rows:
    """The previous group with the same, unchanged members as each group, or -1, shape (count,).

    Parameters
    ----------
    labels
        The group of each member, from 0 to `count - 1`, or -1, shape (members,); no group is empty.
    origin, same
        The previous row of each member, or -1, and whether the member is unchanged.
    before
        The previous group of each previous row, or -1.
    """
    groups, whole = np.full(count, -1, np.int64), np.ones(count, np.bool_)
    whole[labels[(labels >= 0) & ~same]] = False
    stays = same & (labels >= 0)
    rows = origin[stays]
    groups[labels[stays]] = before[rows]
    whole &= groups >= 0
    sums = label_sums(labels[stays], mixed(rows), count)
    were = label_sums(before, mixed(np.arange(len(before))), int(before.max(initial=-1)) + 1)
    whole[whole] = sums[whole] == were[groups[whole]]
    return np.where(whole, groups, -1)


def recognised_lists(
    lists: tuple[Rows, Rows],
    origin: Rows,
    same: NDArray[np.bool_],
    candidates: Rows,
    before: tuple[Rows, NDArray[np.integer]],
) -> Rows:
    """The previous list with the same, unchanged members as each list, or -1, shape (lists,).

    Parameters
    ----------
    lists, before
        Members of each list, as borders and rows: present rows, and previous ones.
    origin, same
        The previous row of each row, or -1, and whether it is unchanged.
    candidates
        The only previous list that each may equal, or -1.
    """
    indptr, indices = lists
    changed = list_sums(indptr, (~same[indices]).astype(np.uint64)) > 0
    sums, were = list_sums(indptr, mixed(origin[indices])), list_sums(before[0], mixed(before[1]))
    whole = (candidates >= 0) & ~changed
    whole[whole] = sums[whole] == were[candidates[whole]]
    return np.where(whole, candidates, -1)
