"""How good a partition is: by its members' vectors, or by the graph's edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels._edges import Edges, Labels, number

_BATCH = 65_536


def calinski_harabasz(vectors: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    """Dispersion between communities over dispersion within, each per degree of freedom (formula 5).

    (sum of n_i |c_i - c|^2 / (C - 1)) / (sum of |x - c_i|^2 / (N - C)), where c_i are the C communities'
    means and c is that of all N vectors. More is better.

    Parameters
    ----------
    vectors
        Shape (nodes, dimension).
    labels
        Community of each node, shape (nodes,).

    Returns
    -------
    The index; infinity where all members are equal to their means.

    Raises
    ------
    ValueError
        If there are not at least two communities and fewer communities than vectors, or a vector is not
        finite.
    """
    labels = _checked(vectors, labels)
    sizes = np.bincount(labels)
    count = len(sizes)
    if not 2 <= count < len(labels):
        raise ValueError(f"the index compares 2 to {len(labels) - 1} communities of vectors, not {count}")
    means = _sums(vectors, labels) / sizes[:, None]
    overall = sizes @ means / len(labels)
    between = float(sizes @ ((means - overall) ** 2).sum(axis=1))
    within = sum(
        float(((vectors[part].astype(np.float64) - means[labels[part]]) ** 2).sum())
        for part in _batches(len(labels))
    )
    if within == 0:
        return float("inf")
    return between * (len(labels) - count) / (within * (count - 1))


def cosine_similarity(vectors: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    """The mean cosine of each vector to the mean of its community (formulas 6 and 7).

    Parameters are those of `calinski_harabasz`. A zero vector, or one whose community's mean is zero,
    counts as 0. More is better, and a community of one member is perfect.

    Raises
    ------
    ValueError
        If there are no vectors, or one is not finite.
    """
    labels = _checked(vectors, labels)
    if not len(labels):
        raise ValueError("there is no vector to be similar")
    means = _sums(vectors, labels)
    lengths = np.linalg.norm(means, axis=1)
    total = 0.0
    for part in _batches(len(labels)):
        rows, own = vectors[part].astype(np.float64), labels[part]
        scale = np.linalg.norm(rows, axis=1) * lengths[own]
        products = np.einsum("ij,ij->i", rows, means[own])
        total += float(np.divide(products, scale, out=np.zeros_like(scale), where=scale > 0).sum())
    return total / len(labels)


def modularity(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    labels: NDArray[np.integer],
    *,
    resolution: float = 1.0,
) -> float:
    """Share of weight inside communities less what chance would put there (Newman and Girvan, 2004).

    Parameters
    ----------
    ends, weights
        The edges as for `leiden`.
    labels
        Community of each node, shape (nodes,).

    Returns
    -------
    At most 1; 0 for a graph without edges.
    """
    edges = Edges.of(ends, weights, len(labels))
    total = float(edges.weights.sum())
    if not total:
        return 0.0
    inside = float(edges.within(number(labels)).weights.sum())
    strengths = np.bincount(number(labels), edges.strengths())
    return inside / total - resolution * float((strengths**2).sum()) / (2 * total) ** 2


def _checked(vectors: NDArray[np.floating], labels: NDArray[np.integer]) -> Labels:
    if vectors.ndim != 2 or labels.shape != vectors.shape[:1]:
        raise ValueError(f"labels of shape {labels.shape} do not fit vectors of shape {vectors.shape}")
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        raise ValueError(f"vector {int(wrong[0])} is not finite ({len(wrong)} of {len(vectors)} are not)")
    return number(labels)


def _sums(vectors: NDArray[np.floating], labels: Labels) -> NDArray[np.float64]:
    """The sum of each community's vectors, shape (communities, dimension)."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    if not len(starts):
        return np.zeros((0, vectors.shape[1]))
    return np.add.reduceat(vectors[order], starts, axis=0, dtype=np.float64)


def _batches(count: int) -> list[slice]:
    return [slice(start, start + _BATCH) for start in range(0, count, _BATCH)]
