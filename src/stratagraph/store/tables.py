"""The tables that documents and chunks were in until format 4, and every query that reads them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stratagraph.errors import Damaged
from stratagraph.records import Chunk, Metadata
from stratagraph.store.database import Database, batches, marks, require_sound, schema_of

_TABLES = """
CREATE TABLE main.documents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE TABLE main.chunks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL, document INTEGER NOT NULL, ordinal INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL,
    ref TEXT NOT NULL
);
"""
_INDEXES = """
CREATE UNIQUE INDEX chunks_by_id ON chunks (id);
CREATE INDEX chunks_by_ref ON chunks (ref) WHERE ref != '';
CREATE INDEX chunks_with_metadata ON chunks (row) WHERE metadata != '{}';
"""
_NODES = """
CREATE TABLE main.nodes (
    method TEXT NOT NULL, row INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL,
    level INTEGER NOT NULL, text TEXT NOT NULL, extra TEXT NOT NULL
);
CREATE UNIQUE INDEX nodes_by_row ON nodes (method, row);
CREATE UNIQUE INDEX nodes_by_id ON nodes (method, id);
"""
_NUMBERS = ("row", "number", "document", "ordinal", "first", "last", "level")  # columns; the others are text
ADVICE = ". Where no row was asked for by its number, an array is damaged: verify() says which"
_CHUNK = "row, id, document, ordinal, first, last, text, metadata, ref"


CORPUS_SCHEMA = schema_of(_TABLES + _INDEXES)
EARLIER_SCHEMA = schema_of(_TABLES + _INDEXES + _NODES)
"""Until format 2 the nodes were here too."""
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)


NodeFields = tuple[str, str, int, str, Metadata]
"""Of a node: id, kind, level, text and extra."""


class NoSuchRow(Damaged, IndexError):
    """A row was asked for that does not exist, by a caller or by a damaged array that names it."""


def to_json(metadata: Metadata, owner: str) -> str:
    """Metadata as stored; a character that is no valid Unicode (half of a pair) becomes U+FFFD.

    Raises
    ------
    ValueError
        If a key is not a string or a value has no JSON form; names `owner` and the key.
    """
    try:
        if all(isinstance(key, str) for key in metadata):
            text = json.dumps(dict(metadata), separators=(",", ":"), allow_nan=False)
            return json.dumps(_valid(json.loads(text)), separators=(",", ":")) if _halves(text) else text
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
    """Metadata as it was given.

    Raises
    ------
    ValueError
        If it is not the text of a JSON object.
    """
    if text == "{}":
        return {}
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested too deeply ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{text[:40]!r} is not an object")
    return dict(_valid(found)) if _halves(text) else found


def _halves(text: str) -> bool:
    """Whether JSON may hold halves of surrogate pairs, which no file and no database takes."""
    return _SURROGATE.search(text) is not None


def _valid(value: Any) -> Any:
    """JSON with valid Unicode alone."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_valid(each) for each in value]
    if isinstance(value, dict):
        return {_valid(key): _valid(each) for key, each in value.items()}
    return value


_TEXT = dict.fromkeys(("by", "description", "digest", "maker", "name", "reason", "title", "type"), str)
_LISTS = dict.fromkeys(("members", "names", "summaries", "types"), list)
_TYPES: dict[str, Any] = {**_TEXT, **_LISTS, "notes": dict, "rating": (int, float), "weight": (int, float)}
"""What the values of nodes are that are read again, by their names."""
_ITEMS = {"members": str, "names": str, "types": str, "summaries": dict}


