"""The relations among a set of entities (the subgraph R_0 of 3.2.1)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stratagraph.protocols import Rows

_PAIRED = 128  # entities up to which all pairs are looked up; of more, all relations are scanned


@lru_cache(maxsize=_PAIRED)
def _pairs(count: int) -> tuple[Rows, Rows]:
    low, high = np.triu_indices(count, 1)
    return low, high


class Relations:
    """Finds relations by their ends.

    Parameters
    ----------
    ends
        Entity rows of each relation, shape (relations, 2); each pair comes once.
    entities
        Number of entities.
    """

    def __init__(self, ends: Rows, entities: int) -> None:
        self._ends = ends
        self._entities = entities
        keys = ends.min(axis=1) * entities + ends.max(axis=1) if len(ends) else np.zeros(0, np.int64)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def among(self, rows: Rows, scores: NDArray[np.float32]) -> tuple[Rows, NDArray[np.float32]]:
        """Relations of which both ends are among `rows`, ascending, and the lower score of the two ends.

        Parameters
        ----------
        rows
            Entities, each once.
        scores
            One for each.
        """
        if len(rows) < 2 or not len(self._keys):
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        found = self._by_pairs(rows) if len(rows) <= _PAIRED else self._by_scan(rows)
        order = np.argsort(rows)
        places = order[np.searchsorted(rows, self._ends[found], sorter=order)]
        return found, scores[places].min(axis=1)

    def _by_pairs(self, rows: Rows) -> Rows:
        ordered = np.sort(rows)
        low, high = _pairs(len(ordered))
        pairs = ordered[low] * self._entities + ordered[high]
        at = np.minimum(np.searchsorted(self._keys, pairs), len(self._keys) - 1)
        return np.sort(self._order[at[self._keys[at] == pairs]])

    def _by_scan(self, rows: Rows) -> Rows:
        chosen = np.zeros(self._entities, np.bool_)
        chosen[rows] = True
        return np.flatnonzero(chosen[self._ends].all(axis=1))
