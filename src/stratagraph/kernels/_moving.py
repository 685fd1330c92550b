"""Local moving of a few nodes of a large partition, at the cost of their surroundings."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.edges import Edges, Labels, Weights, number, parts

_LEAST_GAIN = 1e-12


def move(
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
    masses = _masses(ends, weights, len(initial)) if len(edges) else np.zeros(len(initial))
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
        found = parts(level, _Level(level, mass, sizes, fixed, number(labels), resolution, max_size).run())
        count = int(found.max(initial=-1)) + 1
        if count == len(fixed):
            return found[groups]
        groups, labels = found[groups], np.arange(count)
        fixed = np.bincount(found, fixed, count) > 0


def _masses(ends: NDArray[np.integer], weights: NDArray[np.floating] | None, nodes: int) -> Weights:
    """The masses of `leiden.optimise` by which it maximises modularity, without putting edges in order."""
    given = np.where(ends[:, 0] == ends[:, 1], 0.0, 1.0 if weights is None else weights)
    lower = np.bincount(ends[:, 0], given, nodes).astype(np.float64)
    strengths: Weights = lower + np.bincount(ends[:, 1], given, nodes)
    return np.asarray(strengths / np.sqrt(strengths.sum()))


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
            self._put(group, target)
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

    def _put(self, group: int, target: int) -> None:
        for community, sign in ((self.labels[group], -1), (target, 1)):
            self.community_sizes[community] += sign * self.sizes[group]
            self.community_masses[community] += sign * self.masses[group]
        self.labels[group] = target
