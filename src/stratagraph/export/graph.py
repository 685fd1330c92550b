"""An index as one graph, for GraphML, networkx and Neo4j.

Ids of nodes begin with their kind, since a document and an entity may have one name: `document:`, `chunk:`,
`entity:`, `unit:`, `node:<method>:`. Kinds of edges are `part of` (chunk to document), `mentions` (chunk or
unit to entity), `relation` (entity to entity, once for each undirected relation), `member` (node to its
members) and `source` (node or unit to chunk).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from stratagraph.errors import require
from stratagraph.export.tables import Record, tables, whole

if TYPE_CHECKING:
    import networkx

    from stratagraph.index import Index

_LABEL = 80


@dataclass(frozen=True, slots=True)
class Vertex:
    """A node: its kind, its label, and those of text, type, method, level and metadata that it has."""

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


def elements(index: Index, methods: Sequence[str]) -> Iterator[Vertex | Link]:
    """Yield each record as a node and its outgoing edges; a node may follow edges to it."""
    places = {name: _Places(index, name) for name in methods}
    for name, records in tables(index, methods):
        for record in records:
            if name == "node":
                yield from _method_node(record, places[record["method"]])
            elif name == "relation":
                ends = f"entity:{record['source']}", f"entity:{record['target']}"
                values = {"text": record["text"], "weight": record["weight"]}
                types = [*record["types"], *(f"{each} (opposite)" for each in record["opposite_types"])]
                yield Link(*ends, "relation", {**values, **_present(types="; ".join(types))})
            else:
                yield from _corpus_node(name, record)


def _corpus_node(kind: str, record: Record) -> Iterator[Vertex | Link]:
    own = f"{kind}:{record['id']}"
    if kind == "document":
        yield Vertex(own, kind, record["id"], _present(metadata=record["metadata"]))
    elif kind == "chunk":
        label = f"{record['document']} [{record['ordinal']}]"
        yield Vertex(own, kind, label, _present(text=record["text"], metadata=record["metadata"]))
        yield Link(own, f"document:{record['document']}", "part of")
    elif kind == "entity":
        yield Vertex(own, kind, record["name"], _present(text=record["description"], type=record["type"]))
        for source in record["sources"]:
            yield Link(f"chunk:{source}", own, "mentions")
    else:
        yield Vertex(own, kind, record["text"][:_LABEL], _present(text=record["text"]))
        for entity in record["entities"]:
            yield Link(own, f"entity:{entity}", "mentions")
        for source in record["sources"]:
            yield Link(own, f"chunk:{source}", "source")


class _Places:
    """Ids of members of a method's nodes: nodes of the method, entities, or chunks."""

    def __init__(self, index: Index, method: str) -> None:
        self._prefix = f"node:{method}:"
        self._nodes = {node.id for node in index.nodes(method)}
        self.yielded: set[str] = set()  # two shards may have nodes of one id
        members = {member for node in index.nodes(method) for member in node.members} - self._nodes
        self._entities = {each.id for each in index.entities(sorted(members))} if members else set()

    def member(self, identity: str) -> str:
        if identity in self._nodes:
            return self._prefix + identity
        return f"entity:{identity}" if identity in self._entities else f"chunk:{identity}"


def _method_node(record: Record, places: _Places) -> Iterator[Vertex | Link]:
    own = places.member(record["id"])
    if own not in places.yielded:
        places.yielded.add(own)
        values = _present(text=record["text"], method=record["method"], metadata=record["metadata"])
        yield Vertex(own, record["kind"], record["text"][:_LABEL], {**values, "level": record["level"]})
    members = [places.member(member) for member in record["members"]]
    for member in members:
        yield Link(own, member, "member")
    for source in record["sources"]:
        if f"chunk:{source}" not in members:
            yield Link(own, f"chunk:{source}", "source")


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


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
_EDGE = {"relation": "string", "text": "string", "weight": "double", "types": "string"}
_UNREADABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(index: Index, path: Path, methods: Sequence[str]) -> None:
    """Write documents, chunks, entities, relations, units and nodes as a directed graph.

    Characters that XML does not allow become U+FFFD.
    """
    with whole(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        file.write('<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
        for domain, attributes in (("node", _NODE), ("edge", _EDGE)):
            for name, kind in attributes.items():
                file.write(
                    f'<key id="{domain}.{name}" for="{domain}" attr.name="{name}" attr.type="{kind}"/>\n'
                )
        file.write('<graph id="stratagraph" edgedefault="directed">\n')
        for each in elements(index, methods):
            if isinstance(each, Vertex):
                values = {"kind": each.kind, "label": each.label}
                values |= {name: each.values[name] for name in _NODE if name in each.values}
                if "metadata" in values:
                    values["metadata"] = json.dumps(values["metadata"], ensure_ascii=False)
                file.write(f"<node id={_attribute(each.id)}>{_fields('node', values)}</node>\n")
            else:
                ends = f"source={_attribute(each.source)} target={_attribute(each.target)}"
                fields = _fields("edge", {"relation": each.kind, **each.values})
                file.write(f"<edge {ends}>{fields}</edge>\n")
        file.write("</graph>\n</graphml>\n")


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


_CSV_NODE = ("name", "text", "type", "method", "level", "metadata")
_CSV_HEADER = ("id:ID", ":LABEL", "name", "text", "type", "method", "level:int", "metadata")
_CSV_EDGE_HEADER = (":START_ID", ":END_ID", ":TYPE", "text", "weight:double")
_NOT_WORD = re.compile(r"[\W_]+")


def write_neo4j(index: Index, path: Path, methods: Sequence[str]) -> None:
    """Write `nodes.csv` and `relationships.csv` to a folder, as `neo4j-admin database import` reads them.

    A node's label is its kind (`Document`, `Chunk`, `Entity`, `Unit`, `Community`, `Summary` ...); a
    relationship's type is `PART_OF`, `MENTIONS`, `RELATION`, `MEMBER` or `SOURCE`. Metadata is a JSON column.
    Texts may have several lines, so the import needs `--multiline-fields=true`.
    """
    path.mkdir(parents=True, exist_ok=True)
    with (
        whole(path / "nodes.csv") as nodes_aside,
        whole(path / "relationships.csv") as edges_aside,
        nodes_aside.open("w", encoding="utf-8", newline="") as nodes_file,
        edges_aside.open("w", encoding="utf-8", newline="") as edges_file,
    ):
        nodes, edges = csv.writer(nodes_file), csv.writer(edges_file)
        nodes.writerow(_CSV_HEADER)
        edges.writerow(_CSV_EDGE_HEADER)
        for each in elements(index, methods):
            if isinstance(each, Vertex):
                values = {"name": each.label, **each.values}
                nodes.writerow(
                    [
                        each.id,
                        "".join(word.capitalize() for word in _NOT_WORD.split(each.kind)),
                        *(_csv_cell(values.get(name)) for name in _CSV_NODE),
                    ]
                )
            else:
                own = each.values.get("text"), each.values.get("weight")
                edges.writerow(
                    [each.source, each.target, _NOT_WORD.sub("_", each.kind).upper(), *map(_csv_cell, own)]
                )


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def to_networkx(index: Index, methods: Sequence[str]) -> networkx.MultiDiGraph:
    """The graph as a `MultiDiGraph`; see `Index.to_networkx`."""
    require("networkx", "networkx")
    import networkx

    graph = networkx.MultiDiGraph()
    for each in elements(index, methods):
        if isinstance(each, Vertex):
            graph.add_node(each.id, kind=each.kind, label=each.label, **each.values)
        else:
            graph.add_edge(each.source, each.target, kind=each.kind, **each.values)
    return graph
