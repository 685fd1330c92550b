"""What an index holds, listed in batches: graph, nodes and extractions of one generation or of all shards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import groupby, pairwise
from typing import Any, TypeVar

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from stratagraph.ingest.extraction.stage import NAME as EXTRACTION
from stratagraph.ingest.extraction.stored import extractions as stored_extractions
from stratagraph.ingest.graph.stage import NAME as GRAPH
from stratagraph.ingest.graph.stage import Graph
from stratagraph.store.corpus import RecordedCorpus
from stratagraph.store.snapshot import JoinedSnapshot, Snapshot
from stratagraph.system.locks import Lock
from stratagraph.types.protocols import Rows, Stored
from stratagraph.types.records import (
    Chunk,
    Extraction,
    GraphEntity,
    GraphRelation,
    GraphUnit,
    MethodNode,
    Node,
)

AnySnapshot = Snapshot | JoinedSnapshot
SourceIds = tuple[tuple[str, ...], tuple[str, ...]]
"""Ids of the chunks and of the documents that something came from."""
T = TypeVar("T", GraphEntity, GraphRelation, GraphUnit)
V = TypeVar("V")
BATCH = 512
HELD = 1 << 16
"""Chunks and documents that are remembered."""
_LOCK = Lock()
_NO_ROWS: Rows = np.zeros(0, np.int64)
MEMBERS = "members"
"""Key of `Node.extra` under which a method keeps the ids of what a node was made of."""


def entities(snapshot: AnySnapshot, ids: Sequence[str] | None = None) -> Iterator[GraphEntity]:
    """Entities by name; with `ids`, those that exist.

    An entity of several shards is described by the shard with most of its sources.
    """

    def listed(part: Snapshot) -> Iterator[GraphEntity]:
        graph = Graph(part.part(GRAPH))
        if ids is None:
            return entities_at(part, range(graph.entities))
        rows = graph.stored.rows(ids).values()
        return entities_at(part, sorted(row for row in rows if row < graph.entities))

    return _joined(snapshot, listed, lambda each: (each.id,))


def entities_at(snapshot: Snapshot, rows: Sequence[int]) -> Iterator[GraphEntity]:
    """The entities at these rows of the graph."""
    for _, nodes, sources in _batches(snapshot, snapshot.part(GRAPH), rows):
        for node, ids in zip(nodes, sources, strict=True):
            name, kind, description = (node.extra[key] for key in ("name", "type", "description"))
            yield GraphEntity(node.id, name, kind, description, *ids)


def relations(snapshot: AnySnapshot) -> Iterator[GraphRelation]:
    """All relations. The weights of a relation in several shards are summed."""
    return _joined(snapshot, relations_at, lambda each: tuple(sorted((each.source, each.target))))


def relations_at(snapshot: Snapshot, rows: Iterable[int] | None = None) -> Iterator[GraphRelation]:
    """The relations at these rows (from the first relation), or all."""
    graph = Graph(snapshot.part(GRAPH))
    chosen = range(graph.relations) if rows is None else rows
    places = [graph.entities + row for row in chosen]
    for batch, nodes, sources in _batches(snapshot, graph.stored, places):
        ends = graph.ends[[row - graph.entities for row in batch]]
        names = _ids(graph.stored, ends.ravel())
        for node, source, target, ids in zip(nodes, names[::2], names[1::2], sources, strict=True):
            own = (tuple(node.extra.get(key, ())) for key in ("types", "opposite_types"))
            yield GraphRelation(node.id, source, target, node.text, node.extra["weight"], *ids, *own)


def units(snapshot: AnySnapshot) -> Iterator[GraphUnit]:
    """All semantic units with the entities that they name; one that several shards have is listed once."""
    return _joined(snapshot, _units, lambda each: (each.text, each.entities))


def _units(snapshot: Snapshot) -> Iterator[GraphUnit]:
    graph = Graph(snapshot.part(GRAPH))
    first = graph.entities + graph.relations
    indptr, indices = graph.unit_entities
    for batch, nodes, sources in _batches(snapshot, graph.stored, range(first, first + graph.units)):
        start, end = batch[0] - first, batch[-1] - first + 1
        named = _ids(graph.stored, indices[indptr[start] : indptr[end]])
        borders = (indptr[start : end + 1] - indptr[start]).tolist()
        for node, (low, high), ids in zip(nodes, pairwise(borders), sources, strict=True):
            yield GraphUnit(node.id, node.text, tuple(named[low:high]), *ids)


def extractions(snapshot: AnySnapshot) -> Iterator[tuple[str, Extraction]]:
    """Each chunk id with its extraction, in the order of the corpus. Shards follow one another."""
    for part in parts_of(snapshot):
        ids = part.ids(range(part.size))
        for row, extraction in stored_extractions(part.part(EXTRACTION), part.size):
            yield ids[row], extraction


def method_nodes(snapshot: AnySnapshot, method: str) -> Iterator[MethodNode]:
    """All nodes of a method with their members and sources, shard by shard."""
    for part in parts_of(snapshot):
        stored = part.part(method)
        for batch, nodes, sources in _batches(part, stored, range(stored.size)):
            members = members_of(part, stored, batch, nodes)
            for node, own, ids in zip(nodes, members, sources, strict=True):
                metadata = {key: value for key, value in node.extra.items() if key != MEMBERS}
                yield MethodNode(node.id, node.kind, node.level, node.text, own, *ids, metadata)


def parts_of(snapshot: AnySnapshot) -> Sequence[Snapshot]:
    """The generation, or those of all shards."""
    return snapshot.parts if isinstance(snapshot, JoinedSnapshot) else (snapshot,)


def _joined(
    snapshot: AnySnapshot, listing: Callable[[Snapshot], Iterator[T]], key: Callable[[T], tuple[Any, ...]]
) -> Iterator[T]:
    """Merge the sorted listings of the shards. Entries with the same key become one."""
    if isinstance(snapshot, Snapshot):
        return listing(snapshot)
    ordered = merge(*map(listing, snapshot.parts), key=key)
    return (_united(list(group)) for _, group in groupby(ordered, key))


def once(things: Iterable[T]) -> Iterator[T]:
    """Unite the things that several shards have under one id."""
    grouped: dict[str, list[T]] = {}
    for each in things:
        grouped.setdefault(each.id, []).append(each)
    return map(_united, grouped.values())


def _united(same: list[T]) -> T:
    """The entry with most sources among equal ones, with the sources, weights and types of all."""
    if len(same) == 1:
        return same[0]
    first = max(same, key=lambda each: len(each.sources))
    united = replace(
        first,
        sources=tuple(source for each in same for source in each.sources),
        documents=tuple(document for each in same for document in each.documents),
    )
    if isinstance(united, GraphRelation):
        relations = [each for each in same if isinstance(each, GraphRelation)]
        types: dict[str, None] = {}
        back: dict[str, None] = {}
        for each in relations:  # in another shard the relation may go the other way
            ways = (each.types, each.opposite_types)
            own, opposite = ways if each.source == united.source else ways[::-1]
            types.update(dict.fromkeys(own))
            back.update(dict.fromkeys(opposite))
        weight = sum(each.weight for each in relations)
        return replace(united, weight=weight, types=tuple(types), opposite_types=tuple(back))
    return united


def _batches(
    snapshot: Snapshot, stored: Stored, rows: Sequence[int]
) -> Iterator[tuple[Sequence[int], list[Node], list[SourceIds]]]:
    """Rows, their nodes and the ids of their sources, some hundred at a time."""
    sources = RecentSources(snapshot)
    for first in range(0, len(rows), BATCH):
        batch = rows[first : first + BATCH]
        nodes = stored.nodes(batch)
        yield batch, nodes, sources.of([np.asarray(node.sources, np.int64) for node in nodes])


def _ids(stored: Stored, rows: NDArray[np.integer]) -> list[str]:
    """Ids of nodes at rows that may repeat."""
    present, places = np.unique(rows, return_inverse=True)
    names = stored.ids(present.tolist())
    return [names[i] for i in places.tolist()]


def members_of(
    snapshot: Snapshot, stored: Stored, rows: Sequence[int], nodes: Sequence[Node]
) -> list[tuple[str, ...]]:
    """Members as named by the nodes, or by a tree's arrays: chunks for level 1, else nodes."""
    if "children.indptr" not in stored.arrays:
        return [tuple(map(str, node.extra.get(MEMBERS, ()))) for node in nodes]
    indptr, indices = stored.arrays["children.indptr"], stored.arrays["children.indices"]
    lists = [indices[indptr[row] : indptr[row + 1]] for row in rows]
    lowest = [node.level == 1 for node in nodes]
    low = _distinct(own for own, is_low in zip(lists, lowest, strict=True) if is_low)
    high = _distinct(own for own, is_low in zip(lists, lowest, strict=True) if not is_low)
    chunk_ids = dict(zip(low, snapshot.ids(low), strict=True))
    node_ids = dict(zip(high, stored.ids(high), strict=True))
    return [
        tuple((chunk_ids if is_low else node_ids)[row] for row in own.tolist())
        for own, is_low in zip(lists, lowest, strict=True)
    ]


