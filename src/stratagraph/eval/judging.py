"""Models as judges of answers, and how far judges agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeVar

from pydantic import BaseModel

from stratagraph import _sync
from stratagraph.errors import BudgetExceeded, ModelError
from stratagraph.eval.answering import unestimated
from stratagraph.eval.datasets import Question
from stratagraph.eval.metrics import mean
from stratagraph.eval.results import Row
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as
from stratagraph.types.records import Failure

T = TypeVar("T")
Verdicts = Sequence[Hashable | None]


def cohen_kappa(one: Verdicts, other: Verdicts) -> float | None:
    """Cohen's kappa of two judges (Cohen 1960): 1 if they always agree, 0 if as often as by chance.

    It is 1 where both always gave the same verdict. A question where either is None does not count; it is
    None if no question has both.
    """
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    if not pairs:
        return None
    if len({verdict for pair in pairs for verdict in pair}) == 1:
        return 1.0
    ones, others = (Counter(verdicts) for verdicts in zip(*pairs, strict=True))
    by_chance = sum(count * others[verdict] for verdict, count in ones.items()) / len(pairs) ** 2
    return (sum(a == b for a, b in pairs) / len(pairs) - by_chance) / (1 - by_chance)


def mean_kappa(judges: Sequence[Verdicts]) -> float | None:
    """The mean of Cohen's kappa over all pairs of judges (Light 1971); None with fewer than two."""
    return mean([cohen_kappa(one, other) for one, other in combinations(judges, 2)])


def verdicts(
    gates: Sequence[Gate], task: Task[T], items: Sequence[CallItem], stage: str
) -> list[list[T | None]]:
    """The verdicts of each judge on each item; None where a verdict cannot be read.

    A judge whose calls all fail (a wrong key, a server that is gone, a budget that is spent) gives no
    verdict, and the failures are its gate's. If all judges fail, the error of the last one is raised.
    """
    by_judge: list[list[T | None]] = []
    errors: list[ModelError | BudgetExceeded] = []
    for gate in gates:
        with gate.stage(stage, len(items)):
            try:
                by_judge.append(_sync.run(gate.map(task, items, required=False)))
            except (ModelError, BudgetExceeded) as error:
                errors.append(error)
                by_judge.append([None] * len(items))
                gate.failures += [Failure(stage, item.item, str(error)) for item in items]
    if len(errors) == len(by_judge) and errors:
        raise errors[-1]
    return by_judge


class Correctness(BaseModel):
    """Whether an answer says what a gold answer says."""

    reason: str = ""
    correct: bool


CORRECTNESS: Task[Correctness] = Task(
    "eval/judge",
    load_prompt("stratagraph.eval", "judge"),
    json_as(Correctness),
    unestimated,
    schema=Correctness,
    expected_output_tokens=60,
)


def judged(row: Row, gates: Sequence[Gate], questions: Sequence[Question]) -> Row:
    """The row with the share of judges that call each answer right; see `verdicts` for judges that fail.

    The share is 0 without an answer, and None without a gold answer or a verdict.
    """
    at_rows = [at for at, each in enumerate(questions) if each.answers and row.answers[at] is not None]
    items = [
        CallItem(
            {
                "question": questions[at].question,
                "gold": "\n".join(f"- {gold}" for gold in questions[at].answers),
                "answer": row.answers[at] or "",
            },
            questions[at].id,
        )
        for at in at_rows
    ]
    stage = f"judge {row.name}"
    by_judge = [
        [None if each is None else each.correct for each in verdicts_of_one]
        for verdicts_of_one in verdicts(gates, CORRECTNESS, items, stage)
    ]
    scores: list[float | None] = [
        0.0 if question.answers and answer is None else None
        for question, answer in zip(questions, row.answers, strict=True)
    ]
    for at, *correct in zip(at_rows, *by_judge, strict=True):
        scores[at] = mean(correct)
    row = replace(row, scores={**row.scores, "judged": tuple(scores)}, agreement=mean_kappa(by_judge))
    return with_cost(row, gates, stage)


def with_cost(row: Row, gates: Sequence[Gate], stage: str) -> Row:
    """The row with the calls of judges in a stage, and with the failures among them."""
    failures = [each for gate in gates for each in gate.failures if each.stage == stage]
    judging = sum((gate.ledger.stages[stage] for gate in gates), row.judging)
    return replace(row, judging=judging, failures=(*row.failures, *failures))
