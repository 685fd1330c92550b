"""No thread is inside SQLite while the process forks.

SQLite has locks for the whole process. One that a thread holds during a fork stays locked in the child for
ever. So connections are opened, used and closed inside `inside_sqlite`, and a fork waits until nobody is.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

FORK_PATIENCE = 5.0  # seconds that a fork waits for what other threads do


class _Inside(threading.local):
    """How often this thread has entered and not left."""

    depth = 0


class _Gate:
    """Counts the threads inside; closed while a fork waits for them, but not to those that are in."""

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


_gate = _Gate()


@contextmanager
def inside_sqlite() -> Iterator[None]:
    """Let no fork happen while the block runs (unless it takes longer than a fork waits)."""
    _gate.enter()
    try:
        yield
    finally:
        _gate.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_gate.close, after_in_parent=_gate.open, after_in_child=_gate.in_child)
