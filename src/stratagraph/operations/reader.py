"""One generation, opened for questions: searchers over mapped arrays; texts are read for the hits only.

Filters, the walk from seeds to passages, and filling up short rankings are shared by all methods.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from stratagraph.errors import Damaged, MethodMissing
from stratagraph.ingest.checks import Checks, damage
from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.nearest import Nearest
from stratagraph.kernels.topk import TopK
from stratagraph.methods import NAMES, get_method, get_way
from stratagraph.methods.base import MethodDescription, Opened, Ranking, RowTable, Searcher
from stratagraph.methods.drift import DRIFT
from stratagraph.methods.groups import STATEMENT_BORDERS, STATEMENT_VECTORS
from stratagraph.operations.checks import UNNAMED, blamed, check_method, checked_graph
from stratagraph.operations.hits import HitMaker, ItemReader, RankedItems, SnapshotItems, grouped, silent
from stratagraph.search.dates import Dates, newest, weighed
from stratagraph.search.excerpts import Excerpts
from stratagraph.search.filters import compile_where, reads_ids, with_ids
from stratagraph.search.ranking import concatenate, first, interleaved, labelled, taken
from stratagraph.search.walk import CONSIDERED, PassageWalk, Provenance, Similar
from stratagraph.store.snapshot import JoinedSnapshot, Snapshot
from stratagraph.system.locks import Lock, cached_property
from stratagraph.types.protocols import Vectors
from stratagraph.types.question import WALK, Allowed, SearchQuestion, Sources, Where
from stratagraph.types.records import Metadata, json_native
from stratagraph.types.results import Hit

PASSAGES = "chunks"
"""Name under which the arrays of `Nearest` over the corpus' vectors are kept."""
MORE = 3
"""Nodes searched for each wanted result, because some repeat others or add nothing."""
_READ = 1024  # chunks read at a time


