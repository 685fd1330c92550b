"""Answers with citations: from the model where there is one, else the best supported sentences."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from stratarag.models.gate import Gate, Prompt, Task
from stratarag.models.structured import plain_text
from stratarag.pipeline.chunk import sentences
from stratarag.pipeline.prompts import load_prompt
from stratarag.results import NOTHING_FOUND, Citation, Hit, Retrieval

ANSWER_PROMPT = load_prompt("stratarag.pipeline", "answer")
_NUMBER = re.compile(r"\[(\d{1,4})\]")
_SENTENCES_WEIGHED = 60


@dataclass(frozen=True, slots=True)
class Draft:
    """The last prompt of an answer: a template, its values, and what the numbers in them stand for."""

    prompt: Prompt
    values: Mapping[str, str]
    citations: tuple[Citation, ...]


class Compose(Protocol):
    """How a method turns a retrieval into a draft; it may ask the model on the way.

    `options` are the method's own, as for the search. What the draft takes of the hits has at most
    `max_tokens`.
    """

    async def __call__(self, retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any) -> Draft:
        """See the class."""
        ...


async def compose(retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any) -> Draft:
    """A draft of the hits as they are, best first (`Retrieval.context`)."""
    context = retrieval.context(max_tokens)
    values = {"context": context.text, "question": retrieval.query}
    return Draft(ANSWER_PROMPT, values, context.citations)


async def generate(retrieval: Retrieval, draft: Draft, gate: Gate) -> tuple[str, tuple[Citation, ...]]:
    """Let the model answer; returns the text and what it cites."""
    task = Task(
        name="answer",
        prompt=draft.prompt,
        parse=plain_text,
        expected_output_tokens=300,
        placeholder=lambda values: "answer",
        answers_question=True,
    )
    sources = sorted({source for citation in draft.citations for source in citation.sources})
    text = await gate.call(task, draft.values, item=retrieval.query, sources=sources)
    return text, cited(text, draft.citations)


def stream(draft: Draft, gate: Gate) -> AsyncIterator[str]:
    """The same in pieces, as the model writes them."""
    return gate.stream(draft.prompt, draft.values, stage="answer")


def cited(text: str, citations: Sequence[Citation]) -> tuple[Citation, ...]:
    """The citations whose numbers occur in a text, in the order of their numbers."""
    numbers = {int(number) for number in _NUMBER.findall(text)}
    return tuple(citation for citation in citations if citation.number in numbers)


async def extract_answer(
    retrieval: Retrieval, gate: Gate, *, count: int = 3
) -> tuple[str, tuple[Citation, ...]]:
    """The sentences of the hits that are nearest to the question, each with the number of its source.

    A sentence is weighed by its own similarity to the question plus half of its hit's rank weight,
    so that a likely sentence of a well-supported passage wins over a lucky one of a poor passage.
    """
    candidates = _candidates(retrieval.hits)
    if not candidates:
        return NOTHING_FOUND, ()
    question = retrieval.vector
    if question is None:
        question = await gate.embed_query(retrieval.query)
    vectors = await gate.embed("answer", [sentence for _, sentence in candidates])
    support = np.array([0.5 / (1 + rank) for rank, _ in candidates], dtype=np.float32)
    order = np.argsort(-(vectors @ question + support), kind="stable")[:count]
    chosen = [candidates[int(index)] for index in order]
    text = " ".join(f"{sentence} [{rank + 1}]" for rank, sentence in chosen)
    ranks = dict.fromkeys(rank for rank, _ in chosen)
    return text, tuple(Citation.of(rank + 1, retrieval.hits[rank]) for rank in ranks)


def _candidates(hits: Sequence[Hit]) -> list[tuple[int, str]]:
    seen: dict[str, int] = {}
    for rank, hit in enumerate(hits):
        for start, end in sentences(hit.text):
            seen.setdefault(" ".join(hit.text[start:end].split()), rank)
    found = [(rank, sentence) for sentence, rank in seen.items() if sentence]
    return found[:_SENTENCES_WEIGHED]
