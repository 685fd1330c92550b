from __future__ import annotations

import datetime
from email.utils import format_datetime

import pytest

from stratagraph.errors import MissingExtra, ModelError
from stratagraph.models.budget import Limits
from stratagraph.models.retry import Verdict, judge, retry_after, translate, with_retries
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


async def test_a_service_that_asks_for_too_long_is_not_waited_for() -> None:
    pauses = Pauses()

    async def attempt() -> str:
        raise ServiceError(429, retry_after=3_600)

    with pytest.raises(ServiceError):
        await with_retries(attempt, limits=Limits(), sleep=pauses)
    assert pauses.seconds == []


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (3, 4)])
async def test_attempts_are_counted(retries: int, attempts: int) -> None:
    made = 0

    async def attempt() -> None:
        nonlocal made
        made += 1
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await with_retries(attempt, limits=Limits(retries=retries), sleep=Pauses())
    assert made == attempts


def test_messages() -> None:
    stopped = translate(ServiceError(401, "invalid key"), who="model 'm'", attempts=1)
    assert isinstance(stopped, ModelError)
    assert "model 'm' refuses every call: ServiceError: invalid key" in str(stopped)
    failed = translate(ServiceError(500), who="model 'm'", attempts=6)
    assert str(failed) == "model 'm' failed after 6 attempts: ServiceError: HTTP 500"
    missing = MissingExtra("onnxruntime", "local")
    assert translate(missing, who="model 'm'", attempts=1) is missing
