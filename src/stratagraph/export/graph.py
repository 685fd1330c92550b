"""Everything as one graph: what GraphML, networkx and Neo4j are given.

Ids of nodes begin with what the node is, since a document and an entity may have the same name:
`document:`, `chunk:`, `entity:`, `unit:`, `node:<method>:`. Kinds of edges are `part of` (chunk to
document), `mentions` (chunk or unit to entity), `relation` (entity to entity), `member` (node to its members)
and `source` (node or unit to chunk). The relations of the index have no direction; they are there once, from
`source` to `target`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stratagraph.export.tables import Record, Source, tables

_LABEL = 80


@dataclass(frozen=True, slots=True)
class Vertex:
    """A node: its kind, its name, and those of text, type, method, level and metadata that it has."""

    id: str
    kind: str
    label: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Link:
    """An edge and its kind; a relation has a text and a weight."""

    source: str
    target: str
    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)


def elements(index: Source, methods: Sequence[str]) -> Iterator[Vertex | Link]:
    """Each record as a node with the edges that go out from it; nodes may come after edges to them."""
    places = {name: _Places(index, name) for name in methods}
    for name, records in tables(index, methods):
        for record in records:
            if name == "relation":
                ends = f"entity:{record['source']}", f"entity:{record['target']}"
                yield Link(*ends, "relation", {"text": record["text"], "weight": record["weight"]})
            elif name == "node":
                yield from _method_node(record, places[record["method"]])
            else:
                yield from _PARTS[name](record)


def _document(record: Record) -> Iterator[Vertex | Link]:
    yield Vertex(f"document:{record['id']}", "document", record["id"], _present(metadata=record["metadata"]))


def _chunk(record: Record) -> Iterator[Vertex | Link]:
    own = f"chunk:{record['id']}"
    label = f"{record['document']} [{record['ordinal']}]"
    yield Vertex(own, "chunk", label, _present(text=record["text"], metadata=record["metadata"]))
    yield Link(own, f"document:{record['document']}", "part of")


def _entity(record: Record) -> Iterator[Vertex | Link]:
    own = f"entity:{record['id']}"
    values = _present(text=record["description"], type=record["type"])
    yield Vertex(own, "entity", record["name"], values)
    for source in record["sources"]:
        yield Link(f"chunk:{source}", own, "mentions")


def _unit(record: Record) -> Iterator[Vertex | Link]:
    own = f"unit:{record['id']}"
    yield Vertex(own, "unit", record["text"][:_LABEL], _present(text=record["text"]))
    for entity in record["entities"]:
        yield Link(own, f"entity:{entity}", "mentions")
    for source in record["sources"]:
        yield Link(own, f"chunk:{source}", "source")


_PARTS = {"document": _document, "chunk": _chunk, "entity": _entity, "unit": _unit}


class _Places:
    """What the members of a method's nodes are: nodes of the method, entities of the graph, or chunks."""

    def __init__(self, index: Source, method: str) -> None:
        self._prefix = f"node:{method}:"
        self._nodes = {node.id for node in index.nodes(method)}
        self._told: set[str] = set()
        members = {member for node in index.nodes(method) for member in node.members} - self._nodes
        self._entities = {each.id for each in index.entities(sorted(members))} if members else set()

    def own(self, identity: str) -> str:
        return self._prefix + identity

    def is_new(self, identity: str) -> bool:
        """Whether a node was not told yet: two shards may have nodes of one id."""
        new = identity not in self._told
        self._told.add(identity)
        return new

    def member(self, identity: str) -> str:
        if identity in self._nodes:
            return self._prefix + identity
        return f"entity:{identity}" if identity in self._entities else f"chunk:{identity}"


def _method_node(record: Record, places: _Places) -> Iterator[Vertex | Link]:
    own = places.own(record["id"])
    if places.is_new(record["id"]):
        values = _present(text=record["text"], method=record["method"], metadata=record["metadata"])
        yield Vertex(own, record["kind"], record["text"][:_LABEL], {**values, "level": record["level"]})
    members = {places.member(member) for member in record["members"]}
    for member in record["members"]:
        yield Link(own, places.member(member), "member")
    for source in record["sources"]:
        if f"chunk:{source}" not in members:
            yield Link(own, f"chunk:{source}", "source")


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
