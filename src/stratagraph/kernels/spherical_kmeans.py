"""k-means by inner products, for vectors of length 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.kernels.blas import one_thread
from stratagraph.kernels.float16 import blocks, chosen, nonzero_rows

Matrix = NDArray[np.float32]
Labels = NDArray[np.int64]

_ROUNDS = 8
_BLOCK = 8192


def spherical_kmeans(vectors: Matrix, count: int, seed: int) -> Labels:
    """Clusters of vectors by their directions (Dhillon and Modha, 2001).

    The first centres are `count` random vectors. It ends when no label changes, or after `_ROUNDS` rounds.

    Parameters
    ----------
    vectors
        Shape (n, dimension), of length 1 or zero; read a block at a time.
    count
        Maximum number of clusters, at least 1.

    Returns
    -------
    The cluster of each vector, from 0 to `count - 1`, shape (n,); -1 for zero vectors.
    """
    labels = np.full(len(vectors), -1, np.int64)
    rows = nonzero_rows(vectors)
    if not len(rows):
        return labels
    points = chosen(vectors, rows)
    count = min(count, len(rows))
    centres = points[np.sort(np.random.default_rng(seed).choice(len(rows), count, replace=False))]
    clusters = np.full(len(rows), -1, np.int64)
    for _ in range(_ROUNDS):
        before, clusters = clusters, np.empty(len(points), np.int64)
        sums = np.zeros(centres.shape, np.float32)
        for start, block in blocks(points, _BLOCK):  # each point is read once
            own = clusters[start : start + len(block)] = _nearest(block, centres)
            sums += _sums(block, own, len(centres))
        if np.array_equal(before, clusters):
            break
        centres = _directions(sums, centres)
    labels[rows] = clusters
    return labels


def assigned(vectors: Matrix, labels: Labels) -> Labels:
    """Labels in which vectors without a cluster (-1) join the cluster with the nearest centre.

    Zero vectors keep -1, and so do all vectors if there are no clusters.
    """
    new = np.flatnonzero(labels < 0)
    new = new[np.any(vectors[new], axis=1)]
    count = int(labels.max(initial=-1)) + 1
    if not len(new) or not count:
        return labels
    sums = np.zeros((count, vectors.shape[1]), np.float32)
    for start, block in blocks(vectors, _BLOCK):
        sums += _sums(block, labels[start : start + len(block)], count)
    centres = _directions(sums, np.zeros_like(sums))
    clusters = labels.copy()
    with one_thread():
        for start, block in blocks(chosen(vectors, new), _BLOCK):
            clusters[new[start : start + len(block)]] = _nearest(block, centres)
    return clusters


def _nearest(points: Matrix, centres: Matrix) -> Labels:
    nearest: Labels = np.argmax(points @ centres.T, axis=1)
    return nearest


def _sums(points: Matrix, labels: Labels, count: int) -> Matrix:
    labelled = np.flatnonzero(labels >= 0)
    ones = np.ones(len(labelled), np.float32)
    member = csr_array((ones, (labelled, labels[labelled])), shape=(len(labels), count))
    sums: Matrix = member.T @ points
    return sums


def _directions(sums: Matrix, before: Matrix) -> Matrix:
    """Centres of length 1; the centre of an empty cluster stays."""
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.where(lengths > 0, sums / np.maximum(lengths, np.float32(1e-12)), before)
