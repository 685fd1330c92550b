"""One writer at a time. The operating system frees the lock of a process that dies."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from stratarag.errors import Locked

# Long enough to outlast another object that only looks whether the lock is free.
PATIENCE = 0.25  # seconds


def now() -> str:
    """The time, UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock; written beside it, for people and for the message of `Locked`."""

    pid: int
    host: str
    since: str
    operation: str

    def __str__(self) -> str:
        here = self.pid == os.getpid() and self.host == socket.gethostname()
        who = "this process" if here else f"process {self.pid} on {self.host}"
        return f"{who} ({self.operation}, since {self.since})"


class WriterLock:
    """The right to write in an index folder, as a context manager. Without an operation: to look around.

    Excludes other processes and other objects of this process alike. It may be taken in one thread
    and given back in another, as happens under an event loop.

    Raises
    ------
    Locked
        On entering, if someone else is writing; the message says who.
    OSError
        If the folder cannot be written to.
    """

    def __init__(self, folder: Path, operation: str | None) -> None:
        self._folder = folder
        self._operation = operation
        self._lock = FileLock(folder / "lock", thread_local=False)
        self._note = folder / "lock.json"

    def __enter__(self) -> WriterLock:
        try:
            self._lock.acquire(timeout=PATIENCE)
        except Timeout:
            raise Locked(
                f"{self._folder} is being written by {self.holder() or 'another process'}; "
                "wait until it has finished, or stop it"
            ) from None
        if self._operation is not None:
            holder = Holder(os.getpid(), socket.gethostname(), now(), self._operation)
            with suppress(OSError):  # on a full disk the lock holds all the same, only without a name
                self._note.write_text(json.dumps(asdict(holder)), encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._operation is not None:
            with suppress(OSError):
                self._note.unlink(missing_ok=True)
        self._lock.release()

    def holder(self) -> Holder | None:
        """Who wrote the note, if it can be read (the holder may be writing it just now)."""
        try:
            return Holder(**json.loads(self._note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
