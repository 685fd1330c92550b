"""Parquet: a folder with a table for each kind of record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from stratagraph.errors import MissingExtra
from stratagraph.export.tables import Record, Source, tables, whole

_BATCH = 4096
_TEXT, _LIST, _WHOLE, _REAL, _JSON = "text", "list", "whole", "real", "json"
_ORIGIN = {"sources": _LIST, "documents": _LIST}
COLUMNS = {
    "document": {"id": _TEXT, "metadata": _JSON},
    "chunk": {
        "id": _TEXT,
        "document": _TEXT,
        "ordinal": _WHOLE,
        "start": _WHOLE,
        "end": _WHOLE,
        "ref": _TEXT,
        "text": _TEXT,
        "metadata": _JSON,
        "extraction": _JSON,
    },
    "entity": {"id": _TEXT, "name": _TEXT, "type": _TEXT, "description": _TEXT, **_ORIGIN},
    "relation": {"id": _TEXT, "source": _TEXT, "target": _TEXT, "text": _TEXT, "weight": _REAL, **_ORIGIN},
    "unit": {"id": _TEXT, "text": _TEXT, "entities": _LIST, **_ORIGIN},
    "node": {
        "method": _TEXT,
        "id": _TEXT,
        "kind": _TEXT,
        "level": _WHOLE,
        "text": _TEXT,
        "members": _LIST,
        **_ORIGIN,
        "metadata": _JSON,
    },
}
FILES = {
    "document": "documents",
    "chunk": "chunks",
    "entity": "entities",
    "relation": "relations",
    "unit": "units",
    "node": "nodes",
}


def write_parquet(index: Source, path: Path, methods: Sequence[str]) -> None:
    """Write `documents.parquet`, `chunks.parquet` and so on to a folder, which is made if it is not there.

    Lists of ids are lists; metadata and the extraction, which have no fixed fields, are JSON in a column.

    Raises
    ------
    MissingExtra
        If pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet") from error
    types = {
        _TEXT: pyarrow.large_string(),
        _JSON: pyarrow.large_string(),
        _LIST: pyarrow.list_(pyarrow.large_string()),
        _WHOLE: pyarrow.int64(),
        _REAL: pyarrow.float64(),
    }
    path.mkdir(parents=True, exist_ok=True)
    for name, records in tables(index, methods):
        columns = COLUMNS[name]
        schema = pyarrow.schema([(column, types[kind]) for column, kind in columns.items()])
        with whole(path / f"{FILES[name]}.parquet") as aside, parquet.ParquetWriter(aside, schema) as writer:
            for rows in _batches(records, columns):
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))


def _batches(records: Iterator[Record], columns: dict[str, str]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(records, _BATCH)):
        yield [{name: _cell(record[name], kind) for name, kind in columns.items()} for record in batch]


def _cell(value: Any, kind: str) -> Any:
    return json.dumps(value, ensure_ascii=False) if kind == _JSON else value
