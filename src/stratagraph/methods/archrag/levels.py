"""One level of the hierarchy (Alg. 1): its attributed graph, its partition, and its communities."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import VECTORS, Before, Keys, Labels, needs_reclustering, previous_labels
from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.graph.statements import group_vectors
from stratagraph.ingest.marks import Marks, combined, label_sums, mixed
from stratagraph.ingest.names.spelling import telling
from stratagraph.kernels.augment import PreviousEdges, added, augment
from stratagraph.kernels.edges import Edges, community_graph, number
from stratagraph.kernels.leiden import leiden, split_large
from stratagraph.kernels.leidenalg import communities
from stratagraph.kernels.ranges import by_label, ranges, split
from stratagraph.methods.archrag.clustering import AUGMENTATIONS, CLUSTERINGS, Weights
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.drift import Drift, communities_measured, majority
from stratagraph.methods.groups import (
    VECTOR_HASHES,
    GroupBuilder,
    NodeDraft,
    NodeTable,
    of_same_vectors,
    united,
)
from stratagraph.methods.reports import write_reports
from stratagraph.methods.settings import neighbour_search
from stratagraph.types.protocols import Rows, Stored, Vectors
from stratagraph.types.records import Node, content_id

Builder = GroupBuilder[ArchRAGConfig]
PARENTS = "entities.parents"
"""The array of the row of each entity's community, or -1."""
KIND = "community"
TITLE_NAMES = 3
"""Members whose names make the title of a report that no model wrote."""


class InitialPartition(NamedTuple):
    """The community that each node of a level starts in (-1: none), and which nodes may leave theirs."""

    labels: Labels
    movable: NDArray[np.bool_]


class WarmStart:
    """The `initial` partition of one level after the other, from the entities up; None: a fresh one."""

    def __init__(self, graph: Graph, previous: Stored | None) -> None:
        self._arrays: Mapping[str, NDArray[Any]] = {} if previous is None else previous.arrays
        self.drift = Drift(graph.entities)
        self.initial: InitialPartition | None = None
        if previous is not None and graph.before is not None:
            self.initial = self._of_entities(graph, graph.before)

    def ascend(self, labels: Labels, count: int) -> None:
        """Go on to the level whose nodes are these `count` communities.

        A community succeeds the previous one with which it shares most members, and starts in that one's
        parent. Of several successors the one that shares most stays there. The others may move, and so may
        those in a parent that lost a member.
        """
        if self.initial is None:
            return
        rows, overlap = majority(labels, self.initial.labels, count)
        first = np.zeros(count, np.bool_)
        ranked = np.lexsort((-overlap, rows))
        ranked = ranked[rows[ranked] >= 0]
        first[ranked[np.flatnonzero(np.diff(rows[ranked], prepend=-1))]] = True
        parents: Labels = self._arrays["parents"]
        start = np.where(rows >= 0, parents[rows], -1)
        movable = ~first | _in_shrunken(start, parents)
        self.initial = InitialPartition(start, movable) if (start >= 0).any() else None

    def _of_entities(self, graph: Graph, before: Before) -> InitialPartition | None:
        """Entities stay in their communities while they are linked with the same ones as before."""
        parents, rows_before = self._arrays[PARENTS], before.rows_before[: graph.entities]
        labels, arrays = previous_labels(rows_before, parents), before.stored.arrays
        now = _sums_of_neighbours(graph.ends, mixed(rows_before))
        then = _sums_of_neighbours(arrays["relations.ends"], mixed(np.arange(int(arrays["counts"][0]))))
        unchanged = (labels >= 0) & (rows_before >= 0)
        unchanged[unchanged] = now[unchanged] == then[rows_before[unchanged]]
        self.drift = Drift.since(self._arrays, len(unchanged), int(np.count_nonzero(~unchanged)))
        if needs_reclustering(unchanged):
            return None
        return InitialPartition(labels, ~unchanged | _in_shrunken(labels, parents))


