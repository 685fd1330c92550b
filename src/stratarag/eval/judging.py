"""A model as the judge: whether an answer is right, and which of two answers is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from stratarag import _sync
from stratarag.eval.datasets import Question
from stratarag.models.gate import CallItem, Gate, Task
from stratarag.models.structured import json_as
from stratarag.pipeline.prompts import load_prompt
from stratarag.records import Usage

CRITERIA = ("comprehensiveness", "diversity", "empowerment", "directness", "overall")


class Correctness(BaseModel):
    """Whether an answer says what a gold answer says."""

    reason: str = ""
    correct: bool


Side = Literal["first", "second", "tie"]


class Comparison(BaseModel):
    """Which of two answers is better, by each criterion."""

    comprehensiveness: Side
    diversity: Side
    empowerment: Side
    directness: Side
    overall: Side


CORRECTNESS: Task[Correctness] = Task(
    name="eval/judge",
    prompt=load_prompt("stratarag.eval", "judge"),
    parse=json_as(Correctness),
    placeholder=lambda values: Correctness(correct=True),
    schema=Correctness,
    expected_output_tokens=60,
)
COMPARISON: Task[Comparison] = Task(
    name="eval/compare",
    prompt=load_prompt("stratarag.eval", "compare"),
    parse=json_as(Comparison),
    placeholder=lambda values: Comparison.model_validate(dict.fromkeys(CRITERIA, "tie")),
    schema=Comparison,
    expected_output_tokens=60,
)


@dataclass(frozen=True, slots=True)
class Duel:
    """How often one side's answers were found better. A pair that was judged both ways is a tie."""

    wins: int = 0
    ties: int = 0
    losses: int = 0

    @property
    def win_rate(self) -> float | None:
        """Share of wins, a tie counting half; None if nothing was judged."""
        judged = self.wins + self.ties + self.losses
        return (self.wins + self.ties / 2) / judged if judged else None


def judge_correctness(
    gate: Gate, name: str, questions: Sequence[Question], answers: Sequence[str | None]
) -> tuple[tuple[float | None, ...], Usage]:
    """1 where the model holds the answer for right, else 0; None without a gold answer or a verdict.

    A verdict that cannot be read is among the gate's failures, and ends nothing.
    """
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
    with gate.stage(stage, len(items)):
        verdicts = _sync.run(gate.map(CORRECTNESS, items, required=False))
    scores: list[float | None] = [
        0.0 if question.answers and answer is None else None
        for question, answer in zip(questions, answers, strict=True)
    ]
    for at, verdict in zip(judged, verdicts, strict=True):
        scores[at] = None if verdict is None else float(verdict.correct)
    return tuple(scores), gate.ledger.stages[stage]


def head_to_head(
    gate: Gate,
    questions: Sequence[str],
    ours: Sequence[str | None],
    theirs: Sequence[str | None],
    *,
    stage: str = "compare",
) -> Mapping[str, Duel]:
    """Compare two systems' answers question by question, in both orders, since models favour a place.

    A pair counts as won if it is won in one order and not lost in the other; if the orders contradict each
    other, or both say so, it is a tie. Pairs with a missing answer or verdict are left out; a verdict that
    cannot be read is among the gate's failures, and ends nothing.

    Returns
    -------
    Wins, ties and losses of `ours`, by criterion.
    """
    pairs = [
        (question, a, b)
        for question, a, b in zip(questions, ours, theirs, strict=True)
        if a is not None and b is not None
    ]
    items = [_item(question, a, b) for question, a, b in pairs]
    items += [_item(question, b, a) for question, a, b in pairs]
    with gate.stage(stage, len(items)):
        verdicts = _sync.run(gate.map(COMPARISON, items, required=False))
    forward, backward = verdicts[: len(pairs)], verdicts[len(pairs) :]
    return {
        criterion: _counted(
            [
                _points(getattr(one, criterion)) - _points(getattr(other, criterion))
                for one, other in zip(forward, backward, strict=True)
                if one is not None and other is not None
            ]
        )
        for criterion in CRITERIA
    }


def _item(question: str, first: str, second: str) -> CallItem:
    return CallItem({"question": question, "first": first, "second": second}, question)


def _points(side: Side) -> int:
    return {"first": 1, "tie": 0, "second": -1}[side]


def _counted(points: Sequence[int]) -> Duel:
    return Duel(
        wins=sum(each > 0 for each in points),
        ties=sum(each == 0 for each in points),
        losses=sum(each < 0 for each in points),
    )
