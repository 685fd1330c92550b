"""Which of two answers is better: in both orders, explained before it is decided, by one judge or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, model_validator

from stratagraph.eval.agreement import mean_kappa
from stratagraph.eval.bootstrap import Interval, mean_interval
from stratagraph.eval.verdicts import verdicts
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.structured import json_as
from stratagraph.pipeline.prompts import load_prompt

CRITERIA = ("comprehensiveness", "diversity", "empowerment", "directness", "overall")
Side = Literal["first", "second", "tie"]
_POINTS: Mapping[Side, int] = {"first": 1, "tie": 0, "second": -1}


class Verdict(BaseModel):
    """Why one answer is better by a criterion, then which; a bare side is a verdict without a reason."""

    explanation: str = ""
    winner: Side

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"winner": value} if isinstance(value, str) else value


class Comparison(BaseModel):
    """Which of two answers is better, by each criterion."""

    comprehensiveness: Verdict
    diversity: Verdict
    empowerment: Verdict
    directness: Verdict
    overall: Verdict

    def of(self, criterion: str) -> Verdict:
        """The verdict by a criterion."""
        verdict: Verdict = getattr(self, criterion)
        return verdict


COMPARISON: Task[Comparison] = Task(
    name="eval/compare",
    prompt=load_prompt("stratagraph.eval", "compare"),
    parse=json_as(Comparison),
    placeholder=lambda values: Comparison.model_validate(
        {
            criterion: {"explanation": "Both say much the same. " * 3, "winner": "tie"}
            for criterion in CRITERIA
        }
    ),
    schema=Comparison,
    expected_output_tokens=200,
)


@dataclass(frozen=True, slots=True)
class Duel:
    """How one side's answers fared by one criterion, over all questions that were judged.

    Parameters
    ----------
    wins, ties, losses
        Questions. One counts for a side if more judges found it better than found it worse, and a judge finds
        it better if it wins in one order and does not lose in the other: who contradicts himself says tie.
    interval
        The bootstrap interval of `win_rate`; None if fewer than two questions were judged.
    consistency
        The share of pairs of judgements, one for each order, that name the same answer or are both ties.
    agreement
        The mean of Cohen's kappa over pairs of judges; None with one judge.
    explanations
        By question, what the judges said, all judges and both orders; of a question without any, none.
    """

    wins: int = 0
    ties: int = 0
    losses: int = 0
    interval: Interval | None = None
    consistency: float | None = None
    agreement: float | None = None
    explanations: tuple[tuple[str, ...], ...] = field(default=(), repr=False)

    @property
    def win_rate(self) -> float | None:
        """Share of wins, a tie counting half; None if nothing was judged."""
        judged = self.wins + self.ties + self.losses
        return (self.wins + self.ties / 2) / judged if judged else None


class Judged(NamedTuple):
    """What one judge said of one pair of answers: with ours first, and with ours second."""

    forward: Comparison | None
    backward: Comparison | None

    def outcome(self, criterion: str) -> int | None:
        """1 if ours won, 0 for a tie, -1 if theirs did; None without both verdicts."""
        if self.forward is None or self.backward is None:
            return None
        points = self._points(criterion)
        return (sum(points) > 0) - (sum(points) < 0)

    def consistent(self, criterion: str) -> bool | None:
        """Whether both orders have the same outcome; None without both verdicts."""
        if self.forward is None or self.backward is None:
            return None
        one, other = self._points(criterion)
        return one == other

    def said(self, criterion: str) -> list[str]:
        """The explanations, with who is first in them."""
        orders = (("ours first", self.forward), ("theirs first", self.backward))
        return [
            f"({order}: {each.of(criterion).winner}) {each.of(criterion).explanation}".strip()
            for order, each in orders
            if each is not None
        ]

    def _points(self, criterion: str) -> tuple[int, int]:
        assert self.forward is not None
        assert self.backward is not None
        return _POINTS[self.forward.of(criterion).winner], -_POINTS[self.backward.of(criterion).winner]


def head_to_head(
    gates: Gate | Sequence[Gate],
    questions: Sequence[str],
    ours: Sequence[str | None],
    theirs: Sequence[str | None],
    *,
    stage: str = "compare",
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Mapping[str, Duel]:
    """Compare two systems' answers question by question, in both orders, since models favour a place.

    Pairs with a missing answer are left out, and so is a judge's part in a pair of which one of his two
    verdicts cannot be read; the failure is among his gate's, and ends nothing. Nor does a judge who answers
    nothing, while there is another one (`verdicts.verdicts`).

    Parameters
    ----------
    gates
        The judge, or several.
    resamples, confidence, seed
        Of the intervals; see `bootstrap.mean_interval`.

    Returns
    -------
    How `ours` fared, by criterion.
    """
    gates = list(gates) if isinstance(gates, Sequence) else [gates]
    asked = [
        at for at, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a is not None and b is not None
    ]
    pairs = [(questions[at], ours[at] or "", theirs[at] or "") for at in asked]
    items = [_item(question, a, b) for question, a, b in pairs]
    items += [_item(question, b, a) for question, a, b in pairs]
    judges = [
        [Judged(*both) for both in zip(said[: len(pairs)], said[len(pairs) :], strict=True)]
        for said in verdicts(gates, COMPARISON, items, stage)
    ]
    found = {}
    for criterion in CRITERIA:
        outcomes = [[each.outcome(criterion) for each in judged] for judged in judges]
        settled = [_majority(said) for said in zip(*outcomes, strict=True)]
        points = [(outcome + 1) / 2 for outcome in settled if outcome is not None]
        consistent = [each.consistent(criterion) for judged in judges for each in judged]
        known = [each for each in consistent if each is not None]
        explained: list[tuple[str, ...]] = [()] * len(questions)
        for place, at in enumerate(asked):
            explained[at] = tuple(text for judged in judges for text in judged[place].said(criterion))
        found[criterion] = Duel(
            points.count(1),
            points.count(0.5),
            points.count(0),
            mean_interval(points, resamples=resamples, confidence=confidence, seed=seed),
            sum(known) / len(known) if known else None,
            mean_kappa(outcomes),
            tuple(explained),
        )
    return found


def _item(question: str, first: str, second: str) -> CallItem:
    return CallItem({"question": question, "first": first, "second": second}, question)


def _majority(outcomes: Sequence[int | None]) -> int | None:
    """Which side more judges are for; None if none of them judged."""
    known = [each for each in outcomes if each is not None]
    return (sum(known) > 0) - (sum(known) < 0) if known else None
