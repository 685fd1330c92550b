"""Prompts, the tasks that use them, the models that answer, and the items that a stage hands to the gate."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stratagraph.models.identity import model_name
from stratagraph.models.messages import Messages
from stratagraph.text.folding import folded
from stratagraph.types.records import content_id

if TYPE_CHECKING:
    from pydantic import BaseModel

    from stratagraph.models.structured import Parser

T = TypeVar("T")
_USER = re.compile(r'^\{\{\s*role "user"\s*\}\}[ \t]*\n', re.MULTILINE)
_NAME = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_BLOCK = re.compile(r"<([A-Za-z_][\w-]*)>(?=.*</\1>)", re.DOTALL)
_FOREIGN = r"(?![\x00-\x7f\u3040-\u9fff\uac00-\ud7ff])\w"
"""A letter of a folded text that may look like a Latin one: none of ASCII, Chinese, Japanese or Korean."""


def _delimited(template: str, values: Mapping[str, str]) -> str:
    """The template with blocks such as `<passage> ... </passage>` that no value can open or close.

    If a value holds the mark of a block in any disguise (`text.folding`), spaced or with letters of other
    scripts, the block's name gets an ending that is in no value.
    """
    suspects = [text for text in map(folded, values.values()) if "<" in text]
    if not suspects:
        return template
    parts = [values[name] for name in sorted(values)]
    nonce = content_id(*parts)[:8]
    while any(nonce in part for part in parts):
        nonce = content_id(nonce, *parts)[:8]
    for tag in sorted(set(_BLOCK.findall(template))):
        letters = [f"(?:{each}|{_FOREIGN})" for each in folded(tag) if each.isalnum()]
        like_mark = re.compile("<" + "".join(rf"(?:[^\w<>]|_)*{each}" for each in letters))
        if any(like_mark.search(value) for value in suspects):
            template = re.sub(rf"<(/?){re.escape(tag)}>", rf"<\g<1>{tag}-{nonce}>", template)
    return template


def block(tag: str, text: str) -> str:
    """A text inside marks that it can neither open nor close."""
    return _delimited(f"<{tag}>\n{{{{text}}}}\n</{tag}>", {"text": text}).replace("{{text}}", text)


def _filled(template: str, values: Mapping[str, str]) -> str:
    return _NAME.sub(lambda match: values[match[1]], template)


@dataclass(frozen=True)
class Prompt:
    """A template in which `{{name}}` stands for a value.

    What stands before a line `{{role "user"}}` is the system message; without such a line there is none.
    Values are put in once and not looked at again, so braces in a document are safe. Single braces are plain
    text. A `partial` template, such as a user's in the place of ours, may leave out some of the values, but
    not all.
    """

    name: str
    template: str
    partial: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The names that the template asks for."""
        return frozenset(_NAME.findall(self.template))

    @property
    def fingerprint(self) -> str:
        """Content id of the template: a changed prompt is another prompt to the cache."""
        return content_id(self.template)

    def render(self, values: Mapping[str, str]) -> Messages:
        """The template with its values; ValueError if a name has no value, or a value no place."""
        names = self.names
        if missing := sorted(names - values.keys()):
            raise ValueError(f"prompt {self.name!r} needs a value for {', '.join(missing)}")
        unknown = sorted(values.keys() - names)
        if unknown and not (self.partial and names):
            raise ValueError(
                f"prompt {self.name!r} has no place for {', '.join(unknown)}; "
                f"it knows {', '.join(sorted(names)) or 'no names'}"
            )
        *system, user = _USER.split(_delimited(self.template, values), maxsplit=1)
        return Messages("".join(_filled(part, values).strip() for part in system), _filled(user, values))


@dataclass(frozen=True)
class Task(Generic[T]):
    """A kind of model call.

    `name` is that of the ledger, errors and the cache. `parse` turns an answer into a value, or raises
    `ParseFailed` with a reason that a model can act on; `schema` is for models with structured output.
    `placeholder` makes the value that an estimate uses, from the values of the prompt. The budget reserves
    `expected_output_tokens`. `answers_question`: the answer goes to a person as it is.
    """

    name: str
    prompt: Prompt
    parse: Parser[T]
    placeholder: Callable[[Mapping[str, str]], T]
    schema: type[BaseModel] | None = None
    expected_output_tokens: int = 200
    answers_question: bool = False


