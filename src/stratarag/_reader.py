"""One generation, opened for questions: searchers over mapped arrays, texts read by row for the hits."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.config import Config, construct
from stratarag.errors import MethodMissing
from stratarag.methods import get_method
from stratarag.methods.base import Description, Mask, Origin, Query, Ranking, Searcher
from stratarag.pipeline.filters import Where, compile_where
from stratarag.pipeline.graph import NAME as GRAPH
from stratarag.pipeline.graph import Graph
from stratarag.protocols import Vectors
from stratarag.records import Chunk, Metadata
from stratarag.results import Hit
from stratarag.store.snapshot import Snapshot

VIEWS = ("nodes", "chunks")
_MASKS = 64  # filters remembered per generation


@dataclass(frozen=True, slots=True)
class Request:
    """A question with everything that was checked and prepared for it."""

    question: str
    vector: Vectors
    k: int
    view: str
    method: str
    where: Where | None
    entities: tuple[str, ...] | None
    options: Any


class Reader:
    """Answers searches over a snapshot. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot, config: Config) -> None:
        self.snapshot = snapshot
        self._config = config
        self._searchers: dict[str, Searcher] = {}
        self._masks: dict[str, Mask] = {}
        self._metadata: list[Metadata] | None = None
        self._lock = threading.Lock()

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods in this generation, the default one first."""
        return tuple(self.snapshot.manifest.methods)

    def method_name(self, name: str | None) -> str:
        """The method meant by `name`; None means the first.

        Raises
        ------
        MethodMissing
            If the folder holds no index of that method.
        """
        if name is None:
            return self.methods[0]
        get_method(name)
        if name not in self.methods:
            raise MethodMissing(
                f"index {str(self.snapshot.path)!r} holds {', '.join(self.methods)}, not {name}; "
                f"add it with index.add_method({name!r})"
            )
        return name

    def options(self, method: str, options: dict[str, Any]) -> Any:
        """The method's search options, checked.

        Raises
        ------
        TypeError
            If the method has no such option.
        """
        known = [item.name for item in fields(get_method(method).options_type)]
        if unknown := sorted(set(options) - set(known)):
            raise TypeError(
                f"a search has no argument {unknown[0]!r}: it takes k, view, where, method and decompose, "
                f"and with {method} {', '.join(known)}"
            )
        return construct(get_method(method).options_type, options, f"a search with {method}")

    def search(self, request: Request) -> tuple[tuple[Hit, ...], tuple[Metadata, ...]]:
        """Hits and their traces, best first."""
        method = request.method
        searcher = self._searcher(method)
        query = Query(
            request.question,
            request.vector,
            request.k,
            self._admitted(request.where),
            request.entities,
            request.options,
        )
        found = searcher.nodes(query) if request.view == "nodes" else searcher.chunks(query)
        return self._hits(found, method), tuple(found.trace)

    def describe(self, method: str) -> Description:
        """Counts of a method's index."""
        return self._searcher(method).describe()

    def chunks_of(self, ids: Collection[str] | None) -> dict[str, list[Chunk]]:
        """Chunks by document, in their order."""
        rows = np.arange(self.snapshot.size)
        if ids is not None:
            names = self.snapshot.document_ids(range(self.snapshot.document_count))
            numbers = [number for number, name in enumerate(names) if name in ids]
            rows = np.flatnonzero(np.isin(self.snapshot.chunk_documents(), numbers))
        grouped: dict[str, list[Chunk]] = {}
        for chunk in self.snapshot.chunks(rows.tolist()):
            grouped.setdefault(chunk.document_id, []).append(chunk)
        return grouped

    def find_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        """Chunks by the caller's ids and by our own, in the order of the corpus."""
        by_ref = [row for rows in self.snapshot.refs(ids).values() for row in rows]
        return self.snapshot.chunks(sorted({*by_ref, *self.snapshot.row_of(ids).values()}))

    def _origin(self, rows: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(self.snapshot.ids(rows)), self._documents(rows)

    def _searcher(self, name: str) -> Searcher:
        with self._lock:
            if name not in self._searchers:
                graph = Graph(self.snapshot.part(GRAPH))
                self._searchers[name] = get_method(name).open(
                    self.snapshot, graph, self.snapshot.part(name), self._config.method(name)
                )
            return self._searchers[name]

    def _admitted(self, where: Where | None) -> Mask | None:
        """The chunks that a filter admits; remembered for filters that are values."""
        if where is None:
            return None
        if callable(where):
            return self._evaluate(where)
        key = json.dumps(where, sort_keys=True, default=repr)
        with self._lock:
            mask = self._masks.get(key)
        if mask is None:
            mask = self._evaluate(where)
            with self._lock:
                if len(self._masks) >= _MASKS:
                    self._masks.pop(next(iter(self._masks)))
                self._masks[key] = mask
        return mask

    def _evaluate(self, where: Where) -> Mask:
        """Ask a filter once for each distinct metadata; chunks share that of their document."""
        admits = compile_where(where)
        metadata = self._chunk_metadata()
        verdicts = {identity: admits(each) for identity, each in {id(m): m for m in metadata}.items()}
        return np.fromiter((verdicts[id(each)] for each in metadata), np.bool_, len(metadata))

    def _chunk_metadata(self) -> list[Metadata]:
        with self._lock:
            if self._metadata is None:
                self._metadata = self.snapshot.chunk_metadata()
            return self._metadata

    def _hits(self, found: Ranking, method: str) -> tuple[Hit, ...]:
        """Read what was found, each origin in one go, and put it back in order."""
        hits: dict[int, Hit] = {}
        for origin, table in ((Origin.CHUNK, None), (Origin.NODE, method), (Origin.GRAPH, GRAPH)):
            places = np.flatnonzero(found.origin == origin)
            if not places.size:
                continue
            read = self._chunk_hits(found, places) if table is None else self._node_hits(found, places, table)
            hits.update(zip(places.tolist(), read, strict=True))
        return tuple(hits[place] for place in range(len(found)))

    def _chunk_hits(self, found: Ranking, places: NDArray[np.intp]) -> list[Hit]:
        chunks = self.snapshot.chunks(found.rows[places].tolist())
        return [
            Hit(
                id=chunk.id,
                kind="chunk",
                level=0,
                text=chunk.text,
                score=float(score),
                sources=(chunk.id,),
                documents=(chunk.document_id,),
                metadata=chunk.metadata,
                ref=chunk.ref,
            )
            for chunk, score in zip(chunks, found.scores[places], strict=True)
        ]

    def _node_hits(self, found: Ranking, places: NDArray[np.intp], table: str) -> list[Hit]:
        nodes = self.snapshot.part(table).nodes(found.rows[places].tolist())
        return [
            Hit(
                id=node.id,
                kind=node.kind,
                level=node.level,
                text=node.text,
                score=float(score),
                sources=sources,
                documents=documents,
                metadata=node.extra,
            )
            for node, score in zip(nodes, found.scores[places], strict=True)
            for sources, documents in [self._origin(node.sources)]
        ]

    def _documents(self, rows: Sequence[int]) -> tuple[str, ...]:
        numbers = np.unique(self.snapshot.chunk_documents()[np.asarray(rows, dtype=np.int64)])
        return tuple(self.snapshot.document_ids(numbers.tolist()))
