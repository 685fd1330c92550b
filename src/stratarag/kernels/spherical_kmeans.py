"""k-means by inner products, for vectors of length 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratarag.kernels._blas import one_thread
from stratarag.kernels.halves import blocks

Matrix = NDArray[np.float32]
Labels = NDArray[np.int64]

_ROUNDS = 8
_BLOCK = 8192


def spherical_kmeans(vectors: Matrix, count: int, seed: int) -> Labels:
    """Clusters of vectors by their directions (Dhillon and Modha, 2001).

    It starts from `count` vectors drawn by the seed and ends when nothing moves, or after a few rounds.

    Parameters
    ----------
    vectors
        Shape (n, dimension), of length 1 or zero.
    count
        Number of clusters at most; at least 1.

    Returns
    -------
    The cluster of each vector, from 0 to `count - 1`, shape (n,); -1 for zero vectors.

    Raises
    ------
    ValueError
        If `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    labels = np.full(len(vectors), -1, np.int64)
    rows = np.flatnonzero(np.any(vectors, axis=1))
    if not len(rows):
        return labels
    points = vectors[rows]
    count = min(count, len(rows))
    centres = points[np.sort(np.random.default_rng(seed).choice(len(rows), count, replace=False))]
    found = np.full(len(rows), -1, np.int64)
    for _ in range(_ROUNDS):
        before, found = found, _nearest(points, centres)
        if np.array_equal(before, found):
            break
        centres = _centres(points, found, centres)
    labels[rows] = found
    return labels


def assigned(vectors: Matrix, labels: Labels) -> Labels:
    """Clusters in which vectors without one (-1) are with the nearest of the centres of the others.

    Vectors of zeros stay without. If there are no clusters, nothing is assigned.
    """
    new = np.flatnonzero(labels < 0)
    new = new[np.any(vectors[new], axis=1)]
    count = int(labels.max(initial=-1)) + 1
    if not len(new) or not count:
        return labels
    centres = _centres(vectors, labels, np.zeros((count, vectors.shape[1]), np.float32))
    found = labels.copy()
    with one_thread():
        found[new] = _nearest(vectors[new], centres)
    return found


def _nearest(points: Matrix, centres: Matrix) -> Labels:
    found = np.empty(len(points), np.int64)
    for start in range(0, len(points), _BLOCK):
        block = points[start : start + _BLOCK]
        found[start : start + _BLOCK] = np.argmax(block @ centres.T, axis=1)
    return found


def _centres(points: Matrix, labels: Labels, before: Matrix) -> Matrix:
    """The directions of the clusters' sums; a cluster that lost all its members stays where it was."""
    known = np.flatnonzero(labels >= 0)
    ones = np.ones(len(known), np.float32)
    member = csr_array((ones, (known, labels[known])), shape=(len(labels), len(before)))
    sums = np.zeros(before.shape, np.float32)
    for start, block in blocks(points, _BLOCK):
        sums += member[start : start + len(block)].T @ block
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.where(lengths > 0, sums / np.maximum(lengths, np.float32(1e-12)), before)
