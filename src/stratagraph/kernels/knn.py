"""The k nearest neighbours of vectors, and new links in place of those to deleted nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.blas import one_thread
from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.chnsw_layer import Matrix, Nodes
from stratagraph.kernels.chnsw_options import Options
from stratagraph.kernels.float16 import blocks, pair_products
from stratagraph.kernels.ranges import distinct, ranges
from stratagraph.kernels.topk import kth_largest

_MANY = 4  # with fewer than k times as many nodes, each is compared with all
_COMPARED = 256
_LINKED = 64  # neighbours of a deleted node that may be linked instead of it
Nodes64 = NDArray[np.int64]
NearestOthers = Callable[[Matrix, int], NDArray[np.integer]]
"""Vectors (n, d) and k to rows (n, k) of the nearest others by inner product, -1 where fewer were found."""


def knn_graph(
    vectors: NDArray[np.floating], k: int, *, ef: int = 32, seed: int = 0, threads: int = 1
) -> tuple[Nodes, Matrix]:
    """Rows and scores of the k nearest others of every vector by inner product, approximately.

    Both have shape (n, min(k, n - 1)), best first, filled up with -1 where fewer were found.
    """
    index = CHNSW.build(
        [vectors], options=Options(links=12, ef_construction=40, recall=0.01, seed=seed), threads=threads
    )
    layer = index._layers[0]
    k = min(k, max(layer.count - 1, 0))
    if not layer.linked or _MANY * k >= layer.count:
        rows, scores = index.search_many(layer.floats(), k + 1, threads=threads)[0]
        itself = rows == np.arange(len(rows))[:, None]
        itself[~itself.any(axis=1), -1] = True
        shape = len(rows), rows.shape[1] - 1
        return rows[~itself].reshape(shape), scores[~itself].reshape(shape)
    rows, scores = np.empty((layer.count, k), np.int32), np.empty((layer.count, k), np.float32)
    index._graph.neighbours(0, k, max(ef, k + 1), threads, rows, scores)
    scores[rows < 0] = 0
    return rows, scores


def nearest_others(
    vectors: NDArray[np.floating], k: int, search: NearestOthers | None, **options: int
) -> NDArray[np.integer]:
    """Rows of the k nearest others of every vector, by a given search or by `knn_graph` with these options.

    Shape (n, min(k, n - 1)). Raises `ValueError` if what the search gives is not that, or no row.
    """
    k, count = min(k, max(len(vectors) - 1, 0)), len(vectors)
    if search is None or k < 1:
        return knn_graph(vectors, k, **options)[0]
    rows = np.asarray(search(np.asarray(vectors, np.float32), k))
    if rows.shape != (count, k) or not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(
            f"the neighbours given must be rows of shape {(count, k)}, not {rows.dtype} of shape {rows.shape}"
        )
    if rows.min() < -1 or rows.max() >= count:
        raise ValueError(
            f"the neighbours given must be rows of {count} vectors, or -1, not {rows.min()} to {rows.max()}"
        )
    return rows


def nearest_of(
    vectors: Matrix, rows: NDArray[np.integer], k: int, *, lengths: Matrix | None = None
) -> NDArray[np.int64]:
    """Pairs of some rows and the k vectors nearest to each, shape (pairs, 2), exactly.

    By inner product, or by cosine if the `lengths` of all vectors are given. A vector of zeros has none.
    """
    queries = np.asarray(vectors[rows], np.float32)
    directed = np.flatnonzero(queries.any(axis=1))
    own, queries = rows[directed], queries[directed]
    k = min(k, len(vectors) - 1)
    pairs = [np.zeros((0, 2), np.int64)]
    room = np.empty((min(_COMPARED, len(own)), len(vectors)), np.float32)
    for start in range(0, len(own) if k > 0 else 0, _COMPARED):
        some, batch = own[start : start + _COMPARED], queries[start : start + _COMPARED]
        scores = room[: len(some)]
        with one_thread():
            for at, block in blocks(vectors):
                np.matmul(batch, block.T, out=scores[:, at : at + len(block)])
        if lengths is not None:
            scores /= np.where(lengths > 0, lengths, 1)
        scores[np.arange(len(some)), some] = -np.inf
        for row, own_scores in zip(some.tolist(), scores, strict=True):
            near = np.flatnonzero(own_scores >= kth_largest(own_scores, k))
            near = near[np.argsort(-own_scores[near], kind="stable")[:k]]
            near = near[own_scores[near] != 0]
            pairs.append(np.column_stack([np.full(len(near), row), near]))
    return np.concatenate(pairs)


def relinked(ends: Nodes64, now: Nodes64, vectors: Matrix) -> Nodes64:
    """Replaces links to deleted nodes by links among the neighbours of these, the nearest first.

    FreshDiskANN repairs a graph of near neighbours in this way (Singh et al., 2021). A node gets at most as
    many links as it lost.

    Parameters
    ----------
    ends
        The previous links, in previous numbers, shape (links, 2).
    now
        The present row of each previous node, or -1 if it was deleted, shape (nodes before,).
    vectors
        Of the present nodes.

    Returns
    -------
    Rows of the linked nodes, shape (new links, 2); some of them may be linked already.
    """
    stays = now[ends] >= 0
    cut = np.concatenate([ends[stays[:, 0] & ~stays[:, 1]], ends[stays[:, 1] & ~stays[:, 0]][:, ::-1]])
    deleted, owner = np.divmod(distinct(cut[:, 1].astype(np.int64) * len(now) + cut[:, 0]), max(len(now), 1))
    few = np.arange(len(deleted)) - np.searchsorted(deleted, deleted) < _LINKED
    deleted, owner = deleted[few], now[owner[few]]
    left, right = (np.searchsorted(deleted, deleted, side) for side in ("left", "right"))
    one, two = np.repeat(owner, right - left), owner[ranges(left, right - left)]
    one, two = np.divmod(distinct((one * len(vectors) + two)[one != two]), max(len(vectors), 1))
    scores = pair_products(vectors, one, two)
    lost = np.bincount(owner, minlength=len(vectors))
    by_score = np.lexsort((-scores, one))
    rank = np.arange(len(by_score)) - np.searchsorted(one, one)  # `one` ascends
    chosen = np.sort(by_score[rank < lost[one]])
    chosen = chosen[scores[chosen] != 0]
    return np.column_stack([one[chosen], two[chosen]])
