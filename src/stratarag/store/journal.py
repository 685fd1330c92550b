"""What an operation has done before it is published: so that a killed one is resumed, and finished.

It remembers the operation, the vectors that were computed, and which chunks' calls must be purged once
the new generation is in place. The file exists only while there is something to remember.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stratarag.protocols import Vectors
from stratarag.store.database import Database, batches, connect_shared, marks, named_errors, remove_database
from stratarag.store.lock import now

_SCHEMA = """
CREATE TABLE IF NOT EXISTS operation (
    one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT, started TEXT, generation INTEGER
);
CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS purges (chunk TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that was begun, when, and the generation that it is to publish."""

    name: str
    started: str
    generation: int

    def __str__(self) -> str:
        return f"{self.name}, begun {self.started}"


class Journal:
    """The journal of an index folder. Written by the holder of the lock, read by anyone.

    What was put survives a killed process. Keys of vectors are the caller's: they must name the text
    and the embedder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database: Database | None = None
        self._opening = threading.Lock()

    def exists(self) -> bool:
        """Whether anything is unfinished."""
        return self.path.exists()

    def begin(self, operation: Operation) -> None:
        """Record the operation that is under way."""
        sql = "INSERT OR REPLACE INTO operation VALUES (1, ?, ?, ?)"
        self._write([(sql, operation.name, operation.started, operation.generation)])

    def operation(self) -> Operation | None:
        """The unfinished operation, if there is one."""
        found = self._read("SELECT name, started, generation FROM operation")
        return Operation(*found[0]) if found else None

    def get(self, keys: Sequence[str]) -> dict[str, Vectors]:
        """The vectors that are there, each of shape (dimension,)."""
        found: dict[str, Vectors] = {}
        for batch in batches(keys):
            sql = f"SELECT key, vector FROM vectors WHERE key IN ({marks(len(batch))})"
            for key, vector in self._read(sql, batch):
                found[key] = np.frombuffer(vector, dtype=np.dtype("<f4")).astype(np.float32)
        return found

    def put(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Store one row of `vectors` per key; kept when it returns.

        Raises
        ------
        ValueError
            If there are not as many rows as keys.
        OSError
            On a full disk.
        """
        if len(keys) != len(vectors):
            raise ValueError(f"{len(keys)} keys, but {len(vectors)} vectors")
        rows = np.ascontiguousarray(vectors, dtype=np.dtype("<f4"))
        with self._open().transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?)",
                ((key, row.tobytes()) for key, row in zip(keys, rows, strict=True)),
            )

    def holds_vectors(self) -> bool:
        """Whether vectors are kept for the next try."""
        return bool(self._read("SELECT 1 FROM vectors LIMIT 1"))

    def plan_purge(self, generation: int, chunks: Iterable[str]) -> None:
        """Record that calls of these chunks must go as soon as this generation is the current one."""
        with self._open().transaction() as connection:
            connection.execute("DELETE FROM purges WHERE generation >= ?", (generation,))
            connection.executemany(
                "INSERT OR REPLACE INTO purges VALUES (?, ?)", ((chunk, generation) for chunk in chunks)
            )

    def due(self, generation: int) -> list[str]:
        """The chunks whose calls must go now that this generation is the current one."""
        return [row[0] for row in self._read("SELECT chunk FROM purges WHERE generation <= ?", (generation,))]

    def settle(self, *, purged: bool, finished: bool) -> None:
        """Forget what is done, and remove the file when nothing is left in it."""
        statements: list[tuple[Any, ...]] = [("DELETE FROM purges",)] if purged else []
        if finished:
            statements += [("DELETE FROM operation",), ("DELETE FROM vectors",)]
        self._write(statements)
        if self.operation() is None and not self._read("SELECT 1 FROM purges LIMIT 1"):
            self.remove()

    def remove(self) -> None:
        """Remove the file."""
        self.close()
        remove_database(self.path)

    def close(self) -> None:
        """Close the file; using it again opens it again."""
        with self._opening:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _read(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._database is None and not self.path.exists():
            return []
        return self._open().rows(sql, parameters)

    def _write(self, statements: Sequence[tuple[Any, ...]]) -> None:
        with self._open().transaction() as connection:
            for sql, *parameters in statements:
                connection.execute(sql, parameters)

    def _open(self) -> Database:
        with self._opening:
            if self._database is not None and not self.path.exists():
                self._database.close()  # another process finished the operation and removed the file
                self._database = None
            if self._database is None:
                self._database = Database(self.path, partial(_connect, self.path), reopen=True)
            return self._database


def begun(name: str, generation: int) -> Operation:
    """An operation that begins now."""
    return Operation(name, now(), generation)


def _connect(path: Path) -> sqlite3.Connection:
    if not path.exists():
        remove_database(path)
    connection = connect_shared(path)
    with named_errors(path):
        try:
            connection.executescript(_SCHEMA)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
            raise
    return connection
