"""Answers with citations by a model; without one, excerpts of what was found."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from stratagraph.models.gate import Gate, Prompt, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import plain_text
from stratagraph.types.question import Length
from stratagraph.types.results import NOTHING_FOUND, Citation, Retrieval

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
        ...


async def compose(
    retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any, prompt: Prompt = ANSWER_PROMPT
) -> Draft:
    """A draft of the hits, packed (`Retrieval.context`)."""
    context = retrieval.context(max_tokens)
    return Draft(prompt, {"context": context.text, "question": retrieval.query}, context.citations)


async def generate(retrieval: Retrieval, draft: Draft, gate: Gate) -> tuple[str, tuple[Citation, ...]]:
    """Let the model answer; returns the text and what it cites."""
    task = Task(
        name="answer",
        prompt=draft.prompt,
        parse=plain_text,
        expected_output_tokens=_EXPECTED[draft.length],
        placeholder=lambda values: "answer",
        answers_question=True,
    )
    sources = sorted({source for citation in draft.citations for source in citation.sources})
    text = await gate.call(task, draft.values, item=retrieval.query, sources=sources)
    return text, cited(text, draft.citations)


def stream(draft: Draft, gate: Gate) -> AsyncGenerator[str, None]:
    """Let the model answer in pieces, as it writes them."""
    expected = _EXPECTED[draft.length]
    return gate.stream(draft.prompt, draft.values, stage="answer", expected_output_tokens=expected)


def cited(text: str, citations: Sequence[Citation]) -> tuple[Citation, ...]:
    """The citations whose numbers occur in a text, in the order of their numbers."""
    numbers = {int(number) for number in _NUMBER.findall(text)}
    return tuple(citation for citation in citations if citation.number in numbers)


def excerpts(retrieval: Retrieval, length: Length | None = None) -> tuple[str, tuple[Citation, ...]]:
    """What is shown without a model: excerpts of the hits, and the citation of each."""
    context = retrieval.excerpts(EXCERPTS[length])
    return context.text or NOTHING_FOUND, context.citations
