"""Hits of a ranking: items read once per question, repeats merged, and the sources behind each hit."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Protocol

import numpy as np

from stratagraph.ingest.graph.stage import NAME as GRAPH
from stratagraph.operations.origins import RecentOrigins
from stratagraph.search.evidence import asked_metadata
from stratagraph.search.excerpts import Excerpts
from stratagraph.search.ranking import Origin, Ranking
from stratagraph.store.joined import JoinedSnapshot
from stratagraph.store.snapshot import Snapshot
from stratagraph.text.sentences import without_added, without_names
from stratagraph.types.protocols import Rows
from stratagraph.types.question import Question
from stratagraph.types.records import Item, Metadata
from stratagraph.types.results import Hit

HitsAndTraces = tuple[tuple[Hit, ...], tuple[Metadata, ...]]
_COMPARED = 8  # documents whose metadata is compared first
_NO_ROWS: Rows = np.zeros(0, np.int64)
_WORDS = re.compile(r"\w+")
_ASCII = "".join(chr(code).lower() if _WORDS.match(chr(code)) else " " for code in range(128))
_NEVER_MERGED = ("chunk", "relation", "entity", "summary_entity")
"""A passage is its own source, a relation says what is joined, and an entity is what its name stands for."""


@dataclass(frozen=True, slots=True)
class RankedItems:
    """A ranking with the item at each place; `redundant` places add nothing to the better ones."""

    ranking: Ranking
    items: Sequence[Item]
    redundant: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.items)


class ItemReader(Protocol):
    """Reads the items of the rankings for one question."""

    def read(self, ranking: Ranking) -> RankedItems:
        """The items of a ranking; an item read before is not read again."""
        ...


class SnapshotItems:
    """Reads items from one generation, for one question and one thread.

    Nodes that no model wrote show the statements that bear on the question, unless its options say `whole`.
    """

    def __init__(self, snapshot: Snapshot, excerpts: Excerpts, question: Question) -> None:
        self._snapshot = snapshot
        self._tables = {Origin.GRAPH: GRAPH, Origin.NODE: question.method}
        self._drop = question.fill
        self._asked = question.text
        self._excerpts = None if question.options.whole else excerpts.asked(question.vector)
        self._read: dict[tuple[int, int], Item] = {}

    def read(self, ranking: Ranking) -> RankedItems:
        """See `ItemReader`."""
        keys = list(zip(ranking.origin.tolist(), ranking.rows.tolist(), strict=True))
        for origin in Origin:
            new = list(dict.fromkeys(key[1] for key in keys if key[0] == origin and key not in self._read))
            if new:
                read = zip([(int(origin), row) for row in new], self._items(origin, new), strict=True)
                self._read.update(read)
        items = [self._read[key] for key in keys]
        if self._excerpts is None or all(origin == Origin.CHUNK for origin, _ in keys):
            return RankedItems(ranking, list(map(_without_own_name, items)))
        rows = [row if origin == Origin.GRAPH else -1 for origin, row in keys]
        order = sorted(range(len(keys)), key=lambda place: keys[place][0] != Origin.CHUNK)
        shown, nothing = self._excerpts.shown(
            [items[place] for place in order], [rows[place] for place in order], dropped=self._drop
        )
        for place, item in zip(order, shown, strict=True):
            items[place] = _without_own_name(item)
        return RankedItems(ranking, items, frozenset(compress(order, nothing)))

    def _items(self, origin: Origin, rows: list[int]) -> list[Item]:
        if origin != Origin.CHUNK:
            return self._snapshot.part(self._tables[origin]).items(rows)
        return [
            Item(
                chunk.id,
                "chunk",
                0,
                chunk.text,
                np.array([row], np.int64),
                asked_metadata(self._asked, chunk.text, chunk.metadata),
                document=chunk.document_id,
                ref=chunk.ref,
            )
            for row, chunk in zip(rows, self._snapshot.chunks(rows), strict=True)
        ]


def _without_own_name(item: Item) -> Item:
    """An entity or relation whose sentences have no name added that stands before its text anyway."""
    if item.kind not in ("entity", "relation") or ":] " not in item.text:
        return item
    names = {str(name) for name in item.extra.get("ends") or [item.extra.get("name", "")]}
    return replace(item, text=without_names(item.text, names))


def grouped(items: Sequence[Item] | Sequence[Hit], without: Collection[int] = ()) -> list[list[int]]:
    """Group the places of items that repeat each other, the best group first.

    An item joins another, but no passage, if its words are part of that one's words, or if both have one id,
    as an entity of two shards. The containing item comes first in its group, of equal ones the better. A
    group ranks as its best member. Places `without` are in no group.
    """
    places = [place for place in range(len(items)) if place not in without]
    never_merged = all(items[place].kind in _NEVER_MERGED for place in places)
    if never_merged and len({items[place].id for place in places}) == len(places):
        return [[place] for place in places]
    texts = {place: f" {_words(items[place].text)} " for place in places}
    groups: dict[int, list[int]] = {}
    for place in sorted(places, key=lambda place: (-len(texts[place]), place)):
        same = (other for other in groups if items[other].id == items[place].id)
        holder = next(same, place)
        if items[place].kind not in _NEVER_MERGED and holder == place:
            holders = (other for other in groups if items[other].kind != "chunk")
            holder = next((other for other in holders if texts[place] in texts[other]), place)
        groups.setdefault(holder, []).append(place)
    return sorted(groups.values(), key=min)


def silent(items: Sequence[Item]) -> frozenset[int]:
    """The places of nodes that say nothing beside the passages among the items.

    Such a node has no words but those of its name, or its text stands in a passage. A relation says at least
    what is joined.
    """
    passages = f" {' | '.join([_words(item.text) for item in items if item.kind == 'chunk'])} "
    places = set()
    for place, item in enumerate(items):
        if item.kind not in ("chunk", "relation"):
            text = _words(item.text)
            if text == _words(str(item.extra.get("name", ""))) or f" {text} " in passages:
                places.add(place)
    return frozenset(places)


def _words(text: str) -> str:
    """The words of a text with a space between two, without names that were added to its sentences."""
    text = without_added(text)
    if text.isascii():  # a fifth of the time
        return " ".join(text.translate(_ASCII).split())
    return " ".join(_WORDS.findall(text)).casefold()


class HitMaker:
    """Makes hits of ranked items. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot | JoinedSnapshot) -> None:
        self._origins = RecentOrigins(snapshot)

    def all_of(self, ranked: RankedItems) -> HitsAndTraces:
        """One hit per item."""
        return self._hits(ranked, [(place,) for place in range(len(ranked))]), tuple(ranked.ranking.trace)

    def of_groups(self, ranked: RankedItems, groups: Sequence[Sequence[int]], k: int) -> HitsAndTraces:
        """One hit per group of repeats, with the sources of all of them; scores descend.

        If there are fewer than `k` groups, repeats follow.
        """
        first = {group[0] for group in groups}
        kept = list(groups[:k])
        missing = k - len(kept)
        repeats = [(place,) for place in range(len(ranked)) if place not in first][: max(0, missing)]
        hits = self._hits(ranked, [*kept, *repeats], falling=True)
        trace = ranked.ranking.trace
        traces = [trace[group[0]] if len(group) == 1 else _joined_trace(group, ranked) for group in kept]
        return hits, (*traces, *(ranked.ranking.trace[place] for (place,) in repeats))

    def _hits(
        self, ranked: RankedItems, groups: Sequence[Sequence[int]], falling: bool = False
    ) -> tuple[Hit, ...]:
        """A hit for each group; if `falling`, none scores higher than the one before it."""
        firsts = [ranked.items[group[0]] for group in groups]
        own = self._origins.of(  # a chunk has its own id
            [_NO_ROWS if item.kind == "chunk" else np.asarray(item.sources, np.int64) for item in firsts]
        )
        users = self._user_sources([documents for _, documents in own])
        joined = [place for place, group in enumerate(groups) if len(group) > 1]
        united = self._origins.of(
            [
                np.unique(np.concatenate([ranked.items[at].sources for at in groups[place]])).astype(np.int64)
                for place in joined
            ]
        )
        origins = {**dict(enumerate(own)), **dict(zip(joined, united, strict=True))}
        scores = ranked.ranking.scores.tolist()
        hits: list[Hit] = []
        for place, (group, item, user) in enumerate(zip(groups, firsts, users, strict=True)):
            score = max([scores[at] for at in group])
            if falling and hits:
                score = min(score, hits[-1].score)
            chunk = item.kind == "chunk"
            sources, documents = origins[place]
            if chunk and len(group) == 1:
                sources, documents = (item.id,), (item.document,)
            metadata = item.extra if chunk else _metadata(item, ranked.ranking.trace[group[0]], user)
            hits.append(
                Hit(item.id, item.kind, item.level, item.text, score, sources, documents, metadata, item.ref)
            )
        return tuple(hits)

    def _user_sources(self, documents: Sequence[tuple[str, ...]]) -> list[Any]:
        """The `source` in the metadata of the documents behind each hit, where all of them agree; else None.

        Of hits with many documents only the first few are read, unless these agree.
        """
        some = list(dict.fromkeys([name for names in documents for name in names[:_COMPARED]]))
        known = dict(zip(some, self._origins.sources(some), strict=True))
        sources = []
        for names in documents:
            user = _agreed([known[name] for name in names[:_COMPARED]]) if names else None
            if user is not None and len(names) > _COMPARED:
                user = _agreed([user, *self._origins.sources(names[_COMPARED:])])
            sources.append(user)
        return sources


def _joined_trace(group: Sequence[int], ranked: RankedItems) -> Metadata:
    """The trace of a group's first place, completed from the others, with their ids as `repeats`."""
    trace = ranked.ranking.trace
    joined = {key: value for place in reversed(group) for key, value in trace[place].items()}
    return {**joined, "repeats": [ranked.items[place].id for place in group[1:]]}


def _metadata(item: Item, trace: Mapping[str, Any], user: Any) -> Metadata:
    """A node's metadata and its step of a path; `source` is the user's, so a relation has `ends`."""
    extra = {**item.extra, **({"path": trace["path"], "step": trace["step"]} if "step" in trace else {})}
    if item.kind == "relation":
        rest = {key: value for key, value in extra.items() if key not in ("source", "target")}
        extra = {"ends": [extra["source"], extra["target"]], **rest}
    return {**extra} if user is None else {"source": user, **extra}


def _agreed(values: Sequence[Any]) -> Any:
    """The value that all have; None if they differ."""
    return values[0] if all([value == values[0] for value in values]) else None
