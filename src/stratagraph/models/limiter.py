"""How many requests run at the same time, how many a minute, and the threads of blocking models."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from stratagraph.errors import CallFailed, ModelError
from stratagraph.models.budget import Limits, Sleep
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
        self.thread: concurrent.futures.Future[Any] | None = None
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
        self._free = count
        self._held: set[Slot] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._lock = Lock()
        after_fork(self._after_fork)

    def _after_fork(self) -> None:
        """In a forked child all slots are free."""
        Slots.__init__(self, self.count)

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return self._free

    @asynccontextmanager
    async def one(self, patience: float | None = None) -> AsyncIterator[Slot]:
        """Hold a slot until the block ends, or its thread does, if later.

        Raises `CallFailed` if abandoned threads held all slots for `patience` seconds.
        """
        await self._acquire(patience)
        slot = Slot()
        with self._lock:
            self._held.add(slot)
        try:
            yield slot
        finally:
            if slot.thread is not None and slot.working:
                slot.abandoned = True
                slot.thread.add_done_callback(lambda _: self._let_go(slot))
            else:
                self._let_go(slot)

    async def _acquire(self, patience: float | None) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            while not (await asyncio.wait({turn}, timeout=patience))[0]:
                self._check_abandoned(turn, patience)
        except asyncio.CancelledError:
            with self._lock:
                queued = turn in self._waiting
                if queued:
                    self._waiting.remove(turn)
            # Not in the queue: the slot was, or is about to be, handed over.
            if not queued and turn.done():
                self._release()
            turn.cancel()
            raise

    def _check_abandoned(self, turn: asyncio.Future[None], patience: float | None) -> None:
        with self._lock:
            abandoned = sum(slot.abandoned for slot in self._held)
            if abandoned < self.count or turn not in self._waiting:
                return
            self._waiting.remove(turn)
        raise CallFailed(
            f"all {self.count} slots are held by requests that got no answer for {patience:g} s: the server "
            "does not answer. Restart it, or give it more time with Limits(timeout=...)"
        )

    def _let_go(self, slot: Slot) -> None:
        with self._lock:
            self._held.discard(slot)
        self._release()

    def _release(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._free += 1
                    return
                turn = self._waiting.popleft()
            if turn.get_loop() is _running_loop():
                if turn.done():  # cancelled, and not yet told
                    continue
                turn.set_result(None)
                return
            try:
                turn.get_loop().call_soon_threadsafe(self._hand_over, turn)
            except RuntimeError:  # that loop is closed, and nobody waits there any more
                continue
            return

    def _hand_over(self, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self._release()
        else:
            turn.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


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
        asked = self._resumes - self._clock()
        if asked > self._longest_wait:
            raise CallFailed(
                f"nothing was sent: the service asks to wait for {asked:.0f} s, which is more than "
                f"longest_wait={self._longest_wait:g}; try again then"
            )
        takes = [(self._requests, 1), (self._tokens, tokens)]
        delay = max((bucket.take(amount) for bucket, amount in takes if bucket is not None), default=0.0)
        delay = max(delay, asked)
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


class Threads:
    """The threads of blocking models, started on demand."""

    def __init__(self, limits: Limits) -> None:
        self._count = limits.concurrency + limits.embed_concurrency
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        self._pool = ThreadPoolExecutor(self._count, thread_name_prefix="stratagraph-model")

    async def run(self, slot: Slot, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """Call a blocking function in a thread with the caller's context.

        A thread cannot be stopped: if the caller is cancelled, the slot stays held until it ends.
        """
        context = contextvars.copy_context()
        slot.thread = self._pool.submit(context.run, _contained, function, *args, **kwargs)
        result: R = await asyncio.wrap_future(slot.thread)
        return result


def _contained(function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Call a user's model; one that ends the process ends the operation instead."""
    try:
        return function(*args, **kwargs)
    except (SystemExit, KeyboardInterrupt) as error:
        raise ModelError(f"the model raised {type(error).__name__}: {error}") from error


class Services:
    """The limits of an index on its models, shared by all its gates.

    `refused_schemas` holds the model and schema of requests that a server rejected for their schema.
    """

    def __init__(self, limits: Limits, *, sleep: Sleep = asyncio.sleep) -> None:
        self.limiter = Limiter(limits, sleep=sleep)
        self.embed_slots = Slots(limits.embed_concurrency)
        self.threads = Threads(limits)
        self.refused_schemas: set[tuple[str, str]] = set()
