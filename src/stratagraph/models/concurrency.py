"""Requests under way: slots, rates, threads, deadlines, and the calls that wait for them.

A request that was sent is paid for, whether or not anybody waits for it. So each call is a task of its own,
which identical calls share. When the last caller is cancelled, a request under way ends and is recorded.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from stratagraph.errors import CallFailed, ModelError
from stratagraph.models.budget import Limits, Sleep
from stratagraph.models.tracing import logger
from stratagraph.system.locks import Lock, after_fork

R = TypeVar("R")


class Bucket:
    """A token bucket: `per_minute` units evenly over time, with a burst of one second's worth.

    A request larger than the bucket passes in its turn and leaves a debt that the next ones wait for.
    """

    def __init__(self, per_minute: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_minute / 60.0
        self._size = max(1.0, self._rate)
        self._level = self._size
        self._clock = clock
        self._then = clock()
        self._lock = Lock()

    def take(self, amount: float) -> float:
        """Take an amount and return the seconds to wait before using it. Negative amounts give back."""
        with self._lock:
            now = self._clock()
            self._level = min(self._size, self._level + (now - self._then) * self._rate)
            self._then = now
            self._level = min(self._size, self._level - amount)
            return max(0.0, -self._level / self._rate)


class Slot:
    """A slot that is held until the thread working under it ends.

    `abandoned`: nobody waits for that thread.
    """

    def __init__(self) -> None:
        self.thread: Future[Any] | None = None
        self.abandoned = False

    @property
    def working(self) -> bool:
        """Whether a thread still works under this slot."""
        return self.thread is not None and not self.thread.done()


class Slots:
    """A semaphore for several threads and event loops, first come first served.

    `asyncio.Semaphore` belongs to one loop; an index is used from the caller's and the background loop.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.free = count
        self._held: set[Slot] = set()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, Future[None]]] = deque()
        self._lock = Lock()
        after_fork(self._after_fork)

    def _after_fork(self) -> None:
        """In a forked child all slots are free."""
        Slots.__init__(self, self.count)

    @asynccontextmanager
    async def one(self, patience: float | None = None) -> AsyncIterator[Slot]:
        """Hold a slot until the block ends, or its thread does, if later.

        Raises `CallFailed` if abandoned threads held all slots for `patience` seconds.
        """
        slot = Slot()
        with self._lock:
            turn: Future[None] | None = None
            if self.free:
                self.free -= 1
            else:
                turn = Future()
                self._waiting.append((asyncio.get_running_loop(), turn))
        if turn is not None:
            await self._wait(turn, patience)
        with self._lock:
            self._held.add(slot)
        try:
            yield slot
        finally:
            if slot.thread is not None and slot.working:
                slot.abandoned = True
                slot.thread.add_done_callback(lambda _: self._release(slot))
            else:
                self._release(slot)

    async def _wait(self, turn: Future[None], patience: float | None) -> None:
        here = asyncio.wrap_future(turn)
        try:
            while not (await asyncio.wait({here}, timeout=patience))[0]:
                with self._lock:
                    abandoned = sum(slot.abandoned for slot in self._held)
                    if abandoned < self.count or not turn.cancel():
                        continue
                raise CallFailed(
                    f"all {self.count} slots are held by requests that got no answer for {patience:g} s: the "
                    "server does not answer. Restart it, or give it more time with Limits(timeout=...)"
                )
        except asyncio.CancelledError:
            if not turn.cancel():  # the slot was handed over
                self._release()
            raise

    def _release(self, slot: Slot | None = None) -> None:
        """Hand a slot to the first who waits."""
        with self._lock:
            if slot is not None:
                self._held.discard(slot)
            while self._waiting:
                loop, turn = self._waiting.popleft()
                if not loop.is_closed() and turn.set_running_or_notify_cancel():
                    break
            else:
                self.free += 1
                return
        turn.set_result(None)


