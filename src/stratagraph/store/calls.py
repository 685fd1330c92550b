"""The cache of model calls: answers by the hash of the request, with the chunks in the request."""

from __future__ import annotations

import errno
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from stratagraph.errors import FormatMismatch, StoreError
from stratagraph.store.database import (
    Database,
    batches,
    connect_frozen,
    connect_shared,
    marks,
    named_errors,
    remove_database,
    require_plain,
    require_schema,
    require_sound,
    schema_of,
)
from stratagraph.store.files import Directory
from stratagraph.store.layout import CALLS
from stratagraph.store.lock import now
from stratagraph.system.locks import Lock
from stratagraph.types.records import CachedCall, content_key

APPLICATION = 0x53524743  # "SRGC" in the file's header: a cache of calls, and nothing else
FORMAT = 1
"""The format of caches of calls. No other is read."""
PURGE_PATIENCE = 5.0  # seconds to wait for readers in other processes before a purge is put off

_SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, answer TEXT NOT NULL,
    task TEXT NOT NULL, model TEXT NOT NULL, created TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS call_sources (
    number INTEGER NOT NULL, chunk TEXT NOT NULL, PRIMARY KEY (number, chunk)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS calls_by_chunk ON call_sources (chunk);
CREATE TABLE IF NOT EXISTS checksums (number INTEGER PRIMARY KEY, checksum BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS unswept (number INTEGER PRIMARY KEY);
"""
_EXPECTED = schema_of(_SCHEMA)
_GET = "SELECT answer, checksum FROM calls LEFT JOIN checksums USING (number) WHERE key = ?"
_NEXT = """
SELECT number, key, task, model, answer, checksum FROM calls JOIN checksums USING (number)
WHERE number > ? ORDER BY number LIMIT 256
"""
_SOURCES = "SELECT chunk FROM call_sources WHERE number = ? ORDER BY chunk"
_PUT = """
INSERT INTO calls (key, answer, task, model, created) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET answer = excluded.answer, created = excluded.created
RETURNING number
"""


class SqliteCalls:
    """Model answers in one SQLite file, shared by threads and processes.

    The first `put` creates the file. An answer survives a killed process as soon as `put` returns. If the
    file cannot be written (a read-only folder), stored answers are used, new ones are not kept, and a warning
    says so once. An answer whose checksum is wrong counts as missing, and a warning says so once.

    With `folder`, this is the own cache of an index folder, and its file must be a plain one with one name. A
    file that is no cache of calls is a `StoreError` on first use.
    """

    def __init__(self, path: Path | str, *, folder: Directory | None = None) -> None:
        self.path = Path(path)
        self._folder = folder
        self._database: Database | None = None
        self._read_only = False
        self._warned = False
        self._opening = Lock()

    @classmethod
    def of(cls, folder: Directory) -> SqliteCalls:
        """The cache of an index folder."""
        return cls(folder.path / CALLS, folder=folder)

    def exists(self) -> bool:
        """Whether anything was ever stored."""
        return self.path.exists() if self._folder is None else self._folder.status(CALLS) is not None

    def get(self, key: str) -> str | None:
        """The answer stored under the key, if it is there and sound."""
        database = self._open(create=False)
        if database is None:
            return None
        answers = database.rows(_GET, (key,))
        if not answers:
            return None
        answer, checksum = answers[0]
        if checksum == _checksum(key, answer):
            return str(answer)
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.path}: a stored answer is not as it was written, and is asked for again; verify() "
                "lists all of them",
                RuntimeWarning,
                stacklevel=2,
            )
        return None

    def put(
        self,
        key: str,
        answer: str,
        *,
        task: str,
        model: str,
        sources: Sequence[str],
        deleted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Store an answer. `sources` are the chunks whose text the request contains.

        Storing again replaces the answer, and adds to its sources. `deleted` says inside the transaction
        whether a source is gone; then nothing is stored. A purge waits for the transaction, so either this
        check sees the deletion or the purge sees the answer.
        """
        database = self._open(create=True)
        if database is None:
            return
        with database.transaction() as connection:
            if not deleted():
                _put(connection, CachedCall(key, task, model, answer, tuple(sources)))

    def add(self, calls: Iterable[CachedCall]) -> None:
        """Store calls whose keys have no answer yet: all of them, or none if one cannot be stored."""
        database = self._open(create=True)
        if database is not None:
            with database.transaction() as connection:
                for call in calls:
                    if self.get(call.key) is None:
                        _put(connection, call)

    def all(self) -> Iterator[CachedCall]:
        """All calls whose answers are sound, in the order in which they were first stored."""
        database, last = self._open(create=False), 0
        while database is not None and (rows := database.rows(_NEXT, (last,))):
            for last, key, task, model, answer, checksum in rows:
                if checksum == _checksum(key, answer):
                    sources = tuple(chunk for (chunk,) in database.rows(_SOURCES, (last,)))
                    yield CachedCall(key, task, model, answer, sources)

    def purge(self, chunks: Iterable[str]) -> int:
        """Remove every call whose request contained one of these chunks, and all traces in the file.

        SQLite leaves stale copies of records in unused parts of pages, even with `secure_delete`. So the file
        is rewritten and its log emptied. `StoreError` or `OSError` if another process is reading, or the disk
        is full; the next call does what is left. Returns the number of calls removed.
        """
        database = self._open(create=False)
        if database is None:
            return 0
        if self._read_only:
            raise StoreError(f"{self.path}: deleted chunks cannot be purged from a file opened read-only")
        with database.use() as connection:
            require_sound(connection, self.path)
        removed = 0
        for batch in batches(chunks):
            with database.transaction() as connection:
                removed += _remove(connection, batch)
        # Vacuum the file. The row in `unswept` makes sure that a crash does not skip this.
        with database.use() as connection:
            usual = connection.execute("PRAGMA busy_timeout").fetchone()[0]
            connection.execute(f"PRAGMA busy_timeout = {int(PURGE_PATIENCE * 1000)}")
            try:
                if connection.execute("SELECT 1 FROM unswept").fetchone():
                    connection.execute("VACUUM")
                    connection.execute("DELETE FROM unswept")
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {usual}")
        if busy:
            raise StoreError(f"{self.path}: another process is reading it, its log cannot be emptied yet")
        return removed

    def chunks(self) -> list[str]:
        """The chunks that any request contained."""
        database = self._open(create=False)
        if database is None:
            return []
        with database.use() as connection:
            require_sound(connection, self.path)
        return [row[0] for row in database.rows("SELECT DISTINCT chunk FROM call_sources")]

    def copy_to(self, folder: Directory) -> None:
        """Copy the cache to another folder, also while others use either file.

        `StoreError` if the other file is not a cache of calls, or is busy; on a full disk it keeps what it
        had.
        """
        own = SqliteCalls(self.path, folder=self._folder)  # nobody who uses this object waits for the copy
        try:
            database = own._open(create=False)
            if database is None:
                remove_database(folder, CALLS)
                return
            path = folder.path / CALLS
            require_plain(folder, CALLS)
            with database.use() as source, named_errors(path), closing(_connect_writable(path)) as target:
                source.backup(target)
        finally:
            own.close()

    def check(self) -> list[str]:
        """Problems found by SQLite's integrity check, and answers whose checksum is wrong."""
        try:
            database = self._open(create=False)
            if database is None:
                return []
            problems = [each for (each,) in database.rows("PRAGMA integrity_check(5)") if each != "ok"]
            if not problems:
                sql = "SELECT number, task, key, answer, checksum FROM calls JOIN checksums USING (number)"
                with database.use() as connection:
                    problems = [
                        f"answer {number} (of {task}) is not as it was stored; it will be asked for again"
                        for number, task, key, answer, checksum in connection.execute(sql)
                        if checksum != _checksum(str(key), str(answer))
                    ]
        except (StoreError, OSError) as error:
            return [str(error)]
        return [f"{self.path.name}: {problem}" for problem in problems]

    def close(self) -> None:
        """Close the file; using it again opens it again."""
        with self._opening:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _open(self, *, create: bool) -> Database | None:
        database = self._database
        if database is None:
            with self._opening:
                if self._database is None and (create or self.exists()):
                    self._database = self._connect()
                database = self._database
        return None if create and self._read_only else database

    def _connect(self) -> Database | None:
        if self._folder is not None:
            require_plain(self._folder, CALLS)
        try:
            if self._folder is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            return Database(self.path, partial(_connect_writable, self.path))
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
        self._read_only = True
        warnings.warn(f"{self.path} cannot be written: new answers are not cached", stacklevel=4)
        if not self.exists():
            return None
        return Database(self.path, partial(connect_frozen, self.path, prepare=_require_cache))


def _connect_writable(path: Path) -> sqlite3.Connection:
    """Open the cache and create its tables, unless the file is of another kind."""
    if path.exists():
        with named_errors(path), closing(sqlite3.connect(path)) as probe:
            _require_cache(probe, path)
    return connect_shared(path, prepare=_make_cache)


def _make_cache(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        connection.executescript(
            f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {APPLICATION};"
            f"PRAGMA user_version = {FORMAT}; COMMIT;"
        )
    require_schema(connection, path, _EXPECTED)


def _require_cache(probe: sqlite3.Connection, path: Path) -> None:
    application = probe.execute("PRAGMA application_id").fetchone()[0]
    tables = probe.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION and (application or tables):
        raise StoreError(f"{path} is an SQLite file of something else, not a cache of model calls")
    if application != APPLICATION:
        return
    if (version := probe.execute("PRAGMA user_version").fetchone()[0]) != FORMAT:
        raise FormatMismatch(
            f"{path}: a cache of model calls, made by an unreleased version of stratagraph; remove the file. "
            f"Its answers are asked for again. (Its format is {version}; this version reads {FORMAT}.)"
        )
    require_schema(probe, path, _EXPECTED)


def _put(connection: sqlite3.Connection, call: CachedCall) -> None:
    fields = (call.key, call.answer, call.task, call.model, now())
    number = connection.execute(_PUT, fields).fetchone()[0]
    checksum = _checksum(call.key, call.answer)
    connection.execute("INSERT OR REPLACE INTO checksums VALUES (?, ?)", (number, checksum))
    pairs = ((number, chunk) for chunk in call.sources)
    connection.executemany("INSERT OR IGNORE INTO call_sources VALUES (?, ?)", pairs)


def _remove(connection: sqlite3.Connection, chunks: list[str]) -> int:
    numbers = [
        row[0]
        for row in connection.execute(
            f"SELECT DISTINCT number FROM call_sources WHERE chunk IN ({marks(len(chunks))})", chunks
        )
    ]
    for batch in batches(numbers):
        connection.execute(f"DELETE FROM calls WHERE number IN ({marks(len(batch))})", batch)
        connection.execute(f"DELETE FROM call_sources WHERE number IN ({marks(len(batch))})", batch)
        connection.execute(f"DELETE FROM checksums WHERE number IN ({marks(len(batch))})", batch)
    if numbers:
        connection.execute("INSERT OR IGNORE INTO unswept VALUES (1)")
    return len(numbers)


def _checksum(key: str, answer: str) -> bytes:
    """Covers the key too: a damaged SQLite index may lead to another request's answer."""
    return content_key(key, answer).to_bytes(8, "little")
