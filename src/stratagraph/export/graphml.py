"""GraphML: the graph of `export.graph`, as Gephi, Cytoscape, yEd, igraph and networkx read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from stratagraph.export.graph import Vertex, elements
from stratagraph.export.tables import Source, whole

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


def write_graphml(index: Source, path: Path, methods: Sequence[str]) -> None:
    """Write documents, chunks, entities, relations, units and nodes as one directed graph.

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
        file.write('<graph id="stratagraph" edgedefault="directed">\n')
        for line in _lines(index, methods):
            file.write(line)
        file.write("</graph>\n</graphml>\n")


def _lines(index: Source, methods: Sequence[str]) -> Iterator[str]:
    for each in elements(index, methods):
        if isinstance(each, Vertex):
            yield _node(each.id, {"kind": each.kind, "label": each.label, **_told(each.values)})
        else:
            yield _edge(each.source, each.target, each.kind, **each.values)


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values in the order of the file's attributes, metadata as JSON."""
    found = {name: values[name] for name in _NODE if name in values}
    if "metadata" in found:
        found["metadata"] = json.dumps(found["metadata"], ensure_ascii=False)
    return found


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
