"""node2vec: embeddings from biased random walks, and communities of near embeddings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from stratagraph.kernels.edges import Edges, Labels
from stratagraph.kernels.spectral import Matrix, divide, orthonormal, ritz, unit_rows

_PROPOSALS = 32
"""Proposals for a step; the last is taken as it is. With p and q near 1 the second is rarely needed."""

DIMENSION = 32
_WINDOW = 4  # nodes at most so far apart in a walk are near each other
_OVERSAMPLING = 8
_POWERS = 4


def node2vec(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    max_size: int = 15,
    seed: int = 0,
) -> Labels:
    """k-means over node2vec's embeddings, divided further until communities are small.

    Parameters
    ----------
    ends, weights
        Edges as for `leiden`.
    max_size
        Communities are divided until they have no more nodes, unless all their embeddings are equal. No
        community spans two connected parts.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member.

    Raises
    ------
    ValueError
        If the edges are not valid.
    """
    edges = Edges.of(ends, weights, nodes)
    embedding = embed_nodes(edges, seed)
    return divide(edges, lambda members, _: embedding[members], max_size, seed)


def embed_nodes(edges: Edges, seed: int = 0) -> Matrix:
    """Embeddings, shape (nodes, at most `DIMENSION`), rows of length 1; zeros for a node without edges.

    Instead of training a skip-gram network, the matrix that it approximates is factorised by a truncated
    singular value decomposition: positive pointwise mutual information of nodes within a window (Levy and
    Goldberg, 2014).
    """
    nodes = edges.nodes
    rng = np.random.default_rng(seed)
    if not len(edges):
        return np.zeros((nodes, min(DIMENSION, nodes)))
    information = _mutual_information(_near(random_walks(edges, rng), nodes))
    left, values = _leading(information, min(DIMENSION, nodes), rng)
    return unit_rows(left * np.sqrt(values))


def random_walks(
    edges: Edges,
    rng: np.random.Generator,
    *,
    per_node: int = 8,
    length: int = 16,
    back: float = 1.0,
    outwards: float = 2.0,
) -> Labels:
    """Second-order random walks from every node that has edges (Grover and Leskovec, 2016).

    Going back is weighed `back` (1/p), going to a neighbour of the node before 1, going elsewhere `outwards`
    (1/q). All walks take each step together. Returns shape (walks, length).
    """
    adjacency = edges.matrix()
    adjacency.sort_indices()
    starts = np.repeat(np.flatnonzero(edges.degrees()), per_node)
    walks = np.empty((length, len(starts)), dtype=np.int64)
    walks[0] = starts
    walks[1] = _propose(adjacency, np.cumsum(adjacency.data), starts, rng)
    for step in range(2, length):
        walks[step] = _next(adjacency, walks[step - 2], walks[step - 1], (back, outwards), rng)
    return np.ascontiguousarray(walks.T)


def _propose(adjacency: csr_array, cumulated: Matrix, here: Labels, rng: np.random.Generator) -> Labels:
    """A neighbour of each node, drawn by weight."""
    first, last = adjacency.indptr[here], adjacency.indptr[here + 1] - 1
    low = cumulated[first] - adjacency.data[first]
    drawn = low + rng.random(len(here)) * (cumulated[last] - low)
    at = np.clip(np.searchsorted(cumulated, drawn, side="right"), first, last)
    return np.asarray(adjacency.indices[at], dtype=np.int64)


def _next(
    adjacency: csr_array,
    before: Labels,
    here: Labels,
    weights: tuple[float, float],
    rng: np.random.Generator,
) -> Labels:
    """One second-order step of each walk, by rejection: tables per edge would be huge at hubs."""
    cumulated = np.cumsum(adjacency.data)
    keys = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr)) * adjacency.shape[0]
    keys += adjacency.indices
    chosen = _propose(adjacency, cumulated, here, rng)
    open_ = np.arange(len(here))
    back, outwards = weights
    bias = max(1.0, back, outwards)
    for _ in range(_PROPOSALS):
        wanted = before[open_] * adjacency.shape[0] + chosen[open_]
        joined = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
        share = np.where(joined, 1.0, outwards)
        share[chosen[open_] == before[open_]] = back
        open_ = open_[rng.random(len(open_)) * bias >= share]
        if not len(open_):
            break
        chosen[open_] = _propose(adjacency, cumulated, here[open_], rng)
    return chosen


def _near(walks: Labels, nodes: int) -> csr_array:
    """How often two nodes are within the window of each other, shape (nodes, nodes)."""
    counts = csr_array((nodes, nodes))
    for apart in range(1, _WINDOW + 1):
        first, second = walks[:, :-apart].ravel(), walks[:, apart:].ravel()
        ones = np.ones(len(first))
        counts = counts + csr_array(coo_array((ones, (first, second)), shape=(nodes, nodes)))
    return csr_array(counts + counts.T)


def _mutual_information(counts: csr_array) -> csr_array:
    """log(n_ij n / (n_i n_j)) where it is above 0."""
    pairs = counts.tocoo()
    totals = np.asarray(counts.sum(axis=1)).ravel()
    values = np.log(pairs.data * totals.sum() / (totals[pairs.row] * totals[pairs.col]))
    positive = values > 0
    return csr_array(
        coo_array((values[positive], (pairs.row[positive], pairs.col[positive])), shape=counts.shape)
    )


def _leading(matrix: csr_array, count: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Singular vectors and values of a symmetric matrix, by randomised subspace iteration."""
    width = min(count + _OVERSAMPLING, matrix.shape[0])
    basis = orthonormal(matrix @ rng.standard_normal((matrix.shape[0], width)))
    for _ in range(_POWERS):
        basis = orthonormal(matrix @ basis)
    values, vectors = ritz(matrix, basis)
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return vectors[:, order], np.abs(values[order])
