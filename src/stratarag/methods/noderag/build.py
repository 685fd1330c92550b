"""Building the heterograph: decompose, augment, enrich (paper 001, 2.2 to 2.4)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.spherical_kmeans import spherical_kmeans
from stratarag.methods.base import Built, Corpus, Graph, Stored
from stratarag.methods.noderag.attributes import plan_attributes, write_attributes
from stratarag.methods.noderag.communities import detect_communities, graph_drift, large_communities
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
from stratarag.pipeline.statements import group_vectors
from stratarag.protocols import Rows, Vectors
from stratarag.records import Node

ENTRY_VECTORS = "entries.vectors"
"""The array of the vectors of S, A and H."""


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

    Attributes and high-level elements whose inputs did not change are taken over from `previous`, and so is
    which entities are important, until enough has changed (`pipeline.drift`); with `regroup`, this and the
    communities are found anew.
    """
    carry = CarryOver(previous, gate)
    with gate.stage("important entities"):
        inputs = await asyncio.to_thread(BuildInputs.read, corpus, graph)
        edges = await asyncio.to_thread(_edges_of_decomposition, graph)
        grouped = None if regroup else previous
        drift = await asyncio.to_thread(graph_drift, inputs.keys, grouped)
        measure = grouped is None or drift.due
        important = await asyncio.to_thread(
            important_entities, inputs, edges, config, previous, measure=measure
        )
    stated = await asyncio.to_thread(stating_units, graph)
    plans = await asyncio.to_thread(plan_attributes, inputs, important.rows, stated, config)
    attributes = await write_attributes(plans, carry.nodes([plan.id for plan in plans]), inputs, gate, config)

    with gate.stage("communities"):
        keys = _community_keys(inputs, important.rows)
        owned = np.column_stack([important.rows, len(inputs.ids) + np.arange(len(important.rows))])
        ends = np.concatenate([edges, owned])
        labels = await asyncio.to_thread(detect_communities, ends, keys, config, grouped, compare=drift.due)
        large = await asyncio.to_thread(large_communities, labels, attributes, inputs, config)
    elements = await write_elements(large, attributes, carry, inputs, gate, config)

    embedded = [*attributes, *(each.node for each in elements)]
    nodes = [*embedded, *(each.overview for each in elements)]
    texts = [node.text for node in embedded]
    units = np.asarray(graph.unit_vectors, np.float32)
    vectors = await _group_vectors(attributes, elements, units, inputs, carry)
    contents = _Contents(corpus, graph, important, attributes, elements, labels, vectors, units)
    with gate.stage("heterograph"):
        arrays = await asyncio.to_thread(_arrays, contents, config)
    arrays |= {"communities.keys": keys, "communities.labels": labels.astype(np.int32)}
    arrays |= drift.arrays()
    arrays |= {VECTOR_KEYS: await asyncio.to_thread(text_keys, texts)}
    arrays |= {"important.keys": inputs.keys[important.rows], "important.sources": important.sources}
    first = [node.sources[0] for node in embedded]
    origins = {ENTRY_VECTORS: np.concatenate([inputs.first_chunks_of_units(), np.array(first, np.int64)])}
    return Built(nodes, arrays, complete=all(map(written_by_model, nodes)), origins=origins)


async def _group_vectors(
    attributes: Sequence[Node],
    elements: Sequence[Element],
    units: Vectors,
    inputs: BuildInputs,
    carry: CarryOver,
) -> Vectors:
    """Vectors of attributes, then of high-level elements, whose members are units and attributes."""
    places = {identity: row for row, identity in enumerate(inputs.ids[inputs.first_unit :])}
    of_attributes = [_known(node, places) for node in attributes]
    stage = "embed attributes and elements"
    first = await group_vectors(attributes, of_attributes, units, stage=stage, carry=carry)
    places |= {node.id: len(units) + row for row, node in enumerate(attributes)}
    nodes = [each.node for each in elements]
    below, of_elements = np.concatenate([units, first]), [_known(node, places) for node in nodes]
    return np.concatenate([first, await group_vectors(nodes, of_elements, below, stage=stage, carry=carry)])


def _known(node: Node, places: Mapping[str, int]) -> list[int]:
    """Where the members of a node are, of those that have a place."""
    return [places[member] for member in node.extra["members"] if member in places]


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
