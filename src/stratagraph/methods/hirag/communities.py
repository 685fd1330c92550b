"""Communities of the layered graph, from fine to coarse, and their reports (HiRAG 4.1, ERRATA A4's bound).

Summary entities are nodes like any others, so that similar entities come together although no relation joins
them. The report on a community of the finest level is made from its members, the report on a coarser one from
the reports on the communities in it, and both from the described relations between these (ERRATA M1). A
coarser community that contains a single community shares its report.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import (
    VECTORS,
    Keys,
    Labels,
    derived_id,
    lookup,
    needs_reclustering,
    previous_labels,
)
from stratagraph.ingest.graph.statements import group_vectors
from stratagraph.ingest.marks import Marks, combined, label_sums
from stratagraph.ingest.names.spelling import telling
from stratagraph.kernels.leiden import hierarchical_leiden, leiden, resized
from stratagraph.kernels.ranges import by_label, distinct, ranges, split
from stratagraph.methods.drift import Drift, Measures, communities_measured, majority
from stratagraph.methods.groups import NodeDraft, NodeTable, united
from stratagraph.methods.hirag.config import HiRAGConfig
from stratagraph.methods.hirag.entities import Builder, Entities
from stratagraph.methods.hirag.naming import members_named
from stratagraph.methods.reports import write_reports
from stratagraph.types.protocols import Rows, Stored, Vectors
from stratagraph.types.records import Node, content_key

KIND = "community"
INPUTS = "communities.inputs"
"""The array of a key for each community: of the settings and texts that its report was made from."""
PARTITION = "communities"
"""The name of the partition whose drift is counted."""
_MOST_SPLITS = 12  # levels of splitting before the finest is bounded by cutting
_NAMED = 3  # members in a title that no model wrote
_LONGEST_TITLE = 120
_MOST_RELATIONS = 100  # in a report's input, the strongest


class ReportedCommunities(NamedTuple):
    """Reports of all communities with their vectors and `INPUTS`, and the rows of the entities in each.

    `labels` has the row of each entity's community for each level, the finest first, shape (entities,).
    """

    nodes: NodeTable
    members: Sequence[Rows]
    labels: Sequence[Labels]
    vectors: Vectors
    inputs: Keys


class LayerEdges(NamedTuple):
    """The layered graph's edges: the graph's relations, then those of members and summary entities."""

    ends: Rows
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, builder: Builder, entities: Entities) -> LayerEdges:
        """A relation with a summary entity weighs its strength, or the median of the graph's weights."""
        given = np.asarray(builder.graph.weights, dtype=np.float64)
        usual = float(np.median(given)) if len(given) else 1.0
        hierarchy = [np.column_stack([each.members, each.entities]) for each in entities.relations]
        strengths = np.concatenate([np.zeros(0), *(each.strengths for each in entities.relations)])
        ends = np.concatenate([np.asarray(builder.graph.ends, dtype=np.int64).reshape(-1, 2), *hierarchy])
        return cls(ends, np.concatenate([given, np.where(strengths > 0, strengths, usual)]))


async def build_communities(
    builder: Builder, entities: Entities, edges: LayerEdges, drift: Drift
) -> ReportedCommunities:
    """Partition the entities of all layers, level by level, and report on each community."""
    labels = await asyncio.to_thread(_partition, builder, entities, edges, drift)
    writer = CommunityWriter(builder, entities, edges)
    own = [await writer.finest(labels[0])] if labels else []
    for level, coarser in enumerate(labels[1:], 1):
        own.append(await writer.coarser(level, own[-1], coarser))
    return writer.communities(own)


def _partition(builder: Builder, entities: Entities, edges: LayerEdges, drift: Drift) -> list[Labels]:
    """Labels of all entities at each level, the finest first."""
    config, count = builder.config, entities.count
    if not count:
        return []
    previous: Sequence[Labels] = []
    if builder.grouped is not None:
        previous = list(previous_labels(entities.rows_before, builder.grouped.arrays["communities.labels"]))
    updated = partial(_updated, previous, edges, count, config)

    @cache
    def fresh() -> list[Labels]:
        graph, most = (edges.ends, edges.weights, count), config.max_community
        levels = hierarchical_leiden(
            *graph, max_size=most, max_levels=_MOST_SPLITS, resolution=config.resolution, seed=config.seed
        )
        fixed = np.zeros(count, np.bool_)
        finest = leiden(*graph, max_size=most, initial=levels[-1], movable=fixed, seed=config.seed)
        places = np.linspace(0, len(levels) - 1, config.community_levels).round().astype(int)
        return [finest, *(levels[place] for place in np.unique(places)[::-1][1:].tolist())]

    def as_many() -> list[Labels]:
        return updated([len(distinct(labels)) for labels in fresh()])

    def measure(levels: Sequence[Labels]) -> Measures:
        return np.concatenate([communities_measured(edges.ends, edges.weights, each) for each in levels])

    new = not len(previous) or needs_reclustering(previous[0] >= 0)
    return drift.choose(PARTITION, count, [] if new else [updated, as_many], fresh, measure)