def _distinct(lists: Iterable[NDArray[np.integer]]) -> list[int]:
    rows: list[int] = np.unique(np.concatenate([np.zeros(0, np.int64), *lists])).tolist()
    return rows


def documents_of(corpus: RecordedCorpus | JoinedSnapshot, chunks: Sequence[str]) -> tuple[str, ...]:
    """Sorted ids of the documents of some chunks; unknown chunks are ignored."""
    rows = list(corpus.row_of(chunks).values())
    numbers = np.unique(corpus.chunk_documents()[rows])
    return tuple(corpus.document_ids(numbers.tolist()))


class RecentSources:
    """Ids of chunks and documents and their `source`, with the recent ones in memory. Thread-safe."""

    def __init__(self, snapshot: AnySnapshot) -> None:
        self._snapshot = snapshot
        self._of = snapshot.chunk_documents()
        self._chunks: LRUCache[int, str] = LRUCache(HELD)
        self._documents: LRUCache[int, str] = LRUCache(HELD)
        self._sources: LRUCache[str, Any] = LRUCache(HELD)

    def of(self, lists: Sequence[Rows]) -> list[SourceIds]:
        """The chunk ids and document ids of each list of rows, in corpus order. Rows ascend."""
        every = np.unique(np.concatenate([_NO_ROWS, *lists]))
        if not len(every):
            return [((), ())] * len(lists)
        rows, numbers = every.tolist(), self._of[every].tolist()
        ids = dict(zip(rows, _remembered(self._chunks, rows, self._snapshot.ids), strict=True))
        number_of = dict(zip(rows, numbers, strict=True))
        distinct = sorted(set(numbers))
        names = dict(
            zip(distinct, _remembered(self._documents, distinct, self._snapshot.document_ids), strict=True)
        )
        found = []
        for each in lists:
            own = each.tolist()
            documents = sorted({number_of[row] for row in own})
            found.append((tuple([ids[row] for row in own]), tuple([names[number] for number in documents])))
        return found

    def sources(self, documents: Sequence[str]) -> list[Any]:
        """The `source` in the metadata of each document, or None."""

        def read(names: Sequence[str]) -> list[Any]:
            metadata = self._snapshot.document_metadata(names)
            return [metadata[name].get("source") if name in metadata else None for name in names]

        return _remembered(self._sources, documents, read)