class Extra(dict[str, Any]):
    """A node's own values. To ask for one that was never written, or is of another type, tells of damage."""

    def __init__(self, owner: str, values: Metadata) -> None:
        super().__init__(values)
        self._owner = owner

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise self._damage(f"has no {key!r}")
        value = super().__getitem__(key)
        items = value if key in _ITEMS and isinstance(value, list) else ()
        if not isinstance(value, _TYPES.get(key, object)) or not all(
            isinstance(each, _ITEMS[key]) for each in items
        ):
            raise self._damage(f"has {str(value)[:40]!r} as its {key!r}")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default if there is none."""
        if key not in self:
            return default
        return self[key]

    def _damage(self, what: str) -> Damaged:
        return Damaged(
            f"{self._owner} {what}, with which no node of its kind is written. Restore the folder from a "
            "copy, or build again"
        )


class Tables:
    """Reads the tables of one generation. Rows and numbers count from 0.

    Results are in the order of the arguments. A row that does not exist is a `NoSuchRow`; what is not as it
    was written is `Damaged`.
    """

    def __init__(self, database: Database, size: int, documents: int) -> None:
        self.database = database
        self.path = database.path
        self.size = size
        self._most = max(size, documents)

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
        columns = "number, id, metadata"
        documents = {
            number: (identity, self._metadata(metadata))
            for number, identity, metadata in self._select(columns, "documents", "number", numbers)
        }
        if missing := [number for number in numbers if number not in documents]:
            raise Damaged(f"{self.path}: document {missing[0]}, of which there are chunks, is missing")
        return [self._chunk(found[row], *documents[found[row][2]]) for row in _plain(rows)]

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

    def records(self, rows: Sequence[int]) -> list[tuple[Any, ...]]:
        """Of chunks by row: id, ordinal, start, end, text, JSON of their own metadata, ref."""
        found = self._by_row(_CHUNK, "chunks", rows, self.size)
        for record in found.values():
            self._metadata(record[-2])  # which goes on as it is
        return [(found[row][1], *found[row][3:]) for row in _plain(rows)]

    def document_records(self, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        """Of documents by their place in the sorted ids: id, digest, JSON of metadata."""
        columns = "number, id, digest, metadata"
        found = {each[0]: each[1:] for each in self._select(columns, "documents", "number", _plain(numbers))}
        for _, _, metadata in found.values():
            self._metadata(metadata)
        return [found[number] for number in _plain(numbers)]

    def documents(self) -> dict[str, str]:
        """Digests by document id, in the order of the ids."""
        return dict(self._all("id, digest", "documents ORDER BY number"))

    def digests(self) -> Mapping[str, str]:
        """The same."""
        return self.documents()

    def document_ids(self, numbers: Sequence[int]) -> list[str]:
        """Document ids by their place in the sorted ids."""
        wanted = _plain(numbers)
        found = dict(self._select("number, id", "documents", "number", list(dict.fromkeys(wanted))))
        try:
            return [found[number] for number in wanted]
        except KeyError as error:
            raise NoSuchRow(f"{self.path}: there is no document {error}{ADVICE}") from None

    def document_metadata(self, ids: Sequence[str] | None = None) -> dict[str, Metadata]:
        """Metadata by document id; of all documents if `ids` is None. Unknown ids are left out."""
        if ids is None:
            found = dict(self._all("id, metadata", "documents ORDER BY number"))
        else:
            found = _ordered(ids, self._select("id, metadata", "documents", "id", ids))
        return {identity: self._metadata(metadata) for identity, metadata in found.items()}

    def own_metadata(self) -> dict[int, Metadata]:
        """What chunks have beyond their document's metadata, for those rows that have any."""
        found = self._all("row, metadata", "chunks WHERE metadata != '{}' ORDER BY row")
        return {row: self._metadata(metadata) for row, metadata in found}

    def nodes(self, part: str, rows: Sequence[int], size: int) -> list[NodeFields]:
        """Fields of a part's nodes by row, in a folder of an earlier format."""
        columns = "row, id, kind, level, text, extra"
        found = self._by_row(columns, "nodes", rows, size, part)
        return [(*found[row][1:-1], self._extra(*found[row])) for row in _plain(rows)]

    def _extra(self, row: int, identity: str, *values: Any) -> Metadata:
        return Extra(f"{self.path}: row {row}, node {identity[:80]!r},", self._metadata(values[-1]))

    def node_rows(self, part: str, ids: Sequence[str]) -> dict[str, int]:
        """Rows of a part's nodes by id, likewise; ids that are not there are left out."""
        return _ordered(ids, self._select("id, row", "nodes", "method = ? AND id", ids, part))

    def document_number(self, identity: str) -> int | None:
        """The place of a document in the sorted ids; None if there is no such document."""
        found = dict(self._select("id, number", "documents", "id", [identity]))
        return found.get(identity)

    def require_sound(self) -> None:
        """Check the structure of the file, before all of it is read."""
        with self.database.use() as connection:
            require_sound(connection, self.path)

    def close(self) -> None:
        """Let go of the file."""
        self.database.close()

    def last(self, number: str, table: str, *part: str) -> int:
        """How many rows a table, or a part of the nodes, has if its numbers have no gap."""
        scope = "WHERE method = ?" if part else ""
        found = self.database.rows(f"SELECT MAX({number}) FROM {table} {scope}", part)[0][0]
        return found + 1 if type(found) is int else 0

    def _by_row(
        self, columns: str, table: str, rows: Sequence[int], size: int, *fixed: str
    ) -> dict[int, tuple[Any, ...]]:
        wanted = _plain(rows)
        bad = next((row for row in wanted if not 0 <= row < size), None)
        if bad is not None:
            raise NoSuchRow(f"{self.path}: row {bad} of {table} does not exist; there are {size}{ADVICE}")
        scope = "method = ? AND " if fixed else ""
        if len(wanted) > 1 and wanted == list(range(wanted[0], wanted[0] + len(wanted))):
            sql = f"SELECT {columns} FROM {table} WHERE {scope}row BETWEEN ? AND ?"
            rows_found = self.database.rows(sql, (*fixed, wanted[0], wanted[-1]), most=len(wanted))
            records = iter(self._checked(columns, rows_found))
        else:
            records = self._select(columns, table, scope + "row", list(dict.fromkeys(wanted)), *fixed)
        found = {record[0]: record for record in records}
        if missing := [row for row in wanted if row not in found]:
            raise Damaged(f"{self.path}: row {missing[0]} of {table} is missing")
        return found

    def _select(
        self, columns: str, table: str, key: str, wanted: Sequence[Any], *fixed: str
    ) -> Iterator[tuple[Any, ...]]:
        for batch in batches(wanted):
            sql = f"SELECT {columns} FROM {table} WHERE {key} IN ({marks(len(batch))})"
            yield from self._checked(columns, self.database.rows(sql, (*fixed, *batch)))

    def _all(self, columns: str, table: str) -> list[tuple[Any, ...]]:
        """All rows of documents or chunks, of which there are as many as were counted."""
        return self._checked(columns, self.database.rows(f"SELECT {columns} FROM {table}", most=self._most))

    def _checked(self, columns: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Rows whose values are of the types that were written; damage may make text of a number."""
        expected = tuple(int if name in _NUMBERS else str for name in columns.split(", "))
        for row in rows:
            if tuple(map(type, row)) != expected:
                raise Damaged(f"{self.path}: {columns} are of the wrong types in {str(row)[:60]}")
        return rows

    def _metadata(self, text: str) -> dict[str, Any]:
        try:
            return from_json(text)
        except (ValueError, TypeError) as error:
            raise Damaged(f"{self.path}: metadata that is not JSON ({error})") from error

    def _chunk(self, record: tuple[Any, ...], document_id: str, metadata: dict[str, Any]) -> Chunk:
        _, identity, _, ordinal, first, last, text, own, ref = record
        return Chunk(
            text=text,
            document_id=document_id,
            ordinal=ordinal,
            start=first,
            end=last,
            metadata={**metadata, **self._metadata(own)},
            id=identity,
            ref=ref,
        )


def _ordered(ids: Sequence[str], records: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    """Values by id, in the order that the ids were asked for."""
    found = dict(records)
    return {identity: found[identity] for identity in ids if identity in found}


def _plain(rows: Sequence[int]) -> list[int]:
    """Python integers: SQLite takes no other."""
    plain: list[int] = np.asarray(rows, dtype=np.int64).tolist()
    return plain