def _updated(
    previous: Sequence[Labels], edges: LayerEdges, count: int, config: HiRAGConfig, wanted: Sequence[int] = ()
) -> list[Labels]:
    """The previous communities, which new entities join where they gain most modularity.

    If numbers of communities are `wanted`, communities of each level are joined or split.
    """
    move = partial(leiden, resolution=config.resolution, seed=config.seed)
    ends, weights, start = edges.ends, edges.weights, previous[0]
    finest = move(ends, weights, count, max_size=config.max_community, initial=start, movable=start < 0)
    if wanted:
        finest = resized(ends, weights, finest, wanted[0], max_size=config.max_community)
    labels = [finest]
    for level, before in enumerate(previous[1:], 1):
        finer = labels[-1]
        groups = int(finer.max()) + 1
        start, _ = majority(finer, before, groups)
        near = len(ends) if (start < 0).any() else 0  # without new communities nothing moves
        upper = move(finer[ends[:near]], weights[:near], groups, initial=start, movable=start < 0)
        if level < len(wanted):
            upper = resized(finer[ends], weights, upper, wanted[level])
        labels.append(upper[finer])
    return labels


class CommunityWriter:
    """Makes the nodes of communities, level by level; unchanged nodes are not read."""

    def __init__(self, builder: Builder, entities: Entities, edges: LayerEdges) -> None:
        self._builder = builder
        self._entities = entities
        self._edges = edges
        previous = builder.previous  # in which `_first_before` is the row of the first community
        self._first_before = 0 if previous is None else int(previous.arrays["counts"][0])
        self._before = np.zeros(0, np.int64)  # the previous row of each known community, or -1
        self._marks: Marks = np.zeros((0, 2), np.uint64)
        self._fresh: dict[int, Node] = {}
        self._inputs: Keys = np.zeros(0, np.uint64)
        self._vectors: list[Vectors] = [np.zeros((0, builder.dimension), np.float32)]
        self.members: list[Rows] = []

    def _table(self) -> NodeTable:
        return self._builder.table(self._before, list(self._fresh.values()), self._marks)

    def communities(self, labels: Sequence[Labels]) -> ReportedCommunities:
        """All communities, with their labels of each level."""
        nodes = self._table()
        vectors = nodes.column(VECTORS, np.concatenate(self._vectors))
        return ReportedCommunities(nodes, self.members, labels, vectors, self._inputs)

    async def finest(self, labels: Labels) -> Labels:
        """Report on the communities of the finest level."""
        count, ends, entities = self._entities.count, self._edges.ends, self._entities
        inside = labels[ends[:, 0]] == labels[ends[:, 1]]
        degrees = np.bincount(ends[inside].ravel(), np.repeat(self._edges.weights[inside], 2), count)
        order = np.lexsort((np.arange(count), -degrees, labels))  # the most connected inside come first
        sizes, ranks = np.bincount(labels), np.empty(count, np.int64)
        ranks[order] = ranges(np.zeros(len(sizes), np.int64), sizes)
        groups, ordered = by_label(labels), split(order, sizes)
        graph = self._builder.graph
        inner = _inner(graph.ends, graph.described, labels, None)
        members = label_sums(labels, combined(entities.marks, ranks), len(groups))
        marks, rows_before = await asyncio.to_thread(self._regrouped, 0, members, inner)
        to_write = np.flatnonzero(rows_before < 0).tolist()
        entities.fetch(row for place in to_write for row in groups[place].tolist())
        relations, drafts = self._relations(inner, to_write), []
        for place in to_write:
            own = ordered[place].tolist()
            joined = [(map(entities.node, graph.ends[row].tolist()), text) for row, text in relations[place]]
            # A name composed of members' names gives the members' names.
            names = [[entities.name(row)] for row in own]
            for at, row in enumerate(own):
                if entities.named_by_members(row):
                    names[at] = members_named(names[at][0])
            title = ", ".join(telling(chain.from_iterable(names), _NAMED))
            nodes = list(map(entities.node, own))
            drafts.append(self._draft(0, title, nodes, entities.sources_of(own), joined))
        return (await self._write(0, drafts, rows_before, marks, groups))[labels]

    async def coarser(self, level: int, finer: Labels, labels: Labels) -> Labels:
        """Report on those communities of a level that consist of several of the finer level's."""
        groups = by_label(labels)
        span = int(finer.max(initial=0)) + 1
        pairs = distinct(labels * span + finer)
        inside = split(pairs % span, np.bincount(pairs // span))  # ascending finer communities of each
        several = [place for place, own in enumerate(inside) if len(own) > 1]
        places = np.full(len(groups), -1, np.int64)
        places[several] = np.arange(len(several))
        graph, own = self._builder.graph, places[labels]
        inner = _inner(graph.ends, graph.described, own, finer)
        above = np.full(len(self.members), -1, np.int64)
        above[finer] = own
        members = label_sums(above, self._table().member_marks(), len(several))
        marks, rows_before = await asyncio.to_thread(self._regrouped, level, members, inner)
        to_write = [place for place, row in zip(several, rows_before.tolist(), strict=True) if row < 0]
        read = self._read({number for place in to_write for number in inside[place].tolist()})
        relations, drafts = self._relations(inner, places[to_write].tolist()), []
        ends = finer[graph.ends]
        for place in to_write:
            joined = [
                ([read[number] for number in ends[row].tolist()], text)
                for row, text in relations[int(places[place])]
            ]
            sizes = np.array([len(self.members[number]) for number in inside[place].tolist()])
            order = np.lexsort((self._marks[inside[place], 0], -sizes))
            nodes = [read[number] for number in inside[place][order].tolist()]
            title = "; ".join(node.extra["title"] for node in nodes[:_NAMED])
            drafts.append(self._draft(level, title, nodes, self._sources(inside[place]), joined))
        numbers = np.array([each[0] for each in inside], np.int64)
        numbers[several] = await self._write(
            level, drafts, rows_before, marks, [groups[place] for place in several]
        )
        return numbers[labels]

    def _relations(self, inner: Labels, places: Sequence[int]) -> dict[int, list[tuple[int, str]]]:
        """Rows and texts of the strongest relations inside some communities, strongest first."""
        graph = self._builder.graph
        wanted = np.zeros(int(inner.max(initial=-1)) + 2, np.bool_)
        wanted[[place for place in places if place < len(wanted) - 1]] = True
        rows = np.flatnonzero(wanted[inner])  # the last one, of label -1, is not wanted
        rows = rows[np.lexsort((rows, -graph.weights[rows], inner[rows]))]
        own = inner[rows]
        rows = rows[np.arange(len(rows)) - np.searchsorted(own, own) < _MOST_RELATIONS]
        texts = graph.stored.texts((rows + graph.entities).tolist())
        relations: dict[int, list[tuple[int, str]]] = {place: [] for place in places}
        for row, text in zip(rows.tolist(), texts, strict=True):
            relations[int(inner[row])].append((row, text))
        return relations

    def _regrouped(self, level: int, members: Marks, inner: Labels) -> tuple[Marks, Rows]:
        """The mark of each community of a level, and its previous row or -1.

        `members` are the sums of the members' marks, and `inner` the communities of relations (`_inner`).
        """
        graph = self._builder.graph
        relations = self._builder.row_marks[graph.entities : graph.entities + graph.relations]
        sums = members + label_sums(inner, relations, len(members))
        return self._builder.regroup(sums, KIND, level)

    def _read(self, numbers: Collection[int]) -> dict[int, Node]:
        """Some communities' nodes by number; the sources of unchanged ones are as in the previous index."""
        carried = [number for number in numbers if number not in self._fresh]
        previous = self._builder.previous
        nodes = () if previous is None else previous.nodes(self._before[carried].tolist())
        return self._fresh | dict(zip(carried, nodes, strict=True))

    def _sources(self, numbers: Rows) -> list[int]:
        """Union of the sources of some communities, ascending."""
        carried, before = self._before[numbers] >= 0, self._builder.graph.before
        sources: list[Sequence[int] | Rows] = [
            self._fresh[number].sources for number in numbers[~carried].tolist()
        ]
        if self._builder.previous is not None and before is not None:
            sources.append(before.sources(self._builder.previous, self._before[numbers[carried]])[1])
        return united(sources)

    def _draft(
        self,
        level: int,
        title: str,
        members: Sequence[Node],
        sources: Sequence[int],
        relations: Sequence[tuple[Iterable[Node], str]],
    ) -> NodeDraft:
        """A community before its report is written.

        `members` are entities at level 0, the most connected first; above, reports of finer communities, the
        largest first. `relations` have the members that each joins, and its text.
        """
        joined = [(tuple(node.id for node in ends), text) for ends, text in relations]
        parts = [*((node.id, node.text) for node in members), *((" - ".join(ends), t) for ends, t in joined)]
        identity = derived_id(parts, "hirag", KIND, *self._builder.config.text_settings)
        ids = [node.id for node in members]
        about = [*((each,) for each in ids), *(ends for ends, _ in joined)]
        texts, extra = [text for _, text in parts], {"members": ids}
        return NodeDraft(identity, KIND, level, title[:_LONGEST_TITLE], texts, sources, extra, about)

    async def _write(
        self, level: int, drafts: Sequence[NodeDraft], rows_before: Rows, marks: Marks, groups: Sequence[Rows]
    ) -> Labels:
        """Add communities, those without a previous row from `drafts`; return their numbers."""
        config, carry = self._builder.config, self._builder.carry
        write = partial(
            write_reports,
            gate=self._builder.gate,
            max_tokens=config.report_tokens,
            form=config.report_form,
            context_tokens=config.context_tokens,
        )
        stage = f"report communities, level {level}"
        keys = np.array([content_key(*config.text_settings, *each.texts) for each in drafts], np.uint64)
        inputs, previous = np.empty(len(rows_before), np.uint64), self._builder.previous
        inputs[rows_before < 0] = keys
        if previous is not None:
            known = rows_before[rows_before >= 0] - self._first_before
            inputs[rows_before >= 0] = previous.arrays[INPUTS][known]
            drafts = self._with_texts(drafts, lookup(keys, previous.arrays[INPUTS]), previous)
        self._inputs = np.concatenate([self._inputs, inputs])
        nodes = await self._builder.nodes(drafts, write, stage, short=config.report_tokens)
        new = np.flatnonzero(rows_before < 0).tolist()
        members, vectors = [groups[place] for place in new], self._entities.vectors
        self._vectors.append(await group_vectors(nodes, members, vectors, stage="embed reports", carry=carry))
        first = len(self.members)
        self._fresh |= zip((first + place for place in new), nodes, strict=True)
        self._before = np.concatenate([self._before, rows_before])
        self._marks = np.concatenate([self._marks, marks])
        self.members += groups
        return np.arange(first, len(self.members))

    def _with_texts(self, drafts: Sequence[NodeDraft], reports: Rows, previous: Stored) -> list[NodeDraft]:
        """Drafts with the texts of previous reports that have the same input.

        `reports` are the places of these among the previous communities, or -1. Findings name the members by
        their new ids.
        """
        with_texts = list(drafts)
        rows = self._builder.usable(np.where(reports >= 0, reports + self._first_before, -1))
        places = np.flatnonzero(rows >= 0)
        for place, node in zip(places.tolist(), previous.nodes(rows[places].tolist()), strict=True):
            draft = drafts[place]
            if node.id != draft.id:
                new = dict(zip(node.extra["members"], draft.extra["members"], strict=True))
                extra = {**copy.deepcopy(dict(node.extra)), **draft.extra}
                for finding in extra.get("findings", ()):
                    finding["members"] = [new[member] for member in finding["members"]]
                with_texts[place] = replace(draft, text=node.text, extra=extra)
        return with_texts


def _inner(
    ends: Rows, described: NDArray[np.bool_], labels: Labels, finer: NDArray[np.integer] | None
) -> Labels:
    """The label that both ends of each described relation have, or -1, shape (relations,).

    If there are `finer` labels, a relation whose ends have the same one does not count.
    """
    own = labels[ends]
    inside = described & (own[:, 0] == own[:, 1])
    if finer is not None:
        inside &= finer[ends[:, 0]] != finer[ends[:, 1]]
    return np.where(inside, own[:, 0], -1)
