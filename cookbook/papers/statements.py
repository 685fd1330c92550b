"""GraphRAG-Bench: what a model judges statement by statement, and its files (Xiang et al. 2025)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from papers.corpus import json_task
from stratagraph.eval import Evaluation, Question, Row
from stratagraph.eval.answering import verdicts, with_cost
from stratagraph.eval.metrics import mean
from stratagraph.eval.report import drawn, means
from stratagraph.methods.reports import numbers_in
from stratagraph.models.gate import CallItem

BENCH_METRICS: Mapping[str, tuple[str, ...]] = {
    "Fact Retrieval": ("rouge_l", "correctness"),
    "Complex Reasoning": ("rouge_l", "correctness"),
    "Contextual Summarize": ("correctness", "coverage"),
    "Creative Generation": ("correctness", "coverage", "faithfulness"),
}
"""The metrics of GraphRAG-Bench by its types of questions."""
FACTS = 0.75
"""Weight of the agreement in statements within answer correctness. Similarity has the rest."""
Numbers = Annotated[list[int], BeforeValidator(numbers_in)]


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
Parts = Mapping[int, Sequence[str] | None]
"""The statements of a text by question; None where they cannot be read."""


def is_bench(questions: Sequence[Question]) -> bool:
    """Whether questions have the types of GraphRAG-Bench, and so its metrics."""
    return any(each.type in BENCH_METRICS for each in questions)


def judged(row: Row, questions: Sequence[Question], gates: Sequence[Any], embedder: Any) -> Row:
    """The row with correctness, coverage and faithfulness.

    `correctness` is three quarters the F1 of the answer's statements against the gold answer's, and one
    quarter the cosine of the two texts, scaled to 0 to 1. `coverage` is the share of the gold answer's
    statements that the answer says, `faithfulness` that of the answer's statements that its context says. A
    question has the metrics of its type; they are 0 without an answer, and None where no verdict can be read.
    Several judges get the statements that the first of them finds, and their scores are averaged.
    """
    asked = {at: each for at, each in enumerate(questions) if each.type in BENCH_METRICS and each.answers}
    written = {at: answer for at in asked if (answer := row.answers[at]) is not None}
    gold = {at: asked[at].answers[0] for at in written}
    stage = f"judge statements of {row.name}"

    def ask(task: Any, values: Mapping[int, Mapping[str, str]]) -> dict[int, list[Any]]:
        """What each judge says, by question."""
        items = [CallItem(dict(each), questions[at].id) for at, each in values.items()]
        return dict(
            zip(values, map(list, zip(*verdicts(gates, task, items, stage), strict=True)), strict=True)
        )

    def taken_apart(texts: Mapping[int, str]) -> Parts:
        values = {at: {"question": asked[at].question, "answer": text} for at, text in texts.items()}
        first = ask(STATEMENTS, values)
        return {
            at: next((each.statements for each in judges if each is not None), None)
            for at, judges in first.items()
        }

    def shares(metric: str, statements: Parts, texts: Mapping[int, str]) -> dict[int, float | None]:
        """The share of the statements that a text says, where a question has the metric; 0 without a text."""
        wanted = {
            at: own for at, own in statements.items() if own and metric in BENCH_METRICS[asked[at].type]
        }
        values = {
            at: {"text": texts[at], "statements": numbered(own)}
            for at, own in wanted.items()
            if texts[at].strip()
        }
        held = ask(HELD, values)
        return dict.fromkeys(wanted, 0.0) | {
            at: mean(
                [None if each is None else count(each.held, wanted[at]) / len(wanted[at]) for each in judges]
            )
            for at, judges in held.items()
        }

    own, expected = taken_apart(written), taken_apart(gold)
    both = {at: (own[at], expected[at]) for at in written}
    values = {
        at: {"question": asked[at].question, "answer": numbered(one), "reference": numbered(other)}
        for at, (one, other) in both.items()
        if one and other
    }
    f1: dict[int, float | None] = {
        at: None if one is None or other is None else float(one == other)
        for at, (one, other) in both.items()
        if at not in values
    }
    for at, judges in ask(MATCHED, values).items():
        one, other = both[at]
        counts = [
            None if each is None else (count(each.supported, one), count(each.missing, other))
            for each in judges
        ]
        f1[at] = mean(
            [None if each is None else 2 * each[0] / (each[0] + len(one) + each[1]) for each in counts]
        )
    by_metric = {
        "coverage": shares("coverage", expected, written),
        "faithfulness": shares("faithfulness", own, dict(enumerate(row.contexts))),
        "correctness": {},
    }
    if written:
        ones, others = (embedder.documents([texts[at] for at in written]) for texts in (written, gold))
        likeness = dict(zip(written, ((ones * others).sum(axis=1) + 1) / 2, strict=True))
        by_metric["correctness"] = {
            at: None if each is None else FACTS * each + (1 - FACTS) * float(likeness[at])
            for at, each in f1.items()
        }
    scores = {
        metric: tuple(
            (by_question.get(at) if at in written else 0.0)
            if at in asked and metric in BENCH_METRICS[asked[at].type]
            else None
            for at in range(len(questions))
        )
        for metric, by_question in by_metric.items()
    }
    return with_cost(replace(row, scores={**row.scores, **scores}), gates, stage)


def count(numbers: Sequence[int], statements: Sequence[str]) -> int:
    """How many statements are numbered; numbers of none do not count."""
    return len(set(numbers) & set(range(1, len(statements) + 1)))


def numbered(statements: Sequence[str]) -> str:
    """A line for each, with its number."""
    return "\n".join(f"{number}. {statement}" for number, statement in enumerate(statements, 1))


def by_type(found: Evaluation) -> str:
    """The metrics of each type of question."""
    types = [question.type for question in found.questions]
    columns = {
        f"{type_} ({types.count(type_)}) {metric}": (metric, type_)
        for type_, metrics in BENCH_METRICS.items()
        for metric in metrics
        if type_ in types
    }
    return "answers by type of question (GraphRAG-Bench)\n" + drawn(means(found, columns, {}))


def save_answers(found: Evaluation, folder: Path) -> None:
    """Write the answers of each row to a file of the form that GraphRAG-Bench's own scripts read."""
    folder.mkdir(parents=True, exist_ok=True)
    for row in found.rows:
        written = [
            {
                "id": question.id,
                "question": question.question,
                "source": question.source,
                "context": [context],
                "evidence": question.evidence,
                "question_type": question.type,
                "generated_answer": answer or "",
                "ground_truth": question.answers[0] if question.answers else "",
            }
            for question, answer, context in zip(found.questions, row.answers, row.contexts, strict=False)
        ]
        if written:
            name = re.sub(r"[^\w.=-]+", "_", f"{found.dataset}-{row.name}")
            (folder / f"{name}.json").write_text(json.dumps(written, ensure_ascii=False, indent=1), "utf-8")
