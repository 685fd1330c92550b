"""GraphML: one graph of everything, as Gephi, Cytoscape, yEd, igraph and networkx read it.

Ids of nodes begin with what the node is, since a document and an entity may have the same name:
`document:`, `chunk:`, `entity:`, `unit:`, `node:<method>:`. Kinds of edges are `part of` (chunk to
document), `mentions` (chunk or unit to entity), `relation` (entity to entity), `member` (node to its members)
and `source` (node or unit to chunk).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from stratarag.export.tables import Record, Source, tables, whole

# Attributes of nodes and edges with their types; all nodes share one list, as GraphML has it.
_NODE = {
    "kind": "string",
    "label": "string",
    "text": "string",
    "type": "string",
    "method": "string",
    "level": "int",
    "metadata": "string",
}
_EDGE = {"relation": "string", "text": "string", "weight": "double"}
_UNREADABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LABEL = 80


def write_graphml(index: Source, path: Path, methods: Sequence[str]) -> None:
    """Write documents, chunks, entities, relations, units and nodes as one directed graph.

    The relations of the index have no direction; they are written once, from `source` to `target`.
    Characters that XML cannot hold become U+FFFD.
    """
    with whole(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        file.write('<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
        for domain, attributes in (("node", _NODE), ("edge", _EDGE)):
            for name, kind in attributes.items():
                file.write(
                    f'<key id="{domain}.{name}" for="{domain}" attr.name="{name}" attr.type="{kind}"/>\n'
                )
        file.write('<graph id="stratarag" edgedefault="directed">\n')
        for line in _lines(index, methods):
            file.write(line)
        file.write("</graph>\n</graphml>\n")


def _lines(index: Source, methods: Sequence[str]) -> Iterator[str]:
    """Each record as a node with the edges that go out from it; nodes may come after edges to them."""
    places = {name: _Places(index, name) for name in methods}
    for name, records in tables(index, methods):
        for record in records:
            if name == "relation":
                ends = f"entity:{record['source']}", f"entity:{record['target']}"
                yield _edge(*ends, "relation", text=record["text"], weight=record["weight"])
            elif name == "node":
                yield from _method_node(record, places[record["method"]])
            else:
                yield from _PARTS[name](record)


def _document(record: Record) -> Iterator[str]:
    values = {"kind": "document", "label": record["id"], "metadata": _json(record["metadata"])}
    yield _node(f"document:{record['id']}", values)


def _chunk(record: Record) -> Iterator[str]:
    own = f"chunk:{record['id']}"
    label = f"{record['document']} [{record['ordinal']}]"
    yield _node(
        own, {"kind": "chunk", "label": label, "text": record["text"], "metadata": _json(record["metadata"])}
    )
    yield _edge(own, f"document:{record['document']}", "part of")


def _entity(record: Record) -> Iterator[str]:
    own = f"entity:{record['id']}"
    yield _node(
        own,
        {
            "kind": "entity",
            "label": record["name"],
            "text": record["description"],
            "type": record["type"],
        },
    )
    for source in record["sources"]:
        yield _edge(f"chunk:{source}", own, "mentions")


def _unit(record: Record) -> Iterator[str]:
    own = f"unit:{record['id']}"
    yield _node(own, {"kind": "unit", "label": record["text"][:_LABEL], "text": record["text"]})
    for entity in record["entities"]:
        yield _edge(own, f"entity:{entity}", "mentions")
    for source in record["sources"]:
        yield _edge(own, f"chunk:{source}", "source")


_PARTS = {"document": _document, "chunk": _chunk, "entity": _entity, "unit": _unit}


class _Places:
    """What the members of a method's nodes are: nodes of the method, entities of the graph, or chunks."""

    def __init__(self, index: Source, method: str) -> None:
        self._prefix = f"node:{method}:"
        self._nodes = {node.id for node in index.nodes(method)}
        members = {member for node in index.nodes(method) for member in node.members} - self._nodes
        self._entities = {each.id for each in index.entities(sorted(members))} if members else set()

    def own(self, identity: str) -> str:
        return self._prefix + identity

    def member(self, identity: str) -> str:
        if identity in self._nodes:
            return self._prefix + identity
        return f"entity:{identity}" if identity in self._entities else f"chunk:{identity}"


def _method_node(record: Record, places: _Places) -> Iterator[str]:
    own = places.own(record["id"])
    yield _node(
        own,
        {
            "kind": record["kind"],
            "label": record["text"][:_LABEL],
            "text": record["text"],
            "method": record["method"],
            "level": record["level"],
            "metadata": _json(record["metadata"]),
        },
    )
    members = {places.member(member) for member in record["members"]}
    for member in record["members"]:
        yield _edge(own, places.member(member), "member")
    for source in record["sources"]:
        if f"chunk:{source}" not in members:
            yield _edge(own, f"chunk:{source}", "source")


def _node(identity: str, values: Mapping[str, Any]) -> str:
    return f"<node id={_attribute(identity)}>{_fields('node', values)}</node>\n"


def _edge(source: str, target: str, relation: str, **values: Any) -> str:
    fields = _fields("edge", {"relation": relation, **values})
    return f"<edge source={_attribute(source)} target={_attribute(target)}>{fields}</edge>\n"


def _fields(domain: str, values: Mapping[str, Any]) -> str:
    return "".join(
        f'<data key="{domain}.{name}">{escape(_readable(str(value)))}</data>'
        for name, value in values.items()
        if value != ""
    )


def _attribute(value: str) -> str:
    return quoteattr(_readable(value), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _readable(text: str) -> str:
    return _UNREADABLE.sub("\ufffd", text)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) if value else ""
