"""Weighted Leiden communities: bounded in size, repeatable, and cheap to bring up to date."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import depth_first_order, minimum_spanning_tree

from stratagraph.kernels.edges import Edges, Labels, Weights, number, parts, within_each
from stratagraph.kernels.ranges import distinct
from stratagraph.system.locks import Lock

_ITERATIONS = 2
_ITERATIONS_IF_SMALL = 3
_SMALL = 100_000
"""Up to this many edges a third iteration costs little; above, it improves next to nothing."""
_ROUNDS = 12
"""Rounds of Leiden; communities that are still too large are then cut along a spanning tree."""
_ONE_AT_A_TIME = Lock()
_LEAST_GAIN = 1e-12


def leiden(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    resolution: float = 1.0,
    max_size: int | None = None,
    initial: NDArray[np.integer] | None = None,
    movable: NDArray[np.bool_] | None = None,
    seed: int = 0,
) -> Labels:
    """Communities by modularity (ArchRAG 3.1.2; Traag, Waltman and van Eck, 2019).

    Parameters
    ----------
    ends
        The ends of each edge, shape (edges, 2). Weights of parallel edges add up; self-loops are dropped.
    weights
        Shape (edges,), none negative; None: 1 each. An edge of weight 0 is left out.
    resolution
        Larger values make more and smaller communities.
    max_size
        No community is larger; see `split_large`.
    initial
        Labels to start from, shape (nodes,), with `movable`; a node of label -1 is new and starts alone.
    movable
        The nodes that may leave their initial community, shape (nodes,). New nodes always may. The others of
        one community stay together, unless they alone exceed `max_size`.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member. Communities are connected,
    but for nodes kept together by `movable` and pieces cut by `max_size`.

    Raises
    ------
    ValueError
        If the edges are not valid.
    """
    if initial is None or movable is None:
        edges = Edges.of(ends, weights, nodes)
        labels = number(parts(edges, _optimise(edges, resolution, seed)))
    else:
        initial = np.asarray(initial, dtype=np.int64)
        start = number(np.where(initial < 0, initial.max(initial=0) + 1 + np.arange(nodes), initial))
        labels = number(_move(ends, weights, resolution, start, movable | (initial < 0), max_size))
    if max_size is None or not _large(labels, max_size).any():
        return labels
    return split_large(Edges.of(ends, weights, nodes), labels, max_size, seed)


def hierarchical_leiden(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    max_size: int,
    max_levels: int,
    resolution: float = 1.0,
    seed: int = 0,
) -> list[Labels]:
    """Nested communities from coarse to fine: each level splits those that are still too large.

    The first level is Leiden's partition of the graph. Each further level splits the communities of more
    than `max_size` nodes by Leiden on their own subgraphs, or cuts them as `split_large` does. It ends when
    none is too large, or after `max_levels` levels.

    Returns
    -------
    One array of labels per level, each as those of `leiden`; at least one. A community lies in one community
    of the level before.
    """
    edges = Edges.of(ends, weights, nodes)
    levels = [number(parts(edges, _optimise(edges, resolution, seed)))]
    while len(levels) < max_levels:
        labels = _split_once(edges, levels[-1], max_size, seed + len(levels))
        if labels.max(initial=-1) == levels[-1].max(initial=-1):
            break
        levels.append(labels)
    return levels


def modularity(
    ends: NDArray[np.integer], weights: NDArray[np.floating] | None, labels: NDArray[np.integer]
) -> float:
    """Share of weight inside communities less its expectation (Newman and Girvan, 2004); at most 1.

    Edges are as for `leiden`; `labels` has shape (nodes,). 0 for a graph without edges.
    """
    edges = Edges.of(ends, weights, len(labels))
    total = float(edges.weights.sum())
    if not total:
        return 0.0
    inside = float(edges.within(number(labels)).weights.sum())
    strengths = np.bincount(number(labels), edges.strengths())
    return inside / total - float((strengths**2).sum()) / (2 * total) ** 2


def _optimise(edges: Edges, resolution: float, seed: int, masses: Weights | None = None) -> Labels:
    """A partition that maximises modularity, by igraph.

    With masses of the nodes it maximises sum over communities of (weight inside - resolution * pairs of
    masses).
    """
    if not len(edges):
        return np.arange(edges.nodes, dtype=np.int64)
    import igraph

    graph = igraph.Graph(n=edges.nodes, edges=edges.pairs())
    objective = "modularity" if masses is None else "CPM"
    # igraph draws from one generator per process, and by default from Python's own.
    with _ONE_AT_A_TIME:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            clustering = graph.community_leiden(
                objective_function=objective,
                weights=edges.weights.tolist(),
                node_weights=None if masses is None else masses.tolist(),
                resolution=resolution,
                n_iterations=_ITERATIONS_IF_SMALL if len(edges) <= _SMALL else _ITERATIONS,
            )
        finally:
            igraph.set_random_number_generator(random)
    return np.asarray(clustering.membership, dtype=np.int64)


def split_large(edges: Edges, labels: Labels, max_size: int, seed: int) -> Labels:
    """Split communities of more than `max_size` nodes; others do not change (ERRATA A4).

    Leiden splits each on its own subgraph, repeatedly. A community that Leiden leaves whole, such as a star
    or a clique, is cut into as few pieces as possible, of equal size, along the depth-first order of its
    maximum spanning tree, so that pieces follow heavy edges. In the end, linked pieces of one community
    merge while modularity gains by it and the bound allows it.
    """
    whole = labels
    for turn in range(_ROUNDS):
        if not _large(labels, max_size).any():
            break
        labels = _split_once(edges, labels, max_size, seed + turn)
    if labels is whole:
        return labels
    labels = _cut(edges, labels, _large(labels, max_size), max_size)
    return _merge_linked(edges, labels, whole, max_size)


def _split_once(edges: Edges, labels: Labels, max_size: int, seed: int) -> Labels:
    """Split communities above the bound by Leiden; cut those that Leiden leaves whole."""
    large = _large(labels, max_size)
    if not large.any():
        return labels
    split = _leiden_in_each(edges, labels, large, seed)
    whole = large & (np.bincount(labels)[labels] == np.bincount(split)[split])
    return _cut(edges, split, whole, max_size)


def _large(labels: Labels, max_size: int) -> NDArray[np.bool_]:
    return np.bincount(labels)[labels] > max_size


def _leiden_in_each(edges: Edges, labels: Labels, chosen: NDArray[np.bool_], seed: int) -> Labels:
    """Leiden in each of the chosen communities, on its own subgraph, in one call for all.

    A node's mass is its strength in its community over the root of the community's own 2m, so that the
    objective is the sum of the communities' own modularities.
    """
    members = np.flatnonzero(chosen)
    inner = edges.within(np.where(chosen, labels, -1)).among(members)
    outer = number(labels[members])
    strengths = inner.strengths()
    totals = np.bincount(outer, strengths)[outer]
    masses = np.divide(strengths, np.sqrt(totals), out=np.zeros_like(strengths), where=totals > 0)
    pieces_of_members = _optimise(inner, 1.0, seed, masses)
    pieces_of_members[strengths == 0] = pieces_of_members.max(initial=0) + 1
    pieces = np.zeros(len(labels), dtype=np.int64)
    pieces[members] = pieces_of_members + 1
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


def _merge_linked(edges: Edges, labels: Labels, within: Labels, max_size: int) -> Labels:
    """Merge linked communities of one label of `within` while modularity gains and none exceeds `max_size`.

    In each round every community picks the partner of most gain, and the pairs that pick each other merge.
    """
    strengths = edges.strengths()
    total = strengths.sum()
    while True:
        sizes, masses = np.bincount(labels), np.bincount(labels, strengths)
        outer = np.empty(len(sizes), dtype=np.int64)
        outer[labels] = within
        links = Edges.of(np.column_stack([labels[edges.low], labels[edges.high]]), edges.weights, len(sizes))
        gains = links.weights - masses[links.low] * masses[links.high] / total
        fits = sizes[links.low] + sizes[links.high] <= max_size
        links = Edges(links.low, links.high, gains, len(sizes)).where(
            fits & (outer[links.low] == outer[links.high]) & (gains > 0)
        )
        if not len(links):
            return labels
        ranks = np.empty(len(links), dtype=np.int64)
        ranks[np.argsort(-links.weights, kind="stable")] = np.arange(len(links))
        best = np.full(links.nodes, len(links))  # of equal links the first is the best
        np.minimum.at(best, links.low, ranks)
        np.minimum.at(best, links.high, ranks)
        chosen = links.where((best[links.low] == ranks) & (best[links.high] == ranks))
        target = np.arange(len(sizes))
        target[chosen.high] = chosen.low
        labels = number(target[labels])


def resized(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    labels: NDArray[np.integer],
    wanted: int,
    *,
    max_size: int | None = None,
) -> Labels:
    """About `wanted` communities: the largest are split, or the smallest joined; the others stay.

    A community is split by Leiden on its own subgraph, in parts of at most half its size, and joined with the
    one to which it has most weight. The number is missed where communities have no edges between them, or a
    split gives more than two parts.

    Arguments and results are as for `leiden`; no joined community becomes larger than `max_size`.
    """
    edges = Edges.of(ends, weights, len(labels))
    communities = number(labels)
    count = len(distinct(communities))
    if count < wanted:
        return _halved(edges, communities, wanted - count)
    return _joined(edges, communities, count - wanted, max_size)


def _halved(edges: Edges, labels: Labels, missing: int) -> Labels:
    communities = labels.copy()
    sizes = np.bincount(labels)
    for community in np.argsort(-sizes, kind="stable").tolist():
        if missing <= 0 or sizes[community] < 2:
            break
        rows = np.flatnonzero(labels == community)
        pairs, weights = edges.pairs(), edges.weights
        inside = (labels[pairs] == community).all(axis=1)
        own = np.searchsorted(rows, pairs[inside])
        parts = leiden(own, weights[inside], len(rows), max_size=(len(rows) + 1) // 2)
        communities[rows[parts > 0]] = communities.max() + parts[parts > 0]
        missing -= int(parts.max())
    return number(communities)


def _joined(edges: Edges, labels: Labels, spare: int, max_size: int | None) -> Labels:
    communities = labels.copy()
    sizes = np.bincount(labels)
    pairs, weights = edges.pairs(), edges.weights
    for community in np.argsort(sizes, kind="stable").tolist():
        if spare <= 0:
            break
        own = communities[pairs]
        touching = (own == community).any(axis=1) & (own[:, 0] != own[:, 1])
        others = own[touching].sum(axis=1) - community
        shared = np.bincount(others, weights[touching], minlength=len(sizes))
        if max_size is not None:
            shared[sizes + sizes[community] > max_size] = 0
        if shared.max(initial=0) > 0:
            best = int(np.argmax(shared))
            communities[communities == community] = best
            sizes[best] += sizes[community]
            sizes[community] = 0
            spare -= 1
    return number(communities)


def _move(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    resolution: float,
    initial: Labels,
    movable: NDArray[np.bool_],
    max_size: int | None,
) -> Labels:
    """Improve a partition by moving the nodes of a mask; the others of one community stay together.

    Local moving and aggregation as in Leiden: moved nodes are connected with their community. The fixed nodes
    of one community are a single node here, and only communities next to a movable node take part. No
    community grows above `max_size`. The objective is modularity.
    """
    edges = Edges.of(ends, weights, len(initial), movable)
    masses = np.zeros(len(initial))
    if len(edges):  # pairs of them make modularity; without putting all edges in order
        values = np.where(ends[:, 0] == ends[:, 1], 0.0, 1.0 if weights is None else weights)
        strengths = np.bincount(ends[:, 0], values, len(initial)).astype(np.float64)
        strengths = strengths + np.bincount(ends[:, 1], values, len(initial))
        masses = strengths / np.sqrt(strengths.sum())
    groups = number(np.where(movable, initial.max(initial=0) + 1 + np.arange(edges.nodes), initial))
    fixed = np.zeros(groups.max(initial=-1) + 1, dtype=bool)
    fixed[groups[~movable]] = True
    labels = np.zeros(len(fixed), dtype=np.int64)
    labels[groups] = initial
    while True:
        sizes, mass = np.bincount(groups), np.bincount(groups, masses).astype(np.float64)
        low, high = groups[edges.low], groups[edges.high]
        near = ~(fixed[low] & fixed[high])  # fixed groups do not come together
        level = Edges.of(np.column_stack([low[near], high[near]]), edges.weights[near], len(fixed))
        merged = parts(level, _Level(level, mass, sizes, fixed, number(labels), resolution, max_size).run())
        count = int(merged.max(initial=-1)) + 1
        if count == len(fixed):
            return merged[groups]
        groups, labels = merged[groups], np.arange(count)
        fixed = np.bincount(merged, fixed, count) > 0


@dataclass
class _Level:
    """One round of local moving over the groups of a partition; `labels` changes in place."""

    edges: Edges
    masses: Weights
    sizes: Labels
    fixed: NDArray[np.bool_]
    labels: Labels
    resolution: float
    max_size: int | None

    def run(self) -> Labels:
        """The labels once no movable group gains by moving."""
        count = len(self.labels)
        # An empty community for each group, should it gain most by being alone.
        self.community_sizes = np.bincount(self.labels, self.sizes, 2 * count)
        self.community_masses = np.bincount(self.labels, self.masses, 2 * count)
        adjacency = self.edges.matrix()
        waiting = deque(np.flatnonzero(~self.fixed).tolist())
        queued = ~self.fixed
        while waiting:
            group = waiting.popleft()
            queued[group] = False
            row = slice(adjacency.indptr[group], adjacency.indptr[group + 1])
            neighbours = adjacency.indices[row]
            target = self._best(group, neighbours, adjacency.data[row])
            if target == self.labels[group]:
                continue
            for community, sign in ((self.labels[group], -1), (target, 1)):
                self.community_sizes[community] += sign * self.sizes[group]
                self.community_masses[community] += sign * self.masses[group]
            self.labels[group] = target
            again = neighbours[~self.fixed[neighbours] & ~queued[neighbours]]
            again = again[self.labels[again] != target]
            queued[again] = True
            waiting.extend(again.tolist())
        return self.labels

    def _best(self, group: int, neighbours: Labels, weights: Weights) -> int:
        """The community in which a group gains most, or its own."""
        own, mass = int(self.labels[group]), self.masses[group]
        choices, inverse = np.unique(self.labels[neighbours], return_inverse=True)
        linked = np.bincount(inverse, weights, len(choices))
        others = self.community_masses[choices] - np.where(choices == own, mass, 0)
        gains = linked - self.resolution * mass * others
        stay = gains[choices == own]
        gain = float(stay[0]) if len(stay) else -self.resolution * mass * (self.community_masses[own] - mass)
        if self.max_size is not None:
            gains[self.community_sizes[choices] + self.sizes[group] > self.max_size] = -np.inf
        gains[choices == own] = -np.inf
        best = int(np.argmax(gains)) if len(gains) else -1
        if best >= 0 and gains[best] > max(gain, 0.0) + _LEAST_GAIN:
            return int(choices[best])
        return own if gain >= -_LEAST_GAIN else len(self.labels) + group
