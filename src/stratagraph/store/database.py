"""SQLite connections to checked files; errors name the file, and forked processes are safe."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from stratagraph.errors import ClosedIndex, Damaged, StoreError
from stratagraph.store.files import Directory

BUSY_PATIENCE = 30.0  # seconds to wait for other processes that use a file
SIDE_FILES = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a file
PARAMETERS = 500  # SQLite accepts 999 in its oldest builds; below that, more gains nothing

_SYSTEM_ERRORS = {
    sqlite3.SQLITE_FULL: (errno.ENOSPC, "no space left to write (disk full or quota reached)"),
    sqlite3.SQLITE_IOERR: (errno.EIO, "reading or writing failed (disk error, or a limit on file size)"),
    sqlite3.SQLITE_READONLY: (errno.EROFS, "the file or its folder is read-only"),
    sqlite3.SQLITE_CANTOPEN: (errno.EACCES, "the file cannot be opened"),
}


# SQLite has locks for the whole process. One that a thread holds during a fork stays locked in the child for
# ever. So connections are opened, used and closed inside `inside_sqlite`, and a fork waits until nobody is.
FORK_PATIENCE = 5.0  # seconds


class _Inside(threading.local):
    depth = 0


class _ForkGuard:
    """Counts the threads that use SQLite. While a fork waits for them, no other thread may begin to."""

    def __init__(self) -> None:
        self._forking = threading.Lock()  # one fork at a time: two would wait for each other
        self._changed = threading.Condition()
        self._threads = 0
        self._closed = False
        self._here = _Inside()

    def enter(self) -> None:
        if self._here.depth == 0:
            with self._changed:
                while self._closed:
                    self._changed.wait()
                self._threads += 1
        self._here.depth += 1

    def leave(self) -> None:
        self._here.depth -= 1
        if self._here.depth == 0:
            with self._changed:
                self._threads -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Wait until no other thread is inside, or patience ends; this one may still enter."""
        self._forking.acquire()
        self.enter()
        deadline = time.monotonic() + FORK_PATIENCE
        with self._changed:
            self._closed = True
            while self._threads > 1 and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)

    def open(self) -> None:
        """Let others enter again."""
        with self._changed:
            self._closed = False
            self._changed.notify_all()
        self.leave()
        self._forking.release()

    def in_child(self) -> None:
        """Nobody but this thread is here."""
        self._changed = threading.Condition()
        self._threads = 1
        self.open()  # the thread that took `_forking` is this one


_fork_guard = _ForkGuard()


@contextmanager
def inside_sqlite() -> Iterator[None]:
    """Let no fork happen while the block runs (unless it takes longer than a fork waits)."""
    _fork_guard.enter()
    try:
        yield
    finally:
        _fork_guard.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_fork_guard.close, after_in_parent=_fork_guard.open, after_in_child=_fork_guard.in_child
    )


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into `OSError`, `Damaged` or `StoreError` that name the file."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise  # the caller knows what the broken constraint means
    except UnicodeDecodeError as error:
        raise Damaged(f"{path}: holds what is not text ({error})") from error
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if primary in _SYSTEM_ERRORS:
            number, meaning = _SYSTEM_ERRORS[primary]
            raise OSError(number, f"{meaning}; SQLite says: {error}", str(path)) from error
        if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise Damaged(f"{path}: not a sound SQLite file ({error})") from error
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreError(f"{path}: another process keeps the file busy; try again") from error
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            raise ClosedIndex(f"{path} was closed; open the index again") from error
        if isinstance(error, sqlite3.ProgrammingError) or "interrupted" in str(error):
            raise
        raise Damaged(f"{path}: cannot be read ({error})") from error


Schema = frozenset[tuple[Any, ...]]


