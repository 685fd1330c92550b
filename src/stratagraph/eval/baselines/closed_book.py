"""Answers without retrieval: asked directly, or step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel

from stratagraph.eval.measuring import booked
from stratagraph.eval.rankers import Passage, Workbench, needs_model
from stratagraph.eval.tasks import json_task
from stratagraph.models.gate import Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import plain_text
from stratagraph.types.question import Length
from stratagraph.types.records import Usage

_ASKED = {
    "brief": "the shortest answer that is complete: a name, a date, a number, yes or no, or a few words",
    "full": "all sides of the question, in paragraphs",
}


class Reasoned(BaseModel):
    """Steps towards an answer, and the answer."""

    steps: str = ""
    answer: str


class _ClosedBook:
    """The model's own knowledge. It retrieves nothing, so its recall is 0."""

    name: ClassVar[str]
    own_prompt = True

    def __init__(self, bench: Workbench) -> None:
        needs_model(bench, self.name)
        self._gate = bench.gate

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        return []

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        with booked(self._gate, f"answer {self.name}") as work:
            values = {"question": question, "length": _ASKED[length]}
            text = await self._answered(work.gate, values, question)
        return text, work.usage

    async def _answered(self, gate: Gate, values: dict[str, str], item: str) -> str:
        raise NotImplementedError


class ZeroShot(_ClosedBook):
    """The question alone."""

    name = "zero_shot"
    description = "the model alone, without retrieval"

    async def _answered(self, gate: Gate, values: dict[str, str], item: str) -> str:
        return await gate.call(ZERO_SHOT, values, item=item)


class ChainOfThought(_ClosedBook):
    """The question, with steps before the answer (Wei et al. 2022; Kojima et al. 2022)."""

    name = "cot"
    description = "the model alone, without retrieval, step by step"

    async def _answered(self, gate: Gate, values: dict[str, str], item: str) -> str:
        return (await gate.call(CHAIN_OF_THOUGHT, values, item=item)).answer


ZERO_SHOT: Task[str] = Task(
    name="eval/zero_shot",
    prompt=load_prompt("stratagraph.eval", "zero_shot"),
    parse=plain_text,
    placeholder=lambda values: "answer",
    expected_output_tokens=20,
)
CHAIN_OF_THOUGHT = json_task(
    "chain_of_thought", Reasoned, lambda values: Reasoned(steps="steps", answer="answer"), 200
)
