"""Win rates: questions about a corpus as a whole, and answers that models compare (ArchRAG, B.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

from papers.corpus import json_task
from stratagraph import _sync
from stratagraph.eval import Dataset, Difference, Evaluation, Question, Row, paired_difference
from stratagraph.eval.answering import mean_kappa, verdicts, with_cost
from stratagraph.eval.report import drawn
from stratagraph.models.gate import CallItem
from stratagraph.text.sentences import clip

EXCERPTS, EXCERPT_TOKENS = 40, 60
"""Documents that the writer of questions is shown, and tokens of each."""
USERS_TASKS = 5
"""Users, tasks of each, and questions of each task: 125 questions."""


class User(BaseModel):
    """A user of the corpus, and the user's tasks."""

    user: str
    tasks: list[str] = Field(min_length=1)


class Users(BaseModel):
    """Several users."""

    users: list[User] = Field(min_length=1)


class Questions(BaseModel):
    """Questions of one user for one task."""

    questions: list[str] = Field(min_length=1)


USERS = json_task("users", Users, 800)
QUESTIONS = json_task("questions", Questions, 200)


def with_abstract_questions(dataset: Dataset, gate: Any) -> Dataset:
    """The corpus with questions about the whole, thought up by the model; they have no gold."""
    shown = dataset.documents[:: max(1, len(dataset.documents) // EXCERPTS)][:EXCERPTS]
    about = "\n\n".join(clip(item.text, EXCERPT_TOKENS, gate.count_tokens) for item in shown)
    values = {"description": about, "users": str(USERS_TASKS), "tasks": str(USERS_TASKS)}
    users = _sync.run(gate.call(USERS, values, item=dataset.name)).users[:USERS_TASKS]
    items = [
        CallItem(
            {"description": about, "user": each.user, "task": task, "questions": str(USERS_TASKS)},
            f"{each.user}: {task}",
        )
        for each in users
        for task in each.tasks[:USERS_TASKS]
    ]
    written = [each for each in _sync.run(gate.map(QUESTIONS, items)) if each is not None]
    texts = dict.fromkeys(text.strip() for each in written for text in each.questions[:USERS_TASKS])
    asked = (
        Question(f"abstract-{n:03}", text, type="abstract") for n, text in enumerate(filter(None, texts), 1)
    )
    return replace(dataset, questions=tuple(asked), notes={})


CRITERIA = ("comprehensiveness", "diversity", "empowerment", "directness", "overall")
POINTS = {"first": 1, "tie": 0, "second": -1}


class Verdict(BaseModel):
    """Which answer is better by a criterion, explained first; a bare side has no explanation."""

    explanation: str = ""
    winner: Literal["first", "second", "tie"]

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


COMPARISON = json_task("compare", Comparison, 200)


@dataclass(frozen=True)
class Duel:
    """How one side's answers fared by a criterion, over all questions judged.

    A question is won if more judges prefer the answer than the other's. A judge prefers an answer that wins
    in one order and does not lose in the other. `consistency` is the share of pairs of judgements, one in
    each order, that agree; `agreement` the mean of Cohen's kappa over pairs of judges, None with one.
    """

    wins: int
    ties: int
    losses: int
    interval: Difference | None
    consistency: float | None
    agreement: float | None

    @property
    def win_rate(self) -> float | None:
        """Share of wins, a tie counting half; None if nothing was judged."""
        judged = self.wins + self.ties + self.losses
        return (self.wins + self.ties / 2) / judged if judged else None

    def __str__(self) -> str:
        if self.win_rate is None:
            return ""
        within = "" if self.interval is None else f" [{self.interval.low:.2f}, {self.interval.high:.2f}]"
        return f"{self.wins}/{self.ties}/{self.losses} {self.win_rate:.2f}{within}"


def head_to_head(
    gates: Sequence[Any],
    questions: Sequence[str],
    ours: Sequence[str | None],
    theirs: Sequence[str | None],
    stage: str = "compare",
) -> dict[str, Duel]:
    """How our answers fared against others, by criterion, in both orders, since models prefer a position.

    Pairs with a missing answer are left out, and so is a judge's part in a pair if a verdict of it cannot be
    read; that failure is among the gate's.
    """
    pairs = [each for each in zip(questions, ours, theirs, strict=True) if None not in each]
    items = [CallItem({"question": q, "first": a, "second": b}, q) for q, a, b in pairs]
    items += [CallItem({"question": q, "first": b, "second": a}, q) for q, a, b in pairs]
    by_judge = verdicts(gates, COMPARISON, items, stage)
    duels = {}
    for criterion in CRITERIA:
        judged: list[list[tuple[int, int] | None]] = []
        for comparisons in by_judge:
            both = zip(comparisons[: len(pairs)], comparisons[len(pairs) :], strict=True)
            judged.append(
                [
                    None
                    if one is None or other is None
                    else (POINTS[getattr(one, criterion).winner], -POINTS[getattr(other, criterion).winner])
                    for one, other in both
                ]
            )
        outcomes = [[None if both is None else sign(both) for both in judge] for judge in judged]
        votes = [[each for each in question if each is not None] for question in zip(*outcomes, strict=True)]
        points = [(sign(question) + 1) / 2 for question in votes if question]
        same = [both[0] == both[1] for judge in judged for both in judge if both is not None]
        duels[criterion] = Duel(
            points.count(1),
            points.count(0.5),
            points.count(0),
            paired_difference(points, [0.0] * len(points)),
            sum(same) / len(same) if same else None,
            mean_kappa(outcomes),
        )
    return duels


def sign(points: Iterable[int]) -> int:
    """Of their sum."""
    total = sum(points)
    return (total > 0) - (total < 0)


def compared(found: Evaluation, gates: Sequence[Any], with_gold: bool) -> tuple[Evaluation, str]:
    """The answers of all rows against the reference's, or against the gold answers: costs, and a table."""
    gold = [each.answers[0] if each.answers else None for each in found.questions]
    others = gold if with_gold else found.row(found.reference).answers
    rows, table = [], [["", *CRITERIA, "same in both orders", "kappa of judges"]]
    for row in found.rows:
        if row.answers and others and (with_gold or row.name != found.reference):
            stage, questions = f"compare {row.name}", [each.question for each in found.questions]
            try:
                duels = head_to_head(gates, questions, row.answers, others, stage)
                row = with_cost(row, gates, stage)
                last = (duels["overall"].consistency, duels["overall"].agreement)
                shown = ("" if each is None else f"{each:.2f}" for each in last)
                table.append([row.name, *map(str, duels.values()), *shown])
            except Exception as error:
                row = failed(row, f"comparison: {type(error).__name__}: {error}")
        rows.append(row)
    title = f"answers against {'the gold answers' if with_gold else found.reference}"
    heading = f"{title}: wins/ties/losses, share won (a tie half) [interval]\n"
    return replace(found, rows=tuple(rows)), heading + drawn(table) if len(table) > 1 else ""


def failed(row: Row, error: str) -> Row:
    """The row with an error, unless it has one."""
    return replace(row, error=row.error or error)
