"""The nearest neighbours of some entities, found through the C-HNSW of the previous index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels._blas import one_thread
from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.float16 import pair_products
from stratagraph.kernels.knn import nearest_of
from stratagraph.protocols import Rows, Vectors

_AT_ONCE = 256
_SPARE = 8  # found beyond twice as many as are wanted, for what is gone or has changed


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Entities of which most were in the previous index, and are there as they are.

    Parameters
    ----------
    vectors
        Of the entities, of length 1 or 0.
    index
        The previous C-HNSW, whose layer 0 are the entities that there were.
    now
        The row of each of these whose vector is the same, else -1.
    fresh
        The rows of all others, which it does not know.
    """

    vectors: Vectors
    index: CHNSW
    now: Rows
    fresh: Rows

    def nearest(self, rows: Rows, k: int) -> Rows:
        """Pairs of some rows and the `k` others nearest to each, as of `nearest_of`, approximately."""
        none = np.zeros((0, 2), np.int64)
        starts = range(0, len(rows), _AT_ONCE)
        return np.concatenate([none, *(self._some(rows[start : start + _AT_ONCE], k) for start in starts)])

    def _some(self, rows: Rows, k: int) -> Rows:
        asked = np.asarray(self.vectors[rows], np.float32)
        directed = asked.any(axis=1)
        rows, asked = rows[directed], asked[directed]
        if not len(rows):
            return np.zeros((0, 2), np.int64)
        known, fresh = self._known(asked, k), self._fresh(asked, k)
        offered = np.concatenate([known, fresh], axis=1)
        there = (offered >= 0) & (offered != rows[:, None])
        stayed = len(self.vectors) - len(self.fresh) - ~np.isin(rows, self.fresh)
        short = there[:, : known.shape[1]].sum(axis=1) < np.minimum(k, stayed)  # too many of them went
        near = self._best(rows[~short], offered[~short], there[~short], k)
        return np.concatenate([near, nearest_of(self.vectors, rows[short], k)])

    def _known(self, asked: Vectors, k: int) -> Rows:
        """Of what was there and is alike, the nearest, shape (asked, ...), -1 where there are fewer."""
        found, _ = self.index.search_many(asked, 2 * k + _SPARE)[0]
        return np.where(found >= 0, self.now[found], -1)

    def _fresh(self, asked: Vectors, k: int) -> Rows:
        """Of what is new or changed, the nearest and maybe the one who asks, shape (asked, at most k + 1)."""
        most = min(k + 1, len(self.fresh))
        if not most:
            return np.zeros((len(asked), 0), np.int64)
        with one_thread():
            scores = asked @ np.asarray(self.vectors[self.fresh], np.float32).T
        return self.fresh[np.argpartition(-scores, most - 1, axis=1)[:, :most]]

    def _best(self, rows: Rows, offered: Rows, there: NDArray[np.bool_], k: int) -> Rows:
        """The best of what each is offered; what is at a right angle is near to nothing."""
        who, place = np.nonzero(there)
        scores = np.full(offered.shape, -np.inf, np.float32)
        scores[who, place] = pair_products(self.vectors, rows[who], offered[who, place])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best, others = (np.take_along_axis(each, order, axis=1) for each in (scores, offered))
        found = np.isfinite(best) & (best != 0)
        return np.column_stack([rows[np.nonzero(found)[0]], others[found]])
