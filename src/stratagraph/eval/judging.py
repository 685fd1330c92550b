"""Models as judges of whether an answer is right; which of two is better is in `duels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel

from stratagraph.eval.agreement import mean_kappa
from stratagraph.eval.datasets import Question
from stratagraph.eval.verdicts import verdicts
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.structured import json_as
from stratagraph.pipeline.prompts import load_prompt
from stratagraph.records import Usage


class Correctness(BaseModel):
    """Whether an answer says what a gold answer says."""

    reason: str = ""
    correct: bool


class Correct(NamedTuple):
    """What judges hold for right.

    Attributes
    ----------
    scores
        By question the share of the judges that hold the answer for right, 0 where there is none; None
        without a gold answer or a verdict.
    agreement
        The mean of Cohen's kappa over pairs of judges; None with one judge.
    usage
        What it cost, all judges together.
    """

    scores: tuple[float | None, ...]
    agreement: float | None
    usage: Usage


CORRECTNESS: Task[Correctness] = Task(
    name="eval/judge",
    prompt=load_prompt("stratagraph.eval", "judge"),
    parse=json_as(Correctness),
    placeholder=lambda values: Correctness(correct=True),
    schema=Correctness,
    expected_output_tokens=60,
)


def judge_correctness(
    gates: Gate | Sequence[Gate], name: str, questions: Sequence[Question], answers: Sequence[str | None]
) -> Correct:
    """Whether answers are right, by one judge or several.

    A verdict that cannot be read is among the gate's failures, and ends nothing; nor does a judge who answers
    nothing, while there is another one (`verdicts.verdicts`).
    """
    gates = list(gates) if isinstance(gates, Sequence) else [gates]
    judged = [at for at, question in enumerate(questions) if question.answers and answers[at] is not None]
    items = [
        CallItem(
            {
                "question": questions[at].question,
                "gold": "\n".join(f"- {gold}" for gold in questions[at].answers),
                "answer": answers[at] or "",
            },
            questions[at].id,
        )
        for at in judged
    ]
    stage = f"judge {name}"
    said = [
        [None if each is None else each.correct for each in given]
        for given in verdicts(gates, CORRECTNESS, items, stage)
    ]
    scores: list[float | None] = [
        0.0 if question.answers and answer is None else None
        for question, answer in zip(questions, answers, strict=True)
    ]
    for place, at in enumerate(judged):
        known = [verdict for given in said if (verdict := given[place]) is not None]
        scores[at] = sum(known) / len(known) if known else None
    usage = sum((gate.ledger.stages[stage] for gate in gates), Usage())
    return Correct(tuple(scores), mean_kappa(said), usage)