class Answering(ABC):
    """Searches a snapshot, or those of shards. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot | JoinedSnapshot) -> None:
        self.snapshot = snapshot
        self._searchers: dict[str, Searcher] = {}
        self._lock = Lock()

    @property
    @abstractmethod
    def _nearest(self) -> Similar: ...

    @property
    @abstractmethod
    def _walk(self) -> PassageWalk: ...

    @abstractmethod
    def _item_reader(self, question: SearchQuestion) -> ItemReader: ...

    @abstractmethod
    def _opened_searcher(self, name: str) -> Searcher: ...

    @abstractmethod
    def _allowed_by(self, where: Where | None, method: str) -> Allowed | None: ...

    @abstractmethod
    def _blamed(self, error: Exception) -> Damaged | None:
        """The damage behind an error that has no name."""

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods in this generation, the default first."""
        return tuple(self.snapshot.manifest.methods)

    def method_name(self, name: str | None) -> str:
        """The method called `name`; by default the first, or the walk if there is none.

        `MethodMissing` if the folder lacks it.
        """
        if name is None:
            return next(iter(self.methods), WALK)
        get_way(name)
        if name not in (*self.methods, WALK):
            methods = ", ".join(self.methods) or "no method"
            raise MethodMissing(
                f"index {str(self.snapshot.path)!r} holds {methods}, not {name}; "
                f"add it with index.add_method({name!r})"
            )
        return name

    def built_method(self, name: str | None) -> str:
        """The method called `name`, by default the first; `MethodMissing` if the folder lacks it."""
        method = self.method_name(name)
        if method == WALK:
            lacks = (
                f"index {str(self.snapshot.path)!r} has no method whose nodes could be shown or grouped; add "
            )
            raise MethodMissing(
                f"the walk has no nodes to show or group; give one of {', '.join(self.methods)}"
                if self.methods
                else f"{lacks}one of {', '.join(NAMES)}, as with index.add_method('hirag')"
            )
        return method

    def search(self, question: SearchQuestion) -> tuple[tuple[Hit, ...], tuple[Metadata, ...]]:
        """Hits and traces, best first.

        Hits that repeat another are merged into it (`hits.grouped`), nodes that say nothing beside the
        passages are left out (`operations.hits.silent`), and further results take their places.
        """
        with self._naming_damage():
            question = replace(question, allowed=self._admitted(question))
            if question.method == WALK:
                return self._hits.all_of(self._item_reader(question).read(self._passages(question)))
            method = get_method(question.method)
            question = replace(question, shares=method.themes if self._fills(question) else method.kinds)
            reader = self._item_reader(question)
            if question.fill:
                return self._mixed(question, reader)
            ranking = self._weighed(self._searcher(question.method).nodes(question), question)
            return self._hits.all_of(reader.read(ranking))

    @abstractmethod
    def statements(self, method: str, hits: Sequence[Hit]) -> dict[str, Vectors]:
        """The vectors of the statements of those hits that are nodes which a model wrote, by their ids."""

    def theme(self, question: SearchQuestion) -> str | None:
        """What is searched for if a question, which needs no vector, is about a theme; else None."""
        with self._naming_damage():
            return self._walk.theme(question)

    def unknown(self, question: SearchQuestion) -> tuple[tuple[str, ...], int]:
        """The words of a question that no admitted passage has, and how many words were looked for."""
        with self._naming_damage():
            allowed = self._admitted(question)
            return self._walk.unknown(question.text, None if allowed is None else allowed.chunks)

    def known(self, names: Sequence[str], where: Where | None) -> list[str]:
        """Those of some names that an entity of an admitted passage has."""
        with self._naming_damage():
            allowed = self._allowed_by(where, WALK) if names else None
            return self._walk.known(names, None if allowed is None else allowed.chunks)

    def allowed_parts(self, question: SearchQuestion) -> Sequence[Allowed] | None:
        """What the question's filter admits of each index behind it; None: everything."""
        allowed = self._admitted(question)
        return None if allowed is None else allowed.parts

    def _admitted(self, question: SearchQuestion) -> Allowed | None:
        """What the question's filter admits, found once."""
        return question.once(self, "allowed", lambda: self._allowed_by(question.where, question.method))

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        """Raise `Damaged` for an error without a name that a check of the arrays explains."""
        try:
            yield
        except UNNAMED as error:
            if damage := self._blamed(error):
                raise damage from error
            raise

    def _mixed(
        self, question: SearchQuestion, reader: ItemReader
    ) -> tuple[tuple[Hit, ...], tuple[Metadata, ...]]:
        """The method's own nodes, among which the walk's passages have a share."""
        k, passages, share = question.k, concatenate([]), 0.0
        if question.mixed:
            if not self._fills(question):  # else one passage leads, and the method's nodes fill the rest
                share = get_method(question.method).passages
            passages = labelled(self._passages(question), "passages")
        shown = min(len(passages), math.floor(share * (k + 1)) or 1)  # as `interleaved` takes them
        best, rest = first(passages, shown), taken(passages, np.arange(shown, len(passages)))
        wanted = max(1, k - shown)
        for nodes in self._own(question, wanted):
            ranked = reader.read(concatenate([best, nodes]))
            dropped = ranked.redundant | silent(ranked.items)
            groups = grouped(ranked.items, dropped)
            if len(groups) >= k:
                break
        else:
            own = [place for place, item in enumerate(ranked.items) if item.kind != "chunk"]
            if own and dropped.issuperset(own):  # the best node stays if the method has no other
                groups = grouped(ranked.items, dropped - {own[0]})
        if len(groups) < k:
            filling = reader.read(rest)
            groups += [[len(ranked) + place] for place in range(len(filling))]
            ranking = concatenate([ranked.ranking, filling.ranking])
            ranked = RankedItems(ranking, [*ranked.items, *filling.items])
        if question.mixed:
            shares = [share, 1 - share, 0] if share else [1, 1, 0]
            order = interleaved([best, first(nodes, wanted), rest], shares, k)
            left: dict[bool, list[list[int]]] = {True: [], False: []}
            for group in groups:
                left[ranked.items[group[0]].kind == "chunk"].append(group)
            turns = (left[each] or left[not each] for each in (order.tables == RowTable.CHUNK).tolist())
            groups = [turn.pop(0) for turn in turns if turn]  # where one kind runs out, the other follows
        return self._hits.of_groups(ranked, groups, k)

    def _own(self, question: SearchQuestion, wanted: int) -> Iterator[Ranking]:
        """Ever longer rankings of the method's own nodes, since nodes may repeat each other."""
        search = self._searcher(question.method).nodes
        for k in (question.k, MORE * question.k):
            ranking = self._weighed(search(replace(question, k=k)), question)
            if question.mixed:
                ranking = labelled(ranking, question.method)
                if k == question.k and MORE * wanted < len(ranking):
                    yield first(ranking, MORE * wanted)
            yield ranking
            if len(ranking) < k:
                break

    @cached_property
    def dates(self) -> Dates | None:
        """When passages are dated; None if the settings name no field."""
        key = self.snapshot.manifest.config.get("date_key")
        return Dates(key, self.snapshot.chunk_metadata()) if key else None

    def dated(self, asked: str) -> tuple[str, Dates]:
        """The field that dates documents, and the dates; a `ValueError` says what needs them."""
        key, dates = self.snapshot.manifest.config.get("date_key"), self.dates
        if key is None or dates is None:
            raise ValueError(
                f"{asked} needs dates, and this index has none: build it with date_key=..., the metadata "
                'field that dates a document, such as "published"'
            )
        if len(dates.days) and not dates.days.any():
            raise ValueError(
                f"{asked} needs dates, and no document has one: the field {key!r} must hold ISO dates, such "
                'as "2024-06-30", or years'
            )
        return key, dates

    def until(self, as_of: Any) -> Where:
        """The filter of what was there by a date."""
        return {self.dated("as_of")[0]: {"$until": json_native(as_of)}}

    def undated(self, where: Where | None) -> int:
        """How many admitted documents have no date."""
        hidden = self.dated("as_of")[1].days == 0
        with self._naming_damage():
            allowed = self._allowed_by(where, WALK)
        hidden = hidden if allowed is None else hidden & allowed.chunks
        return len(np.unique(self.snapshot.chunk_documents()[hidden]))

    @abstractmethod
    def _days(self, table: int, method: str, days: NDArray[np.int32]) -> NDArray[np.int32]:
        """The newest day of each row of a table, from the `days` of all passages."""

    def _weighed(self, ranking: Ranking, question: SearchQuestion) -> Ranking:
        """The ranking with newer results first, as far as the question asks for it."""
        if question.recency is None or self.dates is None:
            return ranking
        days = np.zeros(len(ranking), np.int32)
        for table in np.unique(ranking.tables).tolist():
            at = ranking.tables == table
            days[at] = self._days(table, question.method, self.dates.days)[ranking.rows[at]]
        return weighed(ranking, days, question.recency)

    def _fills(self, question: SearchQuestion) -> bool:
        """Whether what a model wrote fills the default view, because the question asks for a theme."""
        is_theme = question.theme is not None and bool(get_method(question.method).themes)
        return question.mixed and is_theme and self._written(question.method)

    @abstractmethod
    def _written(self, method: str) -> bool:
        """Whether a model wrote nodes of a method."""

    def _passages(self, question: SearchQuestion) -> Ranking:
        """The walk's passages, ranked once per question."""

        def find() -> Ranking:
            k = question.k if question.recency is None else max(question.k, CONSIDERED)
            ranking = self._walk.rank(
                question.text,
                question.vector,
                k,
                allowed=None if question.allowed is None else question.allowed.chunks,
                entities=question.entities,
                similar=self._similar(question, max(CONSIDERED, question.k)),
                linked=self._walk.linked(question) if question.rank == "walk" else None,
                rank=question.rank,
                theme=question.theme,
            )
            return first(self._weighed(ranking, question), question.k)

        return question.once(self, f"passages {question.k} {question.rank}", find)

    def _similar(self, question: SearchQuestion, k: int) -> TopK:
        """The `k` most similar admitted passages; found once, for the walk and for shards."""
        size = max(CONSIDERED, k)
        allowed = None if question.allowed is None else question.allowed.chunks
        rows, similarity = question.once(
            self, f"similar {size}", lambda: self._nearest.search(question.vector, size, allowed)
        )
        return rows[:k], similarity[:k]

    @abstractmethod
    def name_counts(self, where: Where | None, most: int) -> dict[str, tuple[int, int]]:
        """In how many admitted passages and documents the most frequent names are, at most `most`."""

    def frequent_names(self, where: Where | None, most: int) -> tuple[int, list[str]]:
        """The number of admitted documents, and the most frequent names of two of them or more."""
        with self._naming_damage():
            allowed = self._allowed_by(where, WALK)
            documents = self.snapshot.document_count
            if allowed is not None:
                documents = len(np.unique(self.snapshot.chunk_documents()[allowed.chunks]))
            counts = self.name_counts(where, most) if most else {}
        names = sorted(
            (name for name, (_, own) in counts.items() if own > 1), key=lambda name: -counts[name][0]
        )
        return documents, names[:most]

    def describe(self, method: str) -> MethodDescription:
        """Counts of a method's index, and of members changed since its groups were computed."""
        return self._searcher(method).describe()

    @cached_property
    def _hits(self) -> HitMaker:
        return HitMaker(self.snapshot, self.dates)

    def _searcher(self, name: str) -> Searcher:
        with self._lock:
            if name not in self._searchers:
                self._searchers[name] = self._opened_searcher(name)
            return self._searchers[name]


