"""HiIndex (HiRAG 4.1): layers of summary entities, communities of the layered graph, and their arrays.

For each layer (Alg. 1): cluster its entities, find the summary entities of each cluster, and relate them to
its members. The summary entities, and clusters of one entity, are the next layer. Layers end where a layer
has fewer entities than two clusters need, or where the next one is hardly smaller (ERRATA H1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import Keys, written_by_model
from stratagraph.ingest.nearest import Nearest
from stratagraph.ingest.summarize import FAILED, MODEL
from stratagraph.kernels.mixture import sparsity
from stratagraph.kernels.paths import Adjacency
from stratagraph.methods.base import Built
from stratagraph.methods.drift import Drift
from stratagraph.methods.groups import united
from stratagraph.methods.hirag.clusters import Clusters, cluster, previous_clusters
from stratagraph.methods.hirag.clusters import arrays as cluster_arrays
from stratagraph.methods.hirag.communities import INPUTS, LayerEdges, ReportedCommunities, build_communities
from stratagraph.methods.hirag.config import META_TYPES
from stratagraph.methods.hirag.entities import Builder, Entities
from stratagraph.methods.hirag.naming import META_TASK
from stratagraph.methods.hirag.summary_entities import SummaryWriter
from stratagraph.models.gate import CallItem
from stratagraph.system.memory import release
from stratagraph.types.built import Arrays, Holds
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.records import Node, content_id

META_KIND = "meta_types"
SAMPLE = 40
"""Entities that the model is shown before it chooses the meta types."""
LEAST_SHRINKAGE = 0.9
"""A layer that is less than a tenth smaller than the layer below it is the last."""


async def build(builder: Builder) -> Built:
    """Build the hierarchy over a corpus' graph, with unchanged parts of the previous one.

    To regroup, clusters and communities are computed without regard to the previous ones.
    """
    meta = await _meta_types(builder)
    types = meta.extra["types"] if meta else builder.config.meta_types or META_TYPES
    alike, before = np.full(builder.graph.entities, -1, np.int64), builder.graph.before
    if before is not None:
        alike = np.where(before.alike, before.rows_before[: len(alike)], -1)
    nearest = await asyncio.to_thread(_nearest, builder, "entities", builder.graph.vectors, alike)
    layers = await build_layers(builder, types, nearest["entities.zeros"].values)
    edges = LayerEdges.of(builder, layers.entities)
    communities = await build_communities(builder, layers.entities, edges, layers.drift)
    if builder.previous is None:
        await asyncio.to_thread(release)
    metas = [meta] if meta else []
    return await asyncio.to_thread(_built, builder, layers, edges, communities, metas, nearest)


async def _meta_types(builder: Builder) -> Node | None:
    """The node of the general concepts that the model chose from a sample of names.

    They guide prompts and are in no layer. The node stays while all these names exist. There is none if the
    user set the concepts, or without a model.
    """
    if builder.config.meta_types is not None or not builder.graph.entities:
        return None
    previous = await asyncio.to_thread(_previous_types, builder)
    if not builder.gate.has_llm or (previous is not None and written_by_model(previous)):
        return previous
    nodes = await asyncio.to_thread(builder.graph.stored.nodes, range(builder.graph.entities))
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


def _previous_types(builder: Builder) -> Node | None:
    """The node of the previous index, if every name of its sample is still in the graph."""
    if builder.previous is None or not builder.previous.arrays["counts"][2]:
        return None
    summaries, communities, _ = builder.previous.arrays["counts"].tolist()
    (node,) = builder.previous.nodes([summaries + communities])
    rows = builder.graph.stored.rows(node.extra["members"])
    if len(rows) < len(node.extra["members"]):
        return None
    sources = united(each.sources for each in builder.graph.stored.nodes(sorted(rows.values())))
    return replace(node, sources=sources)


def _built(
    builder: Builder,
    layers: Layers,
    edges: LayerEdges,
    communities: ReportedCommunities,
    metas: Sequence[Node],
    nearest: Arrays,
) -> Built:
    entities = layers.entities
    summaries = entities.summaries
    adjacency = Adjacency.build(entities.count, edges.ends)
    first = 0 if builder.previous is None else int(builder.previous.arrays["counts"][0])
    reports_before = np.where(communities.nodes.before >= 0, communities.nodes.before - first, -1)
    members = communities.members
    labels = np.stack(communities.labels) if communities.labels else np.zeros((0, entities.count), np.int64)
    rows = {
        "communities.labels": labels.astype(np.int32),
        "communities.indptr": np.cumsum([0, *map(len, members)], dtype=np.int64),
        "communities.indices": np.concatenate([np.zeros(0, np.int64), *members]).astype(np.int32),
    }
    arrays = Holds.ROWS.of({**rows, **{f"layered.{name}": array for name, array in adjacency.items()}})
    arrays |= Holds.CONTENT.of({INPUTS: communities.inputs})
    arrays |= Holds.MEASURES.of(
        {
            "counts": np.array([len(summaries), len(communities.nodes), len(metas)], np.int64),
            "layers.levels": entities.levels,
            "layers.sizes": np.array([len(rows) for rows in layers.members], np.int64),
            "layers.sparsity": np.array(layers.sparsity, np.float64),
        }
    )
    arrays |= layers.drift.arrays() | layers.proposals
    arrays |= cluster_arrays(layers.clusters, layers.ids, layers.members) | nearest
    arrays |= _nearest(builder, "summaries", summaries, entities.before)
    arrays |= _nearest(builder, "reports", communities.vectors, reports_before)
    of_metas = builder.table(np.full(len(metas), -1, np.int64), metas)
    none = np.zeros((len(metas), builder.dimension), np.float32)
    return builder.built(
        [entities.nodes(), communities.nodes, of_metas],
        np.concatenate([summaries, communities.vectors, none]),
        arrays,
        complete=entities.complete,
        notes=entities.notes,
    )


def _nearest(builder: Builder, name: str, vectors: Vectors, before: Rows) -> Arrays:
    """Arrays for the nearest vectors; sketches are carried over from the previous rows `before`."""
    arrays: Mapping[str, NDArray[Any]] = {} if builder.previous is None else builder.previous.arrays
    return Nearest.index(vectors, name, (arrays, before), steady=True)


class Layers(NamedTuple):
    """The layered graph. `clusters[i]` are the clusters of layer i, whose members are `members[i]`.

    `ids[i]` are the ids of these clusters as numbers, 0 for a cluster of one member, shape (clusters, 2).
    """

    entities: Entities
    members: Sequence[Rows]
    clusters: Sequence[Clusters]
    ids: Sequence[Keys]
    proposals: Arrays
    sparsity: Sequence[float]
    drift: Drift


async def build_layers(builder: Builder, types: Sequence[str], zeros: Rows) -> Layers:
    """Alg. 1, with the meta types X. Entities whose vectors are zero, the rows `zeros`, are in no layer."""
    config = builder.config
    entities = await asyncio.to_thread(Entities, builder)
    writer = SummaryWriter(builder, entities)
    drift = Drift(entities.count)
    if builder.grouped is not None:  # entities of the basic graph that came or went
        drift = Drift.between(builder.grouped.arrays, entities.first_before, entities.rows_before)
    members: list[Rows] = []
    clusters: list[Clusters] = []
    ids: list[Keys] = []
    sparsities: list[float] = []
    layer = np.delete(np.arange(entities.count), zeros)
    while len(clusters) < config.max_layers and len(layer) >= 2 * config.cluster_size:
        whole = len(layer) == builder.graph.entities == int(layer.max(initial=-1)) + 1  # need not be copied
        vectors = builder.graph.vectors if whole else entities.vectors[layer]
        places = np.full(entities.count_before, -1, np.int64)
        stays = np.flatnonzero(entities.rows_before[layer] >= 0)
        places[entities.rows_before[layer[stays]]] = stays
        before = previous_clusters(builder.grouped, len(clusters), places, len(layer))
        partition = await asyncio.to_thread(cluster, vectors, before, config, drift, len(clusters))
        sizes = partition.sizes
        if sizes.max() < 2:
            break
        first = sum(len(each.before) for each in clusters)
        members.append(layer)
        clusters.append(partition)
        sparsities.append(sparsity(sizes, len(layer)))
        groups = await asyncio.to_thread(writer.groups, len(clusters), layer, partition, first)
        all_ids = np.zeros((len(sizes), 2), np.uint64)
        all_ids[groups.rows - first] = groups.ids
        ids.append(all_ids)
        with builder.gate.stage(f"summarize layer {len(clusters)}", len(groups.rows)):
            proposals = await writer.proposals(groups, types)
        alone = layer[partition.rows[partition.indptr[:-1][sizes == 1]]]
        above = np.union1d(await writer.add(groups, proposals), alone)
        if len(above) > LEAST_SHRINKAGE * len(layer):
            break
        layer = above
    await asyncio.to_thread(writer.finish)
    return Layers(entities, members, clusters, ids, writer.arrays(), sparsities, drift)
