"""Which errors of a model are worth another attempt, and when; outages of a server.

Models come from many libraries, none of which is imported here: status codes and class names decide.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import TypeVar

from stratagraph.errors import CallFailed, ModelError, StratagraphError, TooManyFailures
from stratagraph.models.budget import Limits, Sleep
from stratagraph.system.locks import Lock
from stratagraph.types.records import Failure

T = TypeVar("T")


class Verdict(Enum):
    """What follows from an error."""

    AGAIN = "again"  # passing: try again later
    UNIT = "unit"  # this unit fails, others may do
    STOP = "stop"  # every call would fail


_AGAIN = re.compile(
    r"RateLimit|TooManyRequests|Timeout|TimedOut|Connect|ServiceUnavailable|InternalServer|Overloaded"
    r"|RemoteProtocol|ReadError|WriteError|IncompleteRead|JSONDecodeError|ResponseValidation"
)
_TIMED_OUT = re.compile(r"Timeout|TimedOut")
# Messages of clients that got HTML or nothing in place of an answer.
_NO_ANSWER = re.compile(
    r"Unexpected response type from OpenAI-compatible|'(?:str|NoneType)' object (?:has no attribute|is not)"
)
_PATH = " (the address of a server that speaks OpenAI's protocol mostly ends in /v1)"
_STOP = re.compile(
    r"Authentication|Unauthorized|PermissionDenied|Forbidden|BadRequest|InvalidRequest|NotFoundError"
)
# Bad requests because of one text; and limits that waiting does not lift.
_TOO_LONG_WORDS = re.compile(
    r"maximum (?:context|prompt) length|context (?:length|window|size)|(?:prompt|input|request) (?:is )?too l"
    r"|too many tokens|token count .{0,40}exceeds|`inputs` (?:tokens|must have)",
    re.IGNORECASE,
)
_TOO_LARGE_WORDS = re.compile(r"request too large", re.IGNORECASE)  # for the tokens of a whole minute
_FILTER_WORDS = re.compile(r"content (?:management )?(?:policy|filter)", re.IGNORECASE)
_QUOTA_WORDS = re.compile(r"exceeded your current quota|insufficient.quota|billing", re.IGNORECASE)
_OTHER_WORDS = re.compile(
    r"temperature|max_(?:completion_)?tokens|top_p|api.?key|does not exist|not found", re.IGNORECASE
)
_SCHEMA_WORDS = re.compile(
    r"response_format|json_schema|json schema|\bschema\b|structured output|\btools?\b|tool_choice"
    r"|function.call|\bformat\b|grammar|guided",
    re.IGNORECASE,
)
_SYSTEM_WORDS = re.compile(
    r"system role|role.{0,40}['\"`]system['\"`]|roles must alternate|developer instruction"
    r"|system (?:message|prompt|instruction)s?\b.{0,40}\b(?:support|must|allow|enabled)",
    re.IGNORECASE,
)
_NOBODY_THERE = re.compile(
    r"connection refused|failed to connect|all connection attempts failed|name or service not known"
    r"|nodename nor servname|getaddrinfo failed|temporary failure in name resolution",
    re.IGNORECASE,
)
_TOO_LONG_CODES = {
    "context_length_exceeded",
    "exceed_context_size_error",  # llama.cpp
    "string_above_max_length",
}
_LONGEST_MESSAGE = 300
_DEEPEST_CAUSE = 8
_UNIT_CODES = {*_TOO_LONG_CODES, "content_filter", "content_policy_violation"}
_STOP_CODES = {"insufficient_quota", "invalid_api_key", "model_not_found"}


def judge(error: BaseException) -> Verdict:
    """What to do about a model's error; an unknown error concerns its own unit only."""
    verdicts = (_judge_one(each) for each in _chain(error))
    return next((verdict for verdict in verdicts if verdict is not None), Verdict.UNIT)


def _judge_one(error: BaseException) -> Verdict | None:
    if isinstance(error, StratagraphError):
        return Verdict.UNIT
    codes = _codes(error)
    if codes & _UNIT_CODES or _too_long(error):
        return Verdict.UNIT
    if codes & _STOP_CODES:
        return Verdict.STOP
    status = status_of(error)
    if status is not None and status >= 300:
        if status == 429 and _QUOTA_WORDS.search(str(error)):
            return Verdict.STOP
        if status in (408, 409, 425, 429) or status >= 500:
            return Verdict.AGAIN
        if status in (400, 413, 422) and _FILTER_WORDS.search(str(error)):
            return Verdict.UNIT
        return Verdict.STOP if status in (400, 401, 402, 403, 404) else Verdict.UNIT
    left_behind = isinstance(error, RuntimeError) and "Event loop is closed" in str(error)  # by an ended loop
    if left_behind or isinstance(error, TimeoutError | ConnectionError):
        return Verdict.AGAIN
    if _AGAIN.search(_names(error)) or _no_answer(error):
        return Verdict.AGAIN
    return Verdict.STOP if _STOP.search(_names(error)) else None


