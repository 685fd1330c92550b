"""What a question asks for: its names (NodeRAG's decomposition), or the questions of its single steps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pydantic import BaseModel, Field, field_validator

from stratagraph.errors import CallFailed
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.ingest.extraction.parsing import flat, read_name
from stratagraph.ingest.names.index import canonical, words
from stratagraph.models.gate import Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as
from stratagraph.search.fusion import reciprocal_ranks
from stratagraph.types.records import Metadata
from stratagraph.types.results import Hit


class Decomposition(BaseModel):
    """What a question is about (paper 001, 2.5): names, key nouns and closely related terms."""

    entities: list[str] = Field(description="Names, key nouns and closely related terms")

    @field_validator("entities", mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        """The names in a value as strings, nested lists included; other values are left out."""
        if not isinstance(value, list):
            return value
        return [name for item in flat(value) if (name := read_name(item))]

    @property
    def names(self) -> tuple[str, ...]:
        """The entities, each once, without those that hold neither letter nor digit."""
        return tuple(dict.fromkeys(name.strip() for name in self.entities if canonical(name)))


DECOMPOSE = Task(
    name="decompose",
    prompt=load_prompt("stratagraph.search", "decompose"),
    parse=json_as(Decomposition),
    schema=Decomposition,
    expected_output_tokens=40,
    placeholder=lambda values: Decomposition(entities=[]),
)


async def decompose(question: str, gate: Gate) -> tuple[str, ...]:
    """The names in a question, by one model call; without a model, by the extractor.

    If the model failed for this question, the extractor is used too, with a `RuntimeWarning`.
    """
    if not gate.has_llm:
        return question_entities(question)
    try:
        answer = await gate.call(DECOMPOSE, {"question": question}, item=question)
    except CallFailed as error:
        warnings.warn(
            f"the model could not name the entities of the question ({error}); "
            "the extractor of chunks named them instead",
            RuntimeWarning,
            stacklevel=2,
        )
        return question_entities(question)
    return answer.names


MOST = 4
"""Sub-questions of a question at most; each costs an embedding and a search."""

STEP_CONSTANT = 5
"""Of the fusion of rankings. Steps look for different passages, so that to be first for one of them counts
more than to be somewhere for all: with the usual 60, what is found for the steps of MuSiQue's questions is
worse than what is found for the questions (R@5 .70 against .77), with 2 to 15 it is better (.79 to .82)."""

TracedHits = tuple[tuple[Hit, ...], tuple[Metadata, ...]]
"""Hits, best first, and their traces."""


class Subquestions(BaseModel):
    """The questions that have to be answered on the way."""

    questions: list[str]

    @field_validator("questions", mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        """Questions as strings, of lists and objects too; what has no word is left out."""
        if not isinstance(value, list):
            return value
        texts = [item.get("question") if isinstance(item, dict) else item for item in flat(value)]
        return [text.strip() for text in texts if isinstance(text, str) and words(text)]


SUBQUESTIONS = Task(
    name="subquestions",
    prompt=load_prompt("stratagraph.search", "subquestions"),
    parse=json_as(Subquestions),
    schema=Subquestions,
    expected_output_tokens=60,
    placeholder=lambda values: Subquestions(questions=[f"{values['question']} ({n})" for n in range(MOST)]),
)


async def subquestions(question: str, gate: Gate) -> tuple[str, ...]:
    """The questions to search for: the question itself, then those that a model splits it into.

    One model call. If it fails, the question alone is searched for, with a `RuntimeWarning`.

    Raises
    ------
    ValueError
        If there is no model to ask.
    """
    if not gate.has_llm:
        raise ValueError(
            'decompose="questions" asks a chat model for the questions, and this index has none: '
            "open it with llm=..., or leave decompose out"
        )
    try:
        answer = await gate.call(SUBQUESTIONS, {"question": question, "most": str(MOST)}, item=question)
    except CallFailed as error:
        warnings.warn(
            f"the model could not split the question ({error}); it is searched for as it is",
            RuntimeWarning,
            stacklevel=2,
        )
        return (question,)
    return tuple(dict.fromkeys([question, *answer.questions]))[: 1 + MOST]


def fused(results: Sequence[TracedHits], questions: Sequence[str], k: int) -> TracedHits:
    """The `k` best hits of several questions, by reciprocal rank fusion; a hit of several questions is one.

    Its trace is the first one, with its place for each question; its score is the sum of reciprocal ranks.
    """
    numbers: dict[str, int] = {}
    first: dict[int, tuple[Hit, Metadata]] = {}
    places: dict[int, dict[str, int]] = {}
    rankings = []
    for question, (hits, traces) in zip(questions, results, strict=True):
        known = [numbers.setdefault(hit.id, len(numbers)) for hit in hits]
        for place, (row, hit, trace) in enumerate(zip(known, hits, traces, strict=True), 1):
            first.setdefault(row, (hit, trace))
            places.setdefault(row, {})[question] = place
        rankings.append(np.array(known, np.int64))
    rows, scores = reciprocal_ranks(rankings, STEP_CONSTANT)
    best = list(zip(rows[:k].tolist(), scores[:k].tolist(), strict=True))
    return (
        tuple(replace(first[row][0], score=score) for row, score in best),
        tuple({**first[row][1], "questions": places[row]} for row, _ in best),
    )
