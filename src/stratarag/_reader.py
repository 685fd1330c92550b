"""One generation, opened for questions: searchers over mapped arrays, texts read by row for the hits.

What all methods share of a search is here and once: the mask of a filter, the walk from a method's seeds to
passages, and the passages that complete a ranking which is shorter than was asked for.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag._checks import UNNAMED, blamed, check_method, checked_graph
from stratarag._locks import Lock, cached_property
from stratarag._origins import RecentOrigins
from stratarag._repeats import grouped
from stratarag.errors import Damaged, MethodMissing
from stratarag.methods import get_method
from stratarag.methods.base import Description, Opened, Origin, Ranking, Searcher
from stratarag.pipeline.checks import Checks, damage
from stratarag.pipeline.drift import DRIFT
from stratarag.pipeline.excerpts import Excerpts
from stratarag.pipeline.filters import compile_where
from stratarag.pipeline.graph import NAME as GRAPH
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.ranking import filled, interleaved, labelled, taken
from stratarag.pipeline.walk import PassageWalk, Provenance, Similar
from stratarag.question import Allowed, Mask, Question, Sources, Where
from stratarag.records import Chunk, Metadata, Node
from stratarag.results import Hit
from stratarag.store.joined import JoinedSnapshot
from stratarag.store.snapshot import Snapshot

PASSAGES = "chunks"
"""Name under which the arrays of `Nearest` over the corpus' vectors are kept."""
MORE = 3
"""Times as many results are ranked where some of the first repeat others."""
SPARE = 4
"""Times as many of a method's nodes as its share are ranked for the default view: some may be passages."""
_COMPARED = 8  # documents whose metadata is compared first
_FILTERS = 64  # filters remembered per generation