class Limiter:
    """Slots and rates together. `sleep` and `clock` are replaced in tests."""

    def __init__(
        self, limits: Limits, *, sleep: Sleep = asyncio.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.slots = Slots(limits.concurrency)
        self._longest_wait = limits.longest_wait
        self._sleep = sleep
        self._clock = clock
        self._resumes = 0.0
        rates = limits.requests_per_minute, limits.tokens_per_minute
        self._requests, self._tokens = (None if rate is None else Bucket(rate, clock=clock) for rate in rates)

    def pause(self, seconds: float) -> None:
        """Send nothing for so many seconds: a service that asks one request to wait means all."""
        self._resumes = max(self._resumes, self._clock() + seconds)

    async def pace(self, tokens: int) -> None:
        """Wait until a request of so many tokens is within the rates.

        Raises `CallFailed` if the service asked for a longer pause than `Limits.longest_wait`.
        """
        pause = self._resumes - self._clock()
        if pause > self._longest_wait:
            raise CallFailed(
                f"nothing was sent: the service asks to wait for {pause:.0f} s, which is more than "
                f"longest_wait={self._longest_wait:g}; try again then"
            )
        takes = [(self._requests, 1), (self._tokens, tokens)]
        delay = max((bucket.take(amount) for bucket, amount in takes if bucket is not None), default=0.0)
        delay = max(delay, pause)
        if delay <= 0:
            return
        try:
            await self._sleep(delay)
        except BaseException:
            for bucket, amount in takes:
                if bucket is not None:
                    bucket.take(-amount)
            raise

    def correct(self, tokens: int) -> None:
        """Correct the token rate by the tokens a request used beyond its estimate."""
        if self._tokens is not None:
            self._tokens.take(tokens)


class Services:
    """What all gates of an index share: slots, rates, threads, and what was learnt of models.

    `refused` holds the name of a model, its server's address, and a schema or feature that it rejected.
    `thinks` tells by name and address whether answers began with a thought that no mark announced.
    """

    def __init__(self, limits: Limits, *, sleep: Sleep = asyncio.sleep) -> None:
        self.limiter = Limiter(limits, sleep=sleep)
        self.embed_slots = Slots(limits.embed_concurrency)
        self.refused: set[tuple[str, str, str]] = set()
        self.thinks: dict[tuple[str, str], bool] = {}
        self._threads = limits.concurrency + limits.embed_concurrency
        self._start_threads()
        after_fork(self._start_threads)

    def _start_threads(self) -> None:
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="stratagraph-model")

    async def in_thread(self, slot: Slot, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """Call a user's blocking function in a thread with the caller's context.

        A thread cannot be stopped: if the caller is cancelled, the slot stays held until it ends. A model
        that would end the process, or a scripted one that has no answer left, raises `ModelError`: a
        `StopIteration` cannot be handed to who waits, so that the wait would have no end.
        """

        def contained() -> R:
            try:
                return function(*args, **kwargs)
            except (KeyboardInterrupt, StopIteration, SystemExit) as error:
                raise ModelError(f"the model raised {type(error).__name__}: {error}") from error

        slot.thread = self._pool.submit(contextvars.copy_context().run, contained)
        result: R = await asyncio.wrap_future(slot.thread)
        return result


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
        """Mark a request as sent; it counts as under way until `rest` says that its answer was stored."""
        self._requesting = True
        try:
            yield
        except BaseException:
            self._requesting = False
            raise

    def rest(self) -> None:
        """Record that no request is under way and no answer waits to be stored."""
        self._requesting = False

    def halt(self) -> None:
        """Stop now, or as soon as the request under way has its answer."""
        self.halted = True
        if not self._requesting:
            self.task.cancel()

    def give_up(self, error: BaseException) -> None:
        """Give waiting callers an error, while the request stays out and is recorded if it ends."""
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()  # marks it as retrieved: perhaps nobody waits any more


class PendingCalls:
    """All calls of a gate that are under way."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[asyncio.AbstractEventLoop, str], PendingCall] = {}
        self._all: set[PendingCall] = set()

    def __len__(self) -> int:
        return len(self._all)

    async def share(
        self, key: str | None, run: Callable[[PendingCall], Coroutine[Any, Any, Any]]
    ) -> tuple[Any, bool]:
        """The result of `run`, and whether another caller ran it.

        Calls with one key in one event loop are joined.
        """
        loop = asyncio.get_running_loop()
        shared = None if key is None else self._by_key.get((loop, key))
        pending = shared or PendingCall(loop)

        def forget() -> None:
            """Keep new callers from joining the call."""
            if key is not None and self._by_key.get((loop, key)) is pending:
                del self._by_key[loop, key]

        def end(task: asyncio.Task[Any]) -> None:
            self._all.discard(pending)
            forget()
            if task.cancelled():
                pending.outcome.cancel()
            elif (error := task.exception()) is not None:
                pending.give_up(error)
            elif not pending.outcome.done():
                pending.outcome.set_result(task.result())

        if shared is None:
            pending.task = loop.create_task(run(pending))
            pending.task.add_done_callback(end)
            self._all.add(pending)
            if key is not None:
                self._by_key[loop, key] = pending
        pending.waiting += 1
        try:
            return await asyncio.shield(pending.outcome), shared is not None
        finally:
            pending.waiting -= 1
            if not pending.waiting and not pending.task.done():
                forget()
                pending.halt()

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
    worker: Callable[[], Coroutine[Any, Any, None]],
    count: int,
    *,
    pending: PendingCalls,
    patience: float,
    grace: float,
) -> None:
    """Run `count` workers; the first error stops the others and is raised.

    First waits for calls under way: up to `patience` seconds after an error, else up to `grace` seconds.
    """
    error: BaseException | None = None
    tasks: list[asyncio.Task[None]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(worker()) for _ in range(count)]
    except BaseExceptionGroup as errors:
        error = errors.exceptions[0]
    finally:
        await pending.drain(grace if error is None else patience)
    if error is not None:
        raise error
    if any(task.cancelled() for task in tasks):  # by itself, which a TaskGroup does not report
        raise asyncio.CancelledError


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

    An asynchronous request is then cancelled, and `TimeoutError` raised: it may be sent again. A thread
    cannot be stopped: callers of `pending` get an error, `given_up` is called, and the answer is recorded if
    it comes; without `pending`, `CallFailed` is raised.
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
