from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.models.budget import Budget, Limits
from stratagraph.models.concurrency import Bucket, Limiter, Slots


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    "wrong",
    [{"concurrency": 0}, {"requests_per_minute": 0}, {"timeout": -1}, {"retries": -1}, {"embed_batch": 0}],
)
def test_impossible_limits(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)


def test_impossible_budgets() -> None:
    with pytest.raises(ValueError, match="calls"):
        Budget(calls=-1)
    with pytest.raises(ValueError, match="needs prices"):
        Budget(cost=1.0)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60), st.integers(1, 600))
def test_no_minute_holds_more_than_the_rate(amounts: list[int], rate: int) -> None:
    clock = Clock()
    bucket = Bucket(rate, clock=clock)
    events = []
    for amount in amounts:
        clock.now += bucket.take(amount)
        events.append((clock.now, amount))
    burst = max(1.0, rate / 60)
    for start, _ in events:
        inside = sum(amount for when, amount in events if start < when <= start + 60)
        # The last request of a minute may be larger than what was left; it is paid for afterwards.
        assert inside <= rate + burst + max(amounts) + 1e-6


async def test_an_interrupted_wait_gives_its_share_back() -> None:
    clock = Clock()
    limiter = Limiter(Limits(requests_per_minute=1), sleep=asyncio.sleep, clock=clock)
    await limiter.pace(1)
    for _ in range(50):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await limiter.pace(1)
    assert limiter._requests is not None
    assert limiter._requests.take(1) == pytest.approx(60)


async def test_a_slot_that_arrives_with_the_cancellation_is_passed_on() -> None:
    slots = Slots(1)
    order = []

    async def use(name: str) -> None:
        async with slots.one():
            order.append(name)
            await asyncio.sleep(0.01)

    first = asyncio.create_task(use("first"))
    await asyncio.sleep(0)
    second, third = asyncio.create_task(use("second")), asyncio.create_task(use("third"))
    await first
    second.cancel()  # its turn has been set, and it has not run yet
    await asyncio.gather(second, third, return_exceptions=True)
    assert order[-1] == "third"
    assert slots.free == 1
