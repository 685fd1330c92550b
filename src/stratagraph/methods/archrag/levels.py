"""One level of the hierarchy as an attributed graph, its partition, and the graph of the next (Alg. 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.ingest.before import Before, mixed
from stratagraph.ingest.carryover import Keys, Labels, needs_reclustering, previous_labels
from stratagraph.ingest.graph.stage import Graph
from stratagraph.kernels import augment as augmenting
from stratagraph.kernels.augment import Known, added
from stratagraph.kernels.leiden import leiden
from stratagraph.kernels.partition import cluster, community_graph
from stratagraph.kernels.ranges import by_label
from stratagraph.methods.archrag.clustering import AUGMENTATIONS, CLUSTERINGS, Weights
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.drift import Drift, communities_measured
from stratagraph.types.protocols import Rows, Stored, Vectors
from stratagraph.types.records import Node

PARENTS = "entities.parents"
"""Name of the array of the row of each entity's community, or -1."""


@dataclass(frozen=True, slots=True)
class InitialPartition:
    """The community that each node of a level starts in (-1: none), and which nodes may leave theirs."""

    labels: Labels
    movable: NDArray[np.bool_]


class WarmStart:
    """The initial partition of one level after the other, from the entities upwards."""

    def __init__(self, graph: Graph, previous: Stored | None) -> None:
        self._arrays: Mapping[str, NDArray[Any]] = {} if previous is None else previous.arrays
        self.drift = Drift(graph.entities)
        self._initial = None
        if previous is not None and graph.before is not None:
            self._initial = self._of_entities(graph, graph.before)

    def initial(self) -> InitialPartition | None:
        """The previous partition of this level; None if the level must be clustered again."""
        return self._initial

    def ascend(self, labels: Labels, count: int) -> None:
        """Go on to the level whose nodes are these `count` communities.

        A community succeeds the previous one with which it shares most members, and starts in its parent. Of
        several successors the largest stays there; the others may move, and so may those in a parent that
        lost a member.
        """
        if self._initial is None:
            return
        successions = _successions(labels, self._initial.labels, count)
        parents: Labels = self._arrays["parents"]
        start = np.where(successions.rows >= 0, parents[successions.rows], -1)
        movable = ~successions.first | _in_shrunken(start, parents)
        self._initial = InitialPartition(start, movable) if (start >= 0).any() else None

    def _of_entities(self, graph: Graph, before: Before) -> InitialPartition | None:
        parents, origin = self._arrays[PARENTS], before.origin[: graph.entities]
        labels = previous_labels(origin, parents)
        kept = (labels >= 0) & _same_neighbours(graph, before)
        changed = int(np.count_nonzero(~kept))
        self.drift = Drift.since(self._arrays, len(kept), changed)
        if needs_reclustering(kept):
            return None
        return InitialPartition(labels, ~kept | _in_shrunken(labels, parents))


def _same_neighbours(graph: Graph, before: Before) -> NDArray[np.bool_]:
    """The entities that are linked with the same ones as before, shape (entities,)."""
    origin, were = before.origin[: graph.entities], before.stored.arrays
    now = _sums_of_neighbours(graph.ends, mixed(origin))
    count = int(were["counts"][0])
    then = _sums_of_neighbours(were["relations.ends"], mixed(np.arange(count)))
    found = origin >= 0
    found[found] = now[found] == then[origin[found]]
    return found


def _sums_of_neighbours(ends: Rows, values: Keys) -> Keys:
    found = np.zeros(len(values), np.uint64)
    np.add.at(found, ends[:, 0], values[ends[:, 1]])
    np.add.at(found, ends[:, 1], values[ends[:, 0]])
    return found


def _in_shrunken(labels: Labels, previous: Labels) -> NDArray[np.bool_]:
    """The nodes in communities that lost members: if they could not move, deletions would leave fragments."""
    count = int(previous.max(initial=0)) + 1
    before, now = (np.bincount(each[each >= 0], minlength=count) for each in (previous, labels))
    return (labels >= 0) & (now < before)[labels]


@dataclass(frozen=True, slots=True)
class _Successions:
    """The previous row that each community succeeds, or -1, and whether it is that row's first successor."""

    rows: Labels
    first: NDArray[np.bool_]


