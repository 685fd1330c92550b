"""CSV files as `neo4j-admin database import` reads them: a folder with nodes and relationships."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stratagraph.export.graph import Vertex, elements
from stratagraph.export.tables import Source, whole

NODES, RELATIONSHIPS = "nodes.csv", "relationships.csv"
_NODE = ("name", "text", "type", "method", "level", "metadata")
_HEADER = ("id:ID", ":LABEL", "name", "text", "type", "method", "level:int", "metadata")
_EDGE_HEADER = (":START_ID", ":END_ID", ":TYPE", "text", "weight:double")
_LABEL = re.compile(r"[\W_]+")


def write_neo4j(index: Source, path: Path, methods: Sequence[str]) -> None:
    """Write `nodes.csv` and `relationships.csv` to a folder, which is made if it is not there.

    The label of a node is its kind (`Document`, `Chunk`, `Entity`, `Unit`, `Community`, `Summary` ...), the
    type of a relationship `PART_OF`, `MENTIONS`, `RELATION`, `MEMBER` or `SOURCE`. Metadata is JSON in a
    column. Texts may have several lines, so the import needs `--multiline-fields=true`.
    """
    path.mkdir(parents=True, exist_ok=True)
    with (
        whole(path / NODES) as nodes_aside,
        whole(path / RELATIONSHIPS) as edges_aside,
        nodes_aside.open("w", encoding="utf-8", newline="") as nodes_file,
        edges_aside.open("w", encoding="utf-8", newline="") as edges_file,
    ):
        nodes, edges = csv.writer(nodes_file), csv.writer(edges_file)
        nodes.writerow(_HEADER)
        edges.writerow(_EDGE_HEADER)
        for each in elements(index, methods):
            if isinstance(each, Vertex):
                values = {"name": each.label, **each.values}
                nodes.writerow([each.id, _label(each.kind), *(_cell(values.get(name)) for name in _NODE)])
            else:
                own = each.values.get("text"), each.values.get("weight")
                edges.writerow([each.source, each.target, _type(each.kind), *map(_cell, own)])


def _label(kind: str) -> str:
    return "".join(word.capitalize() for word in _LABEL.split(kind))


def _type(kind: str) -> str:
    return _LABEL.sub("_", kind).upper()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
