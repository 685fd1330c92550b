"""Hits made of what was found, each with its sources; of what repeats each other one, with those of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stratagraph._found import Found
from stratagraph._origins import RecentOrigins
from stratagraph.protocols import Rows
from stratagraph.records import Item, Metadata
from stratagraph.results import Hit
from stratagraph.store.joined import JoinedSnapshot
from stratagraph.store.snapshot import Snapshot

_COMPARED = 8  # documents whose metadata is compared first
Told = tuple[tuple[Hit, ...], tuple[Metadata, ...]]
"""Hits and their traces."""


class HitMaker:
    """Makes hits of what was found. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot | JoinedSnapshot) -> None:
        self._origins = RecentOrigins(snapshot)

    def all_of(self, found: Found) -> Told:
        """A hit of everything that was found."""
        return self._hits(found, [(place,) for place in range(len(found))]), tuple(found.ranking.trace)

    def of_groups(self, found: Found, groups: Sequence[Sequence[int]], k: int) -> Told:
        """One hit for each group of places that repeat each other, with all their sources; then repeats.

        Repeats come only where there are fewer than `k` groups, and score no higher than the last of these.
        """
        first = {group[0] for group in groups}
        kept = list(groups[:k])
        missing = k - len(kept)
        repeats = [(place,) for place in range(len(found)) if place not in first][: max(0, missing)]
        hits = self._hits(found, [*kept, *repeats], len(kept))
        traces = [_trace(group, found) for group in kept]
        return hits, (*traces, *(found.ranking.trace[place] for (place,) in repeats))

    def _hits(
        self, found: Found, groups: Sequence[Sequence[int]], falling: int | None = None
    ) -> tuple[Hit, ...]:
        """A hit for each group; from the place `falling` on, none scores higher than the one before it."""
        firsts = [found.items[group[0]] for group in groups]
        own = self._origins.of([_rows(item) for item in firsts])
        users = self._user_sources([documents for _, documents in own])
        joined = [place for place, group in enumerate(groups) if len(group) > 1]
        united = self._origins.of([_united([found.items[at] for at in groups[place]]) for place in joined])
        origins = {**dict(enumerate(own)), **dict(zip(joined, united, strict=True))}
        scores = found.ranking.scores.tolist()
        hits: list[Hit] = []
        for place, (group, item, user) in enumerate(zip(groups, firsts, users, strict=True)):
            score = max(scores[at] for at in group)
            if falling is not None and place >= falling and hits:
                score = min(score, hits[-1].score)
            chunk = item.kind == "chunk"
            sources, documents = origins[place]
            if chunk and len(group) == 1:
                sources, documents = (item.id,), (item.document,)
            metadata = item.extra if chunk else {**({} if user is None else {"source": user}), **_told(item)}
            hits.append(
                Hit(item.id, item.kind, item.level, item.text, score, sources, documents, metadata, item.ref)
            )
        return tuple(hits)

    def _user_sources(self, documents: Sequence[tuple[str, ...]]) -> list[Any]:
        """The `source` in the metadata of the documents behind each hit, where all of them agree; else None.

        Of hits with many documents only the first few are read, unless these agree.
        """
        some = list(dict.fromkeys(name for names in documents for name in names[:_COMPARED]))
        known = dict(zip(some, self._origins.sources(some), strict=True))
        found = []
        for names in documents:
            user = _agreed([known[name] for name in names[:_COMPARED]])
            if user is not None and len(names) > _COMPARED:
                user = _agreed([user, *self._origins.sources(names[_COMPARED:])])
            found.append(user)
        return found


def _rows(item: Item) -> Rows:
    """The chunks that are asked for their ids; a chunk knows its own."""
    return _NO_ROWS if item.kind == "chunk" else np.asarray(item.sources, np.int64)


def _united(items: Sequence[Item]) -> Rows:
    """The chunks behind some items, ascending."""
    return np.unique(np.concatenate([item.sources for item in items])).astype(np.int64)


def _trace(group: Sequence[int], found: Found) -> Metadata:
    """The trace of the first of some places, with what the others tell beyond it, and their ids."""
    trace = found.ranking.trace
    if len(group) == 1:
        return trace[group[0]]
    joined = {key: value for place in reversed(group) for key, value in trace[place].items()}
    return {**joined, "repeats": [found.items[place].id for place in group[1:]]}


def _told(item: Item) -> Metadata:
    """What a hit says of its node; `source` is the user's, so a relation's entities stand under `ends`."""
    extra = item.extra
    if item.kind != "relation":
        return extra
    rest = {key: value for key, value in extra.items() if key not in ("source", "target")}
    return {"ends": [extra["source"], extra["target"]], **rest}


def _agreed(values: Sequence[Any]) -> Any:
    """The value that all have; None if they differ, or there are none."""
    return values[0] if values and all(value == values[0] for value in values) else None


_NO_ROWS: Rows = np.zeros(0, np.int64)
