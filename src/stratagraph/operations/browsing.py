"""Pages of what an index holds, by table: documents, passages, entities, or a method's nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from stratagraph.ingest.graph.stage import NAME as GRAPH
from stratagraph.ingest.graph.stage import Graph
from stratagraph.operations.listing import MEMBERS, AnySnapshot, members_of, parts_of
from stratagraph.store.snapshot import Snapshot
from stratagraph.system.locks import Lock, cached_property
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Level, Listed, Listing, Metadata, Node
from stratagraph.viz.page import shortened

DOCUMENTS, PASSAGES, ENTITIES = "documents", "passages", "entities"
TABLES = (DOCUMENTS, PASSAGES, ENTITIES)
MOST = 500
"""Maximum number of entries on a page."""
_TITLE = 90  # characters
_NAMED = 5  # documents and passages that a thing names
_BATCH = 4096  # texts held while looking for words


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The arguments of `Index.browse`, with a table."""

    table: str
    level: int | None
    kind: str | None
    within: str | None
    text: str
    around: str | None
    offset: int
    limit: int


class Browser:
    """Lists one generation, or those of all shards, one after the other. Safe to use from several threads."""

    def __init__(self, snapshot: AnySnapshot) -> None:
        self.snapshot = snapshot
        self._parts = [_Pages(part) for part in parts_of(snapshot)]

    def levels(self, method: str) -> tuple[Level, ...]:
        """See `Index.levels`."""
        counts: Counter[tuple[int, str]] = Counter()
        for part in self._parts:
            kinds, levels = part.kinds_and_levels(method)
            counts.update(zip(levels.tolist(), kinds.tolist(), strict=True))
        return tuple(
            Level(level, kind, count)
            for (level, kind), count in sorted(counts.items(), key=lambda item: (-item[0][0], item[0][1]))
        )

    def page(self, request: PageRequest) -> Listing:
        """See `Index.browse`. `within` and `around` are looked up in each shard."""
        if request.within is not None or request.around is not None:
            missing = KeyError(request.within or request.around)
            for part in self._parts:
                try:
                    return part.page(request)
                except KeyError as error:
                    missing = error
            raise missing
        listed: list[Listed] = []
        total = 0
        for part in self._parts:
            room = request.limit - len(listed)
            page = part.page(replace(request, offset=max(0, request.offset - total), limit=max(1, room)))
            listed += page.items[:room]
            total += page.total
        return Listing(tuple(listed), total, request.offset)


