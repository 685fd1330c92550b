"""Runs the async API for synchronous callers, on one background event loop per process.

The caller's thread only waits, so this works in scripts, threads, notebooks and inside a running loop.
Context variables travel along. Clients of asynchronous libraries are made for each loop (`PerLoop`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import inspect
import os
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from types import FunctionType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from stratagraph.errors import StratagraphError
from stratagraph.system.locks import Lock

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
C = TypeVar("C")
_END = object()


class _Loop:
    def __init__(self, before: _Loop | None) -> None:
        self.before = before  # held: in a forked child, closing its connections would end the parent's
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="stratagraph", daemon=True)
        self.thread.start()


_lock = Lock()
_background: _Loop | None = None


def _running() -> _Loop:
    """The loop of this process; a forked child makes its own, since threads do not survive a fork."""
    global _background
    with _lock:
        lost = _background is None or _background.pid != os.getpid() or not _background.thread.is_alive()
        if _background is None or lost:
            _background = _Loop(_background)
        return _background


def in_background() -> bool:
    """Whether the caller runs on the background loop."""
    return _background is not None and threading.current_thread() is _background.thread


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and return its result.

    Raises `RuntimeError` on the background loop itself, which would wait for itself forever.
    """
    if not threading.main_thread().is_alive():
        coroutine.close()
        raise StratagraphError(
            "the interpreter is exiting, and no thread can be started any more; ask the index before, and in "
            "functions given to atexit do no more than close it"
        )
    background = _running()
    if threading.current_thread() is background.thread:
        coroutine.close()
        raise RuntimeError(
            "a synchronous stratagraph call was made from inside an asynchronous one "
            "(a model or embedder that calls the index?); use the async twin there"
        )
    context = contextvars.copy_context()
    context.run(_here.set, False)
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
    """Run a blocking function in a thread, and return only after it has ended.

    A thread cannot be stopped. A cancellation is raised once the thread has ended, so that locks around the
    call are held while it works.
    """
    working, cancelled = await _ended(function, *args, **kwargs)
    if cancelled is not None:
        if not working.cancelled():
            working.exception()
        raise cancelled
    return working.result()


