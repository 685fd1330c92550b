"""Building the heterograph: decompose, augment, enrich (paper 001, 2.2 to 2.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import VECTORS, CarryOver
from stratagraph.ingest.graph.statements import group_vectors
from stratagraph.ingest.names.index import MEASURES, NameIndex
from stratagraph.ingest.nearest import Nearest
from stratagraph.kernels.float16 import stacked
from stratagraph.kernels.ranges import split
from stratagraph.methods.base import Built, Graph, Stored
from stratagraph.methods.groups import NodeTable, stored_vectors
from stratagraph.methods.noderag.attributes import (
    SOURCES,
    Important,
    draft_attributes,
    important_entities,
    statement_lists,
    write_attributes,
)
from stratagraph.methods.noderag.attributes import STAGE as ATTRIBUTES
from stratagraph.methods.noderag.elements import (
    Element,
    detect_communities,
    graph_drift,
    large_communities,
    write_elements,
)
from stratagraph.methods.noderag.heterograph import (
    CELLS,
    KINDS,
    EdgeList,
    Kind,
    Layout,
    Moved,
    decomposition,
    edge_arrays,
    entry_cells,
    entry_links,
    isolated_entities,
    matches,
    stating_units,
    text_edges,
)
from stratagraph.methods.noderag.inputs import (
    BORDERS,
    ELEMENT_LABELS,
    MEMBERS,
    Builder,
    BuildInputs,
    Unchanged,
)
from stratagraph.system.memory import release
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.records import Node

ENTRY_VECTORS = "entries.vectors"
"""The array of the vectors of S, A and H."""
EMBED = "embed attributes and elements"
_GROUPS = 1024  # whose vectors are made at a time
TITLES = "titles."
"""What the names of the arrays of the index of titles begin with."""


async def build(builder: Builder) -> Built:
    """Build the heterograph over a corpus and its graph.

    Attributes and high-level elements whose inputs did not change are taken over. Important entities are kept
    until enough has changed (`methods.drift`); to regroup, they and the communities are found anew.
    """
    graph, gate, previous, grouped = builder.graph, builder.gate, builder.previous, builder.grouped
    with gate.stage("important entities"):
        inputs = await asyncio.to_thread(BuildInputs.read, builder)
        unchanged = Unchanged(inputs)
        stated = await asyncio.to_thread(stating_units, graph, builder.arrays)
        parts = decomposition(graph, stated, Layout.of(0, graph))  # 2.2, as rows of the graph
        edges = np.concatenate([ends for _, ends in parts])
        drift = await asyncio.to_thread(graph_drift, inputs)
        measure = grouped is None or drift.due
        important = await asyncio.to_thread(important_entities, inputs, edges, grouped, measure=measure)
    lists = await asyncio.to_thread(statement_lists, inputs, important.rows, stated)
    before = await asyncio.to_thread(unchanged.attributes, lists)
    rows = split(lists[1], np.diff(lists[0]))
    changed = [rows[place].tolist() for place in np.flatnonzero(before < 0).tolist()]
    drafts = await asyncio.to_thread(draft_attributes, inputs, changed)
    write = partial(write_attributes, builder=builder)
    short = builder.config.attribute_tokens
    attributes = builder.table(before, await builder.nodes(drafts, write, ATTRIBUTES, short=short))

    with gate.stage("communities"):
        origin = _members_before(inputs, important.rows)
        owned = np.column_stack([important.rows, inputs.size + np.arange(len(important.rows))])
        ends = np.concatenate([edges, owned])
        labels = await asyncio.to_thread(detect_communities, builder, ends, origin, drift)
        anew, *kept = await asyncio.to_thread(unchanged.communities, labels, attributes.before)
        large = await asyncio.to_thread(large_communities, inputs, labels, anew, attributes)
    written = await write_elements(large, builder)
    elements = _Elements.of(kept, written, builder)

    made = await _vectors(attributes, elements.nodes, changed, written, inputs)
    contents = _Contents(builder, stated, important, attributes, elements, labels, made)
    if previous is None:
        await asyncio.to_thread(release)
    arrays: dict[str, NDArray[Any]] = {
        "communities.labels": labels.astype(np.int32),
        SOURCES: important.sources,
    }
    arrays |= {BORDERS: lists[0], MEMBERS: lists[1], ELEMENT_LABELS: elements.labels} | drift.arrays()
    firsts = [each.indices[each.indptr[:-1]] for each in (attributes, elements.nodes)]
    origins = {ENTRY_VECTORS: np.concatenate([inputs.first_chunks_of_units(), *firsts])}
    with gate.stage("heterograph"):
        settled = None if drift.lapsed else grouped
        return await asyncio.to_thread(_built, contents, arrays, origins, settled)


@dataclass(frozen=True, slots=True)
class _Elements:
    """High-level elements and their titles; `labels` are the communities of the elements."""

    nodes: NodeTable
    titles: NodeTable
    labels: Rows

    @classmethod
    def of(cls, kept: Sequence[Rows], written: Sequence[Element], builder: Builder) -> _Elements:
        """By their communities: the labels and previous rows of those `kept`, and those that were written."""
        previous = builder.previous
        count = 0 if previous is None else Layout(np.asarray(previous.arrays["layout"])).count("H")
        labels = np.concatenate([kept[0], np.array([each.about.label for each in written], np.int64)])
        order = np.argsort(labels, kind="stable")
        labels, before = labels[order], np.concatenate([kept[1], np.full(len(written), -1)])[order]
        titles = np.where(before >= 0, before + count, -1)
        return cls(
            builder.table(before, [each.node for each in written]),
            builder.table(titles, [each.overview for each in written]),
            labels,
        )


async def _vectors(
    attributes: NodeTable,
    elements: NodeTable,
    changed: Sequence[Sequence[int]],
    written: Sequence[Element],
    inputs: BuildInputs,
) -> list[Vectors]:
    """Vectors of attributes, means of units, and of elements, means of units and attributes.

    They are stored in float16, which loses nothing of `group_vectors`. `changed` are the rows of the graph
    that each new attribute is made of.
    """
    first, units, carry = inputs.first_unit, inputs.graph.unit_vectors, inputs.builder.carry
    members = [[row - first for row in sorted(own) if row >= first] for own in changed]
    own = attributes.column(VECTORS, await _means(attributes.fresh, members, units, carry))
    members = [
        [
            *(len(units) + place for place in each.about.attributes),
            *(row - first for row in each.about.rows if row >= first),
        ]
        for each in written
    ]
    made = await _means(elements.fresh, members, stacked([units, own]), carry)
    return [own, elements.column(VECTORS, made)]


async def _means(
    nodes: Sequence[Node], members: Sequence[Sequence[int]], vectors: Vectors, carry: CarryOver
) -> Vectors:
    """`group_vectors` as float16, of as many groups at a time as have vectors of little memory."""
    means = np.zeros((len(nodes), vectors.shape[1]), np.float16)
    for start in range(0, len(nodes), _GROUPS):
        some = slice(start, start + _GROUPS)
        means[some] = await group_vectors(nodes[some], members[some], vectors, stage=EMBED, carry=carry)
    return cast(Vectors, means)


def _members_before(inputs: BuildInputs, important: Rows) -> Rows:
    """The previous row of each member of communities, or -1: of the graph's rows, then of attributes."""
    seen = inputs.graph.before
    if seen is None:
        return np.full(inputs.size + len(important), -1, np.int64)
    places = inputs.attributes_before[important]
    return np.concatenate([seen.origin, np.where(places >= 0, seen.size + places, -1)])


