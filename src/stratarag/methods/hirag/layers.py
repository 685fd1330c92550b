"""HiIndex (HiRAG Alg. 1): layers of summary entities over the basic knowledge graph.

For each layer: cluster its entities; stop if the sparsity of the clusters no longer changes; find the summary
entities of each cluster and relate them to its members. The summary entities are the next layer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stratarag.kernels.mixture import sparsity
from stratarag.methods.hirag.clusters import Clusters, PreviousClusters, cluster
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
from stratarag.pipeline.summarize import EXTRACTIVE, FAILED, MODEL, extractive_summary
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

    `drift` counts the entities that changed since clusters and communities were compared with new ones.
    """

    entities: Entities
    members: Sequence[Rows]
    clusters: Sequence[Clusters]
    sparsity: Sequence[float]
    drift: Drift


async def build_layers(context: BuildContext, types: Sequence[str]) -> Layers:
    """Alg. 1, with the meta types X; layers end as ERRATA H1 says."""
    config = context.config
    entities = await asyncio.to_thread(Entities.of, context.graph)
    known = await asyncio.to_thread(_known_summaries, context)
    drift = _drift(context.grouped, entities)
    previous = PreviousClusters(context.grouped, config)
    members: list[Rows] = []
    clusters: list[Clusters] = []
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
        above = await _LayerSummarizer(context, entities, layer, found, len(clusters), known).summarise(types)
        if len(above) > LEAST_SHRINKAGE * len(layer):
            break
        layer = above
    _store_summaries(entities)
    return Layers(entities, members, clusters, sparsities, drift)


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


