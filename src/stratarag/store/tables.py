"""The tables of a generation: documents, chunks and nodes, and every query that reads them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from stratarag.records import Chunk, Metadata
from stratarag.store.database import Database, batches, marks

TABLES = """
CREATE TABLE {schema}.documents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE TABLE {schema}.chunks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL, document INTEGER NOT NULL, ordinal INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL,
    ref TEXT NOT NULL
);
CREATE TABLE {schema}.nodes (
    method TEXT NOT NULL, row INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL,
    level INTEGER NOT NULL, text TEXT NOT NULL, extra TEXT NOT NULL
);
"""
INDEXES = """
CREATE UNIQUE INDEX chunks_by_id ON chunks (id);
CREATE INDEX chunks_by_ref ON chunks (ref) WHERE ref != '';
CREATE INDEX chunks_with_metadata ON chunks (row) WHERE metadata != '{}';
CREATE UNIQUE INDEX nodes_by_row ON nodes (method, row);
CREATE UNIQUE INDEX nodes_by_id ON nodes (method, id);
"""
_CHUNK = "row, id, document, ordinal, first, last, text, metadata, ref"


def to_json(metadata: Metadata, owner: str) -> str:
    """Metadata as stored.

    Raises
    ------
    ValueError
        If a key is not a string or a value has no JSON form; names `owner` and the key.
    """
    try:
        if all(isinstance(key, str) for key in metadata):
            return json.dumps(dict(metadata), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        pass  # said below, with the key
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise ValueError(f"{owner}: the metadata key {key!r} is not a string")
        _check_value(key, value, owner)
    raise ValueError(f"{owner}: the metadata cannot be stored as JSON")


def _check_value(key: str, value: object, owner: str) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{owner}: the metadata value of {key!r} cannot be stored as JSON ({error}); "
            "convert it to a string or a number first"
        ) from error


def from_json(text: str) -> dict[str, Any]:
    """Metadata as it was given."""
    return dict(json.loads(text)) if text != "{}" else {}


class Tables:
    """Reads the tables of one generation. Rows and numbers count from 0.

    Results are in the order of the arguments; a row that does not exist is an `IndexError`.
    """

    def __init__(self, database: Database, size: int) -> None:
        self.database = database
        self.size = size

    def ids(self, rows: Sequence[int]) -> list[str]:
        """Chunk ids by row."""
        found = self._by_row("row, id", "chunks", rows, self.size)
        return [found[row][1] for row in _plain(rows)]

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Chunk texts by row."""
        found = self._by_row("row, text", "chunks", rows, self.size)
        return [found[row][1] for row in _plain(rows)]

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Whole chunks by row; the document's metadata merged under their own."""
        found = self._by_row(_CHUNK, "chunks", rows, self.size)
        numbers = sorted({record[2] for record in found.values()})
        documents = {
            number: (identity, from_json(metadata))
            for number, identity, metadata in self._select(
                "number, id, metadata", "documents", "number", numbers
            )
        }
        return [_chunk(found[row], *documents[found[row][2]]) for row in _plain(rows)]

    def row_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Rows by chunk id; ids that are not there are left out."""
        return _ordered(ids, self._select("id, row", "chunks", "id", ids))

    def refs(self, refs: Sequence[str]) -> dict[str, list[int]]:
        """Rows by the caller's own ids of passages, ascending; those not there are left out."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        wanted = sorted({ref for ref in refs if ref})
        for ref, row in self._select("ref, row", "chunks", "ref != '' AND ref", wanted):
            found[ref].append(row)
        return {ref: sorted(rows) for ref, rows in found.items()}

    def documents(self) -> dict[str, str]:
        """Digests by document id, in the order of the ids."""
        return dict(self.database.rows("SELECT id, digest FROM documents ORDER BY number"))

    def document_ids(self, numbers: Sequence[int]) -> list[str]:
        """Document ids by their place in the sorted ids."""
        found = dict(self._select("number, id", "documents", "number", _plain(numbers)))
        return [found[number] for number in _plain(numbers)]

    def document_metadata(self, ids: Sequence[str] | None = None) -> dict[str, Metadata]:
        """Metadata by document id; of all documents if `ids` is None. Unknown ids are left out."""
        if ids is None:
            found = dict(self.database.rows("SELECT id, metadata FROM documents ORDER BY number"))
        else:
            found = _ordered(ids, self._select("id, metadata", "documents", "id", ids))
        return {identity: from_json(metadata) for identity, metadata in found.items()}

    def own_metadata(self) -> dict[int, Metadata]:
        """What chunks have beyond their document's metadata, for those rows that have any."""
        sql = "SELECT row, metadata FROM chunks WHERE metadata != '{}' ORDER BY row"
        return {row: from_json(metadata) for row, metadata in self.database.rows(sql)}

    def nodes(self, part: str, rows: Sequence[int], size: int) -> list[tuple[Any, ...]]:
        """Records (row, id, kind, level, text, extra) of a part's nodes by row."""
        columns = "row, id, kind, level, text, extra"
        found = self._by_row(columns, "nodes", rows, size, part)
        return [found[row] for row in _plain(rows)]

    def node_rows(self, part: str, ids: Sequence[str]) -> dict[str, int]:
        """Rows of a part's nodes by id; ids that are not there are left out."""
        return _ordered(ids, self._select("id, row", "nodes", "method = ? AND id", ids, part))

    def _by_row(
        self, columns: str, table: str, rows: Sequence[int], size: int, *fixed: str
    ) -> dict[int, tuple[Any, ...]]:
        wanted = _plain(rows)
        bad = next((row for row in wanted if not 0 <= row < size), None)
        if bad is not None:
            raise IndexError(f"row {bad} of {table} does not exist; there are {size}")
        scope = "method = ? AND " if fixed else ""
        if len(wanted) > 1 and wanted == list(range(wanted[0], wanted[0] + len(wanted))):
            sql = f"SELECT {columns} FROM {table} WHERE {scope}row BETWEEN ? AND ?"
            records = iter(self.database.rows(sql, (*fixed, wanted[0], wanted[-1])))
        else:
            records = self._select(columns, table, scope + "row", list(dict.fromkeys(wanted)), *fixed)
        return {record[0]: record for record in records}

    def _select(
        self, columns: str, table: str, key: str, wanted: Sequence[Any], *fixed: str
    ) -> Iterator[tuple[Any, ...]]:
        for batch in batches(wanted):
            sql = f"SELECT {columns} FROM {table} WHERE {key} IN ({marks(len(batch))})"
            yield from self.database.rows(sql, (*fixed, *batch))


def _ordered(ids: Sequence[str], records: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    """Values by id, in the order that the ids were asked for."""
    found = dict(records)
    return {identity: found[identity] for identity in ids if identity in found}


def _plain(rows: Sequence[int]) -> list[int]:
    """Python integers: SQLite takes no other."""
    plain: list[int] = np.asarray(rows, dtype=np.int64).tolist()
    return plain


def _chunk(record: tuple[Any, ...], document_id: str, metadata: dict[str, Any]) -> Chunk:
    _, identity, _, ordinal, first, last, text, own, ref = record
    return Chunk(
        text=text,
        document_id=document_id,
        ordinal=ordinal,
        start=first,
        end=last,
        metadata={**metadata, **from_json(own)},
        id=identity,
        ref=ref,
    )
