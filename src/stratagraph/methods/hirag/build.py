"""HiIndex (HiRAG 4.1): layers of summary entities, communities of the layered graph, and their arrays."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph._memory import release
from stratagraph.kernels.paths import Adjacency
from stratagraph.methods.base import Built, Corpus, Stored
from stratagraph.methods.hirag.clusters import arrays as cluster_arrays
from stratagraph.methods.hirag.communities import Communities, Edges, build_communities
from stratagraph.methods.hirag.config import META_TYPES, HiRAGConfig
from stratagraph.methods.hirag.entities import NAMES, BuildContext, Entities
from stratagraph.methods.hirag.layers import Layers, build_layers
from stratagraph.methods.hirag.naming import META_TASK
from stratagraph.models.gate import CallItem, Gate
from stratagraph.pipeline.carryover import VECTOR_KEYS, VECTORS, CarryOver, text_keys, written_by_model
from stratagraph.pipeline.graph import Graph
from stratagraph.pipeline.kept_nodes import BY_MODEL, KeptNodes, joined, stored_vectors
from stratagraph.pipeline.nearest import Nearest
from stratagraph.pipeline.summarize import FAILED, MODEL
from stratagraph.records import Node, content_id

META_KIND = "meta_types"
SAMPLE = 40
"""Entities that the model is shown before it chooses the meta types."""


async def build(
    corpus: Corpus,
    graph: Graph,
    gate: Gate,
    *,
    config: HiRAGConfig,
    previous: Stored | None,
    regroup: bool = False,
) -> Built:
    """Build the hierarchy over a corpus' graph, with unchanged parts of `previous`.

    With `regroup`, clusters and communities are found anew.
    """
    carry = CarryOver(previous, gate)
    context = BuildContext(corpus, graph, gate, config, previous, carry, None if regroup else previous)
    meta = await _meta_types(context)
    layers = await build_layers(context, meta.extra["types"] if meta else config.meta_types or META_TYPES)
    edges = Edges.of(context, layers.entities)
    communities = await build_communities(context, layers.entities, edges, layers.drift)
    if previous is None:
        await asyncio.to_thread(release)
    arrays = await asyncio.to_thread(_arrays, context, layers, edges, communities, meta is not None)
    metas = [meta] if meta else []
    parts = [layers.entities.nodes(), communities.nodes]
    parts.append(KeptNodes.of(np.full(len(metas), -1, np.int64), metas, None, None))
    arrays[VECTOR_KEYS] = np.concatenate(
        [each.column(VECTOR_KEYS, text_keys(node.text for node in each.fresh)) for each in parts[:2]]
    )
    arrays[BY_MODEL] = np.concatenate(
        [
            each.column(BY_MODEL, np.array([written_by_model(node) for node in each.fresh], np.bool_))
            for each in parts
        ]
    )
    nodes = joined(parts)
    arrays[VECTORS] = stored_vectors(previous, VECTORS, nodes.before, arrays[VECTORS])
    complete = layers.entities.complete and bool(arrays[BY_MODEL].all())
    return Built(nodes, arrays, complete=complete)


async def _meta_types(context: BuildContext) -> Node | None:
    """The general concepts that the model chose from a sample of names; kept while these names exist.

    They guide prompts and are in no layer. There is no node if the user set them or there is no model.
    """
    if context.config.meta_types is not None or not context.graph.entities:
        return None
    previous = await asyncio.to_thread(_previous_types, context)
    if not context.gate.has_llm or (previous is not None and written_by_model(previous)):
        return previous
    return await _chosen_types(context)


def _previous_types(context: BuildContext) -> Node | None:
    """The node of the previous index, if every name that it was made from is still in the graph."""
    if context.previous is None or not context.previous.arrays["counts"][2]:
        return None
    summaries, communities, _ = context.previous.arrays["counts"].tolist()
    (node,) = context.previous.nodes([summaries + communities])
    rows = context.graph.stored.rows(node.extra["members"])
    if len(rows) < len(node.extra["members"]):
        return None
    sources = {
        source for each in context.graph.stored.nodes(sorted(rows.values())) for source in each.sources
    }
    return Node(node.id, node.kind, node.level, node.text, sorted(sources), node.extra)


async def _chosen_types(context: BuildContext) -> Node:
    stored, count = context.graph.stored, context.graph.entities
    nodes = await asyncio.to_thread(stored.nodes, range(count))
    # Ordered by a hash of their ids, so that equal graphs have equal samples.
    sample = sorted(nodes, key=lambda node: content_id("sample", node.id))[:SAMPLE]
    lines = (
        f"- {each.extra['name']}" + (f" ({each.extra['type']})" if each.extra["type"] else "")
        for each in sample
    )
    values = {"sample": "\n".join(lines), "count": "8"}
    sources = sorted({source for each in sample for source in each.sources})
    with context.gate.stage("choose meta types", 1):
        item = CallItem(values, "meta types", context.corpus.ids(sources))
        (answer,) = await context.gate.map(META_TASK, [item])
    types = list(META_TYPES) if answer is None else answer.types
    members = [each.id for each in sample]
    extra = {"types": types, "by": FAILED if answer is None else MODEL, "members": members}
    text = ", ".join(types)
    return Node(content_id("hirag", META_KIND, text, *members), META_KIND, 0, text, sources, extra)


def _arrays(
    context: BuildContext, layers: Layers, edges: Edges, communities: Communities, meta: bool
) -> dict[str, NDArray[Any]]:
    entities = layers.entities
    summaries = entities.summaries
    nodes = [summaries, communities.vectors]
    if meta:
        nodes.append(np.zeros((1, summaries.shape[1]), np.float32))
    adjacency = Adjacency.build(entities.count, edges.ends)
    keys = [entities.keys[rows] for rows in layers.members]
    return {
        VECTORS: np.concatenate(nodes),
        "counts": np.array([len(summaries), len(communities.nodes), int(meta)], np.int64),
        **{f"layered.{name}": array for name, array in adjacency.items()},
        "layers.levels": entities.levels,
        "layers.sizes": np.array([len(rows) for rows in layers.members], np.int64),
        "layers.sparsity": np.array(layers.sparsity, np.float64),
        "entities.keys": entities.keys,
        NAMES: entities.names,
        **layers.drift.arrays(),
        **_community_arrays(communities, entities.count),
        **layers.proposals,
        **cluster_arrays(layers.clusters, layers.ids, keys, context.config),
        **_nearest(context, entities, communities),
    }


def _nearest(context: BuildContext, entities: Entities, communities: Communities) -> dict[str, NDArray[Any]]:
    """Arrays for nearest vectors; sketches of unchanged vectors are taken from the previous index."""
    count, previous, seen = context.graph.entities, context.previous, context.graph.before
    arrays: Mapping[str, NDArray[Any]] = {} if previous is None else previous.arrays
    alike = np.full(count, -1, np.int64) if seen is None else np.where(seen.alike, seen.origin[:count], -1)
    first = 0 if previous is None else int(previous.arrays["counts"][0])
    reports = np.where(communities.nodes.before >= 0, communities.nodes.before - first, -1)
    return {
        **Nearest.index(context.graph.vectors, "entities", (arrays, alike), steady=True),
        **Nearest.index(entities.summaries, "summaries", (arrays, entities.before), steady=True),
        **Nearest.index(communities.vectors, "reports", (arrays, reports), steady=True),
    }


def _community_arrays(communities: Communities, entities: int) -> dict[str, NDArray[Any]]:
    members: Sequence[NDArray[np.int64]] = communities.members
    labels = np.stack(communities.labels) if communities.labels else np.zeros((0, entities), np.int64)
    return {
        "communities.labels": labels.astype(np.int32),
        "communities.indptr": np.cumsum([0, *map(len, members)], dtype=np.int64),
        "communities.indices": np.concatenate([np.zeros(0, np.int64), *members]).astype(np.int32),
    }
