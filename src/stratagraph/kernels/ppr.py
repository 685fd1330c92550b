"""Personalised PageRank that touches only what the walk reaches (NodeRAG 2.5, ERRATA N4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from stratagraph.kernels.hamming import native_available
from stratagraph.kernels.ranges import ranges

if native_available():
    from stratagraph.kernels import _native

Nodes = NDArray[np.int64]
Scores = NDArray[np.float32]
Walk = tuple[Nodes, Scores]

_MOST_STEPS = 1000
_DAMAGED = "the transition matrix is damaged: a row, a target or a weight is out of bounds"


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
    return row_stochastic(csr_array(coo_array((both, (rows, columns)), shape=(nodes, nodes))))


def row_stochastic(matrix: csr_array) -> csr_array:
    """A matrix of weights above 0, its rows divided by their sums; float32, with 32-bit rows and columns."""
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
    (2006): a step then visits at most 1 / per_edge edges. So no score is above that of the whole walk, and
    the scores' distance to it, summed over all nodes, is what they lack of 1.

    Parameters
    ----------
    transition
        Row-stochastic matrix P, shape (n, n). A row of zeros (dangling node) returns its mass to p.
    entries
        Nodes where the walk restarts; at least one.
    weights
        Their shares of the restart mass, in proportion, shape of `entries`; None: equal shares.
    restart
        Restart probability, between 0 and 1.
    steps
        Number of steps; None continues until a step moves less than `tolerance` in all.
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
    bounds = Bounds.of(restart, steps, tolerance, per_edge)
    nodes, shares = entry_shares(entries, weights, transition.shape[0])
    if not native_available():
        return _walk(transition, nodes, shares, restart, bounds)
    (walk,) = _native.walks(
        np.ascontiguousarray(transition.indptr, np.int32),
        np.ascontiguousarray(transition.indices, np.int32),
        np.ascontiguousarray(transition.data, np.float32),
        np.array([0, len(nodes)], np.int64),
        nodes,
        shares,
        restart,
        *bounds,
        1,
    )
    return walk


class Bounds(NamedTuple):
    """The limits of a walk; see `shallow_pagerank`."""

    steps: int
    tolerance: float
    per_edge: float

    @classmethod
    def of(cls, restart: float, steps: int | None, tolerance: float = 0.0, per_edge: float = 0.0) -> Bounds:
        """Check the limits and the restart probability."""
        if not 0 < restart < 1:
            raise ValueError(f"restart must be between 0 and 1, not {restart}")
        if steps is not None and steps < 0:
            raise ValueError(f"steps must be at least 0 or None, not {steps}")
        if not 0 <= per_edge < 1:
            raise ValueError(f"per_edge must be from 0 to below 1, not {per_edge}")
        return cls(_MOST_STEPS if steps is None else steps, tolerance if steps is None else 0.0, per_edge)


def entry_shares(
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


def _walk(
    transition: csr_array, entries: Nodes, shares: NDArray[np.float64], restart: float, bounds: Bounds
) -> Walk:
    """The numpy twin of `_ppr.cpp`: the same additions in the same order."""
    nodes, mass = entries, shares
    for _ in range(bounds.steps):
        reached, flow, dangling = step(transition, nodes, mass, restart, bounds)
        everywhere = np.concatenate([reached, entries])
        distinct, first, place = np.unique(everywhere, return_index=True, return_inverse=True)
        parts = np.concatenate([flow, (restart + dangling) * shares])
        following = np.asarray(np.bincount(place, parts, minlength=len(distinct)), np.float64)
        order = np.argsort(first)
        before, (nodes, mass) = (nodes, mass), (distinct[order], following[order])
        if bounds.tolerance and _change(before, (nodes, mass)) <= bounds.tolerance:
            break
    return nodes, mass.astype(np.float32)


def step(
    transition: csr_array, nodes: Nodes, mass: NDArray[np.float64], restart: float, bounds: Bounds
) -> tuple[Nodes, NDArray[np.float64], float]:
    """The target and flow of each edge that mass takes, and the mass of nodes without edges."""
    indptr, indices, data = transition.indptr, transition.indices, transition.data
    starts, ends = indptr[nodes].astype(np.int64), indptr[nodes + 1].astype(np.int64)
    counts = ends - starts
    if np.any((starts < 0) | (counts < 0) | (ends > len(indices))):
        raise ValueError(_DAMAGED)
    kept = mass >= bounds.per_edge * counts
    starts, counts, passed = starts[kept], counts[kept], (1 - restart) * mass[kept]
    edges = ranges(starts, counts)
    targets, weights = indices[edges].astype(np.int64), data[edges]
    outside = (targets < 0) | (targets >= transition.shape[0]) | ~((weights >= 0) & (weights <= 1))
    if outside.any():
        raise ValueError(_DAMAGED)
    dangling = 0.0
    for each in passed[counts == 0].tolist():
        dangling += each
    return targets, np.repeat(passed, counts) * weights, dangling


def _change(before: tuple[Nodes, NDArray[np.float64]], after: tuple[Nodes, NDArray[np.float64]]) -> float:
    nodes = np.concatenate([before[0], after[0]])
    _, place = np.unique(nodes, return_inverse=True)
    return float(np.abs(np.bincount(place, np.concatenate([-before[1], after[1]]))).sum())
