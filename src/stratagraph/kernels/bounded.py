"""Communities no larger than a bound, whatever clustering found them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import depth_first_order, minimum_spanning_tree

from stratagraph.kernels._edges import Edges, Labels, check_size, number, parts, within_each
from stratagraph.kernels._leiden import optimise
from stratagraph.kernels._merging import merge_linked

_ROUNDS = 12
"""Rounds of Leiden before what is still too large is cut along a spanning tree."""


def bound_sizes(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    labels: NDArray[np.integer],
    max_size: int,
    *,
    seed: int = 0,
) -> Labels:
    """Split communities of more than `max_size` nodes; the others stay as they are (ERRATA A4).

    Leiden splits each on its own subgraph, again and again, with the modularity of that subgraph; all
    subgraphs of a round are one call. A community that Leiden leaves whole, such as a star or a clique, is
    cut into as few pieces as will do, of equal size, along the depth-first order of its maximum spanning
    tree, so that pieces follow heavy edges. Nodes without an edge inside their community stay together. In
    the end, linked pieces of one community merge while modularity gains by it and the bound allows it.

    Parameters
    ----------
    ends, weights
        Edges as for `leiden`.
    labels
        The partition, shape (nodes,).

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member.

    Raises
    ------
    ValueError
        If `max_size` is below 1, or the edges are not valid.
    """
    labels = number(np.asarray(labels, dtype=np.int64))
    return split_large(Edges.of(ends, weights, len(labels)), labels, max_size, seed)


def split_large(edges: Edges, labels: Labels, max_size: int, seed: int) -> Labels:
    """`bound_sizes` for edges that are checked and labels that are numbered."""
    check_size(max_size)
    whole = labels
    for turn in range(_ROUNDS):
        if not _large(labels, max_size).any():
            break
        labels = split_once(edges, labels, max_size, seed + turn)
    labels = _cut(edges, labels, _large(labels, max_size), max_size)
    return merge_linked(edges, labels, whole, max_size)


def split_once(edges: Edges, labels: Labels, max_size: int, seed: int) -> Labels:
    """Split each community above the bound by Leiden, or cut it to size where Leiden leaves it whole."""
    large = _large(labels, max_size)
    if not large.any():
        return labels
    found = _leiden_in_each(edges, labels, large, seed)
    whole = large & (np.bincount(labels)[labels] == np.bincount(found)[found])
    return _cut(edges, found, whole, max_size)


def _large(labels: Labels, max_size: int) -> NDArray[np.bool_]:
    """The nodes of communities above the bound."""
    return np.bincount(labels)[labels] > max_size


def _leiden_in_each(edges: Edges, labels: Labels, chosen: NDArray[np.bool_], seed: int) -> Labels:
    """Leiden in each of the chosen communities, on its own subgraph, in one call for all.

    Masses of a node are its strength in its community over the root of that community's own 2m, so that
    the objective is the sum of the communities' own modularities; no edge joins two of them.
    """
    members = np.flatnonzero(chosen)
    inner = edges.within(np.where(chosen, labels, -1)).among(members)
    outer = number(labels[members])
    strengths = inner.strengths()
    totals = np.bincount(outer, strengths)[outer]
    masses = np.divide(strengths, np.sqrt(totals), out=np.zeros_like(strengths), where=totals > 0)
    found = optimise(inner, masses, 1.0, None, seed)
    found[strengths == 0] = found.max(initial=0) + 1
    pieces = np.zeros(len(labels), dtype=np.int64)
    pieces[members] = found + 1
    return within_each(labels, pieces)


def _cut(edges: Edges, labels: Labels, chosen: NDArray[np.bool_], max_size: int) -> Labels:
    """Cut the chosen communities into pieces of equal size along their spanning trees."""
    if not chosen.any():
        return labels
    members = np.flatnonzero(chosen)
    inner = edges.within(np.where(chosen, labels, -1)).among(members)
    order = _walk_order(inner)
    outer = number(labels[members])
    order = order[np.argsort(outer[order], kind="stable")]
    sizes = np.bincount(outer)
    ranks = np.empty(len(members), dtype=np.int64)
    ranks[order] = np.arange(len(members)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    counts = -(-sizes // max_size)
    pieces = np.zeros(len(labels), dtype=np.int64)
    pieces[members] = ranks * counts[outer] // sizes[outer] + 1
    return within_each(labels, pieces)


def _walk_order(edges: Edges) -> Labels:
    """All nodes in depth-first order of the maximum spanning forest, trees by their smallest member."""
    heaviest = edges.weights.max(initial=0.0)
    costs = Edges(edges.low, edges.high, 2 * heaviest - edges.weights, edges.nodes)
    tree = minimum_spanning_tree(costs.matrix())
    components = parts(edges)
    # A root joined to one node of each tree turns the forest into one tree, which one walk visits.
    _, roots = np.unique(components, return_index=True)
    forest = tree.tocoo()
    low = np.concatenate([forest.row, roots])
    high = np.concatenate([forest.col, np.full(len(roots), edges.nodes)])
    joined = Edges(low, high, np.ones(len(low)), edges.nodes + 1).matrix()
    order = depth_first_order(joined, edges.nodes, directed=False, return_predecessors=False)
    return np.asarray(order[1:], dtype=np.int64)
