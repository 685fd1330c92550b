"""Building the heterograph: decompose, augment, enrich (paper 001, 2.2 to 2.4)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.spherical_kmeans import spherical_kmeans
from stratarag.methods.base import Built, Corpus, Graph, Stored
from stratarag.methods.noderag.attributes import plan_attributes, write_attributes
from stratarag.methods.noderag.communities import communities, gather
from stratarag.methods.noderag.config import NodeRAGConfig
from stratarag.methods.noderag.elements import Element, write_elements
from stratarag.methods.noderag.heterograph import (
    EdgeList,
    Kind,
    Layout,
    decomposition,
    edge_arrays,
    stating_units,
    text_edges,
    unspoken_entities,
)
from stratarag.methods.noderag.importance import Important, important_entities
from stratarag.methods.noderag.matching import matches, semantic_links
from stratarag.methods.noderag.material import Keys, Material, key_of, lookup
from stratarag.models.gate import Gate
from stratarag.pipeline.carryover import CarryOver
from stratarag.pipeline.names.index import NameIndex
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.summarize import MODEL
from stratarag.protocols import Rows, Vectors
from stratarag.records import Node

EMBED_NODES, EMBED_UNITS = "embed attributes and elements", "embed semantic units"


async def build(
    corpus: Corpus, graph: Graph, gate: Gate, *, config: NodeRAGConfig, previous: Stored | None
) -> Built:
    """Build the heterograph over a corpus and its graph.

    Attributes and high-level elements whose inputs did not change are taken over from `previous`.
    """
    reuse = CarryOver(previous, gate)
    with gate.stage("important entities"):
        material = await asyncio.to_thread(Material.read, corpus, graph)
        found = await asyncio.to_thread(_important, material, config, previous)
    stated = await asyncio.to_thread(stating_units, graph)
    plans = await asyncio.to_thread(plan_attributes, material, found.rows, stated, config)
    known = {identity: node for identity, (node, _) in reuse.take([plan.id for plan in plans]).items()}
    attributes = await write_attributes(plans, known, material, gate, config)

    with gate.stage("communities"):
        keys = _keys(material, found.rows)
        labels = await asyncio.to_thread(_communities, material, found.rows, keys, config, previous)
        large = await asyncio.to_thread(gather, labels, attributes, material, config)
    elements = await write_elements(large, attributes, reuse, material, gate, config)

    nodes = [*attributes, *(each.node for each in elements), *(each.overview for each in elements)]
    vectors = await _embedded(nodes, len(attributes) + len(elements), corpus.vectors.shape[1], reuse, gate)
    units = await _unit_vectors(material, gate, previous, corpus.vectors.shape[1])
    parts = _Parts(corpus, graph, found, attributes, elements, labels, vectors, units)
    with gate.stage("heterograph"):
        arrays = await asyncio.to_thread(_assemble, parts, config)
    arrays |= {"communities.keys": keys, "communities.labels": labels.astype(np.int32)}
    arrays |= {"units.keys": _text_keys(material.units)}
    arrays |= {"important.keys": material.keys[found.rows], "important.sources": found.sources}
    return Built(nodes, arrays, complete=all(node.extra["by"] == MODEL for node in nodes))


def _important(material: Material, config: NodeRAGConfig, previous: Stored | None) -> Important:
    return important_entities(material, _first_edges(material.graph), config, previous)


def _first_edges(graph: Graph) -> Rows:
    """The edges among rows of the graph (2.2), without texts before them."""
    return EdgeList.of(decomposition(graph, Layout.of(0, graph))).ends


def _keys(material: Material, important: Rows) -> Keys:
    """What tells the nodes that are in communities from each other; an attribute goes by its entity."""
    own = [key_of("attribute", material.ids[row]) for row in important.tolist()]
    return np.concatenate([material.keys, np.array(own, np.uint64)])


def _communities(
    material: Material, important: Rows, keys: Keys, config: NodeRAGConfig, previous: Stored | None
) -> Rows:
    owned = np.column_stack([important, len(material.ids) + np.arange(len(important))])
    ends = np.concatenate([_first_edges(material.graph), owned])
    return communities(ends, keys, config, previous)


async def _embedded(
    nodes: Sequence[Node], count: int, dimension: int, reuse: CarryOver, gate: Gate
) -> Vectors:
    """Vectors of the nodes; of those after the first `count`, which are titles, they are zero (2.4)."""
    vectors = np.zeros((len(nodes), dimension), np.float32)
    known = reuse.take([node.id for node in nodes[:count]])
    fresh = []
    for row, node in enumerate(nodes[:count]):
        if node.id in known and known[node.id][0].text == node.text:
            vectors[row] = known[node.id][1]
        else:
            fresh.append(row)
    if fresh:
        with gate.stage(EMBED_NODES, len(fresh)):
            vectors[fresh] = await gate.embed(EMBED_NODES, [nodes[row].text for row in fresh])
    return vectors


def _text_keys(texts: Sequence[str]) -> Keys:
    return np.fromiter((key_of("text", text) for text in texts), np.uint64, len(texts))


async def _unit_vectors(material: Material, gate: Gate, previous: Stored | None, dimension: int) -> Vectors:
    """Vectors of the semantic units; a text that the previous index has is not embedded again.

    Units come first among the `entries.vectors` of an index.
    """
    vectors = np.zeros((len(material.units), dimension), np.float32)
    keys = _text_keys(material.units)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    fresh = np.ones(len(first), np.bool_)
    if previous is not None:
        before = lookup(keys[first], previous.arrays["units.keys"])
        fresh = before < 0
        vectors[first[~fresh]] = previous.arrays["entries.vectors"][before[~fresh]]
    rows = np.sort(first[fresh])
    if len(rows):
        with gate.stage(EMBED_UNITS, len(rows)):
            vectors[rows] = await gate.embed(EMBED_UNITS, [material.units[row] for row in rows.tolist()])
    return np.asarray(vectors[first[place]])


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the heterograph is put together from; `vectors` are of attributes, elements and titles."""

    corpus: Corpus
    graph: Graph
    important: Important
    attributes: Sequence[Node]
    elements: Sequence[Element]
    labels: Rows
    vectors: Vectors
    units: Vectors

    @property
    def layout(self) -> Layout:
        """Where each type of node begins."""
        many = len(self.elements)
        return Layout.of(self.corpus.size, self.graph, len(self.attributes), many, many)


