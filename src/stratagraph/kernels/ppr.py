"""Personalised PageRank that touches only what the walk reaches (NodeRAG 2.5, ERRATA N4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from stratagraph.kernels import _native

Nodes = NDArray[np.int64]
Scores = NDArray[np.float32]
Walk = tuple[Nodes, Scores]

_MOST_STEPS = 1000


def transition_matrix(nodes: int, ends: NDArray[np.integer], weights: NDArray[np.floating]) -> csr_array:
    """The row-stochastic matrix of an undirected weighted graph, shape (nodes, nodes), float32.

    Weights of parallel edges add up, self-loops are left out, and a node without edges has an empty row.

    Parameters
    ----------
    ends
        The ends of each edge, shape (edges, 2).
    weights
        Weight of each edge, shape (edges,), above 0.

    Raises
    ------
    ValueError
        If an end is out of range, or a weight is not a positive number.
    """
    if ends.size and not (ends.min() >= 0 and ends.max() < nodes):
        raise ValueError(f"edges join nodes 0 to {nodes - 1}, not {ends.min()} and {ends.max()}")
    if not np.all(np.isfinite(weights) & (weights > 0)):
        raise ValueError("weights of edges must be finite and above 0")
    proper = ends[:, 0] != ends[:, 1]
    ends, weights = ends[proper], weights[proper]
    rows = np.concatenate([ends[:, 0], ends[:, 1]])
    columns = np.concatenate([ends[:, 1], ends[:, 0]])
    both = np.concatenate([weights, weights]).astype(np.float64)
    matrix = csr_array(coo_array((both, (rows, columns)), shape=(nodes, nodes)))
    values = matrix.data / np.repeat(matrix.sum(axis=1), np.diff(matrix.indptr))
    indices, indptr = matrix.indices.astype(np.int32, copy=False), matrix.indptr.astype(np.int32, copy=False)
    return csr_array((values.astype(np.float32, copy=False), indices, indptr), shape=matrix.shape)


def shallow_pagerank(
    transition: csr_array,
    entries: NDArray[np.integer],
    *,
    weights: NDArray[np.floating] | None = None,
    restart: float = 0.5,
    steps: int | None = 2,
    tolerance: float = 1e-6,
    per_edge: float = 0.0,
) -> Walk:
    """Personalised PageRank stopped after a few steps, so that mass stays near the entries.

    Implements pi(t) = restart * p + (1 - restart) * P^T pi(t-1), pi(0) = p  (NodeRAG 2.5, ERRATA N4).

    With `per_edge`, small amounts of mass are dropped, as in the forward push of Andersen, Chung and Lang
    (2006): a step then visits at most 1 / per_edge edges. Each score is at most that of the full walk, and
    the scores sum to 1 minus the total error.

    Parameters
    ----------
    transition
        Row-stochastic matrix P, shape (n, n). A row of zeros (dangling node) returns its mass to p.
    entries
        Nodes where the walk restarts; at least one.
    weights
        Relative weights of the entries, normalised to sum 1, shape of `entries`; None: equal weights.
    restart
        Restart probability, between 0 and 1.
    steps
        Number of steps; None continues until a step moves less than `tolerance` in all.
    tolerance
        Mass that the last step may move; used only if `steps` is None.
    per_edge
        A node that holds less than this for each of its edges passes nothing on in that step.

    Returns
    -------
    The nodes that hold mass, in no particular order, and their scores, which sum to 1 if nothing was lost.

    Raises
    ------
    ValueError
        If `entries` is empty or out of range, `restart` is outside (0, 1), a weight is not positive,
        `per_edge` is outside [0, 1), or the matrix is damaged.
    """
    limits = _checked_limits(restart, steps, tolerance, per_edge)
    nodes, shares = _entry_shares(entries, weights, transition.shape[0])
    starts = np.array([0, len(nodes)], np.int64)
    (walk,) = _native.walks(*_arrays(transition), starts, nodes, shares, restart, *limits, 1)
    return walk


@dataclass(frozen=True, slots=True, eq=False)
class JoinedGraph:
    """The union of graphs that share nodes, without a copy of their edges.

    With s_i(v) the sum of the weights at a node v in G_i, and P_i the row-stochastic matrix of G_i, the
    transition matrix of the union is

        P(v, w) = sum over i of  s_i(v) / s(v) * P_i(v, w),     s(v) = sum over i of s_i(v),

    so each graph passes on the part s_i(v) / s(v) of a node's mass. `per_edge` counts edges in all graphs.

    A place is one occurrence of a node in one graph. Places are sorted by node.

    - `matrices`, `numbers`: the matrices P_i, and the numbers of their nodes in the union
    - `starts`: the places of node v are `starts[v]` to `starts[v + 1]`
    - `owners`, `rows`, `shares`: the graph of each place, the row in it, and its part of the node's mass
    """

    matrices: Sequence[csr_array]
    numbers: Sequence[NDArray[np.int32]]
    starts: NDArray[np.int64]
    owners: NDArray[np.int32]
    rows: NDArray[np.int32]
    shares: NDArray[np.float32]

    @classmethod
    def of(
        cls,
        matrices: Sequence[csr_array],
        numbers: Sequence[NDArray[np.int32]],
        strengths: Sequence[NDArray[np.floating]],
        nodes: int,
    ) -> JoinedGraph:
        """From the graphs, the numbers of their nodes in the union, and s_i(v) above 0 of their nodes."""
        node_of_place = np.concatenate([np.zeros(0, np.int32), *numbers])
        order = np.argsort(node_of_place, kind="stable")
        counts = np.bincount(node_of_place, minlength=nodes)
        sizes = [len(each) for each in numbers]
        owners = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        rows = np.concatenate([np.zeros(0, np.int32), *(np.arange(size, dtype=np.int32) for size in sizes)])
        strength = np.concatenate([np.zeros(0), *strengths])
        shares = strength / np.bincount(node_of_place, strength, nodes)[node_of_place]
        return cls(
            matrices,
            numbers,
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            owners[order],
            rows[order],
            shares[order].astype(np.float32),
        )

    @property
    def nodes(self) -> int:
        """Number of nodes of the union."""
        return len(self.starts) - 1


def joined_pagerank(
    graph: JoinedGraph,
    entries: NDArray[np.integer],
    *,
    weights: NDArray[np.floating] | None = None,
    restart: float = 0.5,
    steps: int = 2,
    per_edge: float = 0.0,
) -> Walk:
    """`shallow_pagerank` over the union; parameters, results and errors are the same."""
    nodes, shares = _entry_shares(entries, weights, graph.nodes)
    limits = _checked_limits(restart, steps, per_edge=per_edge)
    parts = [
        (*_arrays(matrix), numbers) for matrix, numbers in zip(graph.matrices, graph.numbers, strict=True)
    ]
    places = graph.starts, graph.owners, graph.rows, graph.shares
    return _native.joined_walk(parts, *places, nodes, shares, restart, *limits)


def _checked_limits(
    restart: float, steps: int | None, tolerance: float = 0.0, per_edge: float = 0.0
) -> tuple[int, float, float]:
    """The checked limits of a walk: steps, tolerance and `per_edge`."""
    if not 0 < restart < 1:
        raise ValueError(f"restart must be between 0 and 1, not {restart}")
    if steps is not None and steps < 0:
        raise ValueError(f"steps must be at least 0 or None, not {steps}")
    if not 0 <= per_edge < 1:
        raise ValueError(f"per_edge must be from 0 to below 1, not {per_edge}")
    return _MOST_STEPS if steps is None else steps, tolerance if steps is None else 0.0, per_edge


def _entry_shares(
    nodes: NDArray[np.integer], weights: NDArray[np.floating] | None, count: int
) -> tuple[Nodes, NDArray[np.float64]]:
    """Distinct entries with their shares of the restart mass."""
    nodes = np.asarray(nodes, dtype=np.int64)
    if nodes.ndim != 1 or not len(nodes):
        raise ValueError("a walk needs at least one entry")
    if not (nodes.min() >= 0 and nodes.max() < count):
        raise ValueError(f"entries are nodes 0 to {count - 1}, not {nodes.min()} to {nodes.max()}")
    shares = np.ones(len(nodes)) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != nodes.shape or not np.all(np.isfinite(shares) & (shares > 0)):
        raise ValueError("weights of entries must be as many as the entries, finite and above 0")
    distinct, place = np.unique(nodes, return_inverse=True)
    total = np.bincount(place, weights=shares, minlength=len(distinct))
    return distinct, total / total.sum()


def _arrays(matrix: csr_array) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    return (
        np.ascontiguousarray(matrix.indptr, np.int32),
        np.ascontiguousarray(matrix.indices, np.int32),
        np.ascontiguousarray(matrix.data, np.float32),
    )
