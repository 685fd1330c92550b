"""Calls under way.

A request that was sent is paid for, whether or not anybody still waits for it. So each call runs as a
task of its own: callers wait for its outcome, identical calls share one, and when the last caller is
cancelled a request that is out is left to come in and be recorded, while anything else stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
        """Around the time in which a request is out; until `rest`, its answer is not kept yet."""
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
        """Let those who wait go on with an error, while the request stays out and is recorded if it ends."""
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
        """The result of `run`, and whether it was somebody else's.

        A call with the same key that is under way in this event loop is joined instead of repeated.
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
        """Let nobody join a call that is being given up."""
        self._by_key = {key: other for key, other in self._by_key.items() if other is not pending}

    async def drain(self, timeout: float) -> None:
        """Wait for abandoned calls of this event loop, and end what is then still out."""
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
    """Run `count` workers to their end; the first error stops the others and is raised.

    Calls that are out when it happens come in first: within `patience` seconds after an error, within
    `grace` seconds otherwise.
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
