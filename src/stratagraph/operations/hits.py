"""Hits of a ranking: items read once per question, repeats merged, and the sources behind each hit."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Protocol

import numpy as np

from stratagraph.ingest.graph.stage import NAME as GRAPH
from stratagraph.ingest.names.spelling import iso_date
from stratagraph.operations.listing import RecentSources
from stratagraph.search.dates import Dates
from stratagraph.search.evidence import asked_metadata
from stratagraph.search.excerpts import Excerpts
from stratagraph.search.ranking import Ranking, RowTable
from stratagraph.store.snapshot import JoinedSnapshot, Snapshot
from stratagraph.text.sentences import without_added, without_names
from stratagraph.types.built import Item
from stratagraph.types.protocols import Rows
from stratagraph.types.question import SearchQuestion
from stratagraph.types.records import Metadata
from stratagraph.types.results import Hit

HitsAndTraces = tuple[tuple[Hit, ...], tuple[Metadata, ...]]
_COMPARED = 8  # documents whose metadata is compared first
_NO_ROWS: Rows = np.zeros(0, np.int64)
_WORDS = re.compile(r"\w+")
_ASCII = "".join(chr(code).lower() if _WORDS.match(chr(code)) else " " for code in range(128))
REPEATED = 0.8
"""Share of a relation's words in an entity's text from which on it repeats this."""
_NEVER_MERGED = ("chunk", "relation", "entity", "summary_entity")
"""Kinds that never become part of another hit, because each says something by itself."""


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


class SnapshotItems:
    """Reads items from one generation, for one question and one thread.

    Nodes that no model wrote show the statements that bear on the question, unless its options say `whole`.
    """

    def __init__(self, snapshot: Snapshot, excerpts: Excerpts, question: SearchQuestion) -> None:
        self._snapshot = snapshot
        self._parts = {RowTable.GRAPH: GRAPH, RowTable.NODE: question.method}
        self._drop = question.fill
        self._asked = question.text
        self._excerpts = None if question.options.whole else excerpts.asked(question.vector)
        self._read: dict[tuple[int, int], Item] = {}

    def read(self, ranking: Ranking) -> RankedItems:
        """See `ItemReader`."""
        keys = list(zip(ranking.tables.tolist(), ranking.rows.tolist(), strict=True))
        for table in RowTable:
            new = list(dict.fromkeys([key[1] for key in keys if key[0] == table and key not in self._read]))
            if new and table == RowTable.CHUNK:
                self._read_chunks(new)
            elif new:
                items = self._snapshot.part(self._parts[table]).items(new)
                self._read.update(zip([(int(table), row) for row in new], items, strict=True))
        items = [self._read[key] for key in keys]
        if not (ranking.tables != RowTable.CHUNK).any():
            return RankedItems(ranking, items)
        redundant: frozenset[int] = frozenset()
        if self._excerpts is not None:
            rows = [row if table == RowTable.GRAPH else -1 for table, row in keys]
            order = sorted(range(len(keys)), key=lambda place: keys[place][0] != RowTable.CHUNK)
            shown, nothing = self._excerpts.shown(
                [items[place] for place in order], [rows[place] for place in order], dropped=self._drop
            )
            for place, item in zip(order, shown, strict=True):
                items[place] = item
            redundant = frozenset(compress(order, nothing))
        for place, item in enumerate(items):
            if item.kind in ("entity", "relation") and ":] " in item.text:
                # Of the names added to its sentences, those are left out that stand before its text anyway.
                names = {str(name) for name in item.extra.get("ends") or [item.extra.get("name", "")]}
                items[place] = replace(item, text=without_names(item.text, names))
        return RankedItems(ranking, items, redundant)

    def _read_chunks(self, rows: list[int]) -> None:
        for row, chunk in zip(rows, self._snapshot.chunks(rows), strict=True):
            metadata = chunk.metadata
            if "sections" in metadata:
                metadata = asked_metadata(self._asked, chunk.text, metadata)
            own = chunk.id, "chunk", 0, chunk.text, np.array([row], np.int64), metadata
            self._read[int(RowTable.CHUNK), row] = Item(*own, document=chunk.document_id, ref=chunk.ref)


def grouped(items: Sequence[Item] | Sequence[Hit], without: Collection[int] = ()) -> list[list[int]]:
    """Group the places of items that repeat each other, but for those `without`; the best group first.

    An item joins another, but no passage, if its words are part of that one's words, or if both have one id,
    as an entity of two shards. The containing item comes first in its group, of equal ones the better.
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
    """The places of nodes that say nothing beside other items.

    Such a node has no words but those of its name, or its text stands in a passage. An entity whose name is a
    date says nothing by itself. A relation says at least what is joined, unless one of its ends is among the
    better items and has `REPEATED` of its words.
    """
    passages = f" {' | '.join([_words(item.text) for item in items if item.kind == 'chunk'])} "
    places, said = set(), dict[str, set[str]]()
    for place, item in enumerate(items):
        if item.kind == "chunk":
            continue
        text, name = _words(item.text), str(item.extra.get("name", ""))
        if item.kind == "relation":
            own = set(_words(item.text.partition(": ")[2]).split())
            ends = [said[end] for end in (item.extra["source"], item.extra["target"]) if end in said]
            if own and any(len(own & words) >= REPEATED * len(own) for words in ends):
                places.add(place)
        elif text == _words(name) or f" {text} " in passages:
            places.add(place)
        elif item.kind == "entity":
            if name.isdecimal() or iso_date(name) is not None:
                places.add(place)
            else:
                said[name] = set(text.split())
    return frozenset(places)


