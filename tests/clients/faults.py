"""How a service goes wrong: one fault per request, by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    """An answer, or an error in its place."""

    text: str = ""
    finish_reason: str = "stop"
    status: int = 200
    error: dict[str, Any] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    refusal: str | None = None
    page: bool = False
    """A page of HTML in place of the answer."""
    drop: bool = False
    """The connection is closed in the middle of the answer."""
    broken: bool = False
    """A stream ends without a reason; `then`: by an `error`, by the mark that it is `done`, or by neither."""
    then: str = ""


def reply(mode: str, text: str) -> Reply:
    """What the server replies in a mode in which it would have answered `text`."""
    kind, _, number = mode.partition(":")
    if kind in _TEXTS:
        return Reply(_TEXTS[kind](text))
    if kind in _ERRORS:
        return _ERRORS[kind]
    if kind == "truncated":
        return Reply(text[: max(1, len(text) * 3 // 5)], "length")
    if kind == "filtered":
        return Reply("", "content_filter")
    if kind == "refusal":
        return Reply("", refusal="I'm sorry, but I can't help with that request.")
    if kind == "429":
        error = {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}
        return Reply(status=429, error=error, headers=(("retry-after", number or "1"),))
    if kind == "broken":
        return Reply(text, broken=True, then=number)
    if kind == "length":
        return Reply(text, "length")
    if kind == "filtered_after":
        return Reply(text, "content_filter")
    if kind == "html":
        return Reply(page=True)
    if kind == "drop":
        return Reply(text, drop=True)
    raise ValueError(f"unknown mode {mode!r}")


def _wrong_key(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return json.dumps({f"{key}_of_it": value for key, value in found.items()})


_TEXTS = {
    "ok": lambda text: text,
    "fenced": lambda text: f"```json\n{text}\n```",
    "prose": lambda text: f"Sure! Here is what you asked for:\n\n{text}\n\nI hope that this helps.",
    "wrong_key": _wrong_key,
    "nul": lambda text: text.replace(" ", "\x00 ", 3),
    "empty": lambda text: "",
}


def _error(status: int, message: str, kind: str, code: str | None = None) -> Reply:
    return Reply(status=status, error={"message": message, "type": kind, "param": None, "code": code})


_ERRORS = {
    "content_filter": _error(
        400,
        "The response was filtered by the content management policy.",
        "invalid_request_error",
        "content_filter",
    ),
    "context": _error(
        400,
        "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
    "context_vllm": _error(
        400, "This model's maximum context length is 4096 tokens, your request has 5000.", "BadRequestError"
    ),
    "context_ollama": _error(400, "the input length exceeds the context length", "api_error"),
    "context_runner": _error(500, "llama runner: prompt is too long", "server_error"),
    "context_minute": _error(
        429,
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 33456.",
        "tokens",
        "rate_limit_exceeded",
    ),
    "quota": _error(
        429,
        "You exceeded your current quota, please check your plan.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    "401": _error(401, "Incorrect API key provided: sk-no.", "invalid_request_error", "invalid_api_key"),
    "404": _error(404, "The model `nope` does not exist.", "invalid_request_error", "model_not_found"),
    "400": _error(400, "Unsupported value: 'temperature' is too high.", "invalid_request_error"),
    "500": _error(500, "The server had an error.", "server_error"),
    "503": _error(503, "The model is overloaded.", "server_error"),
}
