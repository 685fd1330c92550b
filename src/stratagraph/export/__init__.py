"""An index as files for other tools.

============ ========================================================== ===================
format       contents                                                   module
============ ========================================================== ===================
`jsonl`      everything, with the extraction of each chunk              `tables.py`
`parquet`    a folder with a table for each kind of record              `tables.py`
`graphml`    one graph of documents, chunks, entities and nodes         `graph.py`
`neo4j`      a folder with CSV for `neo4j-admin database import`        `graph.py`
`markdown`   a folder of pages that link to each other              `wiki.py`
`html`       the hierarchy of a method as a page                        `stratagraph.viz`
============ ========================================================== ===================

The first four read an index through `tables.tables`, and hold only a batch in memory. A file gets its name
when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stratagraph import viz
from stratagraph.export.graph import to_networkx, write_graphml, write_neo4j
from stratagraph.export.tables import write_jsonl, write_parquet
from stratagraph.export.wiki import write_wiki
from stratagraph.types.question import Where

if TYPE_CHECKING:
    from stratagraph.index import Index

__all__ = ["FORMATS", "export", "to_networkx"]

Methods = tuple[str, ...]
_WRITERS: dict[str, Callable[[Any, Path, Methods], None]] = {
    "graphml": write_graphml,
    "jsonl": write_jsonl,
    "neo4j": write_neo4j,
    "parquet": write_parquet,
}
MARKDOWN = "markdown"
FORMATS = (*sorted(_WRITERS), MARKDOWN, "html")


def export(
    index: Index,
    path: str | os.PathLike[str],
    format: str,
    *,
    method: str | None = None,
    where: Where | None = None,
    overwrite: bool = False,
) -> Path:
    """Write an index in one of `FORMATS`; see `Index.export`."""
    target = Path(path)
    if format not in FORMATS:
        raise ValueError(f"there is no format {format!r}; choose from {', '.join(FORMATS)}")
    if format != MARKDOWN and (where is not None or overwrite):
        option = "overwrite" if where is None else "where"
        raise ValueError(f"{option} is for format='markdown', and the format is {format!r}")
    if method is not None:
        index.nodes(method)  # raises for one that is not there, before anything is written
    if format == "html":
        return viz.hierarchy(index, method).save(target)
    methods = index.methods if method is None else (method,)
    if format == MARKDOWN:
        write_wiki(index, target, methods, where, overwrite=overwrite)
    else:
        _WRITERS[format](index, target, methods)
    return target
