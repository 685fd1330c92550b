"""What a model is given and what it answers.

A prompt in two messages, the JSON schema of the answer, and a completion: its text, its usage and why it
ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stratagraph.types.results import Finish

if TYPE_CHECKING:
    from pydantic import BaseModel

_ENDINGS: dict[Finish, str] = {  # in the words of providers; any other reason is "stop"
    "length": "length max_tokens max_output_tokens model_length incomplete",
    "filtered": "content_filter content_filtered safety prohibited_content blocklist guardrail_intervened",
    "refused": "refusal",
    "broken off": "broken_off error",
}
BROKEN_OFF = "broken_off"
"""The reason of a stream that ended without one."""
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
    provider's words; empty if it is not told. Pieces of a stream are such objects if one of them must tell
    it: else the stream was broken off.
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
    def finish(self) -> Finish | None:
        """How the answer ended (`types.results.Answer`); None if that is not told."""
        reason = self.finish_reason.rpartition(".")[2].casefold()
        told = (finish for finish, reasons in _ENDINGS.items() if reason in reasons.split())
        return next(told, "stop") if reason else None


def _count(usage: object, names: tuple[str, ...]) -> int | None:
    """The first of these counts in a usage report, an object or a mapping."""
    for name in names:
        value: Any = usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def content_text(content: object) -> str:
    """The text of a message's content: a string, or a list of parts, those of thoughts aside."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    texts = [
        part if isinstance(part, str) else part.get("text")
        for part in parts
        if isinstance(part, str)
        or (isinstance(part, Mapping) and part.get("type") in ("text", "output_text"))
    ]
    return "".join(text for text in texts if isinstance(text, str))


def from_openai(completion: Any) -> Completion | None:
    """The answer in a chat completion, or in a piece of one, of OpenAI's client; None if there is none.

    Its text, a tool's arguments, or a refusal.
    """
    choices = getattr(completion, "choices", None)
    if not choices:
        return None
    choice, usage = choices[0], getattr(completion, "usage", None)
    message = getattr(choice, "message", None) or getattr(choice, "delta", None)
    calls = getattr(message, "tool_calls", None) or ()
    arguments = [getattr(getattr(call, "function", None), "arguments", None) for call in calls]
    texts = (content_text(getattr(message, "content", None)), getattr(choice, "text", None), *arguments)
    text = next((each for each in texts if isinstance(each, str) and each), "")
    refusal = getattr(message, "refusal", None)
    if refusal and not text:
        return Completion.of(refusal, usage, "refusal")
    return Completion.of(text, usage, getattr(choice, "finish_reason", None))


def answer_within(error: BaseException) -> Completion | None:
    """The answer in an error of OpenAI's client, which raises for cut-off and filtered answers."""
    if type(error).__name__ == "ContentFilterFinishReasonError":
        return Completion("", finish_reason="content_filter")
    return from_openai(getattr(error, "completion", None))


_SENT_KEYWORDS = ("type", "enum", "const", "anyOf", "items", "properties", "description")


@lru_cache(maxsize=256)
def _schema_json(model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    sent = _cleaned(schema, schema.get("$defs", {}), of_class=True)
    return json.dumps({"title": model.__name__, **sent})


def sent_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model in the subset that strict modes of all servers accept; a new object.

    References are inlined, all fields are required, no others are allowed. Defaults, lengths, ranges and
    docstrings of classes are left out.
    """
    schema: dict[str, Any] = json.loads(_schema_json(model))
    return schema


def schema_text(model: type[BaseModel] | None) -> str:
    """The schema as text, for counting its tokens."""
    return "" if model is None else _schema_json(model)


def response_format(model: type[BaseModel]) -> dict[str, Any]:
    """The `response_format` of OpenAI's chat completions for a schema."""
    schema = sent_schema(model)
    name = schema.pop("title")
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


def _cleaned(schema: Any, definitions: dict[str, Any], *, of_class: bool = False) -> dict[str, Any]:
    """A part of a schema; `of_class` where its description is a docstring."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[-1]]
        described = {key: schema[key] for key in ("description",) if key in schema}
        return {**_cleaned(target, definitions, of_class=True), **described}
    part = {key: schema[key] for key in _SENT_KEYWORDS if key in schema}
    if of_class:
        part.pop("description", None)
    if "anyOf" in part:
        part["anyOf"] = [_cleaned(each, definitions) for each in part["anyOf"]]
    if "items" in part:
        part["items"] = _cleaned(part["items"], definitions)
    if "properties" in part:
        part["properties"] = {name: _cleaned(each, definitions) for name, each in part["properties"].items()}
        part["required"] = list(part["properties"])
        part["additionalProperties"] = False
    return part
