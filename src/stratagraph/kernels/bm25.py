"""Postings, the rows that hold each key, and BM25 over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels import _native
from stratagraph.kernels.ranges import ranges

Keys = NDArray[np.uint64]
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

_ALL: Mask = np.zeros(0, np.bool_)


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
        places_found = places[places >= 0]
        starts = np.asarray(self.starts[places_found], np.int64)
        sizes = self.starts[places_found + 1] - starts
        totals = np.concatenate([[0], np.cumsum(self.values[ranges(starts, sizes)], dtype=np.int64)])
        ends = np.cumsum(sizes)
        sums = np.zeros(len(keys), np.int64)
        sums[places >= 0] = totals[ends] - totals[ends - sizes]
        return sums

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
        places = np.concatenate([moved[stays], fresh.rows])
        # One number for key and row: two sorted runs, which a stable sort merges in linear time.
        order = np.argsort(numbers * size + places, kind="stable")
        values = np.concatenate([self.values[stays], fresh.values])
        return self._ordered(keys[numbers[order]], places[order], values[order])

    def _each(self, numbers: Rows) -> Rows:
        """A number for each posting, from one for each key."""
        return np.repeat(numbers, np.diff(self.starts)).astype(np.int64)


class TermPostings(NamedTuple):
    """The passages of each term, one term after the other.

    Parameters
    ----------
    rows
        Passages, shape (p,), int32; ascending within a term.
    counts
        Occurrences of the term in the passage, shape (p,), uint8, at least 1.
    norms
        Length normalisation of each passage, shape (passages,), float32, at least 0.
    """

    rows: NDArray[np.int32]
    counts: NDArray[np.uint8]
    norms: NDArray[np.float32]


def bm25(
    postings: TermPostings,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    mask: Mask | None = None,
    *,
    rarity: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Scores of the admitted passages that hold one of the terms.

    score(p) = sum over terms of idf * tf / (tf + norm(p)), with idf = ln(1 + (n - df + 0.5) / (df + 0.5)):
    Robertson et al. (1994), in the form that Lucene computes.

    Parameters
    ----------
    starts, lengths
        The first posting of each of the question's terms and their number, int64.
    mask
        Admitted passages, shape (passages,); None admits all.
    rarity
        The idf of each term, if the passages are only a part of the corpus.

    Returns
    -------
    Rows, ascending, and their scores, float32, above 0.

    Raises
    ------
    ValueError
        If postings are out of bounds.
    """
    if rarity is None:
        rarity = idf(len(postings.norms), lengths)
    return _native.bm25(
        np.ascontiguousarray(postings.rows, np.int32),
        np.ascontiguousarray(postings.counts, np.uint8),
        np.ascontiguousarray(starts, np.int64),
        np.ascontiguousarray(lengths, np.int64),
        rarity,
        np.ascontiguousarray(postings.norms, np.float32),
        _ALL if mask is None else np.ascontiguousarray(mask, np.bool_),
    )


def idf(passages: int, frequencies: NDArray[np.integer]) -> NDArray[np.float32]:
    """Inverse document frequency of terms that occur in `frequencies` of the passages, float32."""
    return np.log1p((passages - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)
