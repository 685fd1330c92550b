from __future__ import annotations

import datetime
from email.utils import format_datetime

import pytest

from stratagraph.models.budget import Limits
from stratagraph.models.retry import Outage, Verdict, judge, retry_after, with_retries
from stratagraph.testing import ServiceError
from tests.models.tasks import Codes, Pauses


class RateLimitError(Exception): ...


class APIConnectionError(Exception): ...


class AuthenticationError(Exception): ...


class Response:
    def __init__(self, status_code: int, headers: dict[str, str]) -> None:
        self.status_code = status_code
        self.headers = headers


class Answered(Exception):
    def __init__(self, status_code: int, **headers: str) -> None:
        super().__init__("answered")
        self.response = Response(status_code, headers)


class OfLlamaCpp(Exception):
    """As OpenAI's client raises it for that server: the code is a number, the type says what it is."""

    status_code = 400

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.body = {"code": 400, "message": "request (9000 tokens) ...", "type": kind}


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ServiceError(429), Verdict.AGAIN),
        (ServiceError(503), Verdict.AGAIN),
        (ServiceError(529), Verdict.AGAIN),
        (ServiceError(400), Verdict.STOP),
        (ServiceError(401), Verdict.STOP),
        (ServiceError(403), Verdict.STOP),
        (ServiceError(404), Verdict.STOP),
        (ServiceError(413), Verdict.UNIT),
        (Answered(500), Verdict.AGAIN),
        (RateLimitError("slow down"), Verdict.AGAIN),
        (APIConnectionError(), Verdict.AGAIN),
        (AuthenticationError(), Verdict.STOP),
        (TimeoutError(), Verdict.AGAIN),
        (ConnectionResetError(), Verdict.AGAIN),
        (Codes("insufficient_quota", 429), Verdict.STOP),
        (Codes("content_filter", 400), Verdict.UNIT),
        (OfLlamaCpp("exceed_context_size_error"), Verdict.UNIT),
        (OfLlamaCpp("invalid_request_error"), Verdict.STOP),
        (ValueError("odd"), Verdict.UNIT),
        (FileNotFoundError("weights"), Verdict.UNIT),
    ],
)
def test_verdicts(error: Exception, verdict: Verdict) -> None:
    assert judge(error) is verdict


def test_a_wrapped_error_is_judged_by_its_cause() -> None:
    wrapped = RuntimeError("the model failed")
    wrapped.__cause__ = ServiceError(429, retry_after=7)
    assert judge(wrapped) is Verdict.AGAIN
    assert retry_after(wrapped) == 7


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