def _assemble(parts: _Parts, config: NodeRAGConfig) -> dict[str, NDArray[Any]]:
    layout = parts.layout
    edges = EdgeList.of(_structure(parts, layout, config))
    embedded = len(parts.attributes) + len(parts.elements)
    nodes = np.concatenate([np.arange(layout.first(k), layout.first(k) + layout.count(k)) for k in "TSAH"])
    entries = np.concatenate([parts.units, parts.vectors[:embedded]])
    vectors = np.concatenate([parts.corpus.vectors, entries])
    links = semantic_links(nodes, vectors, config.links, config.seed)
    merged, semantic = edges.with_semantic(links)
    titles = [each.overview.text for each in parts.elements]
    return {
        **edge_arrays(merged, semantic, layout),
        **{f"titles.{name}": array for name, array in NameIndex.build(titles).items()},
        "vectors": parts.vectors,
        "entries.vectors": entries,
        **Nearest.index(parts.corpus.vectors, "chunks"),
        **Nearest.index(entries, "entries"),
    }


def _structure(parts: _Parts, layout: Layout, config: NodeRAGConfig) -> list[tuple[Kind, Rows]]:
    """All edges but those of similarity."""
    attributes, elements, titles = (layout.first(kind) for kind in "AHO")
    numbers = np.arange(len(parts.elements))
    entities = layout.first("N") + parts.important.rows
    owned = np.column_stack([attributes + np.arange(len(entities)), entities])
    return [
        *decomposition(parts.graph, layout),
        (Kind.ENTITY_ATTRIBUTE, owned),
        (Kind.ELEMENT_MATCH, _matched(parts, layout, config)),
        (Kind.ELEMENT_OVERVIEW, np.column_stack([elements + numbers, titles + numbers])),
        (Kind.TEXT_UNIT, text_edges(parts.graph, layout)),
        (Kind.TEXT_ENTITY, unspoken_entities(parts.graph, layout)),
    ]


def _matched(parts: _Parts, layout: Layout, config: NodeRAGConfig) -> Rows:
    """Semantic matching within communities, over S, A and H (2.3)."""
    graph, many = parts.graph, len(parts.elements)
    rows = graph.entities + graph.relations
    labels = np.array([each.label for each in parts.elements], np.int64)
    spans = [(layout.first(kind), layout.count(kind)) for kind in "SAH"]
    nodes = np.concatenate([np.arange(first, first + count) for first, count in spans])
    communities = np.concatenate([parts.labels[rows:], labels])
    vectors = np.concatenate([parts.units, parts.vectors[: len(parts.attributes) + many]])
    clusters = spherical_kmeans(vectors, max(1, round(math.sqrt(len(nodes)))), config.seed)
    return matches(nodes, communities, clusters, np.arange(len(nodes) - many, len(nodes)))
