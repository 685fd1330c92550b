"""Pure functions in threads of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import chain, count, islice
from threading import Event
from typing import TypeVar

from stratagraph.system.locks import Lock, after_fork
from stratagraph.types.protocols import Mapper

T = TypeVar("T")
R = TypeVar("R")
AHEAD = 3
_LARGEST = 8
"""How many times as large as the first batches become: a batch costs the sender about half a millisecond."""
_LOOKS = 0.2  # seconds between two looks at whether the caller was cancelled


def in_order(
    mapper: Mapper,
    function: Callable[[T], R],
    batches: Iterable[T],
    stop: Event | None = None,
    *,
    ahead: int = AHEAD,
    finish: bool = False,
) -> Iterator[R]:
    """`function` of each batch, in order; the first error ends it and is raised. A single batch is done here.

    `ahead` batches per worker are under way. `stop` ends it with `InterruptedError`. With `finish`, running
    batches are waited for after an error, since they do more than return results.
    """
    coming = iter(batches)
    head = list(islice(coming, 2))
    if len(head) == 1:
        yield function(head[0])
        return
    waiting: deque[Future[R]] = deque()
    try:
        for batch in chain(head, coming):
            waiting.append(mapper.submit(function, batch))
            if len(waiting) >= ahead * mapper.workers:
                yield _result(waiting.popleft(), stop)
        while waiting:
            yield _result(waiting.popleft(), stop)
    finally:
        left = [future for future in waiting if not future.cancel()]
        if finish and not (stop is not None and stop.is_set()):
            wait(left)


def growing(items: Iterable[T], smallest: int, workers: int) -> Iterator[list[T]]:
    """Items in batches, two per worker of the `smallest` size, then two of twice that, up to eight times."""
    coming = iter(items)
    for place in count():
        times = min(_LARGEST, 2 ** (place // (2 * workers)))
        batch = list(islice(coming, times * smallest))
        if not batch:
            return
        yield batch


def _result(future: Future[R], stop: Event | None) -> R:
    while True:
        if stop is not None and stop.is_set():
            future.cancel()
            raise InterruptedError("the operation was cancelled")
        try:
            return future.result(timeout=None if stop is None else _LOOKS)
        except TimeoutError:
            if future.done():  # the function's own
                raise


class ThreadMapper:
    """Worker threads; with one worker, the caller's own thread."""

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
        """Start `function(batch)`; with one worker, run it here."""
        if self.workers > 1:
            return self._running().submit(function, batch)
        done: Future[R] = Future()
        try:
            done.set_result(function(batch))
        except Exception as error:
            done.set_exception(error)
        return done

    def close(self) -> None:
        """Stop the threads."""
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
        """Drop the parent's threads in a forked child."""
        self._pool = None
