"""Listings of one generation, or of several shards put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import chain, groupby
from typing import Any, TypeVar

from stratagraph.operations import listing
from stratagraph.operations.browsing import Browser, PageRequest
from stratagraph.operations.subgraph import subgraph
from stratagraph.store.joined import JoinedSnapshot
from stratagraph.store.snapshot import Snapshot
from stratagraph.types.question import Allowed
from stratagraph.types.records import (
    Extraction,
    GraphEntity,
    GraphRelation,
    GraphUnit,
    Level,
    Listed,
    Listing,
    MethodNode,
)
from stratagraph.types.results import Picture, Retrieval
from stratagraph.viz.question import Subgraph, question

AnySnapshot = Snapshot | JoinedSnapshot
T = TypeVar("T", GraphEntity, GraphRelation, GraphUnit)


def entities(snapshot: AnySnapshot, ids: list[str] | None = None) -> Iterator[GraphEntity]:
    """Entities by name; of one in several shards, the shard with most sources describes it."""
    return _joined(snapshot, lambda part: listing.entities(part, ids), lambda each: (each.id,))


def relations(snapshot: AnySnapshot) -> Iterator[GraphRelation]:
    """Relations; the weights of one in several shards are summed."""
    return _joined(snapshot, listing.relations, lambda each: tuple(sorted((each.source, each.target))))


def units(snapshot: AnySnapshot) -> Iterator[GraphUnit]:
    """Semantic units; one that several shards have is listed once."""
    return _joined(snapshot, listing.units, lambda each: (each.text, each.entities))


def extractions(snapshot: AnySnapshot) -> Iterator[tuple[str, Extraction]]:
    """Chunk ids with their extractions, shard by shard."""
    return chain.from_iterable(map(listing.extractions, _parts(snapshot)))


def method_nodes(snapshot: AnySnapshot, method: str) -> Iterator[MethodNode]:
    """Nodes of a method, shard by shard."""
    return chain.from_iterable(listing.method_nodes(part, method) for part in _parts(snapshot))


def shards_of(snapshot: AnySnapshot) -> dict[str, object]:
    """Entries of `Index.stats` about shards."""
    if isinstance(snapshot, Snapshot):
        return {}
    return {"shards": len(snapshot.parts), "missing": list(snapshot.missing)}


class JoinedBrowser:
    """Lists one or several generations, one after the other; see `Index.browse`."""

    def __init__(self, snapshot: AnySnapshot) -> None:
        self.snapshot = snapshot
        self._parts = [Browser(part) for part in _parts(snapshot)]

    def levels(self, method: str) -> tuple[Level, ...]:
        """See `Index.levels`."""
        counts: dict[tuple[int, str], int] = {}
        for part in self._parts:
            for each in part.levels(method):
                key = -each.level, each.kind
                counts[key] = counts.get(key, 0) + each.count
        return tuple(Level(-level, kind, count) for (level, kind), count in sorted(counts.items()))

    def page(self, asked: PageRequest) -> Listing:
        """See `Index.browse`. `within` and `around` are looked up in each shard."""
        if asked.within is None and asked.around is None:
            return self._joined_page(asked)
        missing = KeyError(asked.within or asked.around)
        for part in self._parts:
            try:
                return part.page(asked)
            except KeyError as error:
                missing = error
        raise missing

    def _joined_page(self, asked: PageRequest) -> Listing:
        listed: list[Listed] = []
        total = 0
        for part in self._parts:
            room = asked.limit - len(listed)
            page = part.page(replace(asked, offset=max(0, asked.offset - total), limit=max(1, room)))
            listed += page.items[:room]
            total += page.total
        return Listing(tuple(listed), total, asked.offset)


class SubgraphPainter:
    """Draws retrievals from the generations that answered them.

    It holds an open index, so copies of a retrieval share it, and a pickled retrieval has none.

    Parameters
    ----------
    snapshot
        The generations.
    allowed
        Tells what the search's filter admits of each of them; None: everything.
    """

    def __init__(self, snapshot: AnySnapshot, allowed: Callable[[], Sequence[Allowed] | None]) -> None:
        self._snapshot = snapshot
        self._allowed = allowed

    def __call__(self, retrieval: Retrieval) -> Picture:
        """The subgraph around a question, of all shards."""
        snapshots = _parts(self._snapshot)
        allowed = self._allowed()
        parts = [
            subgraph(part, retrieval, None if allowed is None else allowed[at])
            for at, part in enumerate(snapshots)
        ]
        drawn = Subgraph(
            tuple(_once(chain.from_iterable(part.entities for part in parts))),
            tuple(_once(chain.from_iterable(part.relations for part in parts))),
            named=frozenset().union(*(part.named for part in parts)),
            meant=frozenset().union(*(part.meant for part in parts)),
            left_out=sum(part.left_out for part in parts),
        )
        return question(retrieval, drawn)

    def __deepcopy__(self, memo: dict[int, object]) -> SubgraphPainter:
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def _parts(snapshot: AnySnapshot) -> tuple[Snapshot, ...]:
    return snapshot.parts if isinstance(snapshot, JoinedSnapshot) else (snapshot,)


def _joined(
    snapshot: AnySnapshot, listing: Callable[[Snapshot], Iterator[T]], key: Callable[[T], tuple[Any, ...]]
) -> Iterator[T]:
    """Merge the shards' sorted listings; entries with the same key become one."""
    if isinstance(snapshot, Snapshot):
        return listing(snapshot)
    ordered = merge(*map(listing, snapshot.parts), key=key)
    return (_one(list(group)) for _, group in groupby(ordered, key))


def _one(same: list[T]) -> T:
    """The entry with most sources among equal ones, with the sources of all."""
    if len(same) == 1:
        return same[0]
    first = max(same, key=lambda each: len(each.sources))
    joined = replace(
        first,
        sources=tuple(source for each in same for source in each.sources),
        documents=tuple(document for each in same for document in each.documents),
    )
    if isinstance(joined, GraphRelation):
        return _one_relation(joined, [each for each in same if isinstance(each, GraphRelation)])
    return joined


def _one_relation(joined: GraphRelation, same: Sequence[GraphRelation]) -> GraphRelation:
    """With the weights and types of all; in another shard it may go the other way."""
    types: dict[str, None] = {}
    opposite: dict[str, None] = {}
    for each in same:
        ways = (each.types, each.opposite_types)
        there, back = ways if each.source == joined.source else ways[::-1]
        types.update(dict.fromkeys(there))
        opposite.update(dict.fromkeys(back))
    weight = sum(each.weight for each in same)
    return replace(joined, weight=weight, types=tuple(types), opposite_types=tuple(opposite))


def _once(things: Iterable[T]) -> Iterator[T]:
    grouped: dict[str, list[T]] = {}
    for each in things:
        grouped.setdefault(each.id, []).append(each)
    return map(_one, grouped.values())
