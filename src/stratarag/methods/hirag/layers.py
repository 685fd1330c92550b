"""HiIndex (HiRAG Alg. 1): layers of summary entities over the basic knowledge graph.

For each layer: cluster its entities; stop if the sparsity of the clusters no longer changes; find the summary
entities of each cluster and relate them to its members. The summary entities are the next layer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stratarag.kernels.mixture import sparsity
from stratarag.methods.hirag.clusters import Clusters, KnownClusters, PreviousClusters, cluster
from stratarag.methods.hirag.context import BuildContext
from stratarag.methods.hirag.entities import Entities, MemberRelation
from stratarag.methods.hirag.naming import (
    Belonging,
    Summary,
    answered,
    cluster_name,
    members_named,
    prompt_values,
    summary_task,
)
from stratarag.models.gate import CallItem
from stratarag.pipeline.carryover import derived_id, key, lookup
from stratarag.pipeline.drift import Drift
from stratarag.pipeline.names.index import canonical
from stratarag.pipeline.statements import group_vectors
from stratarag.pipeline.summarize import EXTRACTIVE, FAILED, MODEL, extractive_summaries
from stratarag.protocols import Rows, Stored
from stratarag.records import Node, content_id

KIND = "summary_entity"
LEAST_SHRINKAGE = 0.9
"""A layer that is not at least a tenth smaller than the one below it is the last."""
LEAST_LAYERS = 2
"""Layers of summary entities that are made before sparsity may end the hierarchy (if there is enough to
cluster)."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The layered graph. `clusters[i]` are the clusters of layer i, whose members are `members[i]`.

    `ids[i]` are those of these clusters, "" of a cluster of one.
    `drift` counts the entities that changed since clusters and communities were compared with new ones.
    """

    entities: Entities
    members: Sequence[Rows]
    clusters: Sequence[Clusters]
    ids: Sequence[Sequence[str]]
    sparsity: Sequence[float]
    drift: Drift


async def build_layers(context: BuildContext, types: Sequence[str]) -> Layers:
    """Alg. 1, with the meta types X; layers end as ERRATA H1 says."""
    config = context.config
    entities = await asyncio.to_thread(Entities.of, context.graph, context.previous)
    known = await asyncio.to_thread(Known.of, context)
    drift = _drift(context.grouped, entities)
    previous = PreviousClusters(context.grouped, config)
    members: list[Rows] = []
    clusters: list[Clusters] = []
    ids: list[list[str]] = []
    sparsities: list[float] = []
    layer = np.flatnonzero(entities.vectors.any(axis=1))
    while len(clusters) < config.max_layers and len(layer) >= config.min_layer:
        vectors, keys = entities.vectors[layer], entities.keys[layer]
        before = previous.layer(len(clusters), keys)
        found = await asyncio.to_thread(cluster, vectors, keys, before, config, compare=drift.due)
        sizes = [len(rows) for rows in found.members]
        now = sparsity(sizes, len(layer))
        if max(sizes) < 2 or _settled([*sparsities, now], config.stop_change):
            break
        members.append(layer)
        clusters.append(found)
        sparsities.append(now)
        summarizer = _LayerSummarizer(context, entities, layer, found, len(clusters), known)
        ids.append(summarizer.all_ids())
        above = await summarizer.summarise(types)
        if len(above) > LEAST_SHRINKAGE * len(layer):
            break
        layer = above
    _store_summaries(entities)
    return Layers(entities, members, clusters, ids, sparsities, drift)


def _drift(previous: Stored | None, entities: Entities) -> Drift:
    """How many entities of the basic graph came or went since the last comparison."""
    if previous is None:
        return Drift(len(entities.keys))
    before = len(previous.arrays["entities.keys"]) - int(previous.arrays["counts"][0])
    stayed = np.count_nonzero(lookup(entities.keys, previous.arrays["entities.keys"][:before]) >= 0)
    return Drift.since(previous.arrays, len(entities.keys), len(entities.keys) + before - 2 * int(stayed))


def _settled(sparsities: Sequence[float], bound: float) -> bool:
    """Whether the sparsity of the last two layers differs by `bound` of it or less (ERRATA H1).

    Layers are compared from the second layer of summary entities on. Clusters are bounded in size (ERRATA
    H3), so the sparsity of a thousand or more entities is near 1 whatever the clusters are. Comparing the
    first two layers would end every large hierarchy after one layer, where in the paper's Figure 4 sparsity
    rises over several layers before it settles.
    """
    *_, before, now = (np.nan, np.nan, *sparsities)
    return len(sparsities) > LEAST_LAYERS and abs(now - before) <= bound * before


@dataclass(frozen=True, slots=True)
class Known:
    """What the previous index has of clusters.

    Attributes
    ----------
    summaries
        By cluster: complete ones, and by a model if there is one now.
    rows, nodes
        The rows of summary entities by their ids, and their nodes.
    clusters
        Ids of clusters.
    """

    summaries: dict[str, list[Summary]]
    rows: dict[str, int]
    nodes: Sequence[Node]
    clusters: KnownClusters

    @classmethod
    def of(cls, context: BuildContext) -> Known:
        """Read from the previous index."""
        clusters = KnownClusters(context.previous, context.config)
        if context.previous is None:
            return cls({}, {}, [], clusters)
        nodes = context.previous.nodes(range(int(context.previous.arrays["counts"][0])))
        found: dict[str, list[Summary]] = {}
        for node in nodes:
            for stored in node.extra["summaries"]:
                found.setdefault(stored["cluster"], []).append(Summary.read(stored))
        complete = {
            cluster_id: each
            for cluster_id, each in found.items()
            if len(each) == each[0].of and (not context.gate.has_llm or each[0].by == MODEL)
        }
        return cls(complete, {node.id: row for row, node in enumerate(nodes)}, nodes, clusters)


class _Proposal(NamedTuple):
    """A summary of a cluster: the place of the cluster, the rank among its summaries, and the summary."""

    cluster: int
    rank: int
    summary: Summary


class _LayerSummarizer:
    """Finds the summary entities of one layer's clusters."""

    def __init__(
        self,
        context: BuildContext,
        entities: Entities,
        layer: Rows,
        clusters: Clusters,
        level: int,
        known: Known,
    ) -> None:
        self._context = context
        self._entities = entities
        self._layer = layer
        self._level = level
        self._known = known
        grouped = zip(clusters.members, clusters.lineages.tolist(), strict=True)
        self._groups = [(layer[rows].tolist(), lineage) for rows, lineage in grouped if len(rows) > 1]
        self._sizes = [len(rows) for rows in clusters.members]
        self._single = {int(layer[rows[0]]) for rows in clusters.members if len(rows) == 1}
        self.ids = self._cluster_ids()

    def _cluster_ids(self) -> list[str]:
        """The ids of all clusters: of those that are as they were nothing is read."""
        entities = self._entities
        members = [rows for rows, _ in self._groups]
        lineages = [lineage for _, lineage in self._groups]
        known = self._known.clusters.ids(self._level - 1, members, lineages, entities.keys, entities.same)
        entities.fetch(row for rows, each in zip(members, known, strict=True) if not each for row in rows)
        return [each or self._cluster_id(rows) for rows, each in zip(members, known, strict=True)]

    def _cluster_id(self, members: Sequence[int]) -> str:
        nodes = (self._entities.node(row) for row in members)
        pairs = ((node.id, node.text) for node in nodes)
        return derived_id(pairs, "hirag", "cluster", str(self._context.config.summary_tokens))

    def all_ids(self) -> list[str]:
        """The ids of the clusters, "" of those of one."""
        ids = iter(self.ids)
        return [next(ids) if size > 1 else "" for size in self._sizes]

    async def summarise(self, types: Sequence[str]) -> Rows:
        """Find the summary entities of all clusters, relate them to the members, return the next layer."""
        with self._context.gate.stage(f"summarize layer {self._level}", len(self._groups)):
            summaries = await self._all(types)
        return await self._add(summaries)

    async def _all(self, types: Sequence[str]) -> list[list[Summary]]:
        """The summary entities of each cluster: known ones, or found now."""
        known = self._known.summaries
        missing = [place for place, cluster_id in enumerate(self.ids) if cluster_id not in known]
        self._entities.fetch(row for place in missing for row in self._groups[place][0])
        made = await self._made(missing, types) if missing else {}
        return [made[place] if place in made else known[each] for place, each in enumerate(self.ids)]

    async def _made(self, missing: Sequence[int], types: Sequence[str]) -> dict[int, list[Summary]]:
        gate, config = self._context.gate, self._context.config
        if not gate.has_llm:
            self._entities.complete = False
            return await self._extracted(missing, EXTRACTIVE)
        task = summary_task(config.summary_tokens, config.cluster_size)
        answers = await gate.map(task, [self._item(place, types) for place in missing])
        failed = [place for place, answer in zip(missing, answers, strict=True) if answer is None]
        made = await self._extracted(failed, FAILED) if failed else {}
        for place, answer in zip(missing, answers, strict=True):
            if answer is not None:
                nodes = [self._entities.node(row) for row in reversed(self._groups[place][0])]
                members = {str(node.extra["name"]): node.id for node in nodes}
                made[place] = answered(self.ids[place], self._level, answer, members)
        self._entities.complete &= not failed
        return made

    def _item(self, place: int, types: Sequence[str]) -> CallItem:
        gate, tokens = self._context.gate, self._context.config.summary_tokens
        members = self._groups[place][0]
        texts = [self._entities.node(row).text for row in members]
        values = prompt_values(texts, types, tokens, gate.count_tokens)
        names = ", ".join(self._entities.name(row) for row in members[:3])
        return CallItem(values, names, self._context.corpus.ids(self._entities.sources_of(members)))

    async def _extracted(self, missing: Sequence[int], by: str) -> dict[int, list[Summary]]:
        """Summary entities without a model: named by central members, told in the members' own sentences."""
        tokens, gate = self._context.config.summary_tokens, self._context.gate
        groups = ([self._entities.node(row).text for row in self._groups[place][0]] for place in missing)
        described = await extractive_summaries(groups, tokens, gate)
        names = await asyncio.to_thread(lambda: [self._central_name(place) for place in missing])
        return {
            place: [Summary(self.ids[place], self._level, name, "", text, by)]
            for place, name, text in zip(missing, names, described, strict=True)
        }

    def _central_name(self, place: int) -> str:
        """A name for a cluster, made of those of its central members."""
        rows = self._groups[place][0]
        names = [self._first_name(row) for row in rows]
        return cluster_name(range(len(rows)), names, self._entities.vectors[rows])

    def _first_name(self, row: int) -> str:
        """The name of an entity; of a summary entity that is named by its members, the first of them."""
        name = self._entities.name(row)
        made = self._entities.summaries.get(row)
        return members_named(name)[0] if made and made[0].by != MODEL else name

    async def _add(self, summaries: Sequence[Sequence[Summary]]) -> Rows:
        """Add an entity for each new name; a name that is taken means the entity that has it (ERRATA H5)."""
        entities = self._entities
        names = [[canonical(summary.name) for summary in found] for found in summaries]
        rows = entities.rows_named(sorted({name for own in names for name in own}))
        self._entities.fetch(self._with_reasons(summaries))
        above = set(self._single)
        new: dict[str, list[_Proposal]] = {}
        for place, found in enumerate(summaries):
            for rank, (summary, name) in enumerate(zip(found, names[place], strict=True)):
                if name not in rows:
                    new.setdefault(name, []).append(_Proposal(place, rank, summary))
                    continue
                row = rows[name]
                above.add(row)
                self._relate(place, row, summary)
                if row >= self._context.graph.entities:  # it keeps its description and type
                    entities.summaries[row].append(replace(summary, description="", type=""))
        first = entities.count
        made = [self._create(new[name]) for name in sorted(new)]
        entities.add([each for each, _ in made])
        await self._embed([members for _, members in made])
        return np.array(sorted(above | set(range(first, entities.count))), np.int64)

    def _with_reasons(self, summaries: Sequence[Sequence[Summary]]) -> Iterator[int]:
        """Members of the clusters of which a model told why they belong there."""
        for place, found in enumerate(summaries):
            if any(summary.members for summary in found):
                yield from self._groups[place][0]

    def _relate(self, place: int, row: int, summary: Summary) -> None:
        """Relations of a cluster's members with its summary entity, but none of an entity with itself."""
        entities, unsaid, said = self._entities, Belonging("", 0.0), summary.members
        entities.relations += [
            MemberRelation(member, row, *(said.get(entities.node(member).id, unsaid) if said else unsaid))
            for member in self._groups[place][0]
            if member != row
        ]

    def _create(self, proposals: Sequence[_Proposal]) -> tuple[tuple[int, int, bool], list[int]]:
        """Add a summary entity, of one cluster or of several that name theirs alike.

        Returns
        -------
        What `Entities.add` is told of it, and its members.
        """
        entities, row = self._entities, self._entities.graph.entities + len(self._entities.nodes)
        members = sorted({member for each in proposals for member in self._groups[each.cluster][0]})
        for each in proposals:
            self._relate(each.cluster, row, each.summary)
        summaries = [each.summary for each in proposals]
        name = summaries[0].name
        described = " ".join(dict.fromkeys(each.description for each in summaries if each.description))
        text = f"{name}: {described}" if described else name
        identity = content_id(
            "hirag", KIND, str(self._level), text, *sorted(each.cluster for each in summaries)
        )
        before = self._known.rows.get(identity, -1)
        extra = {
            "name": name,
            "title": name,
            "type": next((each.type for each in summaries if each.type), ""),
            "description": described,
            "by": next((each.by for each in summaries if each.by != MODEL), MODEL),
            "members": self._member_ids(members, before),
        }
        node = Node(identity, KIND, self._level, text, entities.sources_of(members), extra)
        entities.summaries[row] = summaries
        same = before >= 0 and bool(entities.same[members].all())
        entities.append(node)
        first = proposals[0]
        number = key("summary", str(self._groups[first.cluster][1]), str(first.rank))
        return (number, before + self._first_before if before >= 0 else -1, same), members

    def _member_ids(self, members: Sequence[int], before: int) -> list[str]:
        """Ids of members; of what is made of the same clusters those that it had."""
        if before >= 0:
            return list(self._known.nodes[before].extra["members"])
        self._entities.fetch(members)
        return [self._entities.node(member).id for member in members]

    @property
    def _first_before(self) -> int:
        """The number of the first summary entity in the previous index."""
        previous = self._context.previous
        assert previous is not None
        return len(previous.arrays["entities.keys"]) - int(previous.arrays["counts"][0])

    async def _embed(self, members: Sequence[Sequence[int]]) -> None:
        """Add the vectors of the new summary entities."""
        entities, context = self._entities, self._context
        nodes = entities.nodes[len(entities.nodes) - len(members) :]
        vectors = await group_vectors(
            nodes, members, entities.vectors, stage="embed summary entities", carry=context.carry
        )
        entities.vectors = np.concatenate([entities.vectors, vectors])


def _store_summaries(entities: Entities) -> None:
    """Put into the node of each summary entity what its clusters say of it, for the next update."""
    first = entities.graph.entities
    for place, node in enumerate(entities.nodes):
        summaries = [each.stored() for each in entities.summaries[first + place]]
        entities.nodes[place] = replace(node, extra={**node.extra, "summaries": summaries})