def _sums_of_neighbours(ends: Rows, values: Keys) -> Keys:
    sums = np.zeros(len(values), np.uint64)
    np.add.at(sums, ends[:, 0], values[ends[:, 1]])
    np.add.at(sums, ends[:, 1], values[ends[:, 0]])
    return sums


def _in_shrunken(labels: Labels, previous: Labels) -> NDArray[np.bool_]:
    """The nodes in communities that lost members. If they could not move, deletions would leave fragments."""
    count = int(previous.max(initial=0)) + 1
    before, now = (np.bincount(each[each >= 0], minlength=count) for each in (previous, labels))
    return (labels >= 0) & (now < before)[labels]


class LevelGraph(NamedTuple):
    """The nodes of a level and the edges between them."""

    number: int  # 0 for the entities
    vectors: Vectors
    ends: Rows  # the relations at level 0; above, the pairs of communities that edges cross (ERRATA A3)
    weights: Weights  # above level 0 the number of these edges
    read_nodes: Callable[[Sequence[int]], Sequence[Node]]
    read_relations: Callable[[Sequence[int]], list[str]]  # texts of edges; none above level 0
    rows_before: Rows  # the previous row of the node with the same vector, or -1
    marks: Marks  # of the nodes
    edge_marks: Marks  # at level 0; none above

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.vectors)


@dataclass(frozen=True, slots=True)
class Partition:
    """The communities of a level; those of several members come before those of one."""

    labels: Labels  # the community of each node
    count: int
    joined: int  # communities of several members
    ends: Rows  # the graph of the communities
    weights: Weights
    added: Rows  # the edges of similarity that the level got, shape (edges, 2)

    def of_edges(self, ends: Rows) -> Labels:
        """The community that each edge is inside of, or -1."""
        own = self.labels[ends]
        return np.where(own[:, 0] == own[:, 1], own[:, 0], -1)

    def ranked(self, level: LevelGraph) -> tuple[list[Rows], Rows]:
        """The members of each community, the most connected inside of it first; and the rank of each member.

        Of equals, the first entity comes first, and the community with the lowest mark.
        """
        inside = self.labels[level.ends[:, 0]] == self.labels[level.ends[:, 1]]
        weights = np.repeat(level.weights[inside], 2)
        degrees = np.bincount(level.ends[inside].ravel(), weights, level.size).astype(np.float64)
        ties = level.marks[:, 0] if level.number else np.arange(level.size)
        order = np.lexsort((ties, -degrees, self.labels))
        sizes, ranks = np.bincount(self.labels, minlength=self.count), np.empty(level.size, np.int64)
        ranks[order] = ranges(np.zeros(self.count, np.int64), sizes)
        return split(order, sizes), ranks


def entity_level(builder: Builder) -> LevelGraph:
    """The corpus' graph as level 0."""
    graph, marks = builder.graph, builder.row_marks
    rows_before = np.full(graph.entities, -1, np.int64)
    if graph.before is not None:
        rows_before = np.where(graph.before.alike, graph.before.rows_before[: graph.entities], -1)

    def relations(rows: Sequence[int]) -> list[str]:
        return graph.stored.texts([graph.entities + row for row in rows])

    return LevelGraph(
        0,
        graph.vectors,
        graph.ends,
        np.asarray(graph.weights, np.float64),
        graph.stored.nodes,
        relations,
        rows_before,
        marks[: graph.entities],
        marks[graph.entities : graph.entities + graph.relations],
    )


def augmented(
    vectors: Vectors,
    ends: Rows,
    weights: Weights,
    config: ArchRAGConfig,
    previous: PreviousEdges | None = None,
) -> tuple[Rows, Weights]:
    """The edges of a level and those that similarity adds, each weighted (lines 3 to 5)."""
    function = AUGMENTATIONS.custom(config.augmentation)
    if function is not None:
        new_ends, weighed = function(np.asarray(vectors), ends, weights)
        return np.asarray(new_ends, np.int64).reshape(-1, 2), np.asarray(weighed, np.float64)
    if config.augmentation == "none":
        edges = Edges.of(ends, weights, len(vectors))
        return edges.pairs(), edges.weights
    return augment(
        vectors,
        ends,
        weights,
        neighbours=config.added_neighbours,
        quantile=config.quantile,
        seed=config.seed,
        threads=os.cpu_count() or 1,
        previous=previous,
        search=neighbour_search(config.neighbours, config.seed),
    )


