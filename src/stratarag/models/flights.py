"""Calls under way.

A request that was sent is paid for, whether or not anybody still waits for it. So each runs as a task
of its own: callers wait for it behind a shield, identical requests share one, and when the last caller
is cancelled a request that is out is left to come in and be recorded, while anything else stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Flight:
    """One call under way. `halted` once nobody waits for it: it must not send another request."""

    def __init__(self) -> None:
        self.task: asyncio.Task[Any]
        self.waiting = 0
        self.halted = False
        self._requesting = False

    @contextmanager
    def request(self) -> Iterator[None]:
        """Around the time in which a request is out."""
        self._requesting = True
        try:
            yield
        finally:
            self._requesting = False

    def halt(self) -> None:
        """Stop now, or as soon as the request that is out has come in."""
        self.halted = True
        if not self._requesting:
            self.task.cancel()


class Flights:
    """All calls of a gate that are under way."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[asyncio.AbstractEventLoop, str], Flight] = {}
        self._all: set[Flight] = set()

    def __len__(self) -> int:
        return len(self._all)

    async def share(self, key: str | None, run: Callable[[Flight], Awaitable[Any]]) -> tuple[Any, bool]:
        """The result of `run`, and whether it was somebody else's.

        A call with the same key that is under way in this event loop is joined instead of repeated.
        """
        loop = asyncio.get_running_loop()
        flight = None if key is None else self._by_key.get((loop, key))
        joined = flight is not None
        if flight is None:
            flight = self._start(loop, key, run)
        return await self._wait(flight), joined

    def _start(
        self, loop: asyncio.AbstractEventLoop, key: str | None, run: Callable[[Flight], Awaitable[Any]]
    ) -> Flight:
        flight = Flight()

        async def fly() -> Any:
            return await run(flight)

        def landed(task: asyncio.Task[Any]) -> None:
            self._all.discard(flight)
            if key is not None and self._by_key.get((loop, key)) is flight:
                del self._by_key[loop, key]
            if not task.cancelled():
                task.exception()  # seen, though perhaps nobody waits any more

        flight.task = loop.create_task(fly())
        flight.task.add_done_callback(landed)
        self._all.add(flight)
        if key is not None:
            self._by_key[loop, key] = flight
        return flight

    async def _wait(self, flight: Flight) -> Any:
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._forget(flight)
                flight.halt()

    def _forget(self, flight: Flight) -> None:
        """Let nobody join a call that is being given up."""
        self._by_key = {key: other for key, other in self._by_key.items() if other is not flight}

    async def drain(self, timeout: float) -> None:
        """Wait for abandoned calls of this event loop, and end what is then still out."""
        loop = asyncio.get_running_loop()
        tasks = {flight.task for flight in self._all if not flight.waiting and flight.task.get_loop() is loop}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)


async def run_workers(
    worker: Callable[[], Awaitable[None]], count: int, *, flights: Flights, patience: float, grace: float
) -> None:
    """Run `count` workers to their end; the first error stops the others and is raised.

    Calls that are out when it happens come in first: within `patience` seconds after an error, within
    `grace` seconds after a cancellation from outside.
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
        await flights.drain(grace)
        raise
    errors = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        await _stop(tasks)
        await flights.drain(patience)
        raise first
    await asyncio.gather(*tasks)


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
