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
from stratarag.methods.noderag.communities import detect_communities, large_communities
from stratarag.methods.noderag.config import NodeRAGConfig
from stratarag.methods.noderag.elements import Element, write_elements
from stratarag.methods.noderag.heterograph import (
    EdgeList,
    Kind,
    Layout,
    decomposition,
    edge_arrays,
    isolated_entities,
    stating_units,
    text_edges,
)
from stratarag.methods.noderag.importance import Important, important_entities
from stratarag.methods.noderag.inputs import BuildInputs
from stratarag.methods.noderag.matching import matches, semantic_links
from stratarag.models.gate import Gate
from stratarag.pipeline.carryover import (
    VECTOR_KEYS,
    VECTORS,
    CarryOver,
    Keys,
    keys_of,
    text_keys,
    written_by_model,
)
from stratarag.pipeline.names.index import NameIndex
from stratarag.pipeline.nearest import Nearest
from stratarag.protocols import Rows, Vectors
from stratarag.records import Node

ENTRY_VECTORS, UNIT_KEYS = "entries.vectors", "units.keys"
"""Arrays: the vectors of S, A and H, and the keys of the units' texts, whose vectors come first in them."""


async def build(
    corpus: Corpus,
    graph: Graph,
    gate: Gate,
    *,
    config: NodeRAGConfig,
    previous: Stored | None,
    regroup: bool = False,
) -> Built:
    """Build the heterograph over a corpus and its graph.

    Attributes and high-level elements whose inputs did not change are taken over from `previous`; with
    `regroup`, communities are found anew.
    """
    carry, dimension = CarryOver(previous, gate), corpus.vectors.shape[1]
    with gate.stage("important entities"):
        inputs = await asyncio.to_thread(BuildInputs.read, corpus, graph)
        edges = await asyncio.to_thread(_edges_of_decomposition, graph)
        important = await asyncio.to_thread(important_entities, inputs, edges, config, previous)
    stated = await asyncio.to_thread(stating_units, graph)
    plans = await asyncio.to_thread(plan_attributes, inputs, important.rows, stated, config)
    attributes = await write_attributes(plans, carry.nodes([plan.id for plan in plans]), inputs, gate, config)

    with gate.stage("communities"):
        keys = _community_keys(inputs, important.rows)
        owned = np.column_stack([important.rows, len(inputs.ids) + np.arange(len(important.rows))])
        ends = np.concatenate([edges, owned])
        grouped = None if regroup else previous
        labels, drift = await asyncio.to_thread(detect_communities, ends, keys, config, grouped)
        large = await asyncio.to_thread(large_communities, labels, attributes, inputs, config)
    elements = await write_elements(large, attributes, carry, inputs, gate, config)

    embedded = [*attributes, *(each.node for each in elements)]
    nodes = [*embedded, *(each.overview for each in elements)]
    texts = [node.text for node in embedded]
    vectors = await carry.embed("embed attributes and elements", texts, dimension)
    units = await carry.embed(
        "embed semantic units", inputs.units, dimension, vectors=ENTRY_VECTORS, keys=UNIT_KEYS
    )
    contents = _Contents(corpus, graph, important, attributes, elements, labels, vectors, units)
    with gate.stage("heterograph"):
        arrays = await asyncio.to_thread(_arrays, contents, config)
    arrays |= {"communities.keys": keys, "communities.labels": labels.astype(np.int32)}
    arrays |= drift.arrays()
    arrays |= {VECTOR_KEYS: await asyncio.to_thread(text_keys, texts)}
    arrays |= {UNIT_KEYS: await asyncio.to_thread(text_keys, inputs.units)}
    arrays |= {"important.keys": inputs.keys[important.rows], "important.sources": important.sources}
    return Built(nodes, arrays, complete=all(map(written_by_model, nodes)))


def _edges_of_decomposition(graph: Graph) -> Rows:
    """The edges of 2.2 among entities, relations and units, as rows of the graph."""
    return EdgeList.of(decomposition(graph, Layout.of(0, graph))).ends


def _community_keys(inputs: BuildInputs, important: Rows) -> Keys:
    """Keys of the nodes that communities consist of: rows of the graph, then attributes by their entities."""
    return np.concatenate(
        [inputs.keys, keys_of("attribute", (inputs.ids[row] for row in important.tolist()))]
    )


@dataclass(frozen=True, slots=True)
class _Contents:
    """What the heterograph consists of. `vectors` are those of attributes and elements, titles have none."""

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


def _arrays(contents: _Contents, config: NodeRAGConfig) -> dict[str, NDArray[Any]]:
    """What a search reads."""
    layout = contents.layout
    edges = EdgeList.of(_structure(contents, layout, config))
    nodes = np.concatenate([np.arange(layout.first(k), layout.first(k) + layout.count(k)) for k in "TSAH"])
    entries = np.concatenate([contents.units, contents.vectors])
    links = semantic_links(
        nodes, np.concatenate([contents.corpus.vectors, entries]), config.links, config.seed
    )
    merged, semantic = edges.with_semantic(links)
    titles = [each.overview.text for each in contents.elements]
    no_vectors = np.zeros((len(titles), entries.shape[1]), np.float32)
    return {
        **edge_arrays(merged, semantic, layout),
        **{f"titles.{name}": array for name, array in NameIndex.build(titles).items()},
        VECTORS: np.concatenate([contents.vectors, no_vectors]),
        ENTRY_VECTORS: entries,
        **Nearest.index(entries, "entries"),
    }


def _structure(contents: _Contents, layout: Layout, config: NodeRAGConfig) -> list[tuple[Kind, Rows]]:
    """All edges but those of similarity."""
    attributes, elements, titles = (layout.first(kind) for kind in "AHO")
    numbers = np.arange(len(contents.elements))
    entities = layout.first("N") + contents.important.rows
    owned = np.column_stack([attributes + np.arange(len(entities)), entities])
    return [
        *decomposition(contents.graph, layout),
        (Kind.ENTITY_ATTRIBUTE, owned),
        (Kind.ELEMENT_MATCH, _matched(contents, layout, config)),
        (Kind.ELEMENT_OVERVIEW, np.column_stack([elements + numbers, titles + numbers])),
        (Kind.TEXT_UNIT, text_edges(contents.graph, layout)),
        (Kind.TEXT_ENTITY, isolated_entities(contents.graph, layout)),
    ]


def _matched(contents: _Contents, layout: Layout, config: NodeRAGConfig) -> Rows:
    """Semantic matching within communities, over S, A and H (2.3)."""
    graph, many = contents.graph, len(contents.elements)
    rows = graph.entities + graph.relations
    labels = np.array([each.label for each in contents.elements], np.int64)
    spans = [(layout.first(kind), layout.count(kind)) for kind in "SAH"]
    nodes = np.concatenate([np.arange(first, first + count) for first, count in spans])
    communities = np.concatenate([contents.labels[rows:], labels])
    vectors = np.concatenate([contents.units, contents.vectors])
    clusters = spherical_kmeans(vectors, max(1, round(math.sqrt(len(nodes)))), config.seed)
    return matches(nodes, communities, clusters, np.arange(len(nodes) - many, len(nodes)))
