"""The state of an unfinished operation, so that a killed one is resumed.

It holds the operation, computed vectors, the usage of models, and the chunks whose calls must be purged once
the new generation is current. Of a build in batch files it also holds the inputs, and the results that are
not in the cache of calls. The file exists only while there is something in it.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.store.database import (
    Database,
    batches,
    connect_shared,
    marks,
    remove_database,
    require_plain,
    require_schema,
    require_sound,
    schema_of,
)
from stratagraph.store.files import Directory
from stratagraph.store.layout import JOURNAL
from stratagraph.system.locks import Lock
from stratagraph.types.protocols import Vectors
from stratagraph.types.records import Usage

_SCHEMA = """
CREATE TABLE IF NOT EXISTS operation (
    one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT, started TEXT, generation INTEGER
);
CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS inputs (position INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (id TEXT PRIMARY KEY, line TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spent (
    model TEXT PRIMARY KEY, calls INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS touched (
    identity TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (identity, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS purges (chunk TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID;
"""
_EXPECTED = schema_of(_SCHEMA)
_CHECKSUM = 4  # bytes of CRC-32 behind each vector


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation, when it was begun, and the generation it will publish."""

    name: str
    started: str
    generation: int

    def __str__(self) -> str:
        return f"{self.name}, begun {self.started}"


class Journal:
    """The journal of an index folder. Written by the holder of the lock, read by anyone.

    Everything put here survives a killed process. The caller's keys of vectors must name the text and the
    embedder.
    """

    def __init__(self, folder: Directory, name: str = JOURNAL) -> None:
        self.path = folder.path / name
        self._folder = folder
        self._name = name
        self._database: Database | None = None
        self._opening = Lock()

    def exists(self) -> bool:
        """Whether anything is unfinished."""
        return self._folder.status(self._name) is not None

    def begin(self, operation: Operation) -> None:
        """Record the operation that is under way."""
        sql = "INSERT OR REPLACE INTO operation VALUES (1, ?, ?, ?)"
        self._write([(sql, operation.name, operation.started, operation.generation)])

    def operation(self) -> Operation | None:
        """The unfinished operation, if there is one."""
        entries = self._read("SELECT name, started, generation FROM operation")
        if entries and type(entries[0][2]) is not int:
            raise Damaged(f"{self.path}: holds no number of a generation but {entries[0][2]!r}")
        return Operation(*entries[0]) if entries else None

    def get(self, keys: Sequence[str]) -> dict[str, Vectors]:
        """The vectors that are there, each of shape (dimension,)."""
        vectors: dict[str, Vectors] = {}
        for batch in batches(keys):
            sql = f"SELECT key, vector FROM vectors WHERE key IN ({marks(len(batch))})"
            for key, stored in self._read(sql, batch):
                if (vector := _vector(stored)) is not None:  # else it is damaged, and made again
                    vectors[key] = vector
        return vectors

    def put(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Store one row of `vectors` per key, safe when it returns."""
        if len(keys) != len(vectors):
            raise ValueError(f"{len(keys)} keys, but {len(vectors)} vectors")
        rows = np.ascontiguousarray(vectors, dtype=np.dtype("<f4"))
        with self._open().transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?)",
                (
                    (key, data + _checksum(data))
                    for key, row in zip(keys, rows, strict=True)
                    for data in [row.tobytes()]
                ),
            )

    def spend(self, model: str, usage: Usage) -> None:
        """Add usage of a model to the current operation; ignored after its end."""
        if not self.exists():  # the answer came after the end of the operation
            return
        sql = (
            "INSERT INTO spent VALUES (?, ?, ?, ?) ON CONFLICT (model) DO UPDATE SET "
            "calls = calls + excluded.calls, input_tokens = input_tokens + excluded.input_tokens, "
            "output_tokens = output_tokens + excluded.output_tokens"
        )
        self._write([(sql, model, usage.calls, usage.input_tokens, usage.output_tokens)])

    def spent(self) -> dict[str, Usage]:
        """Usage of each model in operations that were not published."""
        rows = self._read("SELECT model, calls, input_tokens, output_tokens FROM spent ORDER BY model")
        if any(type(count) is not int or count < 0 for _, *counts in rows for count in counts):
            raise Damaged(f"{self.path}: what it holds of spent tokens is no number")
        return {model: Usage(calls, 0, tokens_in, out) for model, calls, tokens_in, out in rows}

    def holds_work(self) -> bool:
        """Whether computed vectors or paid answers are kept for the next try."""
        rows = (self._read(f"SELECT 1 FROM {table} LIMIT 1") for table in ("vectors", "touched"))
        return any(rows) or bool(self.spent())

    def keep_inputs(self, settings: str, documents: Iterable[str] | None = None) -> None:
        """Keep the inputs of an operation; without `documents`, those that are there stay."""
        with self._open().transaction() as connection:
            if documents is not None:
                connection.execute("DELETE FROM inputs")
                connection.executemany(
                    "INSERT INTO inputs VALUES (?, ?)", ((at, text) for at, text in enumerate(documents, 1))
                )
            connection.execute("INSERT OR REPLACE INTO inputs VALUES (0, ?)", (settings,))

    def inputs(self) -> list[str]:
        """The inputs of the unfinished operation, settings first; empty if there are none."""
        return [str(row[0]) for row in self._read("SELECT value FROM inputs ORDER BY position")]

    def keep_results(self, lines: Mapping[str, str]) -> None:
        """Keep these results of a batch, by custom id, in place of those that are there."""
        statements = [("INSERT INTO results VALUES (?, ?)", *each) for each in lines.items()]
        self._write([("DELETE FROM results",), *statements])

    def results(self) -> list[str]:
        """The kept results of a batch, as the lines that they were read from."""
        return [str(row[0]) for row in self._read("SELECT line FROM results ORDER BY id")]

    def plan_purge(self, generation: int, chunks: Iterable[str]) -> None:
        """Record that calls of these chunks must go once this generation is current.

        Synced before it returns: a power cut after publishing must not lose it.
        """
        database = self._open()
        with database.use() as connection:
            connection.execute("PRAGMA synchronous=FULL")
            try:
                with database.transaction():
                    connection.execute("DELETE FROM purges WHERE generation >= ?", (generation,))
                    connection.executemany(
                        "INSERT OR REPLACE INTO purges VALUES (?, ?)",
                        ((chunk, generation) for chunk in chunks),
                    )
            finally:
                connection.execute("PRAGMA synchronous=NORMAL")
        self._folder.sync()

    def due(self, generation: int) -> list[str]:
        """Chunks whose calls must go now that this generation is current."""
        return [row[0] for row in self._read("SELECT chunk FROM purges WHERE generation <= ?", (generation,))]

    def touch(self, rows: Mapping[str, NDArray[np.uint64]]) -> None:
        """Record rows of a vector store that are about to be added or removed, by identity of the index."""
        with self._open().transaction() as connection:
            for identity, keys in rows.items():
                connection.executemany(
                    "INSERT OR IGNORE INTO touched VALUES (?, ?)",
                    ((identity, key) for key in keys.view(np.int64).tolist()),
                )

    def touched(self) -> dict[str, NDArray[np.uint64]]:
        """Recorded rows of a vector store, by identity."""
        keys_of: dict[str, list[int]] = {}
        for identity, key in self._read("SELECT identity, key FROM touched"):
            if not isinstance(identity, str) or type(key) is not int:
                raise Damaged(f"{self.path}: {identity!r}, {key!r} is no row of a vector store")
            keys_of.setdefault(identity, []).append(key)
        return {identity: np.array(keys, np.int64).view(np.uint64) for identity, keys in keys_of.items()}

    def forget(self, *, purged: bool, finished: bool, rows: bool) -> None:
        """Forget what is done, and remove the file if nothing is left."""
        done = {"purges": purged, "touched": rows}
        statements: list[tuple[Any, ...]] = [(f"DELETE FROM {table}",) for table in done if done[table]]
        if finished:
            finished_with = ("operation", "vectors", "spent", "inputs", "results")
            statements += [(f"DELETE FROM {table}",) for table in finished_with]
        self._write(statements)
        if self.operation() is None and not any(self._read(f"SELECT 1 FROM {each} LIMIT 1") for each in done):
            self.remove()

    def remove(self) -> None:
        """Remove the file."""
        self.close()
        remove_database(self._folder, self._name)

    def close(self) -> None:
        """Close the file; using it again opens it again."""
        with self._opening:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _read(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._database is None and not self.exists():
            return []
        return self._open().rows(sql, parameters)

    def _write(self, statements: Sequence[tuple[Any, ...]]) -> None:
        with self._open().transaction() as connection:
            for sql, *parameters in statements:
                connection.execute(sql, parameters)

    def _open(self) -> Database:
        with self._opening:
            if self._database is not None and not self.exists():
                self._database.close()  # another process finished the operation and removed the file
                self._database = None
            if self._database is None:
                self._database = Database(self.path, partial(_connect, self._folder, self._name))
            return self._database


def _checksum(vector: bytes) -> bytes:
    return zlib.crc32(vector).to_bytes(_CHECKSUM, "little")


def _vector(stored: Any) -> Vectors | None:
    if (
        not isinstance(stored, bytes)
        or len(stored) % 4
        or _checksum(stored[:-_CHECKSUM]) != stored[-_CHECKSUM:]
    ):
        return None
    vector = np.frombuffer(stored[:-_CHECKSUM], dtype=np.dtype("<f4")).astype(np.float32)
    return vector if np.isfinite(vector).all() else None


def _connect(folder: Directory, name: str) -> sqlite3.Connection:
    exists = folder.status(name) is not None
    if not exists:
        remove_database(folder, name)
    require_plain(folder, name)

    def prepare(connection: sqlite3.Connection, path: Path) -> None:
        if exists:
            require_schema(connection, path, _EXPECTED, begun=True)
            require_sound(connection, path)
        connection.executescript(_SCHEMA)

    return connect_shared(folder.path / name, prepare=prepare)
