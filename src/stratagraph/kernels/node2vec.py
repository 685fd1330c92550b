"""node2vec: embeddings from biased random walks, and communities of near embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from stratagraph.kernels._edges import Edges, Labels, check_size
from stratagraph.kernels._kmeans import divide
from stratagraph.kernels._subspace import Matrix, orthonormal, ritz, unit_rows

_PROPOSALS = 32
"""Proposals for a step; the last is taken as it is. With p and q near 1 the second is rarely needed."""

_OVERSAMPLING = 8
_POWERS = 4


@dataclass(frozen=True, slots=True)
class Walks:
    """Second-order random walks (Grover and Leskovec, 2016): `per_node` from each node, of `length` nodes.

    Nodes at most `window` apart in a walk are near each other. Going back is weighed 1/p, going to a
    neighbour of the node before 1, going elsewhere 1/q.
    """

    per_node: int = 8
    length: int = 16
    window: int = 4
    p: float = 1.0
    q: float = 0.5

    def __post_init__(self) -> None:
        """Check the values."""
        if not (self.per_node >= 1 and self.length >= 2 and 1 <= self.window < self.length):
            raise ValueError(
                f"walks need per_node >= 1, length >= 2 and 1 <= window < length, not {self.per_node}, "
                f"{self.length} and {self.window}"
            )
        if not (self.p > 0 and self.q > 0):
            raise ValueError(f"p and q must be above 0, not {self.p} and {self.q}")


def node2vec(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    max_size: int = 15,
    dimension: int = 32,
    walks: Walks | None = None,
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
    dimension
        Of the embeddings.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member.

    Raises
    ------
    ValueError
        If the edges, `dimension` or `max_size` are not valid.
    """
    check_size(max_size)
    edges = Edges.of(ends, weights, nodes)
    embedding = embed_nodes(edges, dimension=dimension, walks=walks, seed=seed)
    return divide(edges, lambda members, _: embedding[members], max_size, seed)


def embed_nodes(edges: Edges, *, dimension: int = 32, walks: Walks | None = None, seed: int = 0) -> Matrix:
    """Embeddings, shape (nodes, at most `dimension`), rows of length 1; zeros for a node without edges.

    Instead of training a skip-gram network, the matrix that it approximates is factorised by a truncated
    singular value decomposition: positive pointwise mutual information of nodes within a window (Levy and
    Goldberg, 2014).
    """
    if dimension < 1:
        raise ValueError(f"dimension must be at least 1, not {dimension}")
    nodes = edges.nodes
    plan = walks or Walks()
    rng = np.random.default_rng(seed)
    if not len(edges):
        return np.zeros((nodes, min(dimension, nodes)))
    information = _mutual_information(_near(random_walks(edges, plan, rng), plan.window, nodes))
    left, values = _leading(information, min(dimension, nodes), rng)
    return unit_rows(left * np.sqrt(values))


def random_walks(edges: Edges, plan: Walks, rng: np.random.Generator) -> Labels:
    """Walks from every node that has edges, shape (walks, length); all take each step together."""
    adjacency = edges.matrix()
    adjacency.sort_indices()
    starts = np.repeat(np.flatnonzero(edges.degrees()), plan.per_node)
    walks = np.empty((plan.length, len(starts)), dtype=np.int64)
    walks[0] = starts
    walks[1] = _propose(adjacency, np.cumsum(adjacency.data), starts, rng)
    for step in range(2, plan.length):
        walks[step] = _next(adjacency, walks[step - 2], walks[step - 1], plan, rng)
    return np.ascontiguousarray(walks.T)


def _propose(adjacency: csr_array, cumulated: Matrix, here: Labels, rng: np.random.Generator) -> Labels:
    """A neighbour of each node, drawn by weight."""
    first, last = adjacency.indptr[here], adjacency.indptr[here + 1] - 1
    low = cumulated[first] - adjacency.data[first]
    drawn = low + rng.random(len(here)) * (cumulated[last] - low)
    at = np.clip(np.searchsorted(cumulated, drawn, side="right"), first, last)
    return np.asarray(adjacency.indices[at], dtype=np.int64)


def _next(
    adjacency: csr_array, before: Labels, here: Labels, plan: Walks, rng: np.random.Generator
) -> Labels:
    """One second-order step of each walk, by rejection: tables per edge would be huge at hubs."""
    cumulated = np.cumsum(adjacency.data)
    keys = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr)) * adjacency.shape[0]
    keys += adjacency.indices
    chosen = _propose(adjacency, cumulated, here, rng)
    open_ = np.arange(len(here))
    bias = max(1 / plan.p, 1.0, 1 / plan.q)
    for _ in range(_PROPOSALS):
        wanted = before[open_] * adjacency.shape[0] + chosen[open_]
        joined = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
        share = np.where(joined, 1.0, 1 / plan.q)
        share[chosen[open_] == before[open_]] = 1 / plan.p
        open_ = open_[rng.random(len(open_)) * bias >= share]
        if not len(open_):
            break
        chosen[open_] = _propose(adjacency, cumulated, here[open_], rng)
    return chosen


def _near(walks: Labels, window: int, nodes: int) -> csr_array:
    """How often two nodes are within the window of each other, shape (nodes, nodes)."""
    counts = csr_array((nodes, nodes))
    for apart in range(1, window + 1):
        first, second = walks[:, :-apart].ravel(), walks[:, apart:].ravel()
        ones = np.ones(len(first))
        counts = counts + csr_array(coo_array((ones, (first, second)), shape=(nodes, nodes)))
    return csr_array(counts + counts.T)


def _mutual_information(counts: csr_array) -> csr_array:
    """log(n_ij n / (n_i n_j)) where it is above 0."""
    pairs = counts.tocoo()
    totals = np.asarray(counts.sum(axis=1)).ravel()
    values = np.log(pairs.data * totals.sum() / (totals[pairs.row] * totals[pairs.col]))
    kept = values > 0
    return csr_array(coo_array((values[kept], (pairs.row[kept], pairs.col[kept])), shape=counts.shape))


def _leading(matrix: csr_array, count: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Singular vectors and values of a symmetric matrix, by randomised subspace iteration."""
    width = min(count + _OVERSAMPLING, matrix.shape[0])
    basis = orthonormal(matrix @ rng.standard_normal((matrix.shape[0], width)))
    for _ in range(_POWERS):
        basis = orthonormal(matrix @ basis)
    values, vectors = ritz(matrix, basis)
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return vectors[:, order], np.abs(values[order])