class Reader(Answering):
    """Searches one generation."""

    snapshot: Snapshot

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._allowed: LRUCache[tuple[str, str], Allowed] = LRUCache(64)
        self._newest: dict[tuple[int, str], NDArray[np.int32]] = {}

    def _blamed(self, error: Exception) -> Damaged | None:
        return blamed(self.snapshot, error)

    @cached_property
    def _graph(self) -> Graph:
        return checked_graph(self.snapshot)

    @cached_property
    def _nearest(self) -> Nearest:
        arrays = self._graph.stored.arrays
        with damage("corpus"):
            Checks(arrays).nearest(PASSAGES, *self.snapshot.vectors.shape)
        return Nearest(self.snapshot.vectors, arrays, PASSAGES)

    @cached_property
    def _walk(self) -> PassageWalk:
        return PassageWalk(self.snapshot, Provenance(self._graph, self.snapshot.size), self._nearest)

    @cached_property
    def _excerpts(self) -> Excerpts:
        return Excerpts(self._graph, self.snapshot.vectors, self._nearest)

    def _item_reader(self, question: SearchQuestion) -> SnapshotItems:
        return SnapshotItems(self.snapshot, self._excerpts, question)

    def _written(self, method: str) -> bool:
        return len(self.snapshot.part(method).arrays[STATEMENT_VECTORS]) > 0

    def statements(self, method: str, hits: Sequence[Hit]) -> dict[str, Vectors]:
        """See `Answering.statements`."""
        part = self.snapshot.part(method)
        indptr, vectors = (part.arrays[name] for name in (STATEMENT_BORDERS, STATEMENT_VECTORS))
        rows = part.rows([hit.id for hit in hits if hit.kind not in ("chunk", "unit", "entity", "relation")])
        return {
            identity: np.asarray(vectors[indptr[row] : indptr[row + 1]], np.float32)
            for identity, row in rows.items()
            if indptr[row] < indptr[row + 1]
        }

    def name_counts(self, where: Where | None, most: int) -> dict[str, tuple[int, int]]:
        """See `Answering.name_counts`."""
        allowed, graph = self._allowed_by(where, WALK), self._graph
        indptr, indices = graph.sources
        passages = np.asarray(indices[: indptr[graph.entities]])
        entities = np.repeat(np.arange(graph.entities), np.diff(indptr[: graph.entities + 1]))
        if allowed is not None:
            kept = allowed.chunks[passages]
            passages, entities = passages[kept], entities[kept]
        counts = np.bincount(entities, minlength=graph.entities)
        best = np.argsort(-counts, kind="stable")[:most]
        best = best[counts[best] > 0]
        held = self.snapshot.chunk_documents()[passages]
        documents = [len(np.unique(held[entities == row])) for row in best.tolist()]
        names = [text.partition(": ")[0] for text in graph.stored.texts(best.tolist())]
        return dict(zip(names, zip(counts[best].tolist(), documents, strict=True), strict=True))

    def describe(self, method: str) -> MethodDescription:
        """See `Answering.describe`."""
        description = self._searcher(method).describe()
        arrays = self.snapshot.part(method).arrays
        if DRIFT not in arrays:
            return description
        return replace(description, details={**description.details, "changed": int(arrays[DRIFT][0])})

    def opened(self, method: str) -> Opened:
        """The checked input of a method's searcher; `Damaged` names an array that does not fit."""
        check_method(self.snapshot, self._graph, method)
        return Opened(self.snapshot, self._graph, self._nearest, self.snapshot.part(method))

    def _days(self, table: int, method: str, days: NDArray[np.int32]) -> NDArray[np.int32]:
        if table == RowTable.CHUNK:
            return days
        key = table, "" if table == RowTable.GRAPH else method
        if key not in self._newest:
            sources = self._graph.sources
            if table == RowTable.NODE:
                own = self.snapshot.part(method).arrays
                sources = own["sources.indptr"], own["sources.indices"]
            self._newest[key] = newest(days, sources)
        return self._newest[key]

    def _opened_searcher(self, name: str) -> Searcher:
        return get_method(name).open(self.opened(name))

    def _allowed_by(self, where: Where | None, method: str) -> Allowed | None:
        """What a filter admits; remembered for filters that are values."""
        if where is None:
            return None
        try:
            key = method, json.dumps(json_native(where), sort_keys=True)
        except (TypeError, ValueError, RecursionError):  # a function, or what is wrong in a filter
            return self._evaluated(where, method)
        with self._lock:
            allowed = self._allowed.get(key)
        if allowed is None:
            allowed = self._evaluated(where, method)
            with self._lock:
                self._allowed[key] = allowed
        return allowed

    @cached_property
    def _metadata(self) -> list[Metadata]:
        return self.snapshot.chunk_metadata()

    @cached_property
    def _metadata_with_ids(self) -> list[Metadata]:
        rows = range(self.snapshot.size)
        parts = (rows[start : start + _READ] for start in range(0, len(rows), _READ))
        return [with_ids(chunk) for part in parts for chunk in self.snapshot.chunks(part)]

    def _evaluated(self, where: Where, method: str) -> Allowed:
        """Ask a filter once for each distinct metadata; chunks share that of their document."""
        admits = compile_where(where)
        metadata = self._metadata_with_ids if reads_ids(where) else self._metadata
        verdicts = {identity: admits(each) for identity, each in {id(m): m for m in metadata}.items()}
        chunks = np.fromiter((verdicts[id(each)] for each in metadata), np.bool_, len(metadata))
        sources: Sources = np.zeros(1, np.int64), np.zeros(0, np.int64)
        if method != WALK:
            own = self.snapshot.part(method).arrays
            sources = own["sources.indptr"], own["sources.indices"]
        return Allowed(chunks, self._graph.sources, sources)
