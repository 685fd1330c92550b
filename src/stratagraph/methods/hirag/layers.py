"""HiIndex (HiRAG Alg. 1): layers of summary entities over the basic knowledge graph.

For each layer: cluster its entities, find the summary entities of each cluster, and relate them to its
members. The summary entities, and clusters of one entity, are the next layer. Layers end where a layer has
fewer entities than two clusters need, or where the next one is hardly smaller (ERRATA H1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.before import list_sums
from stratagraph.ingest.carryover import Keys, derived_id
from stratagraph.ingest.summarize import Summary as Extract
from stratagraph.ingest.summarize import answered
from stratagraph.kernels.mixture import sparsity
from stratagraph.methods.drift import Drift
from stratagraph.methods.hirag.clusters import IDS, Clusters, cluster, previous_clusters, told_clusters
from stratagraph.methods.hirag.entities import Builder, Entities
from stratagraph.methods.hirag.naming import (
    Summary,
    cluster_name,
    members_named,
    prompt_values,
    proposed,
    summary_task,
)
from stratagraph.methods.hirag.summary_entities import (
    Groups,
    KnownProposals,
    Proposed,
    SummaryWriter,
    id_of,
    ids_of,
)
from stratagraph.models.gate import CallItem
from stratagraph.types.protocols import Rows

LEAST_SHRINKAGE = 0.9
"""A layer that is less than a tenth smaller than the layer below it is the last."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The layered graph. `clusters[i]` are the clusters of layer i, whose members are `members[i]`.

    `ids[i]` are the ids of these clusters as numbers, 0 for a cluster of one member, shape (clusters, 2).
    """

    entities: Entities
    members: Sequence[Rows]
    clusters: Sequence[Clusters]
    ids: Sequence[Keys]
    proposals: Mapping[str, NDArray[Any]]
    sparsity: Sequence[float]
    drift: Drift


async def build_layers(builder: Builder, types: Sequence[str], zeros: Rows) -> Layers:
    """Alg. 1, with the meta types X. Entities whose vectors are zero, the rows `zeros`, are in no layer."""
    config = builder.config
    entities = await asyncio.to_thread(Entities.of, builder)
    known_proposals = KnownProposals(builder.previous, entities.count_before)
    writer = SummaryWriter(builder, entities, known_proposals)
    drift = Drift(entities.count)
    if builder.grouped is not None:  # entities of the basic graph that came or went
        drift = Drift.between(builder.grouped.arrays, entities.first_before, entities.origin)
    members: list[Rows] = []
    clusters: list[Clusters] = []
    ids: list[Keys] = []
    sparsities: list[float] = []
    layer = np.delete(np.arange(entities.count), zeros)
    while len(clusters) < config.max_layers and len(layer) >= 2 * config.cluster_size:
        whole = len(layer) == builder.graph.entities == int(layer.max(initial=-1)) + 1  # need not be copied
        vectors = builder.graph.vectors if whole else entities.vectors[layer]
        places = np.full(entities.count_before, -1, np.int64)
        known = np.flatnonzero(entities.origin[layer] >= 0)
        places[entities.origin[layer[known]]] = known
        before = previous_clusters(builder.grouped, len(clusters), places, len(layer))
        found = await asyncio.to_thread(cluster, vectors, before, config, drift, len(clusters))
        sizes = found.sizes
        if sizes.max() < 2:
            break
        first = sum(len(each.before) for each in clusters)
        members.append(layer)
        clusters.append(found)
        sparsities.append(sparsity(sizes, len(layer)))
        summarizer = _LayerSummarizer(builder, entities, known_proposals, len(clusters))
        groups = await asyncio.to_thread(summarizer.groups, layer, found, first)
        all_ids = np.zeros((len(sizes), 2), np.uint64)
        all_ids[groups.rows - first] = groups.ids
        ids.append(all_ids)
        with builder.gate.stage(f"summarize layer {len(clusters)}", len(groups.rows)):
            proposed = await summarizer.proposed(groups, types)
        alone = layer[found.rows[found.indptr[:-1][sizes == 1]]]
        above = np.union1d(await writer.add(groups, proposed), alone)
        if len(above) > LEAST_SHRINKAGE * len(layer):
            break
        layer = above
    await asyncio.to_thread(writer.finish)
    return Layers(entities, members, clusters, ids, writer.arrays(), sparsities, drift)


class _LayerSummarizer:
    """Finds the summary entities of one layer's clusters."""

    def __init__(self, builder: Builder, entities: Entities, known: KnownProposals, level: int) -> None:
        self._builder = builder
        self._entities = entities
        self._known = known
        self._level = level

    def groups(self, layer: Rows, clusters: Clusters, first: int) -> Groups:
        """The clusters of several members, with their ids; unchanged clusters are not read.

        `first` is the number of the layer's first cluster among those of all layers.
        """
        entities, sizes, arrays = self._entities, clusters.sizes, self._builder.arrays
        several = np.flatnonzero(sizes > 1)
        indptr = np.concatenate([[0], np.cumsum(sizes[several])]).astype(np.int64)
        members, origin = layer[clusters.rows[np.repeat(sizes > 1, sizes)]], clusters.before[several]
        rows = told_clusters(arrays, self._level - 1, (indptr, members), entities.origin, entities.told)
        told, ids = rows >= 0, np.zeros((len(rows), 2), np.uint64)
        if told.any():
            ids[told] = arrays[IDS][rows[told]]
        same = told & (list_sums(indptr, (~entities.same[members]).astype(np.uint64)) == 0)
        groups = Groups(self._level, first + several, indptr, members, origin, ids, rows, same)
        new = np.flatnonzero(~told).tolist()
        entities.fetch(row for place in new for row in groups.of(place))
        ids[new] = ids_of([self._cluster_id(groups.of(place)) for place in new])
        return groups

    def _cluster_id(self, members: Sequence[int]) -> str:
        nodes = (self._entities.node(row) for row in members)
        pairs = ((node.id, node.text) for node in nodes)
        return derived_id(pairs, "hirag", "cluster", str(self._builder.config.summary_tokens))

    async def proposed(self, groups: Groups, types: Sequence[str]) -> Proposed:
        """The summary entities of each cluster, from the previous index where it has them."""
        known = self._known
        before = np.where(groups.before >= 0, groups.before, known.clusters_of(groups.ids))
        before = known.usable(before, by_model=self._builder.gate.has_llm)
        missing = np.flatnonzero(before < 0).tolist()
        self._entities.fetch(row for place in missing for row in groups.of(place))
        made = await self._made(groups, missing, types) if missing else {}
        return Proposed.of(before, known, made)

    async def _made(
        self, groups: Groups, missing: Sequence[int], types: Sequence[str]
    ) -> dict[int, list[Summary]]:
        """The summary entities of some clusters; extractive ones are named by central members."""
        entities, config = self._entities, self._builder.config
        task = summary_task(config.summary_tokens, config.cluster_size)
        items = (self._item(groups.of(place), types) for place in missing)
        texts = [[entities.node(row).text for row in groups.of(place)] for place in missing]
        answers = await answered(task, items, texts, config.summary_tokens, self._builder.gate)
        made = {}
        for place, answer in zip(missing, answers, strict=True):
            rows, cluster = groups.of(place), id_of(groups.ids[place])
            if isinstance(answer, Extract):
                entities.complete = False
                name = self._central_name(rows)
                made[place] = [Summary(cluster, self._level, name, "", answer.text, answer.by)]
            else:
                members = [(entities.name(row), entities.node(row).id) for row in rows]
                made[place] = proposed(cluster, self._level, answer, members, entities.notes)
        return made

    def _item(self, members: Sequence[int], types: Sequence[str]) -> CallItem:
        gate, tokens = self._builder.gate, self._builder.config.summary_tokens
        texts = [self._entities.node(row).text for row in members]
        values = prompt_values(texts, types, tokens, gate.count_tokens)
        names = ", ".join(self._entities.name(row) for row in members[:3])
        return CallItem(values, names, self._builder.corpus.ids(self._entities.sources_of(members)))

    def _central_name(self, rows: Sequence[int]) -> str:
        """A name made of central members' names; a member that is itself named so gives its first name."""
        entities = self._entities
        names = [entities.name(row) for row in rows]
        names = [
            members_named(name)[0] if entities.named_by_members(row) else name
            for row, name in zip(rows, names, strict=True)
        ]
        return cluster_name(names, entities.vectors[rows])
