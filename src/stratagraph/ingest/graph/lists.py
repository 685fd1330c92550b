"""Lists of many rows as two arrays, and texts that rows state in order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import Keys
from stratagraph.ingest.marks import Marks, combined, list_sums
from stratagraph.kernels.ranges import among, borders, distinct, firsts, ranges
from stratagraph.types.protocols import Rows

T = TypeVar("T")
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Lists(NamedTuple):
    """List i is `values[starts[i]:starts[i + 1]]`."""

    starts: Rows
    values: NDArray[Any]

    @classmethod
    def of(cls, owners: Rows, values: NDArray[Any], count: int) -> Lists:
        """From values whose owners ascend."""
        return cls(borders(np.bincount(owners, minlength=count)), values)

    @classmethod
    def of_distinct(cls, owners: Rows, values: Rows, count: int) -> Lists:
        """The distinct values of each owner, ascending."""
        span = int(values.max(initial=0)) + 1
        pairs = distinct(owners.astype(np.int64) * span + values)
        return cls.of(pairs // span, pairs % span, count)

    def split(self, values: Iterable[T]) -> list[tuple[T, ...]]:
        """Tuples of other values in the place of these."""
        items, starts = tuple(values), self.starts.tolist()
        return [items[start:end] for start, end in pairwise(starts)]

    @property
    def owners(self) -> Rows:
        """The list of each value."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def places(self) -> Rows:
        """The place of each value in its list."""
        return np.arange(len(self.values)) - np.repeat(self.starts[:-1], np.diff(self.starts))

    def at(self, rows: Rows) -> Lists:
        """Some of the lists."""
        sizes = self.starts[rows + 1] - self.starts[rows]
        return Lists(borders(sizes), self.values[ranges(self.starts[rows], sizes)])


class GroupedTexts(NamedTuple):
    """Texts of each row in order, each once: their keys, and the chunks that state them first."""

    texts: Lists
    chunks: Rows

    @classmethod
    def of(cls, owners: Rows, texts: Keys, chunks: Rows, count: int) -> GroupedTexts:
        """From texts whose owners ascend."""
        first = first_of_each(owners, texts)
        return cls(Lists.of(owners[first], texts[first], count), chunks[first])

    def at(self, rows: Rows) -> GroupedTexts:
        """Those of some rows."""
        return GroupedTexts(self.texts.at(rows), Lists(self.texts.starts, self.chunks).at(rows).values)

    @property
    def sums(self) -> Marks:
        """A mark of each row's texts and their order."""
        return list_sums(self.texts.starts, combined(self.texts.values, self.texts.places))


def first_of_each(owners: Rows, keys: NDArray[Any]) -> Rows:
    """The first row of each owner with each key, ascending."""
    hashes = keys.astype(np.uint64) ^ owners.astype(np.uint64) * _ODD
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return np.arange(len(keys))
    rows = np.flatnonzero(among(hashes, repeated))  # the few that may be repeated
    rows = rows[np.lexsort((keys[rows], owners[rows]))]  # is stable
    is_first = np.ones(len(keys), np.bool_)
    is_first[rows] = False
    is_first[rows[firsts(owners[rows], keys[rows])]] = True
    return np.flatnonzero(is_first)
