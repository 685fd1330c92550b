"""Spectral clustering on sparse matrices, for partitions of many small communities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.kernels._kmeans import BRANCHES, divide
from stratagraph.kernels._subspace import leading, unit_rows
from stratagraph.kernels.edges import Edges, Labels

_DENSE = 48
"""A part of at most as many nodes is small enough for a dense solver, which then runs in one thread."""

_GUARDS = 4
_ROUNDS = 5
_DEGREE = 10
_ROUNDING = 1e-9


def spectral(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    max_size: int = 15,
    seed: int = 0,
) -> Labels:
    """Normalised spectral clustering, divided further until communities are small (von Luxburg, 2007).

    Each connected part of the graph is divided into at most 16 parts, and these again: k-means over the rows,
    scaled to length 1, of the k eigenvectors of the normalised Laplacian with the smallest eigenvalues, found
    by filtered subspace iteration. No dense matrix is much wider than k.

    Parameters
    ----------
    ends, weights
        Edges as for `leiden`.
    max_size
        Communities are divided until they have no more nodes, unless all their rows are equal.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member.
    """
    edges = Edges.of(ends, weights, nodes)
    adjacency = edges.matrix()
    start = np.random.default_rng(seed).standard_normal((nodes, BRANCHES + _GUARDS))

    def points(members: Labels, count: int) -> NDArray[np.float64]:
        return _embedding(csr_array(adjacency[members][:, members]), count, start[members])

    return divide(edges, points, max_size, seed)


def _embedding(adjacency: csr_array, count: int, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows, of length 1, of the leading eigenvectors of D^-1/2 A D^-1/2, scaled by their eigenvalues.

    Eigenvectors of a star or a clique with eigenvalues of at most 0 are arbitrary and would divide at random.
    """
    strengths = np.asarray(adjacency.sum(axis=1)).ravel()
    scale = np.divide(1, np.sqrt(strengths), out=np.zeros_like(strengths), where=strengths > 0)
    values = adjacency.tocoo()
    values.data = values.data * scale[values.row] * scale[values.col]
    return unit_rows(_leading(csr_array(values), count, start), _ROUNDING)


def _leading(matrix: csr_array, count: int, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Eigenvectors of the largest eigenvalues times these, approximately."""
    if matrix.shape[0] <= _DENSE:
        values, vectors = np.linalg.eigh(matrix.toarray())
    else:
        values, vectors = leading(matrix, start, rounds=_ROUNDS, degree=_DEGREE)
    return np.asarray(vectors[:, -count:] * np.maximum(values[-count:], 0))