def clustered(vectors: Vectors, ends: Rows, weights: Weights, config: ArchRAGConfig) -> Labels:
    """A community for each node by any clustering, none larger than the bound (line 6, ERRATA A4)."""
    count, bound, resolution, seed = len(vectors), config.max_community, config.resolution, config.seed
    function = CLUSTERINGS.custom(config.clustering)
    if function is None and config.clustering == "leiden":
        return leiden(ends, weights, count, max_size=bound, resolution=resolution, seed=seed)
    edges = Edges.of(ends, weights, count)
    pairs, quality = edges.pairs(), config.quality or "modularity"
    if function is None:
        labels = communities(pairs, edges.weights, count, quality=quality, resolution=resolution, seed=seed)
    else:
        labels = np.asarray(function(np.asarray(vectors), pairs, edges.weights, bound))
    if labels.shape != (count,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"the clustering given must give {count} integers, not {labels.dtype} of shape {labels.shape}"
        )
    return split_large(edges, number(labels), bound, seed)


def partition(
    level: LevelGraph,
    config: ArchRAGConfig,
    initial: InitialPartition | None,
    drift: Drift,
    previous: PreviousEdges | None = None,
) -> Partition:
    """Augment and cluster a level (lines 3 to 6), or bring its previous partition up to date.

    New nodes and movable ones join the community in which they gain most modularity, whatever the clustering.
    If the partition has drifted, all nodes may move; if that is not enough, a fresh one is taken
    (`methods.drift`).
    Previous edges of similarity stay if there is a previous partition.
    """
    previous = None if initial is None else previous
    ends, weights = augmented(level.vectors, level.ends, level.weights, config, previous)
    fresh = partial(clustered, level.vectors, ends, weights, config)
    ways: list[Callable[[], Labels]] = []
    if initial is not None:
        move = partial(
            leiden,
            ends,
            weights,
            level.size,
            max_size=config.max_community,
            resolution=config.resolution,
            initial=initial.labels,
            seed=config.seed,
        )
        masks = initial.movable, np.ones(level.size, np.bool_)
        ways = [partial(move, movable=mask) for mask in masks]
    measure = partial(communities_measured, ends, weights)
    labels = drift.choose(f"level{level.number}", level.size, ways, fresh, measure)
    sizes = np.bincount(labels)
    rank = np.empty(len(sizes), np.int64)
    rank[np.argsort(sizes == 1, kind="stable")] = np.arange(len(sizes))
    labels, joined = rank[labels], int(np.count_nonzero(sizes > 1))
    crossing, edges = community_graph(ends, None, labels)  # line 9: weights count the crossing edges
    return Partition(labels, len(sizes), joined, crossing, edges, added(level.ends, ends, level.size))


class Communities(NamedTuple):
    """The communities of a level, in the order of the labels; `start` is the row of the first.

    `rows_before` has the previous row of a community of this level with the same vector, or -1.
    """

    partition: Partition
    start: int
    nodes: NodeTable
    vectors: Vectors
    hashes: Keys  # of the vectors
    rows_before: Rows

    def level(self, number: int) -> LevelGraph:
        """These communities as the next level."""
        return LevelGraph(
            number,
            self.vectors,
            self.partition.ends,
            self.partition.weights,
            self.nodes.read,
            lambda rows: [],
            self.rows_before,
            self.nodes.member_marks(),
            np.zeros((0, 2), np.uint64),
        )