async def _ended(
    function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> tuple[asyncio.Future[T], asyncio.CancelledError | None]:
    """Wait for a call to end; returns it, and a cancellation that came meanwhile.

    The thread is awaited as a future, not a task: an ending loop cancels tasks, and a cancelled task looks
    done while its thread still runs.
    """
    context = contextvars.copy_context()
    call = functools.partial(context.run, function, *args, **kwargs)
    working = asyncio.get_running_loop().run_in_executor(None, call)
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait({working})
        except asyncio.CancelledError as error:
            cancelled = error
            for stop in _stops.get():
                stop.set()
    return working, cancelled


@asynccontextmanager
async def entered(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a blocking context manager in threads, also after a cancellation."""
    working, cancelled = await _ended(manager.__enter__)
    if cancelled is not None:
        if not working.cancelled() and working.exception() is None:
            await in_thread(manager.__exit__, type(cancelled), cancelled, cancelled.__traceback__)
        raise cancelled
    value = working.result()
    try:
        yield value
    except BaseException as error:
        await in_thread(manager.__exit__, type(error), error, error.__traceback__)
        raise
    await in_thread(manager.__exit__, None, None, None)


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


def blocking(
    twin: Callable[P, Coroutine[Any, Any, T]],
    finish: Callable[[Coroutine[Any, Any, Any]], Any] = run,
    light: Callable[..., bool] | None = None,
) -> Callable[P, T]:
    """The synchronous version of an async function or method: same signature, same docstring.

    Its name is that of the async one without the leading `a`:

        async def aretrieve(self, q: str) -> Retrieval: ...
        retrieve = blocking(aretrieve)

    `finish` runs a coroutine to its end: `run` on the background loop, `run_here` in the caller's thread. So
    does `run_here` with the calls that are `light`, which is called with their arguments.
    """
    return _twin(twin, finish, light)


class Constructor(Protocol[P]):
    """A class method that returns an object of the class it is called on."""

    def __get__(self, instance: object, owner: type[T], /) -> Callable[P, T]:
        """The method of `owner`."""


def blocking_constructor(
    twin: Callable[Concatenate[Any, P], Coroutine[Any, Any, Any]],
    finish: Callable[[Coroutine[Any, Any, Any]], Any] = run,
) -> Constructor[P]:
    """The synchronous version of an async class method that returns an object; see `blocking`."""
    function: Any = twin.__func__  # type: ignore[attr-defined]
    return classmethod(_twin(function, finish))


def blocking_iterator(twin: Callable[P, AsyncIterator[T]]) -> Callable[P, Iterator[T]]:
    """The synchronous version of a function that returns an async iterator; see `blocking`."""
    return _twin(twin, iterate)


def _twin(
    twin: Callable[P, T], finish: Callable[[T], R], light: Callable[..., bool] | None = None
) -> Callable[P, R]:
    """A plain function that passes what `twin` returns to `finish`.

    A method looks its twin up, so that a subclass overrides both at once. The function has the globals of its
    twin, in which its annotations are read, and no `__wrapped__`, which would make it a coroutine function to
    those that unwrap functions.
    """
    theirs = twin.__name__
    name = theirs.replace("a", "", 1)
    is_method = "." in twin.__qualname__

    def finished(started: T, *args: Any, **kwargs: Any) -> R:
        own = light is not None and getattr(type(args[0]), theirs) is twin and not in_background()
        if light is not None and own and light(*args, **kwargs):
            return cast(R, run_here(cast(Coroutine[Any, Any, Any], started)))
        return finish(started)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            started = getattr(args[0], theirs)(*args[1:], **kwargs) if is_method else twin(*args, **kwargs)
        except IndexError:
            raise TypeError(f"{name}() needs its object") from None
        except TypeError as error:
            raise TypeError(str(error).replace(f"{theirs}(", f"{name}(")) from None
        return finished(started, *args, **kwargs)

    function = FunctionType(call.__code__, twin.__globals__, name, None, call.__closure__)
    functools.update_wrapper(function, twin)
    del function.__wrapped__  # type: ignore[attr-defined]
    function.__name__ = name
    function.__qualname__ = twin.__qualname__.removesuffix(theirs) + name
    function.__signature__ = inspect.signature(twin)  # type: ignore[attr-defined]
    return function


class PerLoop(Generic[C]):
    """A client for each event loop, since a connection works only in the loop that opened it."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, C] = weakref.WeakKeyDictionary()

    def get(self) -> C:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for other in [each for each in self._clients if each.is_closed()]:
                del self._clients[other]  # its connections would keep their loop alive
            self._clients[loop] = self._make()
        return self._clients[loop]


_here: contextvars.ContextVar[bool] = contextvars.ContextVar("here", default=False)


def run_here(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits nothing but `either` and `aside` in the caller's thread."""
    token = _here.set(True)
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    finally:
        _here.reset(token)
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waits for more than `either` and `aside`")


async def either(
    function: Callable[..., T], afunction: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any
) -> T:
    """Call `function` under `run_here`; elsewhere await `afunction`.

    For objects whose synchronous and async methods have connections of their own.
    """
    return function(*args, **kwargs) if _here.get() else await afunction(*args, **kwargs)


async def aside(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` in a thread; under `run_here` at once."""
    return function(*args, **kwargs) if _here.get() else await asyncio.to_thread(function, *args, **kwargs)


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    """An async iterator as a synchronous one; closed when the caller stops early."""
    try:
        while (item := run(_next(source))) is not _END:
            yield item  # type: ignore[misc]  # narrowed by the sentinel
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            run(close())


async def _next(source: AsyncIterator[T]) -> T | object:
    return await anext(source, _END)
