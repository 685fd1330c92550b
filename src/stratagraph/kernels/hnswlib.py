"""The k nearest neighbours of vectors by hnswlib's HNSW (Malkov and Yashunin, 2018)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def nearest_others(
    vectors: NDArray[np.floating],
    k: int,
    *,
    M: int = 16,  # noqa: N803 - hnswlib's name
    ef_construction: int = 200,
    ef: int = 100,
    seed: int = 0,
    threads: int = 1,
) -> Rows:
    """Rows of the k nearest others of every vector by inner product, approximately.

    Parameters
    ----------
    vectors
        Shape (n, d).
    k
        At least 1, at most n - 1.
    M
        Links that a node sets in a layer.
    ef_construction, ef
        Candidates that an insertion and a search keep; a search keeps at least k + 1.
    seed
        Of the nodes' layers.
    threads
        Of the search. Nodes are inserted by one, so that equal vectors give equal neighbours.

    Returns
    -------
    Shape (n, k), best first; of equals, those that hnswlib found first.

    Raises
    ------
    ValueError
        If hnswlib reaches fewer than k + 1 vectors from some vector.
    """
    import hnswlib

    count, dimension = vectors.shape
    index = hnswlib.Index(space="ip", dim=dimension)
    index.init_index(count, M=M, ef_construction=ef_construction, random_seed=seed)
    index.add_items(np.asarray(vectors, np.float32), num_threads=1)
    index.set_ef(max(ef, k + 1))
    try:
        found, _ = index.knn_query(np.asarray(vectors, np.float32), k + 1, num_threads=threads)
    except RuntimeError as error:
        raise ValueError(
            f"hnswlib reaches fewer than {k + 1} of {count} vectors from some of them; give a larger M "
            f"(it is {M}), ef_construction ({ef_construction}) or ef ({ef})"
        ) from error
    others = found.astype(np.int64) != np.arange(count)[:, None]
    others[others.all(axis=1), -1] = False  # it did not find itself: the farthest goes
    return np.asarray(found[others].reshape(count, k), np.int64)