def _remembered(
    cache: LRUCache[Any, V], keys: Sequence[Any], read: Callable[[Sequence[Any]], Sequence[V]]
) -> list[V]:
    """The values of some keys; those not remembered are read together."""
    with _LOCK:
        values = {key: cache[key] for key in keys if key in cache}
    missing = [key for key in dict.fromkeys(keys) if key not in values]
    if missing:
        values.update(zip(missing, read(missing), strict=True))
        with _LOCK:
            for key in missing[-HELD:]:
                cache[key] = values[key]
    return [values[key] for key in keys]


def chunks_of(snapshot: AnySnapshot, ids: Collection[str] | None) -> dict[str, list[Chunk]]:
    """Chunks by document, in order."""
    rows = np.arange(snapshot.size)
    if ids is not None:
        names = snapshot.document_ids(range(snapshot.document_count))
        numbers = [number for number, name in enumerate(names) if name in ids]
        rows = np.flatnonzero(np.isin(snapshot.chunk_documents(), numbers))
    grouped: dict[str, list[Chunk]] = {}
    for chunk in snapshot.chunks(rows.tolist()):
        grouped.setdefault(chunk.document_id, []).append(chunk)
    return grouped


def find_chunks(snapshot: AnySnapshot, ids: Sequence[str]) -> list[Chunk]:
    """Chunks by `ref` or id, in corpus order."""
    by_ref = [row for rows in snapshot.refs(ids).values() for row in rows]
    return snapshot.chunks(sorted({*by_ref, *snapshot.row_of(ids).values()}))


def neighbours(snapshot: AnySnapshot, ids: Sequence[str]) -> dict[str, tuple[Chunk | None, Chunk | None]]:
    """For each chunk id, the chunks before and after it in its document; None where there is none."""
    documents, rows = snapshot.chunk_documents(), snapshot.row_of(ids)
    near = {each for row in rows.values() for each in (row - 1, row + 1) if 0 <= each < len(documents)}
    chunks = dict(zip(sorted(near), snapshot.chunks(sorted(near)), strict=True))

    def beside(row: int, other: int) -> Chunk | None:
        return chunks[other] if other in chunks and documents[other] == documents[row] else None

    return {each: (beside(row, row - 1), beside(row, row + 1)) for each, row in rows.items()}