def _words(text: str) -> str:
    """The words of a text with a space between two, without names that were added to its sentences."""
    text = without_added(text)
    if text.isascii():  # a fifth of the time
        return " ".join(text.translate(_ASCII).split())
    return " ".join(_WORDS.findall(text)).casefold()


class HitMaker:
    """Makes hits of ranked items. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot | JoinedSnapshot, dates: Dates | None) -> None:
        self._sources = RecentSources(snapshot)
        self._dates = dates

    def all_of(self, ranked: RankedItems) -> HitsAndTraces:
        """One hit per item."""
        hits = self._hits(ranked, [(place,) for place in range(len(ranked))])
        return tuple(hits), tuple(ranked.ranking.trace)

    def of_groups(self, ranked: RankedItems, groups: Sequence[Sequence[int]], k: int) -> HitsAndTraces:
        """One hit per group of repeats, with the sources of all of them.

        A group has the trace of its first place, completed from the others, with their ids as `repeats`. If
        there are fewer than `k` groups, repeats follow.
        """
        best, trace = list(groups[:k]), ranked.ranking.trace
        traces: list[Metadata] = []
        for group in best:
            joined = {key: value for place in reversed(group) for key, value in trace[place].items()}
            repeated = [ranked.items[place].id for place in group[1:]]
            traces.append({**joined, "repeats": repeated} if repeated else trace[group[0]])
        first = {group[0] for group in groups}
        repeats = [(place,) for place in range(len(ranked)) if place not in first][: max(0, k - len(best))]
        hits = self._hits(ranked, [*best, *repeats])
        return tuple(hits), (*traces, *(trace[place] for (place,) in repeats))

    def _hits(self, ranked: RankedItems, groups: Sequence[Sequence[int]]) -> list[Hit]:
        """A hit for each group."""
        firsts = [ranked.items[group[0]] for group in groups]
        own = [_NO_ROWS if item.kind == "chunk" else np.asarray(item.sources, np.int64) for item in firsts]
        joined = [place for place, group in enumerate(groups) if len(group) > 1]
        united = [
            np.unique(np.concatenate([ranked.items[at].sources for at in groups[place]])).astype(np.int64)
            for place in joined
        ]
        sources_of = self._sources.of([*own, *united])
        of_groups = dict(zip(joined, sources_of[len(groups) :], strict=True))
        users = self._user_sources([documents for _, documents in sources_of[: len(groups)]])
        scores, trace = ranked.ranking.scores.tolist(), ranked.ranking.trace
        hits = []
        for place, (group, item, user) in enumerate(zip(groups, firsts, users, strict=True)):
            sources, documents = of_groups.get(place, sources_of[place])
            metadata = item.extra
            if item.kind != "chunk":
                metadata = _metadata(item, trace[group[0]], user)
            elif place not in of_groups:  # a chunk has its own id
                sources, documents = (item.id,), (item.document,)
            score = scores[group[0]] if len(group) == 1 else max([scores[at] for at in group])
            date = ""
            if self._dates is not None:
                date = self._dates.text(np.concatenate([ranked.items[at].sources for at in group]))
            shown = item.id, item.kind, item.level, item.text, score
            hits.append(Hit(*shown, sources, documents, metadata, item.ref, date))
        return hits

    def _user_sources(self, documents: Sequence[tuple[str, ...]]) -> list[Any]:
        """The `source` in the metadata of the documents behind each hit, where all of them agree; else None.

        Of hits with many documents only the first few are read, unless these agree.
        """
        some = list(dict.fromkeys([name for names in documents for name in names[:_COMPARED]]))
        source_of = dict(zip(some, self._sources.sources(some), strict=True))
        sources = []
        for names in documents:
            user = _agreed([source_of[name] for name in names[:_COMPARED]]) if names else None
            if user is not None and len(names) > _COMPARED:
                user = _agreed([user, *self._sources.sources(names[_COMPARED:])])
            sources.append(user)
        return sources


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
