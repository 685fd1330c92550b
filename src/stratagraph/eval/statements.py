"""Answers judged statement by statement: the metrics of GraphRAG-Bench (Xiang et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from stratagraph.eval.datasets import BENCH_METRICS, Question
from stratagraph.eval.embedding import SharedEmbedder
from stratagraph.eval.judging import verdicts
from stratagraph.eval.measuring import json_task
from stratagraph.eval.results import mean
from stratagraph.methods.reports import numbers_in
from stratagraph.models.gate import CallItem, Gate
from stratagraph.types.records import Usage

Scores = tuple[float | None, ...]
Numbers = Annotated[list[int], BeforeValidator(numbers_in)]
FACTS = 0.75
"""Share of answer correctness that agreement in statements has; similarity has the rest."""


class Statements(BaseModel):
    """What an answer claims, in single sentences."""

    statements: list[str] = Field(default_factory=list)


class Matched(BaseModel):
    """Statements of an answer that the gold answer supports, and of the gold answer that are missing."""

    supported: Numbers
    missing: Numbers


class Held(BaseModel):
    """Statements that a text says."""

    held: Numbers


STATEMENTS = json_task("statements", Statements, 150)
MATCHED = json_task("statements_matched", Matched, 30)
HELD = json_task("statements_held", Held, 20)


def judge_statements(
    gates: Sequence[Gate],
    embedder: SharedEmbedder,
    stage: str,
    questions: Sequence[Question],
    answers: Sequence[str | None],
    contexts: Sequence[str],
) -> tuple[dict[str, Scores], Usage]:
    """The metrics of GraphRAG-Bench that a model judges, and the calls and tokens of all judges.

    `correctness` is three quarters the F1 of the answer's statements against the gold answer's, and one
    quarter the cosine of the two texts, scaled to 0 to 1. `coverage` is the share of the gold answer's
    statements that the answer says, `faithfulness` that of the answer's statements that its context says.

    A question has the metrics of its type (`BENCH_METRICS`). They are 0 without an answer, and None where no
    verdict can be read. Several judges get the statements that the first of them finds, and their scores are
    averaged; see `verdicts` for judges that fail.
    """
    said = {
        at: answer
        for at, (question, answer) in enumerate(zip(questions, answers, strict=True))
        if question.type in BENCH_METRICS and question.answers and answer is not None
    }
    gold = {at: questions[at].answers[0] for at in said}
    asked = {at: questions[at] for at in said}
    own = _apart(gates, stage, asked, said)
    wanted = _apart(gates, stage, asked, gold)
    found = {
        "correctness": _correctness(gates, embedder, stage, asked, (said, own), (gold, wanted)),
        "coverage": _held(gates, stage, "coverage", asked, wanted, said),
        "faithfulness": _held(gates, stage, "faithfulness", asked, own, dict(enumerate(contexts))),
    }
    scores = {
        metric: tuple(
            None
            if not question.answers or metric not in BENCH_METRICS.get(question.type, ())
            else 0.0
            if answers[at] is None
            else known.get(at)
            for at, question in enumerate(questions)
        )
        for metric, known in found.items()
    }
    return scores, sum((gate.ledger.stages[stage] for gate in gates), Usage())


Asked = Mapping[int, Question]
Texts = Mapping[int, str]
Parts = Mapping[int, Sequence[str] | None]


def _apart(gates: Sequence[Gate], stage: str, asked: Asked, texts: Texts) -> Parts:
    """The statements of each text, by the first judge that finds any; None where no answer can be read."""
    items = [
        CallItem({"question": asked[at].question, "answer": text}, asked[at].id) for at, text in texts.items()
    ]
    given = zip(*verdicts(gates, STATEMENTS, items, stage), strict=True)
    found = (next((each.statements for each in judges if each is not None), None) for judges in given)
    return dict(zip(texts, found, strict=True))


def _correctness(
    gates: Sequence[Gate],
    embedder: SharedEmbedder,
    stage: str,
    asked: Asked,
    ours: tuple[Texts, Parts],
    gold: tuple[Texts, Parts],
) -> dict[int, float | None]:
    (said, own), (told, wanted) = ours, gold
    f1: dict[int, float | None] = {}
    both = []
    for at in asked:
        one, other = own[at], wanted[at]
        if one and other:
            both.append((at, one, other))
        else:
            f1[at] = None if one is None or other is None else float(one == other)
    items = [
        CallItem(
            {"question": asked[at].question, "answer": _numbered(one), "reference": _numbered(other)},
            asked[at].id,
        )
        for at, one, other in both
    ]
    for (at, one, other), *judges in zip(both, *verdicts(gates, MATCHED, items, stage), strict=True):
        f1[at] = mean(
            [
                None
                if each is None
                else _f1(_among(each.supported, one), len(one), _among(each.missing, other))
                for each in judges
            ]
        )
    if not asked:
        return f1
    ones, others = (embedder.documents([texts[at] for at in asked]) for texts in (said, told))
    alike = dict(zip(asked, ((ones * others).sum(axis=1) + 1) / 2, strict=True))
    return {
        at: None if facts is None else FACTS * facts + (1 - FACTS) * float(alike[at])
        for at, facts in f1.items()
    }


def _f1(supported: int, said: int, missing: int) -> float:
    return 2 * supported / (supported + said + missing)


def _held(
    gates: Sequence[Gate], stage: str, metric: str, asked: Asked, statements: Parts, texts: Texts
) -> dict[int, float | None]:
    """The share of the statements that a text says, of the questions that have a metric; 0 without a text."""
    wanted = {at: own for at in asked if metric in BENCH_METRICS[asked[at].type] and (own := statements[at])}
    told = {at: own for at, own in wanted.items() if texts[at].strip()}
    items = [
        CallItem({"text": texts[at], "statements": _numbered(own)}, asked[at].id) for at, own in told.items()
    ]
    found = zip(told.items(), *verdicts(gates, HELD, items, stage), strict=True)
    return dict.fromkeys(wanted, 0.0) | {
        at: mean([None if each is None else _among(each.held, own) / len(own) for each in judges])
        for (at, own), *judges in found
    }


def _among(numbers: Sequence[int], statements: Sequence[str]) -> int:
    """How many statements are numbered; numbers of none do not count."""
    return len(set(numbers) & set(range(1, len(statements) + 1)))


def _numbered(statements: Sequence[str]) -> str:
    return "\n".join(f"{number}. {statement}" for number, statement in enumerate(statements, 1))
