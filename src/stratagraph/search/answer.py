"""Answers with citations by a model; without one, excerpts of what was found."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from stratagraph.models.gate import Gate, Prompt, Task
from stratagraph.models.messages import Completion
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import plain_text
from stratagraph.types.question import Length
from stratagraph.types.results import NOTHING_FOUND, Citation, Finish, Retrieval

ANSWER_PROMPT = load_prompt("stratagraph.search", "answer")
_RULES: dict[Length, str] = {
    "brief": "Be direct and brief: the answer first, then only what is needed to trust it.",
    "full": (
        "Answer in full: the answer first, then every side of the question that you were shown something on, "
        "with its names, dates, numbers and reasons, in paragraphs; where there are several sides, each "
        "under a short heading."
    ),
}
_EXPECTED: dict[Length, int] = {"brief": 150, "full": 600}
_NUMBER = re.compile(r"\[(\d{1,4})\]")
EXCERPTS: dict[Length | None, int] = {None: 200, "brief": 120, "full": 500}
"""Tokens of the excerpts that stand in the place of an answer."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The last prompt of an answer: a template, its values, and the citations that its numbers stand for."""

    prompt: Prompt
    values: Mapping[str, str]
    citations: tuple[Citation, ...]
    length: Length = "brief"

    def as_long_as(self, length: Length) -> Draft:
        """The draft of an answer of this length."""
        rule = {"length": _RULES[length]} if "length" in self.prompt.names else {}
        return replace(self, values={**self.values, **rule}, length=length)


class Compose(Protocol):
    """How a method turns a retrieval into a draft of at most `max_tokens`; it may ask the model."""

    async def __call__(self, retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any) -> Draft:
        """See the class; `options` are those of the search."""


async def compose(
    retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any, prompt: Prompt = ANSWER_PROMPT
) -> Draft:
    """A draft of the hits, packed (`Retrieval.context`)."""
    context = retrieval.context(max_tokens)
    return Draft(prompt, {"context": context.text, "question": retrieval.query}, context.citations)


_ENDS = {
    "length": "the length limit",
    "filtered": "a content filter",
    "refused": "a refusal",
    "broken off": "broken off",
}


class Written(NamedTuple):
    """The text of an answer, what it cites, how the model ended it, and whether others wrote it."""

    text: str
    citations: tuple[Citation, ...]
    finish: Finish | None
    extractive: bool = False

    @classmethod
    def of(cls, answer: Completion, draft: Draft) -> Written:
        """The answer to a draft; a text without an end of its own says so."""
        return cls(f"{answer}{_ending(answer)}", cited(answer, draft.citations), answer.finish)


def _ending(answer: Completion) -> str:
    why = _ENDS.get(answer.finish or "stop")
    return f" [The answer ends here: {why}]" if why else ""


def _read(answer: str) -> Completion:
    """An answer's text and how it ended; what is no `Completion` was kept, and so had an end of its own."""
    reason = answer.finish_reason if isinstance(answer, Completion) else "stop"
    return Completion(plain_text(answer), finish_reason=reason)


async def generate(retrieval: Retrieval, draft: Draft, gate: Gate) -> Written:
    """Let the model answer."""
    task = Task(
        name="answer",
        prompt=draft.prompt,
        parse=_read,
        expected_output_tokens=_EXPECTED[draft.length],
        placeholder=lambda values: Completion("answer"),
        answers_question=True,
    )
    sources = sorted({source for citation in draft.citations for source in citation.sources})
    answer = await gate.call(task, draft.values, item=retrieval.query, sources=sources)
    return Written.of(answer, draft)


async def stream(draft: Draft, gate: Gate) -> AsyncGenerator[str | Written, None]:
    """Let the model answer in pieces, as it writes them; last comes the whole."""
    expected = _EXPECTED[draft.length]
    pieces = gate.stream(draft.prompt, draft.values, stage="answer", expected_output_tokens=expected)
    async with aclosing(pieces):
        async for piece in pieces:
            if isinstance(piece, Completion):
                if ending := _ending(piece):
                    yield ending
                yield Written.of(piece, draft)
            else:
                yield piece


def cited(text: str, citations: Sequence[Citation]) -> tuple[Citation, ...]:
    """The citations whose numbers occur in a text, in the order of their numbers."""
    numbers = {int(number) for number in _NUMBER.findall(text)}
    return tuple(citation for citation in citations if citation.number in numbers)


def excerpts(retrieval: Retrieval, length: Length | None, finish: Finish | None) -> Written:
    """What is shown in the place of an answer: excerpts of the hits, and the citation of each."""
    context = retrieval.excerpts(EXCERPTS[length])
    text = retrieval.with_note(context.text or NOTHING_FOUND)
    return Written(text, context.citations, finish, extractive=True)
