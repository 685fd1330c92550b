"""Undirected weighted edges in canonical order, from which all clusterings start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from stratagraph.kernels.ranges import order

_DENSE = 4
"""Labels up to so many times the nodes are numbered by a table, others by sorting."""

Labels = NDArray[np.int64]
Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Edges:
    """Each edge once, in ascending order, with `low < high` and weights above 0; arrays of shape (edges,)."""

    low: Labels
    high: Labels
    weights: Weights
    nodes: int

    @classmethod
    def of(
        cls,
        ends: NDArray[np.integer],
        weights: NDArray[np.floating] | None,
        nodes: int,
        touching: NDArray[np.bool_] | None = None,
    ) -> Edges:
        """From rows of ends: parallel edges add up, self-loops and edges of weight 0 are left out.

        So are edges without an end in `touching`, a mask of the nodes. `ValueError` names the first edge
        whose end is no node, or whose weight is negative or not finite.
        """
        ends = np.asarray(ends, dtype=np.int64).reshape(-1, 2) if not len(ends) else np.asarray(ends)
        values = np.ones(len(ends)) if weights is None else np.asarray(weights, dtype=np.float64)
        _check(ends, values, nodes)
        usable = (ends[:, 0] != ends[:, 1]) & (values > 0)
        if touching is not None:
            usable &= touching[ends].any(axis=1)
        if not usable.all():
            ends, values = ends[usable], values[usable]
        one, two = ends[:, 0].astype(np.int64), ends[:, 1].astype(np.int64)
        keys = np.minimum(one, two) * nodes + np.maximum(one, two)
        unique, values = _added_up(keys, None if weights is None else values, nodes)
        low = unique // max(nodes, 1)
        return cls(low, unique - low * nodes, values, nodes)

    def __len__(self) -> int:
        """Number of edges."""
        return len(self.low)

    def pairs(self) -> Labels:
        """The ends as rows, shape (edges, 2)."""
        return np.column_stack([self.low, self.high])

    def where(self, mask: NDArray[np.bool_]) -> Edges:
        """The edges of a mask, between the same nodes."""
        return Edges(self.low[mask], self.high[mask], self.weights[mask], self.nodes)

    def within(self, labels: Labels) -> Edges:
        """The edges between nodes of the same label."""
        return self.where(labels[self.low] == labels[self.high])

    def among(self, members: Labels) -> Edges:
        """The edges among some nodes, renumbered from 0 in the given order."""
        position = np.full(self.nodes, -1, dtype=np.int64)
        position[members] = np.arange(len(members))
        low, high = position[self.low], position[self.high]
        inside = (low >= 0) & (high >= 0)
        ends = np.column_stack([low[inside], high[inside]])
        return Edges.of(ends, self.weights[inside], len(members))

    def strengths(self) -> Weights:
        """The sum of the weights at each node, shape (nodes,)."""
        # Without any edge numpy counts in integers.
        lower = np.bincount(self.low, self.weights, self.nodes).astype(np.float64)
        return lower + np.bincount(self.high, self.weights, self.nodes)

    def degrees(self) -> Labels:
        """The number of neighbours of each node, shape (nodes,)."""
        return np.bincount(self.low, minlength=self.nodes) + np.bincount(self.high, minlength=self.nodes)

    def matrix(self) -> csr_array:
        """The symmetric adjacency matrix, shape (nodes, nodes)."""
        low, high = (
            self.low.astype(np.int32),
            self.high.astype(np.int32),
        )  # all that scipy 1.13 takes in trees
        rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
        values = np.concatenate([self.weights, self.weights])
        return csr_array(coo_array((values, (rows, columns)), shape=(self.nodes, self.nodes)))


def _added_up(keys: Labels, values: Weights | None, nodes: int) -> tuple[Labels, Weights]:
    """Each key (`low * nodes + high`) once, ascending, with the sum of its values; None: its count."""
    if not (keys[1:] > keys[:-1]).all():
        if values is None:
            keys = np.sort(keys)
        else:
            in_order = order(keys % nodes, nodes)
            in_order = in_order[order(keys[in_order] // nodes, nodes)]
            keys, values = keys[in_order], values[in_order]
    firsts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)])
    counts = np.diff(firsts, append=len(keys))
    if values is None:
        return keys[firsts], counts.astype(np.float64)
    if len(firsts) < len(keys):
        # Parallel weights are added from small to large: the sum does not depend on the order of the rows.
        several = np.flatnonzero(np.repeat(counts > 1, counts))
        values = values.copy()
        values[several] = values[several[np.lexsort((values[several], keys[several]))]]
        values = np.add.reduceat(values, firsts)
    return keys[firsts], values


def _check(ends: NDArray[np.integer], weights: Weights, nodes: int) -> None:
    if nodes < 0:
        raise ValueError(f"the number of nodes must be at least 0, not {nodes}")
    if ends.ndim != 2 or ends.shape[1] != 2 or not np.issubdtype(ends.dtype, np.integer):
        raise ValueError(f"ends are rows of two integers, not {ends.dtype} of shape {ends.shape}")
    if weights.shape != ends.shape[:1]:
        raise ValueError(f"{len(ends)} edges have as many weights, not an array of shape {weights.shape}")
    if ends.size and not (ends.min() >= 0 and ends.max() < nodes):
        row = int(np.flatnonzero(((ends < 0) | (ends >= nodes)).any(axis=1))[0])
        raise ValueError(f"edge {row} joins {ends[row].tolist()}, and nodes are 0 to {nodes - 1}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"edge {row} has the weight {weights[row]}: give finite weights, none negative")


def community_graph(
    ends: NDArray[np.integer], weights: NDArray[np.floating] | None, labels: NDArray[np.integer]
) -> tuple[Labels, Weights]:
    """The graph of the next level: communities are linked as their members are (Alg. 1, line 9; ERRATA A3).

    `ends` and `weights` are the edges of this level, as for `leiden`; `labels` number the communities from 0.
    Returns ends, shape (edges, 2), ascending, each edge once, and weights, the sums over members.
    """
    labels = np.asarray(labels, dtype=np.int64)
    edges = Edges.of(ends, weights, len(labels))
    pairs = np.column_stack([labels[edges.low], labels[edges.high]])
    above = Edges.of(pairs, edges.weights, int(labels.max(initial=-1)) + 1)
    return above.pairs(), above.weights


def parts(edges: Edges, labels: Labels | None = None) -> Labels:
    """The connected parts of each community, or of the whole graph, numbered by the smallest member."""
    inside = edges if labels is None else edges.within(labels)
    matrix = csr_array(coo_array((inside.weights, (inside.low, inside.high)), shape=(edges.nodes,) * 2))
    _, components = connected_components(matrix, directed=False)
    return number(components)


def number(labels: NDArray[np.integer]) -> Labels:
    """The same partition with labels 0, 1, ... in the order of each community's smallest member."""
    if len(labels) and int(labels.min()) >= 0 and int(labels.max()) <= _DENSE * len(labels):
        members = np.full(int(labels.max()) + 1, len(labels), dtype=np.int64)
        members[labels[::-1]] = np.arange(len(labels) - 1, -1, -1)  # the last one written is the smallest
        firsts = np.zeros(len(labels), dtype=bool)
        firsts[members[members < len(labels)]] = True
        numbers: Labels = (np.cumsum(firsts) - 1)[members[labels]]
        return numbers
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first, kind="stable")] = np.arange(len(first))
    return order[inverse]


def within_each(outer: Labels, inner: Labels) -> Labels:
    """The partition whose communities share both labels, numbered by the smallest member."""
    if not len(outer):
        return np.zeros(0, dtype=np.int64)
    return number(outer.astype(np.int64) * (int(inner.max()) + 1) + inner)