@dataclass(frozen=True, slots=True)
class _Contents:
    """The parts of the heterograph; `made` are the vectors of attributes and elements; titles have none."""

    builder: Builder
    stated: Rows
    important: Important
    attributes: NodeTable
    elements: _Elements
    labels: Rows
    made: list[Vectors]

    @property
    def graph(self) -> Graph:
        """The graph of the corpus."""
        return self.builder.graph

    @property
    def layout(self) -> Layout:
        """Where each type of node begins."""
        many = len(self.elements.nodes)
        return Layout.of(self.builder.corpus.size, self.graph, len(self.attributes), many, many)

    @property
    def before(self) -> Rows:
        """The previous row of each attribute, element and title, or -1."""
        return np.concatenate(
            [self.attributes.before, self.elements.nodes.before, self.elements.titles.before]
        )


def _built(
    contents: _Contents,
    arrays: Mapping[str, NDArray[Any]],
    origins: Mapping[str, Rows],
    settled: Stored | None,
) -> Built:
    """All nodes, with what a search reads; edges by meaning go on from those of `settled`."""
    layout, made, builder = contents.layout, contents.made, contents.builder
    config, previous = builder.config, builder.previous
    embedded = [contents.graph.unit_vectors, *made]
    entries, everything = stacked(embedded), stacked([builder.corpus.vectors, *embedded])
    of_entries = _entries_before(contents, previous)[: len(entries)]
    moved = Moved.of(contents.graph, layout, contents.before, settled)
    cells = entry_cells(entries, layout, moved, config)
    links = entry_links(layout.nodes("TSAH"), everything, moved, config)
    edges = EdgeList.of([*_structure(contents, layout, cells), (Kind.SEMANTIC, links)])
    del links
    titles = np.zeros((len(contents.elements.titles), entries.shape[1]), np.float16)
    own_arrays = {
        **arrays,
        **edge_arrays(edges, layout),
        **_title_index(contents.elements.titles),
        ENTRY_VECTORS: stored_vectors(previous, ENTRY_VECTORS, of_entries, entries),
        CELLS: cells.astype(np.int32),
        **Nearest.index(
            entries,
            "entries",
            None if previous is None else (previous.arrays, of_entries),
            steady=True,
        ),
    }
    parts = [contents.attributes, contents.elements.nodes, contents.elements.titles]
    measures = [KINDS, *(TITLES + each for each in MEASURES)]
    vectors = np.concatenate([*made, titles])
    return builder.built(parts, vectors, own_arrays, origins=origins, measures=measures)