def answer_text(value: Any) -> str:
    """A value as a model would write it: text, or JSON (of `as_json`, if present)."""
    if isinstance(value, str):
        return value
    plain = value.as_json() if hasattr(value, "as_json") else value.model_dump()
    return json.dumps(plain, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class CallItem:
    """One of the calls of a stage.

    `values` fill in the prompt, `item` names the call in reports, `sources` are the ids of the chunks that it
    quotes. `units` is how many items of the stage fail if it does, such as passages that share a call.
    """

    values: Mapping[str, str]
    item: str
    sources: Sequence[str] = ()
    units: int = 1


@lru_cache(maxsize=256)
def _schema_fingerprint(schema: type[BaseModel] | None) -> str:
    return "" if schema is None else content_id(json.dumps(schema.model_json_schema(), sort_keys=True))


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call, ready to be made: the task for an item, its rendered prompt and the key of its answer."""

    task: Task[T]
    item: CallItem
    prompt: Messages
    key: str

    @classmethod
    def of(cls, task: Task[T], item: CallItem, model: str) -> Call[T]:
        """The call of a task for an item. Its key holds all that matters; `model` is its identity."""
        prompt = task.prompt.render(item.values)
        schema = _schema_fingerprint(task.schema)
        # The fingerprint is of the whole template, so that it tells where the system message ends too.
        key = content_id(task.name, task.prompt.fingerprint, schema, model, prompt)
        return cls(task, item, prompt, key)


STAGES = ("extract", "summarize", "answer")
_STAGE_OF_TASK = {
    "extract": "extract",
    "glean": "extract",
    "answer": "answer",
    "decompose": "answer",
    "guide": "answer",
    "standalone": "answer",
    "archrag/filter": "answer",
    "archrag/judge": "answer",
}


def stage_of(task: str) -> str:
    """The stage whose model a task uses; by default `summarize`."""
    return _STAGE_OF_TASK.get(task, "summarize")


class StageModels:
    """Chat models by `extract`, `summarize`, `answer` and `default`.

    Raises ValueError for an unknown stage, or a stage without a model.
    """

    def __init__(self, models: Mapping[str, Any]) -> None:
        unknown = sorted(set(models) - {*STAGES, "default"})
        if unknown:
            raise ValueError(
                f"unknown stages of llm: {', '.join(unknown)}; known are {', '.join(STAGES)} and default"
            )
        missing = [stage for stage in STAGES if models.get(stage, models.get("default")) is None]
        if missing:
            raise ValueError(f"llm has no model for {', '.join(missing)}: add one, or a default")
        self.by_stage = {stage: models.get(stage, models.get("default")) for stage in STAGES}

    @property
    def name(self) -> str:
        """The names of the models, by stage."""
        return ", ".join(f"{stage}: {model_name(model)}" for stage, model in self.by_stage.items())


def models_by_stage(llm: object | None) -> dict[str, object]:
    """A model for each stage; empty where there is none."""
    if llm is None:
        return {}
    return llm.by_stage if isinstance(llm, StageModels) else dict.fromkeys(STAGES, llm)


_LONGEST_SHOWN = 8_000  # characters of an answer that a repair request quotes
REPAIR = Prompt(
    "repair",
    """\
Your answer to the request below could not be used.

<request>
{{request}}
</request>

<answer>
{{answer}}
</answer>

What is wrong with it: {{reason}}

Answer the request again, from the beginning. Write only what it asks for, complete and in the form
that it asks for, without comments about this correction.
""",
)


def repair_request(prompt: str, answer: str, reason: str) -> Messages:
    """The one request after an unreadable answer."""
    shown = answer.strip() or "(the answer was empty)"
    if len(shown) > _LONGEST_SHOWN:
        shown = shown[:_LONGEST_SHOWN] + "\n[... cut here]"
    messages = Messages.of(prompt)
    values = {"request": messages.user, "answer": shown, "reason": reason}
    return Messages(messages.system, REPAIR.render(values).user)
