"""Runs of integers, distinct values, sorting and splitting, faster than numpy's; rows of several tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

_SHORT = 1024  # numbers up to which numpy sorts faster than a table is made
_CROWDED = 8  # keys of equal first bits that are tried before a bisection
T = TypeVar("T")
Scalar = TypeVar("Scalar", bound=np.generic)
Rows = NDArray[np.int64]


def ranges(starts: NDArray[np.integer], counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """The integers `starts[i] ... starts[i] + counts[i] - 1` for every i, shape (sum of counts,)."""
    ends = np.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if ends.size else 0
    numbers: NDArray[np.int64] = np.arange(total) + np.repeat(starts - ends + counts, counts)
    return numbers


def distinct(values: NDArray[Scalar]) -> NDArray[Scalar]:
    """As `numpy.unique` of a flat array, whose hash table takes ten times as long as sorting."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def among(values: NDArray[Scalar], ascending: NDArray[Scalar]) -> NDArray[np.bool_]:
    """As `numpy.isin` for values that are compared with ascending ones, without sorting or hashing both."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    places = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    present: NDArray[np.bool_] = ascending[places] == values
    return present


class KeyTable:
    """Finds places among strictly ascending keys.

    Keys are hashes, so their first bits tell about where they lie: a fifth of the time of a bisection.
    """

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        bits = max(len(keys).bit_length(), 1)
        self._shift = np.uint64(64 - bits)
        self._starts = borders(np.bincount((keys >> self._shift).astype(np.int64), minlength=1 << bits))
        self._padded = np.append(keys, ~np.uint64(0))

    def find(self, wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The place of each wanted key, or -1, shape (wanted,)."""
        keys, at = self._padded, self._starts[(wanted >> self._shift).astype(np.int64)]
        behind = np.flatnonzero(keys[at] < wanted)
        for _ in range(_CROWDED):
            at[behind] += 1
            behind = behind[keys[at[behind]] < wanted[behind]]
        at[behind] = np.searchsorted(keys, wanted[behind])
        return np.where((keys[at] == wanted) & (at < len(keys) - 1), at, -1)


def find(keys: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The place of each wanted key among strictly ascending ones, or -1, shape (wanted,)."""
    return KeyTable(keys).find(wanted)


def firsts(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """The rows of a sorted table that differ from the row before."""
    fresh = np.ones(len(columns[0]), np.bool_)
    fresh[1:] = False
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(fresh)


def borders(sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """The borders of consecutive parts of these sizes, shape (parts + 1,)."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def order(values: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """As a stable `numpy.argsort` of numbers from 0 to `count - 1`, by counting: many times as fast."""
    if len(values) < _SHORT:
        return np.argsort(values, kind="stable")
    entries = np.zeros(len(values), np.bool_), values, np.arange(len(values) + 1)
    places: NDArray[np.integer] = csr_array(entries, shape=(len(values), count)).tocsc().indices
    return places.astype(np.int64, copy=False)


def split(flat: NDArray[Scalar], sizes: NDArray[np.integer] | Sequence[int]) -> list[NDArray[Scalar]]:
    """Consecutive parts of these sizes, as views; `numpy.split` takes four times as long for many."""
    borders = np.cumsum(sizes).tolist()
    return [flat[start:end] for start, end in zip([0, *borders], borders, strict=False)]


def by_label(labels: NDArray[np.integer], count: int = 0) -> list[NDArray[np.int64]]:
    """The ascending places of each label from 0 on, of `count` labels at least; those of -1 are left out."""
    labelled = np.flatnonzero(labels >= 0)
    sizes = np.bincount(labels[labelled], minlength=count)
    return split(labelled[order(labels[labelled], len(sizes))], sizes)


class Parts:
    """The first row of each table and the number of all rows: `starts`, shape (tables + 1,)."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.starts: Rows = np.cumsum([0, *sizes], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def size(self) -> int:
        """Rows of all tables."""
        return int(self.starts[-1])

    def of(self, part: int) -> slice:
        """The rows of a table."""
        return slice(int(self.starts[part]), int(self.starts[part + 1]))

    def split(self, rows: Sequence[int] | Rows) -> Iterator[tuple[int, NDArray[np.intp], Rows]]:
        """Each table that has some of the rows, their places in `rows`, and their numbers in the table.

        Raises
        ------
        IndexError
            If a row is in no table.
        """
        wanted = np.asarray(rows, np.int64)
        if len(wanted) and not (wanted.min() >= 0 and wanted.max() < self.size):
            raise IndexError(f"rows are 0 to {self.size - 1}, not {wanted.min()} to {wanted.max()}")
        owners = np.searchsorted(self.starts, wanted, "right") - 1
        for part in np.unique(owners).tolist():
            places = np.flatnonzero(owners == part)
            yield part, places, wanted[places] - self.starts[part]

    def read(self, rows: Sequence[int] | Rows, reader: Callable[[int, list[int]], Sequence[T]]) -> list[T]:
        """The values of rows, in their order; `reader(table, rows of the table)` gives those of one table."""
        values: dict[int, T] = {}
        for part, places, own in self.split(rows):
            values.update(zip(places.tolist(), reader(part, own.tolist()), strict=True))
        return [values[place] for place in range(len(values))]