def _entries_before(contents: _Contents, previous: Stored | None) -> Rows:
    """The previous row of each entry of S, A and H that has the same vector, or -1."""
    graph, own = contents.graph, contents.before
    if previous is None or graph.before is None:
        return np.full(graph.units + len(own), -1, np.int64)
    before, first = Layout(np.asarray(previous.arrays["layout"])), graph.entities + graph.relations
    units = graph.before.origin[first:] - before.first("S") + before.first("N")
    units[~graph.before.same[first:]] = -1
    return np.concatenate([units, np.where(own >= 0, own + before.count("S"), -1)])


def _title_index(titles: NodeTable) -> dict[str, NDArray[Any]]:
    """The index of titles; that of the previous index is brought up to date."""
    kept = np.flatnonzero(titles.before >= 0)
    index: Mapping[str, NDArray[Any]]
    if titles.previous is None or not len(kept):
        index = NameIndex.build([node.text for node in titles.fresh])
    else:
        arrays = titles.previous.arrays
        before = Layout(np.asarray(arrays["layout"]))
        now = np.full(before.count("O"), -1, np.int64)
        now[titles.before[kept] - before.count("A") - before.count("H")] = kept
        new = np.flatnonzero(titles.before < 0).tolist()
        fresh = dict(zip(new, (node.text for node in titles.fresh), strict=True))
        stored = {name[len(TITLES) :]: array for name, array in arrays.items() if name.startswith(TITLES)}
        index = NameIndex.updated(stored, now, len(titles), fresh)
    return {f"{TITLES}{name}": array for name, array in index.items()}


def _structure(contents: _Contents, layout: Layout, cells: Rows) -> list[tuple[Kind, Rows]]:
    """All edges but those of similarity; matching is within communities, over S, A and H (2.3)."""
    attributes, elements, titles = (layout.first(kind) for kind in "AHO")
    many, rows = len(contents.elements.nodes), contents.graph.entities + contents.graph.relations
    numbers = np.arange(many)
    nodes = layout.nodes("SAH")
    communities = np.concatenate([contents.labels[rows:], contents.elements.labels])
    entities = layout.first("N") + contents.important.rows
    owned = np.column_stack([attributes + np.arange(len(entities)), entities])
    return [
        *decomposition(contents.graph, contents.stated, layout),
        (Kind.ENTITY_ATTRIBUTE, owned),
        (Kind.ELEMENT_MATCH, matches(nodes, communities, cells, np.arange(len(nodes) - many, len(nodes)))),
        (Kind.ELEMENT_OVERVIEW, np.column_stack([elements + numbers, titles + numbers])),
        (Kind.TEXT_UNIT, text_edges(contents.graph, layout)),
        (Kind.TEXT_ENTITY, isolated_entities(contents.graph, layout)),
    ]
