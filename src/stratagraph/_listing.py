"""Nodes and graph of a generation, listed in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stratagraph._origins import Origins
from stratagraph.pipeline.extraction.stage import NAME as EXTRACTION
from stratagraph.pipeline.extraction.stage import extractions as stored_extractions
from stratagraph.pipeline.graph import NAME as GRAPH
from stratagraph.pipeline.graph import Graph
from stratagraph.protocols import Stored
from stratagraph.records import (
    Extraction,
    GraphEntity,
    GraphRelation,
    GraphUnit,
    MethodNode,
    Node,
)
from stratagraph.store.snapshot import Snapshot

BATCH = 512
MANY = 2000
"""Nodes beyond which the ids of all chunks are read at once, and not for each batch those that it needs."""
MEMBERS = "members"
"""Key of `Node.extra` under which a method keeps the ids of what a node was made of."""


def entities(snapshot: Snapshot, ids: Iterable[str] | None = None) -> Iterator[GraphEntity]:
    """Entities by name; with `ids`, those that exist."""
    graph = Graph(snapshot.part(GRAPH))
    if ids is None:
        return entities_at(snapshot, range(graph.entities))
    found = graph.stored.rows(list(ids)).values()
    return entities_at(snapshot, sorted(row for row in found if row < graph.entities))


def entities_at(snapshot: Snapshot, rows: Sequence[int]) -> Iterator[GraphEntity]:
    """The entities at these rows of the graph."""
    for batch, origins in _batches(snapshot, snapshot.part(GRAPH), rows):
        for _, node in batch:
            name, kind, description = (node.extra[key] for key in ("name", "type", "description"))
            yield GraphEntity(node.id, name, kind, description, *origins.of(node))


def relations(snapshot: Snapshot, rows: Iterable[int] | None = None) -> Iterator[GraphRelation]:
    """The relations at these rows (from the first relation), or all."""
    graph = Graph(snapshot.part(GRAPH))
    chosen = range(graph.relations) if rows is None else rows
    places = [graph.entities + row for row in chosen]
    for batch, origins in _batches(snapshot, graph.stored, places):
        ends = graph.ends[[row - graph.entities for row, _ in batch]]
        names = _ids(graph.stored, ends.ravel())
        for (_, node), source, target in zip(batch, names[::2], names[1::2], strict=True):
            yield GraphRelation(node.id, source, target, node.text, node.extra["weight"], *origins.of(node))


def units(snapshot: Snapshot) -> Iterator[GraphUnit]:
    graph = Graph(snapshot.part(GRAPH))
    first = graph.entities + graph.relations
    indptr, indices = graph.unit_entities
    for batch, origins in _batches(snapshot, graph.stored, range(first, first + graph.units)):
        start, end = batch[0][0] - first, batch[-1][0] - first + 1
        named = _ids(graph.stored, indices[indptr[start] : indptr[end]])
        borders = (indptr[start : end + 1] - indptr[start]).tolist()
        for (_, node), (low, high) in zip(batch, pairwise(borders), strict=True):
            yield GraphUnit(node.id, node.text, tuple(named[low:high]), *origins.of(node))


def extractions(snapshot: Snapshot) -> Iterator[tuple[str, Extraction]]:
    """Chunk ids with their extractions, in corpus order."""
    ids = snapshot.ids(range(snapshot.size))
    for row, extraction in stored_extractions(snapshot.part(EXTRACTION), snapshot.size):
        yield ids[row], extraction


def method_nodes(snapshot: Snapshot, method: str) -> Iterator[MethodNode]:
    stored = snapshot.part(method)
    for batch, origins in _batches(snapshot, stored, range(stored.size)):
        members = _members(snapshot, stored, batch)
        for (_, node), own in zip(batch, members, strict=True):
            metadata = {key: value for key, value in node.extra.items() if key != MEMBERS}
            sources, documents = origins.of(node)
            yield MethodNode(node.id, node.kind, node.level, node.text, own, sources, documents, metadata)


def _batches(
    snapshot: Snapshot, stored: Stored, rows: Sequence[int]
) -> Iterator[tuple[list[tuple[int, Node]], Origins]]:
    """Nodes with their rows, some hundred at a time."""
    known = Origins(snapshot) if len(rows) > MANY else None
    for first in range(0, len(rows), BATCH):
        chosen = rows[first : first + BATCH]
        nodes = stored.nodes(chosen)
        yield list(zip(chosen, nodes, strict=True)), known or Origins(snapshot, nodes)


def _ids(stored: Stored, rows: NDArray[np.integer]) -> list[str]:
    """Ids of nodes at rows that may repeat."""
    present, places = np.unique(rows, return_inverse=True)
    names = [node.id for node in stored.nodes(present.tolist())]
    return [names[i] for i in places.tolist()]


def _members(snapshot: Snapshot, stored: Stored, batch: Sequence[tuple[int, Node]]) -> list[tuple[str, ...]]:
    """Members as named by the nodes, or by a tree's arrays: chunks for level 1, else nodes."""
    if "children.indptr" not in stored.arrays:
        return [tuple(node.extra.get(MEMBERS, ())) for _, node in batch]
    indptr, indices = stored.arrays["children.indptr"], stored.arrays["children.indices"]
    lists = [indices[indptr[row] : indptr[row + 1]] for row, _ in batch]
    lowest = [node.level == 1 for _, node in batch]
    low = _distinct(rows for rows, is_low in zip(lists, lowest, strict=True) if is_low)
    high = _distinct(rows for rows, is_low in zip(lists, lowest, strict=True) if not is_low)
    chunks = dict(zip(low, snapshot.ids(low), strict=True))
    nodes = dict(zip(high, (node.id for node in stored.nodes(high)), strict=True))
    return [
        tuple((chunks if is_low else nodes)[row] for row in rows.tolist())
        for rows, is_low in zip(lists, lowest, strict=True)
    ]


def _distinct(lists: Iterable[NDArray[np.integer]]) -> list[int]:
    found: list[int] = np.unique(np.concatenate([np.zeros(0, np.int64), *lists])).tolist()
    return found
