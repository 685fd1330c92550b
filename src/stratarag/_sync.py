"""The bridge from the synchronous to the asynchronous API: one background event loop per process.

It works in a script, in a worker thread, in a notebook and inside a running loop, since the caller's
thread only waits. Context variables (tracing, callbacks) travel along.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
_END = object()


class _Loop:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="stratarag", daemon=True)
        self.thread.start()


_lock = threading.Lock()
_background: _Loop | None = None


def _running() -> _Loop:
    """The loop of this process; a forked child gets its own, since threads do not survive a fork."""
    global _background
    with _lock:
        lost = _background is None or _background.pid != os.getpid() or not _background.thread.is_alive()
        if _background is None or lost:
            _background = _Loop()
        return _background


def in_background() -> bool:
    """Whether the caller runs on the background loop, that is, serves the synchronous API."""
    return _background is not None and threading.current_thread() is _background.thread


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on the background loop and return its result.

    Raises
    ------
    RuntimeError
        If called from the background loop itself, which would wait for itself for ever.
    """
    background = _running()
    if threading.current_thread() is background.thread:
        coroutine.close()
        raise RuntimeError(
            "a synchronous stratarag call was made from inside an asynchronous one "
            "(a model or embedder that calls the index?); use the async twin there"
        )
    context = contextvars.copy_context()
    result: concurrent.futures.Future[T] = concurrent.futures.Future()
    tasks: list[asyncio.Task[T]] = []

    def start() -> None:
        task = background.loop.create_task(coroutine, context=context)
        tasks.append(task)
        task.add_done_callback(lambda done: _copy(done, result))

    background.loop.call_soon_threadsafe(start)
    try:
        while not concurrent.futures.wait([result], timeout=1.0).done:
            if not background.thread.is_alive():
                raise RuntimeError("the background event loop has ended; something in it called sys.exit")
        return result.result()
    except KeyboardInterrupt:
        background.loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
        concurrent.futures.wait([result], timeout=10)
        raise


def _copy(task: asyncio.Task[T], result: concurrent.futures.Future[T]) -> None:
    if task.cancelled():
        result.set_exception(concurrent.futures.CancelledError())
    elif (error := task.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(task.result())


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread, and do not return before it has.

    A thread cannot be stopped. If the caller is cancelled, the cancellation goes on only when the thread
    has ended: whoever holds a lock around the call still holds it while the thread works.
    """
    working = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait({working})
        except asyncio.CancelledError as error:
            cancelled = error
            for stop in _stops.get():
                stop.set()
    if cancelled is not None:
        if not working.cancelled():
            working.exception()
        raise cancelled
    return working.result()


_stops: contextvars.ContextVar[tuple[threading.Event, ...]] = contextvars.ContextVar("stops", default=())


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """An event that is set when a call to `in_thread` within this block is cancelled."""
    event = threading.Event()
    token = _stops.set((*_stops.get(), event))
    try:
        yield event
    finally:
        _stops.reset(token)


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    """An asynchronous iterator as a synchronous one; closed when the caller stops early."""
    try:
        while (item := run(_next(source))) is not _END:
            yield item  # type: ignore[misc]  # narrowed by the sentinel
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            run(close())


async def _next(source: AsyncIterator[T]) -> T | object:
    return await anext(source, _END)
