"""The arrays of C-HNSW over all levels: built, brought up to date, and opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels._blas import one_thread
from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.float16 import pair_products
from stratagraph.kernels.knn import nearest_of
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.base import Stored
from stratagraph.types.protocols import Rows, Vectors

INDEX = "index."
"""Prefix of the arrays of C-HNSW, in which nodes have an order of their own."""
CHANGES = "index_changes"
"""Name of the array with the number of nodes that C-HNSW has lost or gained since it was built."""
ZEROS = "zeros"
"""Prefix of the arrays of the rows of zero vectors, by level."""
_MOST_CHANGES = 0.5
"""These, as a part of all nodes, up to which it is brought up to date: up to there recall is tested."""

Arrays = Mapping[str, NDArray[Any]]


def index_arrays(
    layers: Sequence[Vectors],
    children: Sequence[Rows],
    config: ArchRAGConfig,
    threads: int,
    previous: Stored | None,
    rows: Sequence[Rows] | None = None,
) -> dict[str, NDArray[Any]]:
    """C-HNSW over all levels as arrays, without zero vectors, whose rows are `zeros<level>`.

    It stores codes only; results are scored by the vectors of graph and communities. Links of the previous
    index are kept until too much has changed since it was built. `rows` hold, for each level, the previous
    row of each vector that is the same, or -1; such vectors are not read.
    """
    arrays_before: Arrays = {} if previous is None else previous.arrays
    known = rows or [np.full(len(vectors), -1, np.int64) for vectors in layers]
    zeros = [
        zero_rows(vectors, own, arrays_before.get(f"{ZEROS}{level}"))
        for level, (vectors, own) in enumerate(zip(layers, known, strict=True))
    ]
    gone = sum(map(len, zeros))
    found = _brought_up_to_date(arrays_before, layers, children, known, config, threads, gone)
    index, changes = found or (
        CHNSW.build(
            [np.asarray(vectors) for vectors in layers],
            children,
            codes=config.codes,
            keep_vectors=False,
            links=config.links,
            breadth=config.breadth,
            ef=config.ef,
            mode=config.mode,
            seed=config.seed,
            threads=threads,
        ),
        0,
    )
    arrays: dict[str, NDArray[Any]] = {CHANGES: np.array([changes], np.int64)}
    for level, each in enumerate(zeros):
        arrays[f"{ZEROS}{level}"] = each
        if len(each):
            index.delete(level, each)
    return arrays | {INDEX + name: np.asarray(array) for name, array in index.arrays().items()}


def zero_rows(vectors: Vectors, known: Rows, before: Rows | None) -> Rows:
    """The rows of zero vectors; those that are `known` are zero where they were `before`."""
    if before is None:
        known = np.full(len(vectors), -1, np.int64)
        before = known[:0]
    new = np.flatnonzero(known < 0)
    zero = np.isin(known, before)
    zero[new] = ~np.any(np.asarray(vectors[new]), axis=1)
    return np.flatnonzero(zero)


def opened(arrays: Arrays) -> CHNSW:
    """C-HNSW from the arrays of ArchRAG's part."""
    named = {name.removeprefix(INDEX): np.asarray(arrays[name]) for name in arrays if name.startswith(INDEX)}
    return CHNSW.from_arrays(named)


def _brought_up_to_date(
    previous: Arrays,
    layers: Sequence[Vectors],
    children: Sequence[Rows],
    rows: Sequence[Rows],
    config: ArchRAGConfig,
    threads: int,
    zeros: int,
) -> tuple[CHNSW, int] | None:
    """The previous C-HNSW updated to these layers, and its number of changes; None if it must be rebuilt.

    It is built anew if levels, settings or too many nodes changed. The `zeros` nodes of zero vectors, added
    and then deleted, do not count as changes.
    """
    if CHANGES not in previous:
        return None
    before = opened(previous)
    told = before.options
    same = (told.codes, told.links, told.breadth, told.ef, told.mode, told.seed) == (
        config.codes,
        config.links,
        config.breadth,
        config.ef,
        config.mode,
        config.seed,
    )
    if not same or len(before) != len(layers) or before.dimension != layers[0].shape[1]:
        return None
    index, changed = before.revised(layers, children, rows=rows, threads=threads)
    changes = int(previous[CHANGES][0]) + sum(changed) - zeros
    return (index, changes) if changes <= _MOST_CHANGES * sum(map(len, layers)) else None


_AT_ONCE = 256
_SPARE = 8  # found beyond twice as many as are wanted, for what is gone or has changed


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Finds nearest neighbours of entities, most of which the previous index holds.

    Parameters
    ----------
    vectors
        Of the entities, of length 1 or 0.
    index
        The previous C-HNSW; its layer 0 are the previous entities.
    now
        The present row of each previous entity whose vector is the same, else -1.
    fresh
        The rows of all other entities.
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
        """The best candidates of each row; vectors at a right angle are not near."""
        who, place = np.nonzero(there)
        scores = np.full(offered.shape, -np.inf, np.float32)
        scores[who, place] = pair_products(self.vectors, rows[who], offered[who, place])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best, others = (np.take_along_axis(each, order, axis=1) for each in (scores, offered))
        found = np.isfinite(best) & (best != 0)
        return np.column_stack([rows[np.nonzero(found)[0]], others[found]])
