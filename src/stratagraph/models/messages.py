"""What a model is given and what it answers: a prompt in two messages; a text, its usage, why it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CUT_OFF = {"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"}
_FILTERED = {"content_filter", "content_filtered", "safety", "prohibited_content", "guardrail_intervened"}
_INPUT = ("input_tokens", "prompt_tokens", "prompt_eval_count", "prompt_token_count")
_OUTPUT = ("output_tokens", "completion_tokens", "eval_count", "candidates_token_count")


class Messages(str):
    """A system message, perhaps empty, and a user message; a string for models that take one text."""

    system: str
    user: str

    def __new__(cls, system: str, user: str) -> Messages:
        """A prompt of these parts; its text is the two with an empty line between them."""
        self = super().__new__(cls, f"{system}\n\n{user}" if system else user)
        self.system, self.user = system, user
        return self

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str has one argument
        return self.system, self.user

    @classmethod
    def of(cls, prompt: str) -> Messages:
        """A prompt as messages; a plain string is one user message."""
        return prompt if isinstance(prompt, cls) else cls("", prompt)

    @property
    def by_role(self) -> list[tuple[str, str]]:
        """Role and text of each message."""
        return [("system", self.system), ("user", self.user)] if self.system else [("user", self.user)]

    def joined(self) -> Messages:
        """The same text as one user message."""
        return Messages("", str(self))


class Completion(str):
    """An answer; a chat model may return one in place of a plain string.

    `input_tokens` and `output_tokens` are the provider's counts, or None. `finish_reason` is in the
    provider's words.
    """

    input_tokens: int | None
    output_tokens: int | None
    finish_reason: str

    def __new__(
        cls,
        text: str,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        finish_reason: str | None = "",
    ) -> Completion:
        """An answer with what is known about it."""
        # Neither lone surrogates nor NUL can be stored everywhere.
        self = super().__new__(cls, text.encode("utf-8", "replace").decode("utf-8").replace("\x00", ""))
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.finish_reason = finish_reason or ""
        return self

    @classmethod
    def of(cls, text: str, usage: object, finish_reason: object = "") -> Completion:
        """An answer with a usage report of any provider or framework."""
        taken, written = _count(usage, _INPUT), _count(usage, _OUTPUT)
        reason = finish_reason if isinstance(finish_reason, str) else ""
        return cls(text, input_tokens=taken, output_tokens=written, finish_reason=reason)

    @property
    def cut_off(self) -> bool:
        """Whether the model stopped at its token limit."""
        return self.finish_reason.casefold() in _CUT_OFF

    @property
    def filtered(self) -> bool:
        """Whether a content filter stopped the answer."""
        return self.finish_reason.casefold() in _FILTERED


def _count(usage: object, names: tuple[str, ...]) -> int | None:
    """The first of these counts in a usage report, an object or a mapping."""
    for name in names:
        value: Any = usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def from_openai(completion: Any) -> Completion | None:
    """The answer in a chat completion of OpenAI's client, or None.

    Its text, a tool's arguments, or a refusal.
    """
    choices = getattr(completion, "choices", None)
    if not choices:
        return None
    message = getattr(choices[0], "message", None)
    calls = getattr(message, "tool_calls", None) or ()
    arguments = [getattr(getattr(call, "function", None), "arguments", None) for call in calls]
    found = (getattr(message, "content", None), *arguments, getattr(message, "refusal", None))
    text = next((each for each in found if isinstance(each, str) and each), "")
    return Completion.of(text, getattr(completion, "usage", None), getattr(choices[0], "finish_reason", None))


def answer_within(error: BaseException) -> Completion | None:
    """The answer in an error of OpenAI's client, which raises for cut-off and filtered answers."""
    if type(error).__name__ == "ContentFilterFinishReasonError":
        return Completion("", finish_reason="content_filter")
    return from_openai(getattr(error, "completion", None))
