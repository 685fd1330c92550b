"""Questions over several shards.

Passages are ranked as in one index, with frequencies over all shards (`search.joined`). Methods search each
shard, and their results are merged: cosines (`Method.cosines`) as they are, other scores relative to the
shard's best, times the similarity of its most similar passage relative to that of all shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.ingest.graph.stage import NAME as GRAPH
from stratagraph.methods import get_method
from stratagraph.methods.base import MethodDescription, Ranking, RowTable, Searcher, SearchQuestion
from stratagraph.operations.checks import blamed
from stratagraph.operations.hits import ItemReader, RankedItems
from stratagraph.operations.reader import Answering, Reader
from stratagraph.search.joined import JoinedGround, JoinedNearest, admitted
from stratagraph.search.ranking import concatenate, taken
from stratagraph.search.walk import PassageWalk
from stratagraph.store.snapshot import JoinedSnapshot, Snapshot
from stratagraph.system.locks import cached_property
from stratagraph.types.built import Item
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.question import WALK, Allowed, Where
from stratagraph.types.records import Metadata
from stratagraph.types.results import Hit


class JoinedAllowed(Allowed):
    """What a filter admits of each shard; `chunks` joins them in the order of the shards."""

    def __init__(self, parts: Sequence[Allowed]) -> None:
        self._parts = parts
        self.chunks = np.concatenate([part.chunks for part in parts])

    @property
    def parts(self) -> Sequence[Allowed]:
        """What it admits of each shard."""
        return self._parts


class JoinedReader(Answering):
    """Searches the shards of a snapshot."""

    snapshot: JoinedSnapshot

    def __init__(self, snapshot: JoinedSnapshot) -> None:
        super().__init__(snapshot)
        self.parts = [Reader(part) for part in snapshot.parts]

    @cached_property
    def _nearest(self) -> JoinedNearest:
        return JoinedNearest([part._nearest for part in self.parts], self.snapshot.rows_of)

    @cached_property
    def _ground(self) -> JoinedGround:
        return JoinedGround([part._graph for part in self.parts], self.snapshot.rows_of)

    @cached_property
    def _walk(self) -> PassageWalk:
        return PassageWalk(self.snapshot, self._ground, self._nearest)

    def _item_reader(self, question: SearchQuestion) -> JoinedItems:
        return JoinedItems(self, question)

    def _opened_searcher(self, name: str) -> Searcher:
        return FanOut(self, name)

    def _allowed_by(self, where: Where | None, method: str) -> JoinedAllowed | None:
        allowed = [part._allowed_by(where, method) for part in self.parts]
        parts = [each for each in allowed if each is not None]
        return JoinedAllowed(parts) if parts else None

    def _days(self, table: int, method: str, days: NDArray[np.int32]) -> NDArray[np.int32]:
        own = np.split(days, self.snapshot.rows_of.starts[1:-1])
        return np.concatenate(
            [part._days(table, method, each) for part, each in zip(self.parts, own, strict=True)]
        )

    def _written(self, method: str) -> bool:
        return any(part._written(method) for part in self.parts)

    def statements(self, method: str, hits: Sequence[Hit]) -> dict[str, Vectors]:
        """See `Answering.statements`."""
        return {key: own for part in self.parts for key, own in part.statements(method, hits).items()}

    def name_counts(self, where: Where | None, most: int) -> dict[str, tuple[int, int]]:
        """The sums over the shards of the most frequent names of each."""
        sums: dict[str, tuple[int, int]] = {}
        for part in self.parts:
            for name, own in part.name_counts(where, most).items():
                passages, documents = sums.get(name, (0, 0))
                sums[name] = passages + own[0], documents + own[1]
        return sums

    def _blamed(self, error: Exception) -> Damaged | None:
        for name, part in zip(self.snapshot.names, self.snapshot.parts, strict=True):
            if damage := blamed(part, error):
                return Damaged(f"{name}: {damage}")
        return None


class JoinedItems:
    """Reads items of a ranking over all shards; redundant places are found within a shard."""

    def __init__(self, reader: JoinedReader, question: SearchQuestion) -> None:
        self._reader = reader
        self._question = question
        self._parts: dict[int, ItemReader] = {}
        snapshot = reader.snapshot
        self._rows_of = {RowTable.CHUNK: snapshot.rows_of, RowTable.GRAPH: snapshot.part(GRAPH).rows_of}
        if question.method != WALK:
            self._rows_of[RowTable.NODE] = snapshot.part(question.method).rows_of

    def read(self, ranking: Ranking) -> RankedItems:
        """See `operations.hits.ItemReader`."""
        owners, rows = np.zeros(len(ranking), np.int64), np.zeros(len(ranking), np.int64)
        for table, rows_of in self._rows_of.items():
            at = np.flatnonzero(ranking.tables == table)
            for part, places, own in rows_of.split(ranking.rows[at]):
                owners[at[places]], rows[at[places]] = part, own
        items: dict[int, Item] = {}
        redundant: set[int] = set()
        numbered = replace(ranking, rows=rows)
        for part in np.unique(owners).tolist():
            places = np.flatnonzero(owners == part)
            read = self._of(part).read(taken(numbered, places))
            start = self._reader.snapshot.rows_of.starts[part]
            for place, item in zip(places.tolist(), read.items, strict=True):
                items[place] = replace(item, sources=item.sources + start)
            redundant.update(places[list(read.redundant)].tolist())
        return RankedItems(ranking, [items[place] for place in range(len(ranking))], frozenset(redundant))

    def _of(self, part: int) -> ItemReader:
        if part not in self._parts:
            self._parts[part] = self._reader.parts[part]._item_reader(self._question)
        return self._parts[part]


@dataclass(frozen=True, slots=True)
class _ShardSearch:
    """A shard to search, its question, and the weight of its results.

    `near`: it holds one of the passages most similar to the question.
    """

    part: int
    question: SearchQuestion
    strength: float
    near: bool


class FanOut:
    """One method over all shards, as a `methods.base.Searcher`."""

    def __init__(self, reader: JoinedReader, method: str) -> None:
        self._reader = reader
        self._method = get_method(method)
        snapshot = reader.snapshot
        tables = {RowTable.NODE: method, RowTable.GRAPH: GRAPH}
        self._rows_of = {table: snapshot.part(name).rows_of for table, name in tables.items()}
        self._rows_of[RowTable.CHUNK] = snapshot.rows_of

    def nodes(self, question: SearchQuestion) -> Ranking:
        """The best results of the shards by comparable scores.

        Shards are searched from the strongest, until the rest cannot change the result: relative scores are
        at most the shard's strength. Shards without one of the `k` most similar passages are searched only if
        the others find too little.
        """
        each_level = None if question.fill else getattr(question.options, "k_per_level", None)
        rankings: list[Ranking] = []
        for search in self._searches(question):
            if each_level is None and self._suffice(rankings, question.k, search):
                break
            rankings.append(self._numbered(search, self._searcher(search.part).nodes(search.question)))
        merged = concatenate(rankings)
        order = np.argsort(-merged.scores, kind="stable")
        if each_level is None:
            return taken(merged, order[: question.k])
        return taken(merged, self._levelled(merged, order, each_level))

    def _suffice(self, rankings: Sequence[Ranking], k: int, search: _ShardSearch) -> bool:
        """Whether the next shard cannot add to the results."""
        if sum(map(len, rankings)) < k:
            return False
        if not search.near or self._method.cosines:
            return not search.near
        scores = np.concatenate([each.scores for each in rankings])
        return bool(np.partition(scores, -k)[-k] >= np.float32(search.strength))

    def describe(self) -> MethodDescription:
        """The sums over the shards."""
        parts = [part.describe(self._method.name) for part in self._reader.parts]
        nodes: Counter[str] = Counter()
        for each in parts:
            nodes.update(each.nodes)
        levels: Counter[str] = Counter()
        for each in parts:
            levels.update(each.details.get("levels", {}))
        details: Metadata = {"levels": dict(levels)} if levels else {}
        changed = [each.details["changed"] for each in parts if "changed" in each.details]
        return MethodDescription(dict(nodes), {**details, "changed": sum(changed)} if changed else details)

    def _searcher(self, part: int) -> Searcher:
        return self._reader.parts[part]._searcher(self._method.name)

    def _searches(self, question: SearchQuestion) -> Iterator[_ShardSearch]:
        """The shards in which the filter admits passages, those with the most similar ones first."""
        allowed, rows_of = question.allowed, self._reader.snapshot.rows_of
        rows, similarity = self._reader._similar(question, question.k)
        strengths: dict[int, float] = {}
        for part, places, _ in rows_of.split(rows):
            strengths[part] = max(float(similarity[places].max()), 0.0)
        most = max(strengths.values(), default=0.0) or 1.0
        near = sorted(strengths, key=strengths.__getitem__, reverse=True)
        rest = [part for part, mask in admitted(rows_of, None if allowed is None else allowed.chunks)]
        least = min(strengths.values(), default=0.0)
        absent = question
        for part in dict.fromkeys([*near, *rest]):
            options = self._present(part, question.options)
            if options is not None:
                own = None if allowed is None else allowed.parts[part]
                absent = replace(question, allowed=own, options=options)
                yield _ShardSearch(part, absent, strengths.get(part, least) / most, part in strengths)
        if (
            absent is question and rest
        ):  # No shard has these levels. The error of one shard lists the levels that exist.
            own = None if allowed is None else allowed.parts[rest[0]]
            yield _ShardSearch(rest[0], replace(question, allowed=own), 0.0, near=True)

    def _present(self, part: int, options: Any) -> Any:
        """The options with only the levels that a shard has; None if it has none of them."""
        wanted = getattr(options, "levels", None)
        if wanted is None:
            return options
        levels_here = self._searcher(part).describe().details.get("levels", {})
        levels = tuple(level for level in wanted if str(level) in levels_here)
        return replace(options, levels=levels) if levels else None

    def _numbered(self, search: _ShardSearch, ranking: Ranking) -> Ranking:
        """A shard's ranking with joined row numbers and comparable scores."""
        rows = ranking.rows.copy()
        for table, rows_of in self._rows_of.items():
            rows[ranking.tables == table] += rows_of.starts[search.part]
        scores, top = ranking.scores, float(ranking.scores.max(initial=0.0))
        if not self._method.cosines:
            relative = np.where(scores > 0, scores / (top or 1.0), scores) * search.strength
            scores = relative.astype(np.float32)
        return Ranking(rows, scores, ranking.tables, ranking.trace)

    def _levelled(self, merged: Ranking, order: Rows, most: int) -> Rows:
        """The best `most` of each level, and all relations, which belong to the entities they join."""
        level_of: list[tuple[str, int]] = [("chunk", 0)] * len(merged)
        for table, name in ((RowTable.NODE, self._method.name), (RowTable.GRAPH, GRAPH)):
            places = np.flatnonzero(merged.tables == table)
            levels = self._reader.snapshot.part(name).levels(merged.rows[places].tolist())
            for place, level in zip(places.tolist(), levels, strict=True):
                level_of[place] = level
        taken_of: Counter[int] = Counter()
        best = []
        for place in order.tolist():
            kind, level = level_of[place]
            if kind == "relation" or taken_of[level] < most:
                taken_of[level] += kind != "relation"
                best.append(place)
        return np.array(best, np.int64)


def opened_reader(snapshot: Snapshot | JoinedSnapshot) -> Answering:
    """The reader of a generation, or of all shards."""
    return JoinedReader(snapshot) if isinstance(snapshot, JoinedSnapshot) else Reader(snapshot)
