"""Assigns documents to shards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stratagraph.operations.documents import Documents, as_document, check_documents
from stratagraph.store.joined import JoinedSnapshot
from stratagraph.store.spread import Spread
from stratagraph.types.records import Chunk, Document, StreamedDocument

Item = str | Document | StreamedDocument | Chunk


@dataclass(slots=True)
class Routed:
    """Documents by shard number, ids that leave a shard, skipped blank documents, and all ids given."""

    spread: Spread
    items: dict[int, list[Item]] = field(default_factory=dict)
    moved: dict[int, list[str]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    given: Collection[str] = ()


def routed(
    documents: Documents, spread: Spread, snapshot: JoinedSnapshot | None, *, may_be_empty: bool = False
) -> Routed:
    """Assign each document to a shard by its id, or by its value of the key, which may be new.

    A document whose value changed leaves its old shard. Raises `TypeError` if an item is no document, and
    `ValueError` if a document has no value of the key, an id comes with two, or all documents are blank.
    """
    check_documents(documents)
    routes = Routed(spread)
    shards: dict[str, int] = {}
    for position, item in enumerate(documents):
        given = item if isinstance(item, Chunk) else as_document(item, position)
        identity = given.document_id if isinstance(given, Chunk) else given.id
        shard = _shard_of(given, identity, routes)
        if shards.setdefault(identity, shard) != shard:
            raise ValueError(f"document id {identity!r} was given twice, with different {routes.spread.by!r}")
        if _blank(given) and (snapshot is None or not _holders(snapshot, [identity])):
            routes.skipped.append(identity)
        else:
            routes.items.setdefault(shard, []).append(item)
    routes.given = shards
    if not routes.items and not may_be_empty:
        what = (
            f"all {len(routes.skipped)} documents are blank" if routes.skipped else "no documents were given"
        )
        raise ValueError(f"{what}; nothing was written")
    if spread.by is not None and snapshot is not None:
        for identity, holders in _holders(snapshot, list(shards)).items():
            for holder in holders:
                if (place := snapshot.numbers[holder]) != shards[identity]:
                    routes.moved.setdefault(place, []).append(identity)
    return routes


def removals(ids: Sequence[str], snapshot: JoinedSnapshot) -> tuple[dict[int, list[str]], list[str]]:
    """Ids by the number of the shard that holds them, and unknown ids."""
    held = _holders(snapshot, ids)
    leaving: dict[int, list[str]] = {}
    for identity, holders in held.items():
        for holder in holders:
            leaving.setdefault(snapshot.numbers[holder], []).append(identity)
    return leaving, [identity for identity in ids if identity not in held]


def _shard_of(item: Document | StreamedDocument | Chunk, identity: str, routes: Routed) -> int:
    by = routes.spread.by
    if by is None:
        return routes.spread.shard_of(identity)
    value = _value(item.metadata, by, identity)
    shard = routes.spread.valued(value)
    if shard is None:
        routes.spread = routes.spread.with_value(value)
        shard = len(routes.spread.shards) - 1
    return shard


def _value(metadata: Mapping[str, object], by: str, identity: str) -> str:
    value = metadata.get(by)
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        raise ValueError(
            f"document {identity!r} has no {by!r} in its metadata by which shards are made "
            f"(found {value!r}); give each document a text or a whole number there"
        )
    return str(value)


def _blank(item: Document | StreamedDocument | Chunk) -> bool:
    if isinstance(item, Chunk):
        return not item.text.strip()
    return isinstance(item, Document) and not item.text.strip()


def _holders(snapshot: JoinedSnapshot, ids: Sequence[str]) -> dict[str, list[int]]:
    """The snapshot's parts that hold documents of these ids."""
    holders: dict[str, list[int]] = {}
    for number, part in enumerate(snapshot.parts):
        for identity in part.document_metadata(ids):
            holders.setdefault(identity, []).append(number)
    return holders
