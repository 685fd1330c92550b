"""The lock of one writer, and temporary folders that live as long as their process holds one.

The operating system releases a lock when its process dies.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from stratagraph.errors import Locked, StoreError, StratagraphError
from stratagraph.store.files import Directory

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Longer than another object needs to check whether the lock is free.
PATIENCE = 0.25  # seconds
LOCK, NOTE = "lock", "lock.json"
_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


def now() -> str:
    """The time, UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class WriterLock:
    """The right to write in an index folder, as a context manager. Without an operation, no note is written.

    It excludes other processes and other objects of this one. It may be acquired in one thread and released
    in another, as happens under an event loop. `patience` is the time in seconds to wait for someone else. On
    entering, `Locked` says who else is writing, and `StoreError` that the file system has no locks.
    """

    def __init__(self, folder: Directory, operation: str | None, *, patience: float = PATIENCE) -> None:
        self._folder = folder
        self._operation = operation
        self._patience = patience
        self._descriptor: int | None = None

    def __enter__(self) -> WriterLock:
        self._folder.require_in_place()
        deadline = time.monotonic() + self._patience
        while not self._take():
            if time.monotonic() > deadline:
                raise Locked(
                    f"{self._folder.path} is being written by {self._holder()}; "
                    "wait until it has finished, or stop it"
                )
            time.sleep(0.01)
        if self._operation is not None:
            note = {"pid": os.getpid(), "host": socket.gethostname()}
            note |= {"since": now(), "operation": self._operation}
            with suppress(OSError, StoreError):  # without its name, as on a full disk, the lock holds as well
                self._folder.write(NOTE, json.dumps(note).encode("utf-8"))
        return self

    def _take(self) -> bool:
        descriptor = self._folder.descriptor(LOCK, os.O_RDWR | os.O_CREAT)
        try:
            status = self._folder.status(LOCK) if _locked(descriptor) else None
            # Someone who undid a failed first build may have removed the file while we waited for it.
            if status is not None and os.path.samestat(status, os.fstat(descriptor)):
                self._descriptor = descriptor
                _held.add(self)
                return True
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            raise StoreError(
                f"{self._folder.path}: the file system has no locks ({error.strerror}), so two writers could "
                "not be kept apart; put the index on a local disk"
            ) from error
        finally:
            if self._descriptor is None:
                os.close(descriptor)
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is None:
            return  # a forked child, whose parent goes on writing
        if self._operation is not None:
            with suppress(OSError, StoreError):
                self._folder.unlink(NOTE)
        self._let_go()

    def _let_go(self) -> None:
        _held.discard(self)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _holder(self) -> str:
        """Who writes, according to the note beside the lock."""
        try:
            note = json.loads(self._folder.read(NOTE, most=10_000))
            here = (note["pid"], note["host"]) == (os.getpid(), socket.gethostname())
            who = "this process" if here else f"process {note['pid']} on {note['host']}"
            return f"{who} ({note['operation']}, since {note['since']})"
        except (OSError, ValueError, TypeError, LookupError, StoreError, RecursionError):
            return "another process"


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _locked(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _leave_to_parent() -> None:
    """A forked child holds no lock of its parent."""
    for lock in list(_held):
        lock._let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


_ATTEMPTS = 20


class TemporaryFolder:
    """A new temporary folder. This process holds its lock until it is closed.

    Folders of the same prefix and user that nobody holds the lock of, since their process died, are removed.
    """

    def __init__(self, prefix: str) -> None:
        self.owner = os.getpid()
        for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            with suppress(OSError, StratagraphError):
                if old.is_symlink() or (hasattr(os, "getuid") and old.stat().st_uid != os.getuid()):
                    continue  # another user may have put anything there
                with Directory.open(old) as folder, WriterLock(folder, None, patience=0):
                    shutil.rmtree(old, ignore_errors=True)
        for attempt in range(1, _ATTEMPTS + 1):
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            try:
                self._directory = Directory.open(self.path)
                self._lock = WriterLock(self._directory, None).__enter__()
                return
            except (OSError, StratagraphError):  # another process took it for an abandoned one
                if attempt == _ATTEMPTS:
                    raise

    def close(self) -> None:
        """Remove the folder; a forked child leaves it to its parent."""
        if self.owner == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock.__exit__(None, None, None)
            self._directory.close()