def _about_text(error: BaseException) -> bool:
    """Whether a request was rejected for its text, by the error's words."""
    return any(words.search(str(error)) for words in (_TOO_LONG_WORDS, _FILTER_WORDS))


def _too_long(error: BaseException) -> bool:
    """Whether a request was rejected because its text does not fit the model's context."""
    status, text = status_of(error), str(error)
    if status == 429:
        return _TOO_LARGE_WORDS.search(text) is not None
    by_words = status in (400, 413, 422, 500) and _TOO_LONG_WORDS.search(text) is not None
    return by_words or bool(_codes(error) & _TOO_LONG_CODES)


def _no_answer(error: BaseException) -> bool:
    """Whether a client could not parse the reply."""
    if isinstance(error, json.JSONDecodeError):
        return True
    return isinstance(error, AttributeError | TypeError | ValueError) and bool(_NO_ANSWER.search(str(error)))


def _names(error: BaseException) -> str:
    """The class of an error and its bases, by name."""
    return " ".join(base.__name__ for base in type(error).__mro__ if base.__module__ != "builtins")


def refuses_schema(error: BaseException) -> bool:
    """Whether a request was rejected for its schema or tool.

    A bad request that says nothing of the text, the key or the model counts too.
    """
    if isinstance(error, NotImplementedError):
        return True
    for each in _chain(error):
        if isinstance(each, StratagraphError) or _codes(each) & (_UNIT_CODES | _STOP_CODES):
            return False
        status = status_of(each)
        if status is not None:
            about_schema = _SCHEMA_WORDS.search(str(each)) is not None
            if _about_text(each):
                return False
            vague = status in (400, 422) and not _OTHER_WORDS.search(str(each))
            return status in (400, 404, 422, 501) and (about_schema or vague)
    return False


def refuses_temperature(error: BaseException) -> bool:
    """Whether a request was rejected for its temperature: some models know one only."""
    return any(status_of(each) in (400, 422) and "temperature" in str(each) for each in _chain(error))


def refuses_system(error: BaseException) -> bool:
    """Whether a request was rejected for its system message: the templates of some open models know none."""
    return any(
        (status_of(each) or 0) >= 400
        and not _about_text(each)
        and _SYSTEM_WORDS.search(str(each)) is not None
        for each in _chain(error)
    )


def may_concern_a_text(error: BaseException) -> bool:
    """Whether a batch may have been refused for one of its texts: 400, 413, 422 and errors of the server."""
    status = next((found for each in _chain(error) if (found := status_of(each)) is not None), 0)
    return status in (400, 413, 422) or status >= 500


def timed_out(error: BaseException) -> bool:
    """Whether the error is a time-out."""
    return any(isinstance(each, TimeoutError) or _TIMED_OUT.search(_names(each)) for each in _chain(error))


def shows_outage(error: BaseException) -> bool:
    """Whether an error points to a failing server, not to a rate limit."""
    limited = any(status_of(each) == 429 for each in _chain(error)) or retry_after(error) > 0
    return judge(error) is Verdict.AGAIN and not limited


