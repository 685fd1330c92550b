"""How a service goes wrong: one fault per request, by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
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


_ERRORS = {
    mode: Reply(status=status, error=body)
    for mode, (status, body) in json.loads(
        Path(__file__).with_name("golden").joinpath("errors.json").read_text("utf-8")
    ).items()
}
