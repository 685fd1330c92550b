"""Runs the async API for synchronous callers, on one background event loop per process.

The caller's thread only waits, so this works in scripts, threads, notebooks and inside a running loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from stratagraph.errors import StratagraphError
from stratagraph.system.locks import Lock

T = TypeVar("T")
P = ParamSpec("P")
_lock = Lock()
_loops: list[tuple[threading.Thread, asyncio.AbstractEventLoop]] = []
"""The last is in use. A forked child keeps that of its parent, whose connections it would close."""
_here: contextvars.ContextVar[bool] = contextvars.ContextVar("here", default=False)


def in_background() -> bool:
    """Whether the caller runs on the background loop."""
    return bool(_loops) and threading.current_thread() is _loops[-1][0]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop, with the caller's context variables, and return its result.

    `RuntimeError` on the background loop itself, which would wait for itself forever.
    """
    if in_background():
        coroutine.close()
        raise RuntimeError(
            "a synchronous stratagraph call was made from inside an asynchronous one "
            "(a model or embedder that calls the index?); use the async twin there"
        )
    if not threading.main_thread().is_alive():
        coroutine.close()
        raise StratagraphError(
            "the interpreter is exiting, and no thread can be started any more; ask the index before, and in "
            "functions given to atexit do no more than close it"
        )
    with _lock:
        if not _loops or not _loops[-1][0].is_alive():  # as in a forked child
            loop = asyncio.new_event_loop()
            _loops.append((threading.Thread(target=loop.run_forever, name="stratagraph", daemon=True), loop))
            _loops[-1][0].start()
        thread, loop = _loops[-1]
    ended = threading.Event()

    async def ending() -> T:
        _here.set(False)
        try:
            return await coroutine
        finally:
            ended.set()

    result = asyncio.run_coroutine_threadsafe(ending(), loop)
    try:
        while not concurrent.futures.wait([result], timeout=1.0).done:
            if not thread.is_alive():
                raise RuntimeError("the background event loop has ended; something in it called sys.exit")
        return result.result()
    except KeyboardInterrupt:
        result.cancel()
        ended.wait(10)
        raise


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    """An async iterator as a synchronous one; closed when the caller stops early."""
    end: Any = object()

    async def following() -> T:
        return await anext(source, end)

    try:
        while (item := run(following())) is not end:
            yield item
    finally:
        if (close := getattr(source, "aclose", None)) is not None:
            run(close())


def run_here(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits nothing but `either` and `aside` in the caller's thread."""
    token = _here.set(True)
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]
    finally:
        _here.reset(token)
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waits for more than `either` and `aside`")


async def either(here: Callable[..., T], there: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
    """Call `here` under `run_here`, else await `there`: methods of objects that have connections for both."""
    return here(*args, **kwargs) if _here.get() else await there(*args, **kwargs)


async def aside(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` in a thread; under `run_here` at once."""
    return function(*args, **kwargs) if _here.get() else await asyncio.to_thread(function, *args, **kwargs)


class PerLoop(Generic[T]):
    """A client for each event loop, since a connection works only in the loop that opened it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, T] = weakref.WeakKeyDictionary()

    def get(self) -> T:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for other in [each for each in self._clients if each.is_closed()]:
                del self._clients[other]  # its connections would keep their loop alive
            self._clients[loop] = self._make()
        return self._clients[loop]


def blocking(
    twin: Callable[P, Coroutine[Any, Any, T]],
    finish: Callable[[Any], Any] = run,
    light: Callable[..., bool] | None = None,
) -> Callable[P, T]:
    """The synchronous version of an async function: `retrieve = blocking(aretrieve)`, with its signature.

    `finish` runs what the twin returns. Calls of a method whose arguments, by name, are `light` are run by
    `run_here`. A method looks its twin up, so that a subclass overrides both at once.
    """
    signature, theirs = inspect.signature(twin), twin.__name__
    is_method = next(iter(signature.parameters), "") in ("self", "cls")

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{call.__qualname__}() {error}") from None
        if not is_method:
            return finish(twin(*args, **kwargs))  # type: ignore[no-any-return]
        own = getattr(args[0], theirs)
        here = light and own.__func__ is twin and not in_background() and light(**arguments)
        return (run_here if here else finish)(own(*args[1:], **kwargs))  # type: ignore[no-any-return]

    call.__name__, call.__module__, call.__doc__ = theirs.replace("a", "", 1), twin.__module__, twin.__doc__
    call.__qualname__ = twin.__qualname__.removesuffix(theirs) + call.__name__
    call.__annotations__ = inspect.get_annotations(twin, eval_str=True)  # names of the twin's module
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def blocking_iterator(twin: Callable[P, AsyncIterator[T]]) -> Callable[P, Iterator[T]]:
    """The synchronous version of a function that returns an async iterator; see `blocking`."""
    return blocking(twin, iterate)  # type: ignore[arg-type]


class Constructor(Protocol[P]):
    """A class method that returns an object of the class it is called on."""

    def __get__(self, instance: object, owner: type[T], /) -> Callable[P, T]: ...


def blocking_constructor(
    twin: Callable[Concatenate[Any, P], Coroutine[Any, Any, Any]], finish: Callable[[Any], Any] = run
) -> Constructor[P]:
    """The synchronous version of an async class method that returns an object; see `blocking`."""
    made: Constructor[P] = classmethod(blocking(twin.__func__, finish))  # type: ignore[attr-defined]
    return made