class Answering(ABC):
    """Answers searches over a snapshot, or over those of shards. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot | JoinedSnapshot) -> None:
        self.snapshot = snapshot
        self._searchers: dict[str, Searcher] = {}
        self._lock = Lock()

    @property
    @abstractmethod
    def _nearest(self) -> Similar:
        """Finds passages by similarity."""

    @property
    @abstractmethod
    def _walk(self) -> PassageWalk:
        """Ranks passages."""

    @property
    @abstractmethod
    def _excerpts(self) -> Excerpts | None:
        """Makes what is shown of nodes that no model wrote; None: all of their texts."""

    @abstractmethod
    def _opened_searcher(self, name: str) -> Searcher:
        """The searcher of a method, newly made."""

    @abstractmethod
    def _allowed_by(self, question: Question) -> Allowed | None:
        """What the question's filter admits."""

    @abstractmethod
    def _blamed(self, error: Exception) -> Damaged | None:
        """The damage that is behind an error which has no name."""

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

    def search(self, question: Question) -> tuple[tuple[Hit, ...], tuple[Metadata, ...]]:
        """Hits and their traces, best first.

        Of a ranking that may be completed, hits that only repeat another become part of it (`_repeats`), and
        what follows takes their places; where nothing follows, as many as are needed stay, at the end.
        """
        try:
            return self._searched(question)
        except UNNAMED as error:
            if found := self._blamed(error):
                raise found from error
            raise

    def _searched(self, question: Question) -> tuple[tuple[Hit, ...], tuple[Metadata, ...]]:
        searcher = self._searcher(question.method)
        question = replace(question, allowed=self._allowed_by(question))
        ranking = self._ranked(searcher, question)
        hits, repeats = self._hits(ranking, question)
        if question.view == "chunks" or not question.fill:
            return hits, tuple(ranking.trace)
        groups = grouped(hits, repeats)
        if len(groups) < question.k <= len(ranking):  # some repeat others: once more, with room for these
            ranking = self._ranked(searcher, replace(question, k=MORE * question.k))
            hits, repeats = self._hits(ranking, question)
            groups = grouped(hits, repeats)
        return self._without_repeats(hits, tuple(ranking.trace), groups, question.k)

    def _ranked(self, searcher: Searcher, question: Question) -> Ranking:
        if question.view == "nodes":
            return self._completed(searcher.nodes(question), question)
        passages = self._passages_by_walk(searcher, question)
        return passages if question.view == "chunks" else self._mixed(passages, searcher, question)

    def _mixed(self, passages: Ranking, searcher: Searcher, question: Question) -> Ranking:
        """Passages and the method's own nodes, taking turns by the method's share; the trace tells which."""
        share, k = get_method(question.method).node_share, question.k
        few = min(k, math.ceil(SPARE * share * k)) if len(passages) == k else k
        nodes = searcher.nodes(replace(question, k=few))
        own = np.flatnonzero(nodes.origin != Origin.CHUNK)
        parts = [labelled(passages, "chunks"), labelled(taken(nodes, own), "nodes")]
        return interleaved(parts, [1 - share, share], k)

    def _completed(self, ranking: Ranking, question: Question) -> Ranking:
        """A ranking with passages by similarity in place of what it lacks, unless that is not wanted."""
        if len(ranking) >= question.k or not question.fill or question.options.narrowed:
            return ranking
        allowed = None if question.allowed is None else question.allowed.chunks
        passages = self._nearest.search(question.vector, question.k, allowed)
        return filled(ranking, Ranking.of(Origin.CHUNK, *passages), question.k)

    def _passages_by_walk(self, searcher: Searcher, question: Question) -> Ranking:
        ranked = self._walk.rank(
            question.text,
            question.vector,
            question.k,
            allowed=None if question.allowed is None else question.allowed.chunks,
            entities=question.entities,
            seeds=searcher.seeds(question) if question.rank == "walk" else None,
            rank=question.rank,
        )
        return ranked.found

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

    @cached_property
    def _origins(self) -> RecentOrigins:
        return RecentOrigins(self.snapshot)

    def _searcher(self, name: str) -> Searcher:
        with self._lock:
            if name not in self._searchers:
                self._searchers[name] = self._opened_searcher(name)
            return self._searchers[name]

    def _hits(self, found: Ranking, question: Question) -> tuple[tuple[Hit, ...], frozenset[int]]:
        """Read what was found, each origin in one go, and put it back in order.

        Beside the hits the places of those that say nothing which better ones do not.
        """
        hits: dict[int, Hit] = {}
        passages = np.flatnonzero(found.origin == Origin.CHUNK)
        if passages.size:
            hits.update(zip(passages.tolist(), self._chunk_hits(found, passages), strict=True))
        nodes: dict[int, Node] = {}
        for origin, table in ((Origin.NODE, question.method), (Origin.GRAPH, GRAPH)):
            places = np.flatnonzero(found.origin == origin)
            if places.size:
                read = self.snapshot.part(table).nodes(found.rows[places].tolist())
                nodes.update(zip(places.tolist(), read, strict=True))
        shown, repeats = self._shown(found, dict(sorted(nodes.items())), question)
        hits.update(zip(shown, self._node_hits(shown, found.scores[list(shown)]), strict=True))
        return tuple(hits[place] for place in range(len(found))), repeats

    def _shown(
        self, found: Ranking, nodes: dict[int, Node], question: Question
    ) -> tuple[dict[int, Node], frozenset[int]]:
        """Nodes by place as hits show them (`pipeline.excerpts`), and the places that tell nothing new."""
        excerpts_of = self._excerpts
        if not nodes or question.options.whole or excerpts_of is None:
            return nodes, frozenset()
        places = np.array(list(nodes), np.int64)
        rows = np.where(found.origin[places] == Origin.GRAPH, found.rows[places], -1)
        excerpts = excerpts_of.of(list(nodes.values()), rows.tolist(), question.vector, dropped=question.fill)
        shown = {
            place: node if excerpt is None else replace(node, text=excerpt.text, sources=excerpt.sources)
            for (place, node), excerpt in zip(nodes.items(), excerpts, strict=True)
        }
        told = [place for place, excerpt in zip(shown, excerpts, strict=True) if excerpt is None]
        return shown, frozenset(told)

    def _without_repeats(
        self, hits: Sequence[Hit], trace: Sequence[Metadata], groups: Sequence[Sequence[int]], k: int
    ) -> tuple[tuple[Hit, ...], tuple[Metadata, ...]]:
        """One hit for each group of hits that repeat each other, with all their sources; then repeats."""
        first = {group[0] for group in groups}
        repeats = [place for place in range(len(hits)) if place not in first]
        kept = [self._joined([hits[place] for place in group]) for group in groups[:k]]
        traces = [_joined_trace(group, hits, trace) for group in groups[:k]]
        for place in repeats[: k - len(kept)]:
            kept.append(replace(hits[place], score=min(hits[place].score, kept[-1].score)))
            traces.append(trace[place])
        return tuple(kept), tuple(traces)

    def _joined(self, group: Sequence[Hit]) -> Hit:
        """The first of some hits, with the best score and the sources of all."""
        if len(group) == 1:
            return group[0]
        rows = self.snapshot.row_of(list({source for hit in group for source in hit.sources}))
        sources, documents = self._origins.of(sorted(rows.values()))
        score = max(hit.score for hit in group)
        return replace(group[0], score=score, sources=sources, documents=documents)

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

    def _node_hits(self, shown: Mapping[int, Node], scores: NDArray[np.float32]) -> list[Hit]:
        nodes = list(shown.values())
        self._origins.of(sorted({row for node in nodes for row in node.sources}))  # read all at once
        origins = [self._origins.of(node.sources) for node in nodes]
        users = self._user_sources([documents for _, documents in origins])
        return [
            Hit(
                id=node.id,
                kind=node.kind,
                level=node.level,
                text=node.text,
                score=float(score),
                sources=sources,
                documents=documents,
                metadata={**({} if user is None else {"source": user}), **_told(node)},
            )
            for node, score, (sources, documents), user in zip(nodes, scores, origins, users, strict=True)
        ]

    def _user_sources(self, documents: Sequence[tuple[str, ...]]) -> list[Any]:
        """The `source` in the metadata of the documents behind each hit, where all of them agree; else None.

        Of hits with many documents only the first few are read, unless these agree.
        """
        found = []
        for names in documents:
            user = _agreed(self._origins.sources(names[:_COMPARED]))
            if user is not None and len(names) > _COMPARED:
                user = _agreed([user, *self._origins.sources(names[_COMPARED:])])
            found.append(user)
        return found


