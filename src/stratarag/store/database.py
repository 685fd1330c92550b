"""SQLite connections: errors that name the file, one lock per connection, and sane behaviour after a fork."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stratarag.errors import ClosedIndex, Damaged, StoreError

PARAMETERS = 500  # SQLite accepts 999 in its oldest builds; below that, more gains nothing

_SYSTEM_ERRORS = {
    sqlite3.SQLITE_FULL: (errno.ENOSPC, "no space left to write (disk full or quota reached)"),
    sqlite3.SQLITE_IOERR: (errno.EIO, "reading or writing failed (disk error, or a limit on file size)"),
    sqlite3.SQLITE_READONLY: (errno.EROFS, "the file or its folder is read-only"),
    sqlite3.SQLITE_CANTOPEN: (errno.EACCES, "the file cannot be opened"),
}


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into `OSError`, `Damaged` or `StoreError` with the file in the message."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise  # a constraint of ours: whoever inserts knows what it means
    except sqlite3.DatabaseError as error:
        raise _translated(error, path) from error


def _translated(error: sqlite3.DatabaseError, path: Path) -> Exception:
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in _SYSTEM_ERRORS:
        number, meaning = _SYSTEM_ERRORS[primary]
        return OSError(number, f"{meaning}; SQLite says: {error}", str(path))
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Damaged(f"{path}: not a sound SQLite file ({error})")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"{path}: another process keeps the file busy; try again")
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return ClosedIndex(f"{path} was closed; open the index again")
    return error if primary is None else StoreError(f"{path}: {error}")


def frozen_uri(path: Path) -> str:
    """The address by which SQLite opens a file that never changes: no lock, no side file, no write."""
    return path.absolute().as_uri() + "?mode=ro&immutable=1"


def connect_frozen(path: Path) -> sqlite3.Connection:
    """Open a published file. The file descriptor is taken at once, so unlinking it later does no harm."""
    with named_errors(path):
        return sqlite3.connect(frozen_uri(path), uri=True, isolation_level=None, check_same_thread=False)


def connect_private(path: Path) -> sqlite3.Connection:
    """Open a file that only this writer sees and that is thrown away after a crash: no syncs needed."""
    with named_errors(path):
        connection = sqlite3.connect(
            path.absolute().as_uri(), uri=True, isolation_level=None, check_same_thread=False
        )
        for pragma in ("journal_mode=MEMORY", "synchronous=OFF", "cache_size=-32000"):
            connection.execute(f"PRAGMA {pragma}")
        return connection


def connect_shared(path: Path, *, busy_timeout: float = 30.0) -> sqlite3.Connection:
    """Open a file that survives a killed process and is written by several (seconds to wait for them)."""
    with named_errors(path):
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=busy_timeout
        )
        _switch_to_wal(connection, busy_timeout)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA secure_delete=ON")
        return connection


def _switch_to_wal(connection: sqlite3.Connection, patience: float) -> None:
    """SQLite does not wait for others when it changes this mode, so wait here (seconds)."""
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                connection.close()
                raise
            time.sleep(0.01)


def remove_database(path: Path) -> None:
    """Remove a file and what SQLite keeps beside it, the log first: it must never outlive its file."""
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def batches(items: Iterable[Any], size: int = PARAMETERS) -> Iterator[list[Any]]:
    """Lists of at most `size` items."""
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def marks(count: int) -> str:
    """The question marks of an `IN (...)`."""
    return ",".join("?" * count)


_abandoned: list[sqlite3.Connection] = []  # inherited by a fork; to close them would disturb the parent


class Database:
    """A connection that threads take turns with.

    One connection behind a lock, not one per thread: a reader must hold everything of its generation
    from the start, and a connection that a later thread opens would find the file already removed.

    Parameters
    ----------
    path
        Named in errors.
    connect
        Opens the connection; called at once, and again in a forked child if `reopen` says so.
    reopen
        Whether a forked child needs a connection of its own. One that takes file locks does; one on an
        immutable file does not, and could not get one.
    """

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection], *, reopen: bool) -> None:
        self.path = path
        self._connect = connect
        self._reopen = reopen
        self._connection = connect()
        self._lock = threading.RLock()
        self._pid = os.getpid()

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone while the block lasts."""
        if self._pid != os.getpid():
            self._after_fork()
        with self._lock, named_errors(self.path):
            yield self._connection

    def _after_fork(self) -> None:
        self._lock = threading.RLock()  # the parent's may have been held by a thread that is not here
        if self._reopen:
            _abandoned.append(self._connection)
            self._connection = self._connect()
        self._pid = os.getpid()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self.use() as connection:
            return connection.execute(sql, parameters).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block is written, or nothing of it."""
        with self.use() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # after some errors SQLite has rolled back by itself
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the connection; harmless when closed already."""
        if self._pid == os.getpid():
            with self._lock:
                self._connection.close()

    def __del__(self) -> None:
        if getattr(self, "_pid", None) == os.getpid():
            self._connection.close()
