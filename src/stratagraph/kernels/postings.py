"""Postings: for each key, ascending, the rows that hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.ranges import ranges

Keys = NDArray[np.uint64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Postings:
    """The rows of key i are `rows[starts[i]:starts[i + 1]]`, ascending, with a value each; keys ascend."""

    keys: Keys
    starts: NDArray[np.integer]
    rows: NDArray[np.integer]
    values: NDArray[Any]

    @classmethod
    def of(cls, keys: Keys, rows: NDArray[np.integer], values: NDArray[Any]) -> Postings:
        """From a key, a row and a value for each posting, in any order, without repeated pairs."""
        order = np.lexsort((rows, keys))
        return cls._ordered(keys[order], np.asarray(rows)[order], values[order])

    @classmethod
    def _ordered(cls, keys: Keys, rows: NDArray[np.integer], values: NDArray[Any]) -> Postings:
        firsts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)])
        starts = np.append(firsts, len(keys)).astype(np.int64)
        return cls(keys[firsts], starts, rows, values)

    def places(self, keys: Keys) -> Rows:
        """The place of each key, or -1."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == keys, at, -1).astype(np.int64)

    def at(self, place: int) -> slice:
        """The postings of the key at a place."""
        return slice(int(self.starts[place]), int(self.starts[place + 1]))

    def sums(self, keys: Keys) -> Rows:
        """The sum of the values of each key, 0 for unknown keys."""
        places = self.places(keys)
        known = places[places >= 0]
        starts = np.asarray(self.starts[known], np.int64)
        sizes = self.starts[known + 1] - starts
        totals = np.concatenate([[0], np.cumsum(self.values[ranges(starts, sizes)], dtype=np.int64)])
        ends = np.cumsum(sizes)
        found = np.zeros(len(keys), np.int64)
        found[places >= 0] = totals[ends] - totals[ends - sizes]
        return found

    def updated(self, rows: Rows, fresh: Postings, size: int) -> Postings:
        """The postings after an update.

        `rows` gives the new number of each previous row, or -1 if it was deleted; `fresh` are the postings of
        new rows; `size` is the number of rows.
        """
        moved = rows[self.rows]
        stays = moved >= 0
        new = fresh.keys[self.places(fresh.keys) < 0]
        keys = np.insert(self.keys, np.searchsorted(self.keys, new), new)
        own = np.arange(len(self.keys)) + np.searchsorted(new, self.keys)
        numbers = np.concatenate([self._each(own)[stays], fresh._each(np.searchsorted(keys, fresh.keys))])
        found = np.concatenate([moved[stays], fresh.rows])
        # One number for key and row: two sorted runs, which a stable sort merges in linear time.
        order = np.argsort(numbers * size + found, kind="stable")
        values = np.concatenate([self.values[stays], fresh.values])
        return self._ordered(keys[numbers[order]], found[order], values[order])

    def _each(self, numbers: Rows) -> Rows:
        """A number for each posting, from one for each key."""
        return np.repeat(numbers, np.diff(self.starts)).astype(np.int64)
