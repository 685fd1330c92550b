"""Pure functions in threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from stratagraph._locks import Lock, after_fork

T = TypeVar("T")
R = TypeVar("R")


class ThreadMapper:
    """So many threads at once; a single one is the caller's own."""

    apart = False
    shared_files = True
    embed = False

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or 1
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        after_fork(self._forget)

    def __repr__(self) -> str:
        return f"mapper('threads', {self.workers})"

    def __enter__(self) -> ThreadMapper:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def submit(self, function: Callable[[T], R], batch: T, *, model: bool = False) -> Future[R]:
        """Begin `function(batch)`; with one worker, end it too."""
        if self.workers > 1:
            return self._running().submit(function, batch)
        done: Future[R] = Future()
        try:
            done.set_result(function(batch))
        except Exception as error:
            done.set_exception(error)
        return done

    def close(self) -> None:
        """Let the threads go."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _running(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="stratagraph-mapper")
            return self._pool

    def _forget(self) -> None:
        """A forked child has none of its parent's threads."""
        self._pool = None
