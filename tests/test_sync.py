from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import io
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import stratagraph as sg
from stratagraph import _sync
from stratagraph._sync import PerLoop
from stratagraph.operations import progress
from stratagraph.system import locks as _locks
from stratagraph.system.threads import entered

flag: contextvars.ContextVar[str] = contextvars.ContextVar("flag", default="unset")


async def _flag() -> str:
    await asyncio.sleep(0)
    return flag.get()


async def test_it_runs_in_threads_and_inside_a_running_loop_with_the_callers_context() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_sync.run, _flag()).result() == "unset"
    token = flag.set("mine")
    try:
        assert _sync.run(_flag()) == "mine"
    finally:
        flag.reset(token)

    async def fail() -> None:
        raise KeyError("that one")

    with pytest.raises(KeyError, match="that one"):
        _sync.run(fail())


def test_a_call_from_the_background_loop_is_refused_instead_of_hanging() -> None:
    async def nested() -> str:
        return _sync.run(_flag())

    with pytest.raises(RuntimeError, match="async twin"):
        _sync.run(nested())


def test_an_iterator_is_closed_when_the_caller_stops() -> None:
    closed: list[bool] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
        finally:
            closed.append(True)

    source = _sync.iterate(numbers())
    assert [next(source), next(source)] == [0, 1]
    source.close()
    assert closed == [True]
    assert list(_sync.iterate(numbers())) == list(range(10))


@pytest.mark.parametrize("end", ["cancel", "time-out", "end of the loop"])
def test_a_context_that_was_entered_after_a_cancellation_is_left(end: str) -> None:
    held: list[str] = []

    @contextlib.contextmanager
    def slow() -> Iterator[None]:
        time.sleep(0.2)
        held.append("entered")
        try:
            yield
        finally:
            held.append("left")

    async def use() -> None:
        async with entered(slow()):
            await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.ensure_future(use())
        await asyncio.sleep(0.05)
        if end == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        elif end == "time-out":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(task, 0.05)

    asyncio.run(main())
    assert held == ["entered", "left"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_finds_locks_free_and_remakes_its_own() -> None:
    class Pool:
        def __init__(self) -> None:
            self.owner = os.getpid()
            _locks.after_fork(self.start)

        def start(self) -> None:
            self.owner = os.getpid()

    lock, pool = _locks.Lock(), Pool()
    with lock:
        child = os.fork()
        if child == 0:
            with lock:
                os._exit(0 if pool.owner == os.getpid() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert pool.owner == os.getpid()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_property_that_is_computed_during_a_fork_can_be_computed_in_the_child() -> None:
    computing, done = threading.Event(), threading.Event()

    class Slow:
        @_locks.cached_property
        def value(self) -> int:
            computing.set()
            return int(done.wait(30))

    thread = threading.Thread(target=lambda: Slow().value)
    thread.start()
    computing.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # it hangs where the lock is the one of Python 3.11
        done.set()
        os._exit(0 if Slow().value else 1)
    assert os.waitpid(child, 0)[1] == 0
    done.set()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_has_a_client_and_bars_of_its_own() -> None:
    clients, shown = PerLoop(object), io.StringIO()

    async def client() -> object:
        return clients.get()

    bars = progress.LineProgress(shown)
    mine = _sync.run(client())
    assert _sync.run(client()) is mine
    bars.start("embed", 10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        bars.advance("embed")
        bars.finish("embed")
        bars.start("summarize", 1)
        bars.advance("summarize")
        bars.finish("summarize")
        told = shown.getvalue()
        os._exit(0 if _sync.run(client()) is not mine and "summarize" in told and "embed" not in told else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert _sync.run(client()) is mine
    bars.advance("embed", 10)
    bars.finish("embed")
    assert shown.getvalue().startswith("embed: 10 in")


def test_a_synchronous_twin_is_a_plain_function_that_follows_overrides() -> None:
    """Frameworks that unwrap functions see no coroutine function; a subclass overrides both twins at once."""

    class Mine(sg.Index):
        async def aretrieve(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)  # for which there is no loop in the caller's thread
            return threading.current_thread().name

    assert not hasattr(sg.Index.retrieve, "__wrapped__")
    assert not inspect.iscoroutinefunction(inspect.unwrap(sg.Index.retrieve))
    index = sg.build_index(["Ada runs the ferry."], embedder=sg.HashingEmbedder(), progress=False)
    with pytest.raises(TypeError, match=r"^Index\.retrieve\(\) missing"):
        index.retrieve()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^build_index\(\) got an unexpected keyword argument 'foo'"):
        sg.build_index(["a"], foo=1)  # type: ignore[call-arg]
    index.__class__ = Mine
    assert index.retrieve("Who?") == "stratagraph"


def test_what_a_light_call_runs_in_the_background_is_not_light() -> None:
    async def elsewhere() -> threading.Thread:
        return await _sync.aside(threading.current_thread)

    async def here() -> threading.Thread:
        return _sync.run(elsewhere())

    assert _sync.run_here(here()) is not threading.current_thread()


def test_a_question_is_answered_in_the_callers_thread_where_nobody_is_waited_for() -> None:
    seen: list[threading.Thread] = []

    def admits(_: object) -> bool:
        seen.append(threading.current_thread())
        return True

    index = sg.build_index(["A lamp.", "A boat."], embedder=sg.HashingEmbedder(), progress=False)
    with index:
        assert len(index.retrieve("A lamp?", k=2, where=admits)) == 2
        assert set(seen) == {threading.current_thread()}
        seen.clear()
        index.retrieve("A lamp?", k=2, where=admits, rerank=_Same())
        assert threading.current_thread() not in seen


class _Same:
    def rerank(self, question: str, texts: list[str]) -> list[float]:
        return [0.0 for _ in texts]


def test_rerankers_may_ask_an_index_themselves() -> None:
    """More questions than there are threads: a search inside of another must need none of these."""
    index = sg.build_index(["A lamp.", "A boat."], embedder=sg.HashingEmbedder(), progress=False)

    class Asks(_Same):
        def rerank(self, question: str, texts: list[str]) -> list[float]:
            index.retrieve(question, k=1)
            return super().rerank(question, texts)

    with index, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(index.retrieve_many, ["A lamp?"] * 40, k=1, rerank=Asks())
        assert len(asking.result(60)) == 40
