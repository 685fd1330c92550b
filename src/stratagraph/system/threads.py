"""Blocking functions in threads, for asynchronous code that may be cancelled meanwhile."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_stops: contextvars.ContextVar[tuple[threading.Event, ...]] = contextvars.ContextVar("stops", default=())


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread, and return only after it has ended.

    A cancellation sets the events of `stoppable`, and is raised after the thread has ended, so that locks
    around the call are held while it works.
    """
    within = contextvars.copy_context().run
    # A future of the executor: a task is cancelled with its loop, while its thread still runs.
    working = asyncio.get_running_loop().run_in_executor(None, lambda: within(function, *args, **kwargs))
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
            working.exception()  # seen, and so not logged
        raise cancelled
    return working.result()


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """An event that is set when a call to `in_thread` within this block is cancelled."""
    event = threading.Event()
    token = _stops.set((*_stops.get(), event))
    try:
        yield event
    finally:
        _stops.reset(token)


@asynccontextmanager
async def entered(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a blocking context manager in threads, also after a cancellation."""
    stack = ExitStack()
    try:
        yield await in_thread(stack.enter_context, manager)
    except BaseException as error:
        await in_thread(stack.__exit__, type(error), error, error.__traceback__)
        raise
    await in_thread(stack.close)