def nobody_there(error: BaseException) -> bool:
    """Whether nothing listens at the server's address, or there is no such address."""
    return any(
        isinstance(each, ConnectionRefusedError | socket.gaierror) or _NOBODY_THERE.search(str(each))
        for each in _chain(error)
        if not isinstance(each, StratagraphError)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it: libraries wrap each other's errors."""
    current: BaseException | None = error
    for _ in range(_DEEPEST_CAUSE):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__  # suppressed ones may hold the headers


def _codes(error: BaseException) -> set[str]:
    """The service's codes and types of the error."""
    body = getattr(error, "body", None)
    body = body if isinstance(body, dict) else {}
    inner = body.get("error")
    codes = [getattr(error, "code", None), getattr(error, "type", None)]
    for each in (body, inner if isinstance(inner, dict) else {}):
        codes += [each.get("code"), each.get("type")]
    return {code for code in codes if isinstance(code, str)}


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error carries, wherever its library puts it."""
    response = getattr(error, "response", None)
    places = [
        (error, ("status_code", "http_status", "status", "code")),
        (response, ("status_code", "status")),
    ]
    for holder, names in places:
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
                return value
    return None


def retry_after(error: BaseException, now: Callable[[], float] = time.time) -> float:
    """Seconds that the service asks to wait, by a `retry_after` attribute or a Retry-After header; else 0."""
    for each in _chain(error):
        values = [getattr(each, "retry_after", None)]
        for holder in (getattr(each, "response", None), each):
            get = getattr(getattr(holder, "headers", None), "get", None)
            values.append(None if get is None else get("retry-after") or get("Retry-After"))
        for value in values:
            if value is None or isinstance(value, bool):
                continue
            with suppress(TypeError, ValueError):
                return max(0.0, float(value))
            with suppress(ValueError):
                return max(0.0, parsedate_to_datetime(str(value)).timestamp() - now())
    return 0.0


def describe(error: BaseException) -> str:
    """An error in one line; of a service's error, the status and the message in its body."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    if isinstance(message, str) and message:
        text = " ".join(f"{status_of(error) or ''} {message}".split())
    else:
        text = " ".join(str(error).split())
    if len(text) > _LONGEST_MESSAGE:
        text = text[:_LONGEST_MESSAGE] + " ..."
    name = type(error).__name__
    return f"{name}: {text.rstrip('.')}" if text else name


async def with_retries(
    attempt: Callable[[], Awaitable[T]],
    *,
    limits: Limits,
    sleep: Sleep,
    worthwhile: Callable[[Exception], bool] = lambda error: True,
    before_pause: Callable[[Exception, float], None] = lambda error, seconds: None,
) -> T:
    """Attempt until it works, the error is not a passing one, or `limits.retries` are used.

    Pauses are random and grow exponentially, and are at least what the service asks for. A time-out is tried
    again once: a server that is too slow twice may be working on what was given up. `worthwhile` says whether
    anybody still wants the result; `before_pause` gets the error and the seconds that the service asks for.
    """
    timeouts = 0
    for retry in itertools.count():
        try:
            return await attempt()
        except Exception as error:
            timeouts += timed_out(error)
            requested = retry_after(error)
            before_pause(error, requested)
            passing = judge(error) is Verdict.AGAIN and timeouts <= 1 and requested <= limits.longest_wait
            if not worthwhile(error) or retry >= limits.retries or not passing:
                raise
            growing = random.uniform(0, min(limits.longest_wait, 0.5 * 2.0**retry))
        await sleep(max(requested, growing))
    raise AssertionError("unreachable")


def translate(error: Exception, *, who: str, attempts: int, reached: bool = True) -> StratagraphError:
    """Our error for one that a model raised: `ModelError` for every call, or `CallFailed` for this one.

    A server that never answered (`reached=False`) and is not there is an error for every call.
    """
    if isinstance(error, StratagraphError):
        return error
    if not reached and nobody_there(error):
        return ModelError(
            f"{who}: no server answers there ({describe(error)}). Start it, or correct the address"
        )
    if judge(error) is Verdict.STOP:
        no_such_path = status_of(error) == 404 and "model" not in describe(error).lower()
        path = _PATH if no_such_path else ""
        return ModelError(
            f"{who} refuses every call: {describe(error)}. Check its key, its name and its settings{path}; "
            "the same command then goes on with what an index folder or a cache kept"
        )
    tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    if _no_answer(error):
        return CallFailed(
            f"{who} failed after {tried}: what came is no answer of a model ({describe(error)}); a proxy or "
            "a login page may stand in between: check the address"
        )
    if any(map(_too_long, _chain(error))):
        return CallFailed(
            f"{who}: the text is too long for the model's context ({describe(error)}). Take a model with a "
            "larger context (for Ollama: num_ctx), or send less: smaller chunks when an index is built "
            "(config={'chunking': {'size': ...}}), fewer hits (k) or a smaller max_tokens of the answer when "
            "a question is answered"
        )
    requested = retry_after(error)
    note = f" (it asks to wait for {requested:.0f} s)" if requested else ""
    return CallFailed(f"{who} failed after {tried}: {describe(error)}{note}")


def too_many(failures: Sequence[Failure], units: int, allowed: float) -> TooManyFailures:
    """The error that ends an operation with too many failures."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for each in failures[:3]:
        by_reason.setdefault((each.stage, each.reason), []).append(each.about)
    shown = "; ".join(
        f"{stage}: {', '.join(items)}: {reason}" for (stage, reason), items in by_reason.items()
    )
    return TooManyFailures(
        f"{len(failures)} of {units} units failed so far, more than max_failures={allowed:g} allows; nothing "
        f"is published. First: {shown}. In an index folder or a cache, what succeeded is kept: the same "
        "command asks again for the rest only"
    )


class Outage:
    """Failures since the last answer, over all calls of an operation to one model. Thread-safe.

    One call may fail because of its text. If several calls fail and none succeeds, the server counts as down
    after `attempts` failures for a question, and after `attempts` failures per failing call for a build. One
    call must have used half of its attempts by then: parallel calls may all meet one short disturbance.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._failures: Counter[int] = Counter()
        self._late = 0
        self._lock = Lock()

    def failed(self, call: int) -> None:
        """Record a failed request of a call."""
        with self._lock:
            self._failures[call] += 1

    def gave_up(self) -> None:
        """Record a call that timed out."""
        with self._lock:
            self._late += 1

    def answered(self) -> None:
        """Record an answer, which ends an outage."""
        with self._lock:
            self._failures.clear()
            self._late = 0

    @property
    def too_slow(self) -> bool:
        """Whether `attempts` calls in a row, and at least two, timed out."""
        return self._late >= max(2, self._attempts)

    def over(self, *, patient: bool) -> bool:
        """Whether no request should be sent any more."""
        if self.too_slow:
            return True
        with self._lock:
            calls, failed = len(self._failures), self._failures.total()
            if calls < 2 or max(self._failures.values()) < (self._attempts + 1) // 2:
                return False
            return failed >= self._attempts * (calls if patient else 1)

    @property
    def length(self) -> int:
        """Failures in a row, or calls that were given up, whichever are more."""
        return max(self._failures.total(), self._late)
