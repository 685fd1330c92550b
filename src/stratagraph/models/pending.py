"""Calls under way.

A request that was sent is paid for, whether or not anybody waits for it. Each call is a task of its own, and
identical calls share one. When the last caller is cancelled, a request that is out comes in and is recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stratagraph.errors import CallFailed
from stratagraph.models.limiter import Slot
from stratagraph.models.log import logger


class PendingCall:
    """One call under way. `halted` once nobody waits for it: it must not send another request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.outcome: asyncio.Future[Any] = loop.create_future()
        self.task: asyncio.Task[Any]
        self.waiting = 0
        self.halted = False
        self._requesting = False

    @contextmanager
    def request(self) -> Iterator[None]:
        """Mark a request as out; its answer is kept only after `rest`."""
        self._requesting = True
        try:
            yield
        except BaseException:
            self._requesting = False
            raise

    def rest(self) -> None:
        """Nothing is out, and no answer is waiting to be kept."""
        self._requesting = False

    def give_up(self, error: Exception) -> None:
        """Give waiting callers an error, while the request stays out and is recorded if it ends."""
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()

    def halt(self) -> None:
        """Stop now, or as soon as the request that is out has come in."""
        self.halted = True
        if not self._requesting:
            self.task.cancel()

    def finished(self, task: asyncio.Task[Any]) -> None:
        """Hand the task's end to those who wait for it."""
        error = None if task.cancelled() else task.exception()  # seen, though perhaps nobody waits any more
        if self.outcome.done():
            return
        if task.cancelled():
            self.outcome.cancel()
        elif error is not None:
            self.outcome.set_exception(error)
            self.outcome.exception()
        else:
            self.outcome.set_result(task.result())


class PendingCalls:
    """All calls of a gate that are under way."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[asyncio.AbstractEventLoop, str], PendingCall] = {}
        self._all: set[PendingCall] = set()

    def __len__(self) -> int:
        return len(self._all)

    async def share(self, key: str | None, run: Callable[[PendingCall], Awaitable[Any]]) -> tuple[Any, bool]:
        """The result of `run`, and whether another caller ran it.

        Calls with one key in one event loop are joined.
        """
        loop = asyncio.get_running_loop()
        pending = None if key is None else self._by_key.get((loop, key))
        joined = pending is not None
        if pending is None:
            pending = self._start(loop, key, run)
        return await self._wait(pending), joined

    def _start(
        self, loop: asyncio.AbstractEventLoop, key: str | None, run: Callable[[PendingCall], Awaitable[Any]]
    ) -> PendingCall:
        pending = PendingCall(loop)

        async def work() -> Any:
            return await run(pending)

        def end(task: asyncio.Task[Any]) -> None:
            self._all.discard(pending)
            if key is not None and self._by_key.get((loop, key)) is pending:
                del self._by_key[loop, key]
            pending.finished(task)

        pending.task = loop.create_task(work())
        pending.task.add_done_callback(end)
        self._all.add(pending)
        if key is not None:
            self._by_key[loop, key] = pending
        return pending

    async def _wait(self, pending: PendingCall) -> Any:
        pending.waiting += 1
        try:
            return await asyncio.shield(pending.outcome)
        finally:
            pending.waiting -= 1
            if not pending.waiting and not pending.task.done():
                self._forget(pending)
                pending.halt()

    def _forget(self, pending: PendingCall) -> None:
        """Keep new callers from joining an abandoned call."""
        self._by_key = {key: other for key, other in self._by_key.items() if other is not pending}

    async def drain(self, timeout: float) -> None:
        """Wait for abandoned calls of this event loop, then cancel the rest."""
        loop = asyncio.get_running_loop()
        tasks = {each.task for each in self._all if not each.waiting and each.task.get_loop() is loop}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)


async def run_workers(
    worker: Callable[[], Awaitable[None]], count: int, *, pending: PendingCalls, patience: float, grace: float
) -> None:
    """Run `count` workers; the first error stops the others and is raised.

    Calls that are out come in first: within `patience` seconds after an error, else within `grace` seconds.
    """

    async def run() -> None:
        await worker()

    tasks = [asyncio.create_task(run()) for _ in range(count)]
    if not tasks:
        return
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    except asyncio.CancelledError:
        await _stop(tasks)
        await pending.drain(grace)
        raise
    errors = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        await _stop(tasks)
        await pending.drain(patience)
        raise first
    await asyncio.gather(*tasks)
    await pending.drain(grace)


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def within(
    timeout: float,
    request: Awaitable[Any],
    slot: Slot,
    *,
    who: str,
    pending: PendingCall | None,
    given_up: Callable[[], None] = lambda: None,
) -> Any:
    """The result of a request if it comes within `timeout` seconds; after half of them it is logged as late.

    An asynchronous request is cancelled at the end. A thread cannot be stopped: callers of `pending` get an
    error, `given_up` is called, and the answer is recorded if it comes.

    Raises `TimeoutError` if the request was cancelled and may be sent again, and `CallFailed` if a thread
    works on without a `pending` that could record its answer.
    """
    task = asyncio.ensure_future(request)
    try:
        if not (await asyncio.wait({task}, timeout=timeout / 2))[0]:
            logger.warning("%s: no answer within %g s; still waiting", who, timeout / 2)
            await asyncio.wait({task}, timeout=timeout / 2)
        if not task.done() and slot.working:
            error = CallFailed(
                f"{who}: no answer within timeout={timeout:g} s. The request cannot be stopped, and so "
                "is not repeated; give the server more time with Limits(timeout=...)"
            )
            if pending is None:
                raise error
            slot.abandoned = True
            given_up()
            pending.give_up(error)
            return await task
    except BaseException:
        await _cancel(task)
        raise
    if task.done():
        return task.result()
    await _cancel(task)
    raise TimeoutError(f"no answer within timeout={timeout:g} s")


async def _cancel(task: asyncio.Future[Any]) -> None:
    """Cancel a request and wait until it has ended."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
