"""HiIndex (HiRAG 4.1): layers of summary entities, communities of the layered graph, and their arrays.

For each layer (Alg. 1): cluster its entities, find the summary entities of each cluster, and relate them to
its members. The summary entities, and clusters of one entity, are the next layer. Layers end where a layer
has fewer entities than two clusters need, or where the next one is hardly smaller (ERRATA H1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.before import list_sums
from stratagraph.ingest.carryover import Keys, derived_id, written_by_model
from stratagraph.ingest.nearest import Nearest
from stratagraph.ingest.summarize import FAILED, MODEL, answered
from stratagraph.ingest.summarize import Summary as Extract
from stratagraph.kernels.mixture import sparsity
from stratagraph.kernels.paths import Adjacency
from stratagraph.methods.base import Built
from stratagraph.methods.drift import Drift
from stratagraph.methods.groups import united
from stratagraph.methods.hirag.clusters import IDS, Clusters, cluster, previous_clusters, told_clusters
from stratagraph.methods.hirag.clusters import arrays as cluster_arrays
from stratagraph.methods.hirag.communities import INPUTS, Communities, Edges, build_communities
from stratagraph.methods.hirag.config import META_TYPES
from stratagraph.methods.hirag.entities import NAMES, Builder, Entities
from stratagraph.methods.hirag.naming import (
    META_TASK,
    Summary,
    cluster_name,
    members_named,
    prompt_values,
    proposed,
    summary_task,
)
from stratagraph.methods.hirag.summary_entities import (
    Groups,
    PreviousProposals,
    Proposed,
    SummaryWriter,
    id_of,
    ids_of,
)
from stratagraph.models.gate import CallItem
from stratagraph.system.memory import release
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Node, content_id

META_KIND = "meta_types"
SAMPLE = 40
"""Entities that the model is shown before it chooses the meta types."""
LEAST_SHRINKAGE = 0.9
"""A layer that is less than a tenth smaller than the layer below it is the last."""


async def build(builder: Builder) -> Built:
    """Build the hierarchy over a corpus' graph, with unchanged parts of the previous one.

    To regroup, clusters and communities are found anew.
    """
    meta = await _meta_types(builder)
    types = meta.extra["types"] if meta else builder.config.meta_types or META_TYPES
    nearest = await asyncio.to_thread(_nearest_entities, builder)
    layers = await build_layers(builder, types, nearest["entities.zeros"])
    edges = Edges.of(builder, layers.entities)
    communities = await build_communities(builder, layers.entities, edges, layers.drift)
    if builder.previous is None:
        await asyncio.to_thread(release)
    metas = [meta] if meta else []
    return await asyncio.to_thread(_built, builder, layers, edges, communities, metas, nearest)


async def _meta_types(builder: Builder) -> Node | None:
    """The general concepts that the model chose from a sample of names; kept while these names exist.

    They guide prompts and are in no layer. There is no node if the user set them or there is no model.
    """
    if builder.config.meta_types is not None or not builder.graph.entities:
        return None
    previous = await asyncio.to_thread(_previous_types, builder)
    if not builder.gate.has_llm or (previous is not None and written_by_model(previous)):
        return previous
    return await _chosen_types(builder)


def _previous_types(builder: Builder) -> Node | None:
    """The node of the previous index, if every name that it was made from is still in the graph."""
    if builder.previous is None or not builder.previous.arrays["counts"][2]:
        return None
    summaries, communities, _ = builder.previous.arrays["counts"].tolist()
    (node,) = builder.previous.nodes([summaries + communities])
    rows = builder.graph.stored.rows(node.extra["members"])
    if len(rows) < len(node.extra["members"]):
        return None
    sources = united(each.sources for each in builder.graph.stored.nodes(sorted(rows.values())))
    return replace(node, sources=sources)


async def _chosen_types(builder: Builder) -> Node:
    stored, count = builder.graph.stored, builder.graph.entities
    nodes = await asyncio.to_thread(stored.nodes, range(count))
    # Ordered by a hash of their ids, so that equal graphs have equal samples.
    sample = sorted(nodes, key=lambda node: content_id("sample", node.id))[:SAMPLE]
    lines = (
        f"- {each.extra['name']}" + (f" ({each.extra['type']})" if each.extra["type"] else "")
        for each in sample
    )
    values = {"sample": "\n".join(lines), "count": "8"}
    sources = united(each.sources for each in sample)
    with builder.gate.stage("choose meta types", 1):
        item = CallItem(values, "meta types", builder.corpus.ids(sources))
        (answer,) = await builder.gate.map(META_TASK, [item])
    types = list(META_TYPES) if answer is None else answer.types
    members = [each.id for each in sample]
    extra = {"types": types, "by": FAILED if answer is None else MODEL, "members": members}
    text = ", ".join(types)
    return Node(content_id("hirag", META_KIND, text, *members), META_KIND, 0, text, sources, extra)


def _built(
    builder: Builder,
    layers: Layers,
    edges: Edges,
    communities: Communities,
    metas: Sequence[Node],
    nearest: Mapping[str, NDArray[Any]],
) -> Built:
    entities = layers.entities
    summaries = entities.summaries
    adjacency = Adjacency.build(entities.count, edges.ends)
    arrays: dict[str, NDArray[Any]] = {
        "counts": np.array([len(summaries), len(communities.nodes), len(metas)], np.int64),
        **{f"layered.{name}": array for name, array in adjacency.items()},
        "layers.levels": entities.levels,
        "layers.sizes": np.array([len(rows) for rows in layers.members], np.int64),
        "layers.sparsity": np.array(layers.sparsity, np.float64),
        NAMES: entities.names,
        **layers.drift.arrays(),
        **_community_arrays(communities, entities.count),
        **layers.proposals,
        **cluster_arrays(layers.clusters, layers.ids, layers.members),
        **nearest,
        **_nearest(builder, entities, communities),
    }
    of_metas = builder.kept(np.full(len(metas), -1, np.int64), metas)
    none = np.zeros((len(metas), builder.dimension), np.float32)
    return builder.built(
        [entities.nodes(), communities.nodes, of_metas],
        np.concatenate([summaries, communities.vectors, none]),
        arrays,
        measures=["layers.levels", "clusters.levels", "proposals.by_model"],
        complete=entities.complete,
        notes=entities.notes,
    )


def _nearest_entities(builder: Builder) -> dict[str, NDArray[Any]]:
    """Arrays for the nearest entities; sketches of unchanged vectors are taken from the previous index."""
    count, previous, seen = builder.graph.entities, builder.previous, builder.graph.before
    arrays: Mapping[str, NDArray[Any]] = {} if previous is None else previous.arrays
    alike = np.full(count, -1, np.int64) if seen is None else np.where(seen.alike, seen.origin[:count], -1)
    return Nearest.index(builder.graph.vectors, "entities", (arrays, alike), steady=True)


def _nearest(builder: Builder, entities: Entities, communities: Communities) -> dict[str, NDArray[Any]]:
    """The same for the nearest summary entities and reports."""
    previous = builder.previous
    arrays: Mapping[str, NDArray[Any]] = {} if previous is None else previous.arrays
    first = 0 if previous is None else int(previous.arrays["counts"][0])
    reports = np.where(communities.nodes.before >= 0, communities.nodes.before - first, -1)
    return {
        **Nearest.index(entities.summaries, "summaries", (arrays, entities.before), steady=True),
        **Nearest.index(communities.vectors, "reports", (arrays, reports), steady=True),
    }


def _community_arrays(communities: Communities, entities: int) -> dict[str, NDArray[Any]]:
    members: Sequence[NDArray[np.int64]] = communities.members
    labels = np.stack(communities.labels) if communities.labels else np.zeros((0, entities), np.int64)
    return {
        INPUTS: communities.inputs,
        "communities.labels": labels.astype(np.int32),
        "communities.indptr": np.cumsum([0, *map(len, members)], dtype=np.int64),
        "communities.indices": np.concatenate([np.zeros(0, np.int64), *members]).astype(np.int32),
    }


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
    previous_proposals = PreviousProposals(builder.previous, entities.count_before)
    writer = SummaryWriter(builder, entities, previous_proposals)
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
        stays = np.flatnonzero(entities.origin[layer] >= 0)
        places[entities.origin[layer[stays]]] = stays
        before = previous_clusters(builder.grouped, len(clusters), places, len(layer))
        partition = await asyncio.to_thread(cluster, vectors, before, config, drift, len(clusters))
        sizes = partition.sizes
        if sizes.max() < 2:
            break
        first = sum(len(each.before) for each in clusters)
        members.append(layer)
        clusters.append(partition)
        sparsities.append(sparsity(sizes, len(layer)))
        summarizer = _LayerSummarizer(builder, entities, previous_proposals, len(clusters))
        groups = await asyncio.to_thread(summarizer.groups, layer, partition, first)
        all_ids = np.zeros((len(sizes), 2), np.uint64)
        all_ids[groups.rows - first] = groups.ids
        ids.append(all_ids)
        with builder.gate.stage(f"summarize layer {len(clusters)}", len(groups.rows)):
            proposed = await summarizer.proposed(groups, types)
        alone = layer[partition.rows[partition.indptr[:-1][sizes == 1]]]
        above = np.union1d(await writer.add(groups, proposed), alone)
        if len(above) > LEAST_SHRINKAGE * len(layer):
            break
        layer = above
    await asyncio.to_thread(writer.finish)
    return Layers(entities, members, clusters, ids, writer.arrays(), sparsities, drift)


class _LayerSummarizer:
    """Finds the summary entities of one layer's clusters."""

    def __init__(self, builder: Builder, entities: Entities, previous: PreviousProposals, level: int) -> None:
        self._builder = builder
        self._entities = entities
        self._previous = previous
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
        previous = self._previous
        before = np.where(groups.before >= 0, groups.before, previous.clusters_of(groups.ids))
        before = previous.usable(before, by_model=self._builder.gate.has_llm)
        missing = np.flatnonzero(before < 0).tolist()
        self._entities.fetch(row for place in missing for row in groups.of(place))
        new_proposals = await self._made(groups, missing, types) if missing else {}
        return Proposed.of(before, previous, new_proposals)

    async def _made(
        self, groups: Groups, missing: Sequence[int], types: Sequence[str]
    ) -> dict[int, list[Summary]]:
        """Write the summary entities of the clusters in `missing`.

        Without a model it is named by the members nearest to its cluster's centre.
        """
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
