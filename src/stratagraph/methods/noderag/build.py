"""Building the heterograph: decompose, augment, enrich (paper 001, 2.2 to 2.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import VECTORS, Keys
from stratagraph.ingest.graph.statements import UNIT_VECTORS, group_vectors
from stratagraph.ingest.marks import Marks
from stratagraph.ingest.names.index import HOLDS, NameIndex
from stratagraph.ingest.nearest import Nearest
from stratagraph.kernels.float16 import stacked
from stratagraph.kernels.ranges import split
from stratagraph.methods.base import Built, Stored
from stratagraph.methods.groups import VECTOR_HASHES, NodeTable, of_same_vectors, stored_vectors
from stratagraph.methods.noderag.attributes import (
    BORDERS,
    ELEMENT_LABELS,
    MEMBERS,
    SOURCES,
    Builder,
    BuildInputs,
    Important,
    draft_attributes,
    important_entities,
    statement_lists,
    write_attributes,
)
from stratagraph.methods.noderag.attributes import STAGE as ATTRIBUTES
from stratagraph.methods.noderag.elements import (
    Element,
    changed_communities,
    detect_communities,
    graph_drift,
    write_elements,
)
from stratagraph.methods.noderag.heterograph import (
    CELLS,
    EdgeKind,
    EdgeList,
    Moved,
    TypeBounds,
    decomposition,
    edge_arrays,
    entry_cells,
    entry_links,
    isolated_entities,
    matches,
    stating_units,
    text_edges,
)
from stratagraph.system.memory import release
from stratagraph.types.built import Arrays, Holds, declared
from stratagraph.types.protocols import Rows, Vectors

ENTRY_VECTORS = "entries.vectors"
"""The array of the vectors of S, A and H."""
EMBED = "embed attributes and elements"
TITLES = "titles."
"""What the names of the arrays of the index of titles begin with."""


async def build(builder: Builder) -> Built:
    """Build the heterograph over a corpus and its graph.

    Attributes and high-level elements whose inputs did not change are taken over. Important entities stay the
    same until enough has changed (`methods.drift`). To regroup finds them and the communities without regard
    to the previous ones.
    """
    graph, gate, carry, grouped = builder.graph, builder.gate, builder.carry, builder.grouped
    with gate.stage("important entities"):
        inputs = await asyncio.to_thread(BuildInputs, builder)
        stated = await asyncio.to_thread(stating_units, graph)
        parts = decomposition(graph, stated, TypeBounds.of(0, graph))  # 2.2, as rows of the graph
        edges = np.concatenate([ends for _, ends in parts])
        drift = await asyncio.to_thread(graph_drift, inputs)
        measure = grouped is None or drift.due
        important = await asyncio.to_thread(important_entities, inputs, edges, grouped, measure=measure)
    lists = await asyncio.to_thread(statement_lists, inputs, important.rows, stated)
    marks, before = await asyncio.to_thread(inputs.regrouped_attributes, lists)
    rows = split(lists[1], np.diff(lists[0]))
    changed = [rows[place].tolist() for place in np.flatnonzero(before < 0).tolist()]
    drafts = await asyncio.to_thread(draft_attributes, inputs, changed)
    write = partial(write_attributes, builder=builder)
    short = builder.config.attribute_tokens
    attributes = builder.table(before, await builder.nodes(drafts, write, ATTRIBUTES, short=short), marks)

    with gate.stage("communities"):
        rows_before, seen = np.full(inputs.size + len(important.rows), -1, np.int64), graph.before
        if seen is not None:
            places = inputs.attributes_before[important.rows]
            rows_before = np.concatenate([seen.rows_before, np.where(places >= 0, seen.size + places, -1)])
        owned = np.column_stack([important.rows, inputs.size + np.arange(len(important.rows))])
        ends = np.concatenate([edges, owned])
        labels = await asyncio.to_thread(detect_communities, builder, ends, rows_before, drift)
        marks, rewrite, *carried = await asyncio.to_thread(inputs.regrouped_elements, labels, attributes)
        large = await asyncio.to_thread(changed_communities, inputs, labels, rewrite, attributes)
    written = await write_elements(large, builder)
    elements, titles, element_labels = _element_tables(builder, carried, written, marks)

    # Attributes have the mean vectors of their units; elements of their units and attributes.
    units, first = graph.unit_vectors, inputs.first_unit
    members = [[row - first for row in sorted(own) if row >= first] for own in changed]
    of_attributes = await group_vectors(attributes.fresh, members, units, stage=EMBED, carry=carry)
    attribute_vectors = attributes.column(VECTORS, of_attributes.astype(np.float16))
    members = [
        [
            *(len(units) + place for place in each.about.attributes),
            *(row - first for row in each.about.rows if row >= first),
        ]
        for each in written
    ]
    both = stacked([units, attribute_vectors])
    of_elements = await group_vectors(elements.fresh, members, both, stage=EMBED, carry=carry)
    vectors = [attribute_vectors, elements.column(VECTORS, of_elements.astype(np.float16))]
    hashes = [attributes.vector_hashes(of_attributes), elements.vector_hashes(of_elements)]
    if builder.previous is None:
        await asyncio.to_thread(release)
    tables = [attributes, elements, titles]
    contents = _Contents(builder, stated, important, tables, labels, element_labels, vectors, hashes)
    of_nodes = [each.indices[each.indptr[:-1]] for each in (attributes, elements)]
    indptr, indices = graph.sources
    of_units = np.asarray(indices[indptr[first:-1]], np.int64)
    first_chunks = np.concatenate([of_units, *of_nodes])
    arrays = drift.arrays() | Holds.ROWS.of({BORDERS: lists[0], MEMBERS: lists[1]})
    continued = None if drift.lapsed else grouped
    with gate.stage("heterograph"):
        return await asyncio.to_thread(_built, contents, arrays, first_chunks, continued)


def _element_tables(
    builder: Builder, carried: Sequence[Rows], written: Sequence[Element], marks: Marks
) -> tuple[NodeTable, NodeTable, Rows]:
    """High-level elements, their titles and their communities, in the order of these.

    `carried` are the communities and previous rows of unchanged elements, `marks` those of communities.
    """
    previous = builder.previous
    count = 0 if previous is None else TypeBounds(np.asarray(previous.arrays["layout"])).count("H")
    labels = np.concatenate([carried[0], np.array([each.about.label for each in written], np.int64)])
    order = np.argsort(labels, kind="stable")
    before = np.concatenate([carried[1], np.full(len(written), -1)])[order]
    titles_before = np.where(before >= 0, before + count, -1)
    elements = builder.table(before, [each.node for each in written], marks[labels[order]])
    return elements, builder.table(titles_before, [each.overview for each in written]), labels[order]


class _Contents(NamedTuple):
    """What the heterograph is made of."""

    builder: Builder
    stated: Rows
    important: Important
    tables: Sequence[NodeTable]  # attributes, elements and titles
    labels: Rows  # the communities of the rows of the graph, then of the attributes
    element_labels: Rows  # the communities of the elements
    vectors: Sequence[Vectors]  # of attributes and elements; titles have none
    hashes: Sequence[Keys]  # of these vectors


def _built(contents: _Contents, arrays: Arrays, first_chunks: Rows, continued: Stored | None) -> Built:
    """All nodes, with what a search reads; edges by meaning continue those of `continued`."""
    builder, titles, graph = contents.builder, contents.tables[2], contents.builder.graph
    config, previous = builder.config, builder.previous
    layout = TypeBounds.of(builder.corpus.size, graph, *map(len, contents.tables))
    embedded = [graph.unit_vectors, *contents.vectors]
    entries, everything = stacked(embedded), stacked([builder.corpus.vectors, *embedded])
    own = np.full(
        sum(map(len, contents.tables)), -1, np.int64
    )  # previous rows of equal vectors among A, H, O
    entries_before = np.full(len(entries), -1, np.int64)  # the same of S, A and H
    if previous is not None:
        before = TypeBounds(np.asarray(previous.arrays["layout"]))
        parts = np.split(previous.arrays[VECTOR_HASHES], np.cumsum([before.count("A"), before.count("H")]))
        attributes, elements = map(of_same_vectors, contents.hashes, parts)
        elements = np.where(elements >= 0, elements + before.count("A"), -1)
        own = np.concatenate(
            [attributes, elements, np.where(elements >= 0, elements + before.count("H"), -1)]
        )
        if graph.before is not None:
            first, first_before = graph.entities + graph.relations, before.first("S") - before.first("N")
            units = graph.before.rows_before[first:] - first_before
            units[~graph.before.alike_from(UNIT_VECTORS, first, first_before)] = -1
            of_own = np.where(own >= 0, own + before.count("S"), -1)
            entries_before = np.concatenate([units, of_own])[: len(entries)]
    moved = Moved.of(graph, layout, own, continued)
    cells = entry_cells(entries, layout, moved, config)
    links = entry_links(layout.nodes("TSAH"), everything, moved, config)
    edges = EdgeList.of([*_structure(contents, layout, cells), (EdgeKind.SEMANTIC, links)])
    indexed = None if previous is None else (previous.arrays, entries_before)
    hashes = np.concatenate([*contents.hashes, np.zeros(len(titles), np.uint64)])
    entry_vectors = stored_vectors(previous, ENTRY_VECTORS, entries_before, entries)
    arrays |= Holds.ROWS.of(
        {
            "communities.labels": contents.labels.astype(np.int32),
            ELEMENT_LABELS: contents.element_labels,
            SOURCES: contents.important.sources,
            CELLS: cells.astype(np.int32),
        }
    )
    arrays |= Holds.CONTENT.of({VECTOR_HASHES: hashes})
    arrays |= Holds.VECTORS.of({ENTRY_VECTORS: entry_vectors}, first_chunks)
    arrays |= edge_arrays(edges, layout) | declared(_title_index(titles), HOLDS, TITLES)
    arrays |= Nearest.index(entries, "entries", indexed, steady=True)
    vectors = np.concatenate([*contents.vectors, np.zeros((len(titles), entries.shape[1]), np.float16)])
    return builder.built(contents.tables, vectors, arrays)


def _title_index(titles: NodeTable) -> Mapping[str, NDArray[Any]]:
    """The index of titles, from the previous one where titles are carried over."""
    carried = np.flatnonzero(titles.before >= 0)
    if titles.previous is None or not len(carried):
        return NameIndex.build([node.text for node in titles.fresh])
    arrays = titles.previous.arrays
    before = TypeBounds(np.asarray(arrays["layout"]))
    now = np.full(before.count("O"), -1, np.int64)
    now[titles.before[carried] - before.count("A") - before.count("H")] = carried
    new = np.flatnonzero(titles.before < 0).tolist()
    fresh = dict(zip(new, (node.text for node in titles.fresh), strict=True))
    stored = {name[len(TITLES) :]: array for name, array in arrays.items() if name.startswith(TITLES)}
    return NameIndex.updated(stored, now, len(titles), fresh, "titles")


def _structure(contents: _Contents, layout: TypeBounds, cells: Rows) -> list[tuple[EdgeKind, Rows]]:
    """All edges but those of similarity; matching is within communities, over S, A and H (2.3)."""
    graph, entities = contents.builder.graph, contents.important.rows
    attributes, numbers = np.arange(len(entities)), np.arange(len(contents.tables[1]))
    nodes = layout.nodes("SAH")
    communities = np.concatenate(
        [contents.labels[graph.entities + graph.relations :], contents.element_labels]
    )
    owned = np.column_stack([layout.first("A") + attributes, layout.first("N") + entities])
    titled = np.column_stack([layout.first("H") + numbers, layout.first("O") + numbers])
    elements = len(nodes) - len(numbers) + numbers
    return [
        *decomposition(graph, contents.stated, layout),
        (EdgeKind.ENTITY_ATTRIBUTE, owned),
        (EdgeKind.ELEMENT_MATCH, matches(nodes, communities, cells, elements)),
        (EdgeKind.ELEMENT_OVERVIEW, titled),
        (EdgeKind.TEXT_UNIT, text_edges(graph, layout)),
        (EdgeKind.TEXT_ENTITY, isolated_entities(graph, layout)),
    ]
