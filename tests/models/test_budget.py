"""Limits and budgets, retries, and how an estimate is shown."""

from __future__ import annotations

import asyncio
import datetime
import json
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.models.budget import Budget, Limits, Prices
from stratagraph.models.concurrency import Bucket, Limiter
from stratagraph.models.estimate import CountingGate
from stratagraph.models.gate import Gate
from stratagraph.models.retry import Outage, retry_after, with_retries
from stratagraph.testing import FakeEmbedder, ScriptedChatModel, ServiceError
from tests.models.tasks import TEXT, Pauses, items, texts


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


class Response:
    def __init__(self, status_code: int, headers: dict[str, str]) -> None:
        self.status_code = status_code
        self.headers = headers


class Answered(Exception):
    def __init__(self, status_code: int, **headers: str) -> None:
        super().__init__("answered")
        self.response = Response(status_code, headers)


def test_retry_after_in_all_its_places() -> None:
    assert retry_after(ServiceError(429, retry_after=3.5)) == 3.5
    assert retry_after(Answered(429, **{"retry-after": "12"})) == 12
    when = datetime.datetime.fromtimestamp(1_000_030, datetime.UTC)
    assert retry_after(Answered(429, **{"Retry-After": format_datetime(when)}), lambda: 1_000_000) == 30
    assert retry_after(Answered(429, **{"retry-after": "soon"})) == 0
    assert retry_after(ValueError()) == 0


async def test_pauses_grow_and_are_as_long_as_the_service_asks() -> None:
    pauses, errors = Pauses(), [ServiceError(500), ServiceError(429, retry_after=20), ServiceError(500)]

    async def attempt() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    assert await with_retries(attempt, limits=Limits(longest_wait=30), sleep=pauses) == "done"
    assert len(pauses.seconds) == 3
    assert pauses.seconds[1] >= 20
    assert max(pauses.seconds) <= 30


def over(attempts: int, failed: list[int], *, patient: bool) -> list[bool]:
    """After each failure, by the number of its call, whether the server is held to be gone."""
    outage, found = Outage(attempts), []
    for call in failed:
        outage.failed(call)
        found.append(outage.over(patient=patient))
    outage.answered()
    assert not outage.over(patient=patient)
    return found


def test_when_a_server_is_held_to_be_gone() -> None:
    assert not any(over(3, [0] * 9, patient=False))  # one call that always fails is not the server
    assert over(3, [0, 1, 0], patient=False) == [False, False, True]
    assert over(3, [0, 1, 0, 1, 0, 1], patient=True) == [False] * 5 + [True]  # of a build, as many as all may
    side_by_side = [*range(10), *range(10), 4]  # they may all meet one short disturbance
    assert over(6, side_by_side, patient=False) == [False] * 20 + [True]
    outage = Outage(3)
    for _ in range(3):
        assert not outage.over(patient=True)
        outage.gave_up()  # too late
    assert outage.over(patient=True)


async def recipe(gate: Gate) -> None:
    """Calls, repeated calls and embeddings, as a build makes them."""
    with gate.stage("describe", 40):
        answers = await gate.map(TEXT, [*items(30), *items(10)])
    assert None not in answers
    await gate.call(TEXT, {"text": "thing 3"}, item="again")
    await gate.call(TEXT, {"text": "one more"}, item="more")
    await gate.embed("embed", [*texts(20), *texts(5)])


async def test_presentation() -> None:
    counting = CountingGate(ScriptedChatModel(), FakeEmbedder())
    await recipe(counting)
    estimate = counting.estimate(Prices(1_000.0, 2_000.0))
    assert (estimate.calls, estimate.output_tokens) == (31, 5 * 31)
    assert estimate.cost == pytest.approx((estimate.input_tokens * 1_000 + 5 * 31 * 2_000) / 1e6)
    table = str(estimate).splitlines()
    assert " ".join(table[0].split()) == "stage calls cached tokens in tokens out embedded tokens"
    assert [line.split()[0] for line in table] == ["stage", "describe", "embed", "total", "cost:"]
    assert len({len(line) for line in table[:-1]}) == 1
    assert json.loads(json.dumps(estimate.to_dict()))["stages"]["describe"]["calls"] == 31
    assert "unknown" in str(counting.estimate())
    assert counting.estimate().to_dict()["cost"] is None
