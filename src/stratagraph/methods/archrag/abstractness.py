"""How abstract a question is, from 0 (asks for one fact) to 1 (asks about the whole)."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from pydantic import BaseModel, Field

from stratagraph.errors import CallFailed
from stratagraph.methods.archrag.config import ArchRAGOptions
from stratagraph.models.gate import Gate, Task
from stratagraph.models.structured import json_as
from stratagraph.pipeline.extraction.by_rules import question_entities
from stratagraph.pipeline.prompts import load_prompt

PROMPT = load_prompt("stratagraph.methods.archrag", "judge")
_WORD = re.compile(r"\w+")
_BROAD_WORDS = """
across approach approaches aspects attitudes broadly challenges changed changes collectively common
compare comparison compared concepts consequences contribute contrast corpus dataset describe develop
development developments differences discuss documents effect effects emerge evolution evolved explain
factors general generally highlight ideas impact impacts implications important influence influences
insights issues key lessons main major overall overview patterns perspectives principles relate
relationship relationships role roles shape shaped significance similarities strategies summarise
summarize summary texts themes topics trend trends typical underlying views ways why
"""
_NARROW_WORDS = """
age birthday born capital century date day died distance first founded height highest largest last
located longest many month much name named often old population smallest spouse title when where which
who whom whose year years
"""
_BROAD, _NARROW = frozenset(_BROAD_WORDS.split()), frozenset(_NARROW_WORDS.split())


def judge_by_rule(question: str) -> float:
    """By the words of the question, without a model.

    One half, plus a sixth for each distinct word that is in a list of broad words, less a sixth for each
    that is in a list of narrow words and for each name; limited to 0 and 1. The lists are English: in other
    languages only names count.
    """
    words = {word.casefold() for word in _WORD.findall(question)}
    broad, narrow = len(words & _BROAD), len(words & _NARROW) + len(question_entities(question))
    return min(max(0.5 + (broad - narrow) / 6, 0.0), 1.0)


class JudgementSchema(BaseModel):
    """What the model is asked for."""

    abstractness: float = Field(ge=0, le=1, description="0: asks for one fact; 1: asks about the whole")


JUDGE = Task(
    name=PROMPT.name,
    prompt=PROMPT,
    parse=json_as(JudgementSchema),
    placeholder=lambda values: JudgementSchema(abstractness=0.5),
    schema=JudgementSchema,
    expected_output_tokens=20,
)


async def judge(question: str, gate: Gate) -> float:
    """By the model, in one call.

    Raises
    ------
    CallFailed
        If the model fails; see `Gate.call`.
    """
    return (await gate.call(JUDGE, {"question": question}, item=question)).abstractness


async def settled(question: str, options: ArchRAGOptions, gate: Gate) -> ArchRAGOptions:
    """The options of a search, in which the model's judgement takes the place of `model`.

    Where there is no model, or it cannot say, the rule judges.
    """
    if options.abstractness != "model":
        return options
    judged = judge_by_rule(question)
    if gate.has_llm:
        with suppress(CallFailed):
            judged = await judge(question, gate)
    return replace(options, abstractness=judged)