def _successions(labels: Labels, previous: Labels, count: int) -> _Successions:
    known = previous >= 0
    span = int(previous.max(initial=0)) + 1
    pairs, shared = np.unique(labels[known] * span + previous[known], return_counts=True)
    new, old = pairs // span, pairs % span
    rows, overlap = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    order = np.lexsort((-old, shared))  # the last one written is the largest, of equals the lowest row
    rows[new[order]], overlap[new[order]] = old[order], shared[order]
    first = np.zeros(count, np.bool_)
    ranked = np.lexsort((np.arange(count), -overlap, rows))
    ranked = ranked[rows[ranked] >= 0]
    first[ranked[np.flatnonzero(np.diff(rows[ranked], prepend=-1))]] = True
    return _Successions(rows, first)


@dataclass(frozen=True, slots=True)
class LevelBefore:
    """The previous row of each node of a level, or -1, and whether node and sources are unchanged.

    At level 0 the edges, whose texts are nodes too, follow the nodes.
    """

    origin: Rows
    same: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Level:
    """The nodes of a level and the edges between them.

    Parameters
    ----------
    number
        0 for the entities.
    vectors
        Shape (nodes, dimension).
    ends, weights
        Edges: the relations at level 0, above it the number of edges that cross between two communities
        (ERRATA A3).
    sources
        Chunk rows of node i: `sources[1][sources[0][i]:sources[0][i + 1]]`.
    read_nodes
        The nodes at some rows.
    read_relations
        Texts of the edges at some rows; none above level 0, whose edges have no text.
    """

    number: int
    vectors: Vectors
    ends: Rows
    weights: Weights
    sources: tuple[Rows, Rows]
    read_nodes: Callable[[Sequence[int]], Sequence[Node]]
    read_relations: Callable[[Sequence[int]], list[str]]
    before: LevelBefore

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.vectors)


@dataclass(frozen=True, slots=True)
class Partition:
    """The communities of a level.

    Parameters
    ----------
    labels
        The community of each node, shape (nodes,). Communities of several members come before those of one.
    count, joined
        How many communities there are, and how many of these have several members.
    ends, weights
        The graph of the communities.
    added
        The edges of similarity that the level got, shape (edges, 2).
    """

    labels: Labels
    count: int
    joined: int
    ends: Rows
    weights: Weights
    added: Rows

    def members(self) -> list[Rows]:
        """Rows of each community's members, ascending."""
        return by_label(self.labels, self.count)

    def of_edges(self, ends: Rows) -> Labels:
        """The community that each edge is inside of, or -1."""
        own = self.labels[ends]
        return np.where(own[:, 0] == own[:, 1], own[:, 0], -1)

    def inner_edges(self, ends: Rows) -> list[Rows]:
        """Rows of the edges inside each community, ascending."""
        return by_label(self.of_edges(ends), self.count)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one level is augmented and clustered."""

    config: ArchRAGConfig
    threads: int = 1

    def augmented(
        self, vectors: Vectors, ends: Rows, weights: Weights, known: augmenting.Known | None = None
    ) -> tuple[Rows, Weights]:
        """The edges of the graph and those that similarity adds, each weighted (lines 3 to 5)."""
        custom = AUGMENTATIONS.custom(self.config.augmentation)
        if custom is not None:
            found, weighed = custom(np.asarray(vectors), ends, weights)
            return np.asarray(found, np.int64).reshape(-1, 2), np.asarray(weighed, np.float64)
        return augmenting.augment(
            vectors,
            ends,
            weights,
            mode=self.config.augmentation,  # type: ignore[arg-type]  # checked when the configuration was made
            neighbours=self.config.neighbours,
            quantile=self.config.quantile,
            seed=self.config.seed,
            threads=self.threads,
            known=known,
        )

    def clustered(self, vectors: Vectors, ends: Rows, weights: Weights) -> Labels:
        """A community for each node, none larger than the bound (line 6)."""
        method: Any = self.config.clustering
        custom = CLUSTERINGS.custom(self.config.clustering)
        if custom is not None:

            def method(ends: Rows, weights: Weights, nodes: int) -> NDArray[np.integer]:
                return custom(np.asarray(vectors), ends, weights, self.config.max_community)

        return cluster(
            ends,
            weights,
            len(vectors),
            method=method,
            max_size=self.config.max_community,
            resolution=self.config.resolution,
            seed=self.config.seed,
        )

    def moved(self, ends: Rows, weights: Weights, initial: Labels, movable: NDArray[np.bool_]) -> Labels:
        """The partition `initial` updated by Leiden's local moving, whichever clustering made it.

        New nodes (label -1) and movable ones join the community in which they gain most modularity.
        """
        return leiden(
            ends,
            weights,
            len(initial),
            max_size=self.config.max_community,
            resolution=self.config.resolution,
            initial=initial,
            movable=movable,
            seed=self.config.seed,
        )


def entity_level(graph: Graph) -> Level:
    """The corpus' graph as level 0."""
    indptr, indices = graph.sources

    def relations(rows: Sequence[int]) -> list[str]:
        return graph.stored.texts([graph.entities + row for row in rows])

    return Level(
        0,
        graph.vectors,
        graph.ends,
        np.asarray(graph.weights, np.float64),
        (indptr[: graph.entities + 1], indices),
        graph.stored.nodes,
        relations,
        _before(graph),
    )


