"""One level of the hierarchy as an attributed graph, its partition, and the graph of the next (Alg. 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratarag.kernels.partition import community_graph
from stratarag.methods.archrag.clustering import Recipe, Weights
from stratarag.methods.archrag.warm_start import InitialPartition
from stratarag.pipeline.carryover import Labels
from stratarag.pipeline.drift import communities_drifted, first_settled
from stratarag.pipeline.graph import Graph
from stratarag.protocols import Rows, Vectors
from stratarag.records import Node


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
    """

    labels: Labels
    count: int
    joined: int
    ends: Rows
    weights: Weights

    def members(self) -> list[Rows]:
        """Rows of each community's members, ascending."""
        return _split(np.argsort(self.labels, kind="stable"), np.bincount(self.labels, minlength=self.count))

    def inner_edges(self, ends: Rows) -> list[Rows]:
        """Rows of the edges inside each community, ascending."""
        own = self.labels[ends[:, 0]]
        inside = np.flatnonzero(own == self.labels[ends[:, 1]])
        order = inside[np.argsort(own[inside], kind="stable")]
        return _split(order, np.bincount(own[inside], minlength=self.count))


def entity_level(graph: Graph) -> Level:
    """The corpus' graph as level 0."""
    indptr, indices = graph.sources

    def relations(rows: Sequence[int]) -> list[str]:
        return graph.stored.texts([graph.entities + row for row in rows])

    return Level(
        0,
        np.asarray(graph.vectors),
        graph.ends,
        np.asarray(graph.weights, np.float64),
        (indptr[: graph.entities + 1], indices),
        graph.stored.nodes,
        relations,
    )


def community_level(number: int, nodes: Sequence[Node], vectors: Vectors, partition: Partition) -> Level:
    """The communities of a partition as the next level."""
    lists = [node.sources for node in nodes]
    indptr = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    indices = np.fromiter((row for rows in lists for row in rows), np.int64, int(indptr[-1]))
    return Level(
        number,
        vectors,
        partition.ends,
        partition.weights,
        (indptr, indices),
        lambda rows: [nodes[row] for row in rows],
        lambda rows: [],
    )


def partition(
    level: Level, recipe: Recipe, initial: InitialPartition | None, *, compare: bool = False
) -> Partition:
    """Augment and cluster a level (lines 3 to 6), or bring its previous partition up to date.

    Where this is to `compare` itself with a partition made anew and has drifted from it, all nodes may move;
    if that is not enough, the level is clustered anew (`pipeline.drift`).
    """
    ends, weights = recipe.augmented(level.vectors, level.ends, level.weights)

    def anew() -> Labels:
        return recipe.clustered(level.vectors, ends, weights)

    def moved(start: InitialPartition, movable: NDArray[np.bool_]) -> Labels:
        return recipe.moved(ends, weights, start.labels, movable)

    if initial is None:
        labels = anew()
    else:
        everything = np.ones(level.size, np.bool_)
        ways = [partial(moved, initial, initial.movable), partial(moved, initial, everything)]
        labels = first_settled(ways, anew, partial(communities_drifted, ends, weights), compare=compare)
    labels, count, joined = _numbered(labels)
    crossing, edges = community_graph(ends, None, labels)  # line 9: weights count the crossing edges
    return Partition(labels, count, joined, crossing, edges)


def community_sources(labels: Labels, count: int, sources: tuple[Rows, Rows], chunks: int) -> list[list[int]]:
    """The chunk rows of each community: the union of its members', ascending."""
    indptr, indices = sources
    nodes = len(labels)
    members = csr_array((np.ones(nodes, np.int32), (labels, np.arange(nodes))), shape=(count, nodes))
    chunks_of_nodes = csr_array(
        (np.ones(int(indptr[-1]), np.int32), indices[: indptr[-1]], indptr), shape=(nodes, chunks)
    )
    found = (members @ chunks_of_nodes).tocsr()
    found.sort_indices()
    return [rows.tolist() for rows in _split(found.indices, np.diff(found.indptr))]


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


def _split(order: NDArray[np.integer], sizes: NDArray[np.integer]) -> list[Rows]:
    return (
        [np.asarray(part, np.int64) for part in np.split(order, np.cumsum(sizes)[:-1])] if len(sizes) else []
    )
