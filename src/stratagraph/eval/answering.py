"""Answers from the rankers' contexts, all by one prompt and one budget, their metrics, and their judges."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from stratagraph import _sync
from stratagraph.errors import BudgetExceeded, CallFailed, ModelError
from stratagraph.eval.datasets import Dataset, Question
from stratagraph.eval.metrics import METRICS, mean
from stratagraph.eval.rankers import AnswerFailed, Ranker, Workbench
from stratagraph.eval.report import Row
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as, plain_text
from stratagraph.types.question import Length
from stratagraph.types.records import Failure, Usage

T = TypeVar("T")
PROMPTS = {
    "short": load_prompt("stratagraph.eval", "answer_short"),
    "full": load_prompt("stratagraph.eval", "answer_full"),
}
_EXPECTED = {"short": 20, "full": 400}
Verdicts = Sequence[Hashable | None]
_UNCUT = 1 << 30  # tokens: more than any context has


def unestimated(values: Mapping[str, str]) -> Any:
    """The placeholder of an evaluation's tasks, which an estimate must not be asked about."""
    raise RuntimeError("the calls of an evaluation have no estimate")


@dataclass(frozen=True, slots=True)
class AnswerConfig:
    """How questions are answered and judged.

    Parameters
    ----------
    max_tokens
        Tokens of context, the same for every ranker; `free` gives each all that it retrieves for an answer.
    style
        `short` asks for a name, a date, yes or no, as metrics of wording need it; `full` for a text; `auto`
        decides by the gold answers (`Dataset.wants_texts`).
    judge
        Let a model judge answers by the gold answers.
    judge_llm
        The model that judges, or a list of models; None takes the one that answers.
    """

    max_tokens: int | Literal["free"] = 2000
    style: Literal["auto", "short", "full"] = "auto"
    judge: bool = True
    judge_llm: Any = None

    def __post_init__(self) -> None:
        if self.max_tokens != "free" and (not isinstance(self.max_tokens, int) or self.max_tokens < 1):
            raise ValueError(f"max_tokens must be at least 1, or 'free', not {self.max_tokens!r}")
        if self.style not in ("auto", *PROMPTS):
            raise ValueError(f"style must be one of auto, {', '.join(PROMPTS)}, not {self.style!r}")

    def of(self, dataset: Dataset) -> AnswerConfig:
        """The settings with a style for this dataset in place of `auto`."""
        if self.style != "auto":
            return self
        return replace(self, style="full" if dataset.wants_texts else "short")

    @property
    def context_tokens(self) -> int:
        """Tokens that a context may have."""
        return _UNCUT if self.max_tokens == "free" else self.max_tokens

    @property
    def judges(self) -> tuple[Any, ...]:
        """Models that judge; empty where the one that answers does."""
        if self.judge_llm is None:
            return ()
        return tuple(self.judge_llm) if isinstance(self.judge_llm, list | tuple) else (self.judge_llm,)


def answered(row: Row, bench: Workbench, ranker: Ranker, config: AnswerConfig) -> Row:
    """The row with an answer to every question, from the ranker's context or by its own prompts, and scores.

    A question whose answer fails scores 0 everywhere, and its usage counts; the failure is this ranker's and
    does not end the run. Other errors are those of the gate.
    """
    questions = bench.dataset.questions
    contexts = tuple(ranker.context(each.question, config.context_tokens).text for each in questions)
    stage = f"answer {ranker.name}"
    if ranker.own_prompt:
        answers, usage, failures = _own_answers(bench, ranker, config, stage)
    else:
        task: Task[str] = Task(
            name=f"eval/answer_{config.style}",
            prompt=PROMPTS[config.style],
            parse=plain_text,
            placeholder=unestimated,
            expected_output_tokens=_EXPECTED[config.style],
        )
        items = [
            CallItem({"context": context, "question": question.question}, question.id)
            for question, context in zip(questions, contexts, strict=True)
        ]
        with bench.gate.stage(stage, len(questions)):
            answers = _sync.run(bench.gate.map(task, items, required=False))
        usage = bench.gate.ledger.stages[stage]
        failures = tuple(each for each in bench.gate.failures if each.stage == stage)
    pairs = list(zip(questions, answers, strict=True))
    scores = {
        name: tuple(
            None if not question.answers else 0.0 if answer is None else metric(answer, question.answers)
            for question, answer in pairs
        )
        for name, metric in METRICS.items()
    }
    return replace(
        row,
        scores={**row.scores, **scores},
        answers=tuple(answers),
        contexts=contexts,
        usage=usage,
        failures=failures,
    )


def _own_answers(
    bench: Workbench, ranker: Ranker, config: AnswerConfig, stage: str
) -> tuple[list[str | None], Usage, tuple[Failure, ...]]:
    """Answers by a ranker's own prompts. As many questions run at once as the limits allow calls.

    An error other than a failed answer stops the run: no further question starts, and the error is raised.
    """
    length: Length = "brief" if config.style == "short" else "full"
    slots = asyncio.Semaphore(bench.config.limits.concurrency)
    errors: list[Exception] = []

    async def ask(question: Question) -> tuple[str | Failure, Usage]:
        async with slots:
            try:
                if not errors:
                    return await ranker.answer(question.question, config.context_tokens, length)
            except CallFailed as error:
                spent = error.usage if isinstance(error, AnswerFailed) else Usage()
                return Failure(stage, question.id, str(error)), spent
            except Exception as error:
                errors.append(error)
        return "", Usage()

    async def ask_all() -> list[tuple[str | Failure, Usage]]:
        return await asyncio.gather(*map(ask, bench.dataset.questions))

    results = _sync.run(ask_all())
    if errors:
        raise errors[0]
    failures = tuple(answer for answer, _ in results if isinstance(answer, Failure))
    answers = [None if isinstance(answer, Failure) else answer for answer, _ in results]
    return answers, sum((spent for _, spent in results), Usage()), failures


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