async def write_communities(
    builder: Builder, level: LevelGraph, partition: Partition, start: int
) -> Communities:
    """A node and a vector for each community of a level.

    A community of one has no report: it is its member, with the member's vector. Members of communities that
    the previous index has are not read.
    """
    config = builder.config
    inner = partition.of_edges(level.ends)
    (members, ranks), edges = partition.ranked(level), by_label(inner, partition.count)
    sums = label_sums(partition.labels, combined(level.marks, ranks), partition.count)
    if len(level.edge_marks):
        sums += label_sums(inner, level.edge_marks, partition.count)
    marks, before = await asyncio.to_thread(builder.regroup, sums, KIND, level.number + 1)

    def drafts(batch: Sequence[int]) -> list[NodeDraft]:
        """Nodes and relations are read at once for all of them."""
        ordered = [members[row] for row in batch]
        nodes = iter(level.read_nodes(np.concatenate(ordered).tolist()))
        texts = iter(level.read_relations(np.concatenate([edges[row] for row in batch]).tolist()))
        batch_drafts = []
        for row, rows in zip(batch, ordered, strict=True):
            own = [next(nodes) for _ in rows]
            places = {each: place for place, each in enumerate(rows.tolist())}
            joined = ((places[one], places[two]) for one, two in level.ends[edges[row]].tolist())
            relations = [(ends, text) for ends, text in zip(joined, texts, strict=False) if text]
            batch_drafts.append(_draft(level.number + 1, own, relations, config))
        return batch_drafts

    write = partial(
        write_reports,
        gate=builder.gate,
        max_tokens=config.summary_tokens,
        form=config.report_form,
        context_tokens=config.context_tokens,
    )
    new: list[int] = np.flatnonzero(before < 0).tolist()
    fresh = await builder.read_and_write(new, drafts, write, short=config.summary_tokens)
    several = [members[row].tolist() for row in new if row < partition.joined]
    embedded = await group_vectors(
        fresh[: len(several)], several, level.vectors, stage="embed reports", carry=builder.carry
    )
    alone = np.array([members[row][0] for row in new[len(several) :]], np.int64)
    nodes = builder.table(before, fresh, marks)
    vectors = np.concatenate([embedded, level.vectors[alone]])
    hashes, rows_before = nodes.vector_hashes(vectors), np.full(len(nodes), -1, np.int64)
    if builder.previous is not None:
        starts = [*builder.previous.arrays["levels.starts"].tolist(), len(builder.previous.keys)]
        first, end = (starts[min(each, len(starts) - 1)] for each in (level.number, level.number + 1))
        rows_before = of_same_vectors(hashes, builder.previous.arrays[VECTOR_HASHES][first:end])
        rows_before[rows_before >= 0] += first
    return Communities(partition, start, nodes, nodes.column(VECTORS, vectors), hashes, rows_before)


def _draft(
    number: int,
    members: Sequence[Node],
    relations: Sequence[tuple[tuple[int, int], str]],
    config: ArchRAGConfig,
) -> NodeDraft:
    """A community before its report is written: its members, the most connected first, and their relations.

    A relation is given by the places of the two members that it joins, and its text. The id depends on all
    that the report is made of, but not on the order of members. A report without a model has the names of the
    most connected members as its title; for a member that is a community, the name of an entity in it.
    """
    ids, texts = [node.id for node in members], [node.text for node in members]
    descriptions = [text for _, text in relations]
    sizes = map(str, (number, *config.text_settings, len(ids)))
    identity = content_id("archrag", KIND, *sizes, *sorted(ids), *sorted(texts), *sorted(descriptions))
    names = telling(map(_name, members), TITLE_NAMES)
    alone = {"title": _name(members[0])} if len(members) == 1 else {}
    extra = {**alone, "names": names, "members": ids}
    about = [*((each,) for each in ids), *((ids[one], ids[two]) for (one, two), _ in relations)]
    return NodeDraft(
        identity,
        KIND,
        number,
        ", ".join(names),
        [*texts, *descriptions],
        united(node.sources for node in members),
        extra,
        about=about,
        text=texts[0] if alone else "",
    )


def _name(node: Node) -> str:
    """An entity's name; a community's first."""
    return str(node.extra["name"] if node.kind == "entity" else node.extra["names"][0])
