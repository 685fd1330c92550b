"""The k nearest neighbours of every vector, through C-HNSW's kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels._chnsw_layer import Matrix, Nodes
from stratarag.kernels._chnsw_links import Backend
from stratarag.kernels._chnsw_options import Metric
from stratarag.kernels.chnsw import CHNSW

_MANY = 4
"""Where so many times k are all nodes, each is compared with all."""
_COMPARED = 256


def knn_graph(
    vectors: NDArray[np.floating],
    k: int,
    *,
    metric: Metric = "ip",
    ef: int = 32,
    links: int = 12,
    ef_construction: int = 40,
    seed: int = 0,
    threads: int = 1,
    backend: Backend = "auto",
) -> tuple[Nodes, Matrix]:
    """The k nearest others of every vector, approximately.

    Returns
    -------
    Rows and scores, both of shape (n, min(k, n - 1)), best first, filled up with -1 where fewer were found.
    """
    index = CHNSW.build(
        [vectors],
        metric=metric,
        links=links,
        ef_construction=ef_construction,
        recall=0.01,
        seed=seed,
        threads=threads,
        backend=backend,
    )
    return _neighbours(index, k, ef, threads)


def nearest_of(vectors: Matrix, rows: NDArray[np.integer], k: int) -> NDArray[np.int64]:
    """Pairs of some rows and the k vectors that are nearest to each by inner product, shape (pairs, 2).

    It compares each of them with all. A vector of zeros is near to nothing.
    """
    own = rows[np.any(vectors[rows], axis=1)]
    k = min(k, len(vectors) - 1)
    pairs = [np.zeros((0, 2), np.int64)]
    for start in range(0, len(own) if k > 0 else 0, _COMPARED):
        some = own[start : start + _COMPARED]
        scores = vectors[some] @ vectors.T
        scores[np.arange(len(some)), some] = -np.inf
        near = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        alike = np.take_along_axis(scores, near, axis=1) != 0
        pairs.append(np.column_stack([np.repeat(some, k)[alike.ravel()], near[alike]]))
    return np.concatenate(pairs)


def _neighbours(index: CHNSW, k: int, ef: int, threads: int) -> tuple[Nodes, Matrix]:
    """The k nearest others of each node of layer 0."""
    layer = index._layers[0]
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    k = min(k, max(layer.count - 1, 0))
    vectors = layer.floats()
    if not layer.linked or _MANY * k >= layer.count:
        found, how = index._search(vectors, k + 1, None, 0, threads)
        return _without_self(found[0], how[0])
    rows, scores = np.empty((layer.count, k), np.int32), np.empty((layer.count, k), np.float32)
    index._graph.neighbours(0, k, max(ef, k + 1), threads, rows, scores)
    if index.options.metric == "l2":
        scores -= (vectors**2).sum(axis=1)[:, None]
    scores[rows < 0] = 0
    return rows, scores


def _without_self(rows: Nodes, scores: Matrix) -> tuple[Nodes, Matrix]:
    """Each row's results but itself; of k + 1 results k are left."""
    own = rows == np.arange(len(rows))[:, None]
    own[~own.any(axis=1), -1] = True
    shape = len(rows), rows.shape[1] - 1
    return rows[~own].reshape(shape), scores[~own].reshape(shape)
