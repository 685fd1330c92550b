"""Matrix products in one thread.

BLAS starts a thread for each core. With few rows these wait for each other longer than they compute: on two
busy cores, to compare 20 vectors with 52,769 took .07 s of CPU in one thread, and .33 in two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

from stratagraph.system.locks import Lock


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class _Limit:
    """The limit, which is one for the process, from the first caller that enters to the last that leaves."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limits: Any = None

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                OpenBLASController.clear_controlling_thread(force=True)  # only one thread may set limits
                self._limits = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside = max(0, self._inside - 1)  # 0 where the process was forked meanwhile
            if not self._inside:
                self._restore()

    def _restore(self) -> None:
        if self._limits is not None:
            OpenBLASController.clear_controlling_thread(force=True)
            self._limits.restore_original_limits()
            self._limits = None

    def remake(self) -> None:
        """In a forked child no thread is inside."""
        self._inside = 0
        self._restore()


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.remake)  # its lock is free by then: that was registered before


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread; of several callers at once the last to leave lifts the limit."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
