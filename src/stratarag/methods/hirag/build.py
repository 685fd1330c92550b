"""HiIndex (HiRAG 4.1): layers of summary entities, communities of the layered graph, and their arrays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.paths import Adjacency
from stratarag.methods.base import Built, Corpus, Stored
from stratarag.methods.hirag.clusters import arrays as cluster_arrays
from stratarag.methods.hirag.communities import Communities, Edges, build_communities, complete
from stratarag.methods.hirag.config import META_TYPES, HiRAGConfig
from stratarag.methods.hirag.layers import Layers, Work, build_layers
from stratarag.methods.hirag.naming import META_TASK
from stratarag.models.gate import CallItem, Gate
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.summarize import FAILED, MODEL
from stratarag.records import Node, content_id

META_KIND = "meta_types"
SAMPLE = 40
"""Entities that the model is shown before it chooses the meta types."""


async def build(
    corpus: Corpus, graph: Graph, gate: Gate, *, config: HiRAGConfig, previous: Stored | None
) -> Built:
    """Build the hierarchy over a corpus' graph; what is made of the same is taken over from `previous`."""
    work = Work(corpus, graph, gate, config, previous)
    meta = await _meta_types(work)
    layers = await build_layers(work, meta.extra["types"] if meta else config.meta_types or META_TYPES)
    edges = Edges.of(work, layers.entities)
    communities = await build_communities(work, layers.entities, edges)
    arrays = await asyncio.to_thread(_arrays, work, layers, edges, communities, meta is not None)
    nodes = [*layers.entities.nodes, *communities.nodes, *([meta] if meta else [])]
    whole = layers.entities.complete and complete(nodes)
    return Built(nodes, arrays, complete=whole)


async def _meta_types(work: Work) -> Node | None:
    """The general concepts that the model chose, once: from a sample of names that are still all there.

    They guide prompts and are in no layer. Where the user set them, or there is no model, there is no node.
    """
    if work.config.meta_types is not None or not work.graph.entities:
        return None
    former = await asyncio.to_thread(_former_types, work)
    if former is not None and (former.extra["by"] == MODEL or not work.gate.has_llm):
        return former
    if not work.gate.has_llm:
        return None
    return await _chosen_types(work)


def _former_types(work: Work) -> Node | None:
    """The node of the previous index, if every name that it was made of is still in the graph."""
    if work.previous is None or not work.previous.arrays["counts"][2]:
        return None
    summaries, communities, _ = work.previous.arrays["counts"].tolist()
    (node,) = work.previous.nodes([summaries + communities])
    rows = work.graph.stored.rows(node.extra["members"])
    if len(rows) < len(node.extra["members"]):
        return None
    sources = {source for each in work.graph.stored.nodes(sorted(rows.values())) for source in each.sources}
    return Node(node.id, node.kind, node.level, node.text, sorted(sources), node.extra)


async def _chosen_types(work: Work) -> Node:
    sample = await asyncio.to_thread(_sample, work.graph)
    lines = (
        f"- {each.extra['name']}" + (f" ({each.extra['type']})" if each.extra["type"] else "")
        for each in sample
    )
    values = {"sample": "\n".join(lines), "count": "8"}
    sources = sorted({source for each in sample for source in each.sources})
    with work.gate.stage("choose meta types", 1):
        item = CallItem(values, "meta types", work.corpus.ids(sources))
        (answer,) = await work.gate.map(META_TASK, [item])
    types = list(META_TYPES) if answer is None else answer.types
    members = [each.id for each in sample]
    extra = {"types": types, "by": FAILED if answer is None else MODEL, "members": members}
    text = ", ".join(types)
    return Node(content_id("hirag", META_KIND, text, *members), META_KIND, 0, text, sources, extra)


def _sample(graph: Graph) -> list[Node]:
    """Some entities, the same ones for the same graph, drawn by the hash of their names."""
    nodes = graph.stored.nodes(range(graph.entities))
    return sorted(nodes, key=lambda node: content_id("sample", node.id))[:SAMPLE]


def _arrays(
    work: Work, layers: Layers, edges: Edges, communities: Communities, meta: bool
) -> dict[str, NDArray[Any]]:
    entities, count = layers.entities, work.graph.entities
    summaries = entities.vectors[count:]
    nodes = [summaries, communities.vectors]
    if meta:
        nodes.append(np.zeros((1, summaries.shape[1]), np.float32))
    adjacency = Adjacency.build(len(entities.ids), edges.ends)
    keys = [entities.keys[rows] for rows in layers.members]
    return {
        "vectors": np.concatenate(nodes),
        "counts": np.array([len(summaries), len(communities.nodes), int(meta)], np.int64),
        **{f"layered.{name}": array for name, array in adjacency.items()},
        "layers.levels": np.array([node.level for node in entities.nodes], np.int16),
        "layers.sizes": np.array([len(rows) for rows in layers.members], np.int64),
        "layers.sparsity": np.array(layers.sparsity, np.float64),
        "entities.keys": entities.keys,
        **_community_arrays(communities, len(entities.ids)),
        **cluster_arrays(layers.clusters, keys, work.config),
        **Nearest.index(entities.vectors[:count], "entities"),
        **Nearest.index(summaries, "summaries"),
        **Nearest.index(communities.vectors, "reports"),
    }


def _community_arrays(communities: Communities, entities: int) -> dict[str, NDArray[Any]]:
    members: Sequence[NDArray[np.int64]] = communities.members
    labels = np.stack(communities.labels) if communities.labels else np.zeros((0, entities), np.int64)
    return {
        "communities.labels": labels.astype(np.int32),
        "communities.indptr": np.cumsum([0, *map(len, members)], dtype=np.int64),
        "communities.indices": np.concatenate([np.zeros(0, np.int64), *members]).astype(np.int32),
    }
