"""Matrix products of few rows, or of small matrices, in one thread.

A library of linear algebra starts a thread for each core at every product. Where one side has few rows these
wait for each other longer than they compute: on two busy cores, to compare 20 vectors with 52,769 took .07 s
of CPU in one thread, and .33 in two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from stratagraph._locks import Lock


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class _Limit:
    """The library's setting, which is one for the process: from the first who asks for it to the last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limits: Any = None

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._limits = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside = max(0, self._inside - 1)  # 0 where the process was forked meanwhile
            if not self._inside:
                self._restore()

    def _restore(self) -> None:
        if self._limits is not None:
            self._limits.restore_original_limits()
            self._limits = None

    def remake(self) -> None:
        """Of the threads that asked for it none is in a forked child."""
        self._inside = 0
        self._restore()


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.remake)  # its lock is free by then: that was registered before


@contextmanager
def one_thread() -> Iterator[None]:
    """Let the library use one thread meanwhile; the last out of several that do so at once ends that."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