def schema_of(script: str) -> Schema:
    """The schema that a script creates."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return _schema(connection)


def _schema(connection: sqlite3.Connection) -> Schema:
    entries = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return frozenset(islice(entries, 1000))


def require_schema(
    connection: sqlite3.Connection, path: Path, expected: Schema, *, begun: bool = False
) -> None:
    """Refuse a file whose schema is not the expected one, so that no view or trigger of a stranger runs.

    Tables may be missing if their creation may have been interrupted (`begun`). `Damaged` says what differs.
    """
    with named_errors(path):
        schema = _schema(connection)
    strange = schema - expected if begun else schema ^ expected
    if strange:
        names = sorted({f"{kind} {name}" for kind, name, _, _ in strange})
        raise Damaged(f"{path}: its tables are not as stratagraph makes them ({', '.join(names[:5])})")


def require_plain(folder: Directory, name: str) -> None:
    """Make sure that SQLite, which opens files by name, touches only this folder's own file.

    `NotAnIndex` if the folder is not where it was; `Damaged` if the file, or one that SQLite keeps beside it,
    is no plain file with one name, or tells SQLite to remove another file.
    """
    folder.require_in_place()
    for each in (name, *(name + suffix for suffix in SIDE_FILES)):
        status = folder.plain_status(each)  # to open and close it would drop SQLite's own locks on it
        if status is None:
            continue
        if status.st_nlink > 1:
            raise Damaged(
                f"{folder.path / each}: has a second name elsewhere (a hard link), which would be written to "
                "as well; copy the index with copy_to, or copy this file and put the copy in its place"
            )
    if folder.status(journal := f"{name}-journal") is not None:
        # A journal that ends with these bytes names another file before them (its "super-journal"). SQLite
        # would remove that file.
        mark = bytes.fromhex("d9d505f920a163d7")
        with folder.reader(journal) as file:
            file.seek(-min(len(mark), file.seek(0, os.SEEK_END)), os.SEEK_END)
            if file.read() == mark:
                raise Damaged(
                    f"{folder.path / journal}: names another file to be removed by SQLite; remove it"
                )


Prepare = Callable[[sqlite3.Connection, Path], None]
"""Makes or checks the tables of a file that was opened."""


@contextmanager
def _opened(path: Path, database: str | Path, **options: Any) -> Iterator[sqlite3.Connection]:
    """A connection that checks what it reads and runs nothing from the file; closed if the block fails."""
    with named_errors(path):
        connection = sqlite3.connect(database, isolation_level=None, check_same_thread=False, **options)
        try:
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA cell_size_check=ON")
            yield connection
        except BaseException:
            with suppress(sqlite3.Error):
                connection.close()
            raise


def connect_frozen(path: Path, *, prepare: Prepare) -> sqlite3.Connection:
    """Open a file that never changes: no lock, no side file, no write."""
    with _opened(path, path.absolute().as_uri() + "?mode=ro&immutable=1", uri=True) as connection:
        # No value is longer than the file: a damaged length must not ask for gigabytes.
        longest = min(max(path.stat().st_size, 1 << 16), 1 << 30)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
        prepare(connection, path)
        return connection


def connect_shared(path: Path, *, prepare: Prepare) -> sqlite3.Connection:
    """Open a file that several processes write and that survives a crash."""
    with _opened(path, path, timeout=BUSY_PATIENCE) as connection:
        deadline = time.monotonic() + BUSY_PATIENCE
        while True:  # SQLite does not wait for others here
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA secure_delete=ON")
        prepare(connection, path)
        return connection


def remove_database(folder: Directory, name: str) -> None:
    """Remove a file and its side files, the log first: it must not outlive its file."""
    for suffix in (*SIDE_FILES, ""):
        folder.unlink(name + suffix)


def require_sound(connection: sqlite3.Connection, path: Path) -> None:
    """Check the structure of a file before all of it is read; `Damaged` says what is wrong.

    Pages that point at one another would keep a query busy for ever.
    """
    with named_errors(path):
        for (verdict,) in connection.execute("PRAGMA quick_check(1)"):
            if verdict != "ok":
                raise Damaged(f"{path}: not a sound SQLite file ({verdict})")


def batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Lists of as many items as a statement takes."""
    left = iter(items)
    while batch := list(islice(left, PARAMETERS)):
        yield batch


def marks(count: int) -> str:
    """The question marks of an `IN (...)`."""
    return ",".join("?" * count)


_abandoned: list[sqlite3.Connection] = []  # inherited by a fork; to close them would disturb the parent


class Database:
    """One connection that threads take turns with.

    It is opened at once, since a file that is opened later may be gone by then; and again by `connect` in a
    forked child, since file locks are of one process. `path` is named in errors.
    """

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self.path = path
        self._connect = connect
        with inside_sqlite():
            self._connection = connect()
        self._lock = threading.RLock()
        self._pid = os.getpid()

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone inside the block."""
        if self._pid != os.getpid():  # a forked child
            self._lock = threading.RLock()  # the parent's may have been held by a thread that is not here
            _abandoned.append(self._connection)
            with inside_sqlite():
                self._connection = self._connect()
            self._pid = os.getpid()
        with self._lock, inside_sqlite(), named_errors(self.path):
            yield self._connection

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
            with self._lock, inside_sqlite():
                self._connection.close()

    def __del__(self) -> None:
        if getattr(self, "_pid", None) == os.getpid():
            with inside_sqlite():
                self._connection.close()