class Reader(Answering):
    """Answers searches over one generation."""

    snapshot: Snapshot

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._allowed: dict[tuple[str, str], Allowed] = {}
        self._metadata: list[Metadata] | None = None

    def _blamed(self, error: Exception) -> Damaged | None:
        return blamed(self.snapshot, error)

    @cached_property
    def _graph(self) -> Graph:
        return checked_graph(self.snapshot)

    @cached_property
    def _nearest(self) -> Nearest:
        """Over the corpus' vectors; folders of format 1 keep its arrays with each method."""
        parts = (self._graph.stored, *(self.snapshot.part(name) for name in self.methods))
        arrays = next((part.arrays for part in parts if f"{PASSAGES}.zeros" in part.arrays), {})
        with damage("corpus"):
            Checks(arrays).nearest(PASSAGES, *self.snapshot.vectors.shape)
        return Nearest(self.snapshot.vectors, arrays, PASSAGES)

    @cached_property
    def _walk(self) -> PassageWalk:
        return PassageWalk(self.snapshot, Provenance(self._graph, self.snapshot.size), self._nearest)

    @cached_property
    def _excerpts(self) -> Excerpts:
        return Excerpts(self._graph, self.snapshot.vectors)

    def describe(self, method: str) -> Description:
        """Counts of a method's index, and how many of its members changed since groups were compared."""
        found = self._searcher(method).describe()
        arrays = self.snapshot.part(method).arrays
        if DRIFT not in arrays:
            return found
        return replace(found, details={**found.details, "changed": int(arrays[DRIFT][0])})

    def opened(self, method: str) -> Opened:
        """What the searcher of a method is made over, its arrays checked.

        Raises
        ------
        Damaged
            If an array does not fit the others; it is named.
        """
        check_method(self.snapshot, self._graph, method)
        return Opened(self.snapshot, self._graph, self._nearest, self.snapshot.part(method))

    def _opened_searcher(self, name: str) -> Searcher:
        return get_method(name).open(self.opened(name))

    def _allowed_by(self, question: Question) -> Allowed | None:
        """What the question's filter admits; remembered for filters that are values."""
        where = question.where
        if where is None:
            return None
        if callable(where):
            return self._evaluated(where, question.method)
        try:
            key = question.method, json.dumps(where, sort_keys=True, default=_dated)
        except (TypeError, ValueError):  # an array's own text, for one, leaves out most of it
            return self._evaluated(where, question.method)
        with self._lock:
            allowed = self._allowed.get(key)
        if allowed is None:
            allowed = self._evaluated(where, question.method)
            with self._lock:
                if len(self._allowed) >= _FILTERS:
                    self._allowed.pop(next(iter(self._allowed)))
                self._allowed[key] = allowed
        return allowed

    def _evaluated(self, where: Where, method: str) -> Allowed:
        own = self.snapshot.part(method).arrays
        sources: Sources = own["sources.indptr"], own["sources.indices"]
        return Allowed(self._admitted(where), self._graph.sources, sources)

    def _admitted(self, where: Where) -> Mask:
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


def _dated(value: object) -> str:
    """The text of a value in a filter that JSON does not know, where it tells all of it."""
    if isinstance(value, date | time | Decimal):
        return repr(value)
    raise TypeError(f"{type(value).__name__} is not told by its text")


def _joined_trace(group: Sequence[int], hits: Sequence[Hit], trace: Sequence[Metadata]) -> Metadata:
    """The trace of the first of some hits, with what those of its parts tell beyond it, and their ids."""
    if len(group) == 1:
        return trace[group[0]]
    joined = {key: value for place in reversed(group) for key, value in trace[place].items()}
    return {**joined, "repeats": [hits[place].id for place in group[1:]]}


def _told(node: Node) -> Metadata:
    """What a hit says of its node; `source` is the user's, so a relation's entities stand under `ends`."""
    if node.kind != "relation":
        return node.extra
    rest = {key: value for key, value in node.extra.items() if key not in ("source", "target")}
    return {"ends": [node.extra["source"], node.extra["target"]], **rest}


def _agreed(values: Sequence[Any]) -> Any:
    """The value that all have; None if they differ, or there are none."""
    return values[0] if values and all(value == values[0] for value in values) else None