class _Pages:
    """Lists one generation."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._outlines: dict[str, tuple[NDArray[np.str_], NDArray[np.int64]]] = {}
        self._found: LRUCache[tuple[str, str], Rows] = LRUCache(32)  # for the next pages
        self._lock = Lock()

    @cached_property
    def _graph(self) -> Graph:
        return Graph(self.snapshot.part(GRAPH))

    def page(self, request: PageRequest) -> Listing:
        """A page of this generation."""
        offset = request.offset
        if request.within is not None and request.table not in TABLES:
            things = self._members(request.table, request.within)
        else:
            things = [(request.table, row) for row in self._rows(request).tolist()]
        if request.text.strip():
            tables = {table for table, _ in things}
            admitted = {table: set(self._with_words(table, request.text).tolist()) for table in tables}
            things = [(table, row) for table, row in things if row in admitted[table]]
        if request.around is not None:
            row = self.snapshot.row_of([request.around]).get(request.around)
            if row is None or (PASSAGES, row) not in things:
                raise KeyError(f"there is no passage {request.around!r} in this list")
            offset = max(0, things.index((PASSAGES, row)) - request.limit // 2)
        chosen = things[offset : offset + request.limit]
        return Listing(tuple(self._listed(chosen)), len(things), offset)

    def _rows(self, request: PageRequest) -> Rows:
        if request.table == DOCUMENTS:
            return np.arange(self.snapshot.document_count)
        if request.table == PASSAGES:
            if request.within is None:
                return np.arange(self.snapshot.size)
            number = self.snapshot.document_number(request.within)
            if number is None:
                raise KeyError(f"there is no document {request.within!r} in the index")
            return np.arange(*np.searchsorted(self.snapshot.chunk_documents(), [number, number + 1]))
        if request.table == ENTITIES:
            frequency = np.diff(self._graph.sources[0][: self._graph.entities + 1])
            return np.lexsort((np.arange(len(frequency)), -frequency))
        kinds, levels = self.kinds_and_levels(request.table)
        chosen = np.ones(len(levels), np.bool_)
        if request.level is not None:
            chosen &= levels == request.level
        if request.kind is not None:
            chosen &= kinds == request.kind
        rows = np.flatnonzero(chosen)  # the top level first, then the nodes with most sources
        sizes = np.diff(self.snapshot.part(request.table).arrays["sources.indptr"])
        return rows[np.lexsort((rows, -sizes[rows], -levels[rows]))]

    def kinds_and_levels(self, method: str) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
        """The kind and the level of each node of a method."""
        with self._lock:
            if method not in self._outlines:
                part = self.snapshot.part(method)
                pairs = part.levels(range(part.size))
                levels = np.array([level for _, level in pairs], np.int64)
                self._outlines[method] = np.array([kind for kind, _ in pairs], np.str_), levels
            return self._outlines[method]

    def _members(self, method: str, identity: str) -> list[tuple[str, int]]:
        """Members of a node as (table, row): nodes of its method, nodes of the graph, passages."""
        part = self.snapshot.part(method)
        row = part.rows([identity]).get(identity)
        if row is None:
            raise KeyError(f"{method} has no node {identity!r}")
        (ids,) = members_of(self.snapshot, part, [row], part.nodes([row]))
        tables = (
            (method, part.rows(ids)),
            (GRAPH, self._graph.stored.rows(ids)),
            (PASSAGES, self.snapshot.row_of(ids)),
        )
        members = (next(((name, rows[each]) for name, rows in tables if each in rows), None) for each in ids)
        return [each for each in members if each is not None]

    def _with_words(self, table: str, text: str) -> Rows:
        """Rows whose text contains all these words or beginnings of words, ignoring case."""
        key = table, text.casefold()
        with self._lock:
            if key in self._found:
                return self._found[key]
        words = key[1].split()
        read, size = self._texts(table)
        rows: list[int] = []
        for first in range(0, size, _BATCH):
            texts = read(range(first, min(first + _BATCH, size)))
            folded = (text.casefold() for text in texts)
            rows += [at for at, each in enumerate(folded, first) if all(word in each for word in words)]
        with self._lock:
            self._found[key] = np.array(rows, dtype=np.int64)
            return self._found[key]

    def _texts(self, table: str) -> tuple[Callable[[Sequence[int]], list[str]], int]:
        if table == DOCUMENTS:
            return self._documents_as_text, self.snapshot.document_count
        if table == PASSAGES:
            return self.snapshot.texts, self.snapshot.size
        if table == ENTITIES:  # whose text is the name, and after a colon the description
            names = self._graph.stored.texts
            return lambda rows: [text.partition(": ")[0] for text in names(rows)], self._graph.entities
        part = self.snapshot.part(table)
        return part.texts, part.size

    def _documents_as_text(self, numbers: Sequence[int]) -> list[str]:
        """Ids with the texts in the metadata."""
        ids = self.snapshot.document_ids(numbers)
        metadata = self.snapshot.document_metadata(ids)
        return [
            " ".join([each, *(value for value in metadata[each].values() if isinstance(value, str))])
            for each in ids
        ]

    def _listed(self, things: Sequence[tuple[str, int]]) -> list[Listed]:
        listed: dict[tuple[str, int], Listed] = {}
        for table in dict.fromkeys(name for name, _ in things):
            rows = [row for name, row in things if name == table]
            listed.update(zip([(table, row) for row in rows], self._described(table, rows), strict=True))
        return [listed[thing] for thing in things]

    def _described(self, table: str, rows: list[int]) -> list[Listed]:
        if table == DOCUMENTS:
            return self._listed_documents(rows)
        if table == PASSAGES:
            listed = []
            for each in self.snapshot.chunks(rows):
                shown = each.id, "passage", 0, shortened(each.text, _TITLE), each.text, 0, 1
                listed.append(Listed(*shown, (each.document_id,), (each.id,), each.metadata))
            return listed
        part = self.snapshot.part(GRAPH if table == ENTITIES else table)
        return [self._node(part, row, node) for row, node in zip(rows, part.nodes(rows), strict=True)]

    def _listed_documents(self, numbers: list[int]) -> list[Listed]:
        ids = self.snapshot.document_ids(numbers)
        metadata = self.snapshot.document_metadata(ids)
        borders = np.array([numbers, [number + 1 for number in numbers]])
        low, high = np.searchsorted(self.snapshot.chunk_documents(), borders)
        listed = []
        for each, count in zip(ids, (high - low).tolist(), strict=True):
            title = _title(metadata[each], each)
            listed.append(Listed(each, "document", 0, title, "", count, count, (each,), (), metadata[each]))
        return listed

    def _node(self, part: Any, row: int, node: Node) -> Listed:
        few = list(node.sources[:_NAMED])
        documents = np.unique(self.snapshot.chunk_documents()[few]).tolist()
        if "children.indptr" in part.arrays:
            members = int(np.diff(part.arrays["children.indptr"][row : row + 2])[0])
        else:
            members = len(node.extra.get(MEMBERS, ()))
        title = _title(node.extra, node.text)
        shown = node.id, node.kind, node.level, title, node.text, members, len(node.sources)
        named = tuple(self.snapshot.document_ids(documents)), tuple(self.snapshot.ids(few))
        return Listed(*shown, *named, {key: own for key, own in node.extra.items() if key != MEMBERS})


def _title(metadata: Metadata, text: str) -> str:
    """The title or name in the metadata, else the beginning of the text."""
    named = (metadata.get(key) for key in ("title", "name"))
    title = next((each for each in named if isinstance(each, str) and each.strip()), text)
    return shortened(title, _TITLE)