def _before(graph: Graph) -> LevelBefore:
    """Of entities and relations."""
    count = graph.entities + graph.relations
    if graph.before is None:
        return LevelBefore(np.full(count, -1, np.int64), np.zeros(count, np.bool_))
    return LevelBefore(graph.before.origin[:count], graph.before.same[:count])


def partition(
    level: Level,
    recipe: Recipe,
    initial: InitialPartition | None,
    drift: Drift,
    known: Known | None = None,
) -> Partition:
    """Augment and cluster a level (lines 3 to 6), or bring its previous partition up to date.

    If it has drifted, all nodes may move; if that is not enough, the level is clustered anew
    (`methods.drift`). Known edges of similarity stay if there is a previous partition.
    """
    known = None if initial is None else known
    ends, weights = recipe.augmented(level.vectors, level.ends, level.weights, known)
    name, measure = f"level{level.number}", partial(communities_measured, ends, weights)

    def anew() -> Labels:
        return recipe.clustered(level.vectors, ends, weights)

    def moved(start: InitialPartition, movable: NDArray[np.bool_]) -> Labels:
        return recipe.moved(ends, weights, start.labels, movable)

    ways = []
    if initial is not None:
        everything = np.ones(level.size, np.bool_)
        ways = [partial(moved, initial, initial.movable), partial(moved, initial, everything)]
    labels = drift.settled(name, level.size, ways, anew, measure)
    labels, count, joined = _numbered(labels)
    crossing, edges = community_graph(ends, None, labels)  # line 9: weights count the crossing edges
    return Partition(labels, count, joined, crossing, edges, added(level.ends, ends, level.size))


def community_sources(
    labels: Labels, count: int, sources: tuple[Rows, Rows], chunks: int
) -> tuple[Rows, Rows]:
    """The chunk rows of each community, one after the other: the union of its members', ascending."""
    indptr, indices = sources
    nodes = len(labels)
    members = csr_array((np.ones(nodes, np.int32), (labels, np.arange(nodes))), shape=(count, nodes))
    chunks_of_nodes = csr_array(
        (np.ones(int(indptr[-1]), np.int32), indices[: indptr[-1]], indptr), shape=(nodes, chunks)
    )
    found = (members @ chunks_of_nodes).tocsr()
    found.sort_indices()
    return found.indptr.astype(np.int64), found.indices


def inner_degrees(level: Level, labels: Labels) -> Weights:
    """The weighted degree of each node inside its community, shape (nodes,)."""
    inside = labels[level.ends[:, 0]] == labels[level.ends[:, 1]]
    ends, weights = level.ends[inside], level.weights[inside]
    found = np.bincount(ends.ravel(), np.repeat(weights, 2), minlength=level.size)
    return found.astype(np.float64)


def _numbered(labels: Labels) -> tuple[Labels, int, int]:
    """Labels such that communities of several members come before those of one."""
    sizes = np.bincount(labels)
    order = np.argsort(sizes == 1, kind="stable")
    rank = np.empty(len(sizes), np.int64)
    rank[order] = np.arange(len(sizes))
    return rank[labels], len(sizes), int(np.count_nonzero(sizes > 1))
