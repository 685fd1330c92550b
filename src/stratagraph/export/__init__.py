"""An index as files that other tools read.

============ ========================================================== ===============
format       what is written                                            file
============ ========================================================== ===============
`jsonl`      everything, with the extraction of each chunk              `jsonlines.py`
`graphml`    one graph of documents, chunks, entities and nodes         `graphml.py`
`parquet`    a folder with a table for each kind of thing               `parquet.py`
`neo4j`      a folder with CSV for `neo4j-admin database import`         `neo4j.py`
`html`       the hierarchy of a method as a page                        `stratagraph.viz`
============ ========================================================== ===============

All read an index through `tables.py`, which says what a record of each kind consists of; GraphML, Neo4j and
`Index.to_networkx` share one graph, `graph.py`. Nothing is held in
memory but a batch. A file appears under its name once it is whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from stratagraph import viz
from stratagraph.export.graphml import write_graphml
from stratagraph.export.jsonlines import write_jsonl
from stratagraph.export.neo4j import write_neo4j
from stratagraph.export.networkx import to_networkx
from stratagraph.export.parquet import write_parquet
from stratagraph.export.tables import Source

__all__ = ["FORMATS", "Source", "export", "to_networkx"]

Methods = tuple[str, ...]
_WRITERS: dict[str, Callable[[Source, Path, Methods], None]] = {
    "graphml": write_graphml,
    "jsonl": write_jsonl,
    "neo4j": write_neo4j,
    "parquet": write_parquet,
}
FORMATS = (*sorted(_WRITERS), "html")


def export(index: Source, path: str | os.PathLike[str], format: str, *, method: str | None = None) -> Path:
    """Write an index in one of `FORMATS`; see `Index.export`."""
    target = Path(path)
    if format not in FORMATS:
        raise ValueError(f"there is no format {format!r}; choose from {', '.join(FORMATS)}")
    if method is not None:
        index.nodes(method)  # raises for one that is not there, before anything is written
    if format == "html":
        return viz.hierarchy(index, method).save(target)
    _WRITERS[format](index, target, index.methods if method is None else (method,))
    return target