def _known_summaries(context: BuildContext) -> dict[str, list[Summary]]:
    """The summaries of the previous index by cluster: complete ones, and by a model if there is one now."""
    if context.previous is None:
        return {}
    found: dict[str, list[Summary]] = {}
    for node in context.previous.nodes(range(int(context.previous.arrays["counts"][0]))):
        for stored in node.extra["summaries"]:
            found.setdefault(stored["cluster"], []).append(Summary.read(stored))
    return {
        cluster_id: each
        for cluster_id, each in found.items()
        if len(each) == each[0].of and (not context.gate.has_llm or each[0].by == MODEL)
    }


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
        known: dict[str, list[Summary]],
    ) -> None:
        self._context = context
        self._entities = entities
        self._layer = layer
        self._level = level
        self._known = known
        grouped = zip(clusters.members, clusters.lineages.tolist(), strict=True)
        self._groups = [(layer[rows].tolist(), lineage) for rows, lineage in grouped if len(rows) > 1]
        self._single = {int(layer[rows[0]]) for rows in clusters.members if len(rows) == 1}
        self._ids = [self._cluster_id(members) for members, _ in self._groups]

    def _cluster_id(self, members: Sequence[int]) -> str:
        pairs = ((self._entities.ids[row], self._entities.texts[row]) for row in members)
        return derived_id(pairs, "hirag", "cluster", str(self._context.config.summary_tokens))

    async def summarise(self, types: Sequence[str]) -> Rows:
        """Find the summary entities of all clusters, relate them to the members, return the next layer."""
        with self._context.gate.stage(f"summarize layer {self._level}", len(self._groups)):
            summaries = await self._all(types)
        return await self._add(summaries)

    async def _all(self, types: Sequence[str]) -> list[list[Summary]]:
        """The summary entities of each cluster: known ones, or found now."""
        missing = [place for place, cluster_id in enumerate(self._ids) if cluster_id not in self._known]
        made = await self._made(missing, types) if missing else {}
        known = self._known
        return [made[place] if place in made else known[each] for place, each in enumerate(self._ids)]

    async def _made(self, missing: Sequence[int], types: Sequence[str]) -> dict[int, list[Summary]]:
        gate, config = self._context.gate, self._context.config
        if not gate.has_llm:
            self._entities.complete = False
            return await asyncio.to_thread(self._extracted, missing, EXTRACTIVE)
        task = summary_task(config.summary_tokens, config.cluster_size)
        answers = await gate.map(task, [self._item(place, types) for place in missing])
        failed = [place for place, answer in zip(missing, answers, strict=True) if answer is None]
        made = await asyncio.to_thread(self._extracted, failed, FAILED) if failed else {}
        for place, answer in zip(missing, answers, strict=True):
            if answer is not None:
                names, ids = self._entities.names, self._entities.ids
                members = {names[row]: ids[row] for row in reversed(self._groups[place][0])}
                made[place] = answered(self._ids[place], self._level, answer, members)
        self._entities.complete &= not failed
        return made

    def _item(self, place: int, types: Sequence[str]) -> CallItem:
        gate, tokens = self._context.gate, self._context.config.summary_tokens
        members = self._groups[place][0]
        texts = [self._entities.texts[row] for row in members]
        values = prompt_values(texts, types, tokens, gate.count_tokens)
        names = ", ".join(self._entities.names[row] for row in members[:3])
        return CallItem(values, names, self._context.corpus.ids(self._entities.sources_of(members)))

    def _extracted(self, missing: Sequence[int], by: str) -> dict[int, list[Summary]]:
        """Summary entities without a model: named by central members, told in the members' own sentences."""
        texts = [self._entities.texts[row] for row in self._layer.tolist()]
        names = [self._first_name(row) for row in self._layer.tolist()]
        vectors = self._entities.vectors[self._layer]
        places = {row: place for place, row in enumerate(self._layer.tolist())}
        made = {}
        for place in missing:
            members = [places[row] for row in self._groups[place][0]]
            name = cluster_name(members, names, vectors)
            tokens, count = self._context.config.summary_tokens, self._context.gate.count_tokens
            described = extractive_summary([texts[member] for member in members], tokens, count)
            made[place] = [Summary(self._ids[place], self._level, name, "", described, by)]
        return made

    def _first_name(self, row: int) -> str:
        """The name of an entity; of a summary entity that is named by its members, the first of them."""
        name = self._entities.names[row]
        made = self._entities.summaries.get(row)
        return members_named(name)[0] if made and made[0].by != MODEL else name

    async def _add(self, summaries: Sequence[Sequence[Summary]]) -> Rows:
        """Add an entity for each new name; a name that is taken means the entity that has it (ERRATA H5)."""
        entities = self._entities
        rows = {canonical(name): row for row, name in reversed(list(enumerate(entities.names)))}
        rows |= {identity: row for row, identity in enumerate(entities.ids[: self._context.graph.entities])}
        above = set(self._single)
        new: dict[str, list[_Proposal]] = {}
        for place, found in enumerate(summaries):
            for rank, summary in enumerate(found):
                name = canonical(summary.name)
                if name not in rows:
                    new.setdefault(name, []).append(_Proposal(place, rank, summary))
                    continue
                row = rows[name]
                above.add(row)
                self._relate(place, row, summary)
                if row >= self._context.graph.entities:  # it keeps its description and type
                    entities.summaries[row].append(replace(summary, description="", type=""))
        first = len(entities.ids)
        keys = [self._create(new[name]) for name in sorted(new)]
        entities.keys = np.concatenate([entities.keys, np.array(keys, np.uint64)])
        await self._embed(first)
        return np.array(sorted(above | set(range(first, len(entities.ids)))), np.int64)

    def _relate(self, place: int, row: int, summary: Summary) -> None:
        """Relations of a cluster's members with its summary entity, but none of an entity with itself."""
        entities, unsaid = self._entities, Belonging("", 0.0)
        entities.relations += [
            MemberRelation(member, row, *summary.members.get(entities.ids[member], unsaid))
            for member in self._groups[place][0]
            if member != row
        ]

    def _create(self, proposals: Sequence[_Proposal]) -> int:
        """Add a summary entity, of one cluster or of several that name theirs alike; returns its key."""
        entities, row = self._entities, len(self._entities.ids)
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
        extra = {
            "name": name,
            "title": name,
            "type": next((each.type for each in summaries if each.type), ""),
            "description": described,
            "by": next((each.by for each in summaries if each.by != MODEL), MODEL),
            "members": [entities.ids[member] for member in members],
        }
        entities.summaries[row] = summaries
        entities.nodes.append(Node(identity, KIND, self._level, text, entities.sources_of(members), extra))
        entities.ids.append(identity)
        entities.names.append(name)
        entities.texts.append(text)
        entities.sources.append(entities.nodes[-1].sources)
        first = proposals[0]
        return key("summary", str(self._groups[first.cluster][1]), str(first.rank))

    async def _embed(self, first: int) -> None:
        """Add the vectors of the new summary entities."""
        entities, context = self._entities, self._context
        nodes = entities.nodes[first - context.graph.entities :]
        rows = {identity: row for row, identity in enumerate(entities.ids[:first])}
        members = [[rows[member] for member in node.extra["members"]] for node in nodes]
        vectors = await group_vectors(
            nodes, members, entities.vectors, stage="embed summary entities", carry=context.carry
        )
        entities.vectors = np.concatenate([entities.vectors, vectors])


def _store_summaries(entities: Entities) -> None:
    """Put into the node of each summary entity what its clusters say of it, for the next update."""
    first = len(entities.ids) - len(entities.nodes)
    for place, node in enumerate(entities.nodes):
        summaries = [each.stored() for each in entities.summaries[first + place]]
        entities.nodes[place] = replace(node, extra={**node.extra, "summaries": summaries})
