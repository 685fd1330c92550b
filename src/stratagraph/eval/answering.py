"""Answers from the rankers' contexts, all by one prompt and one budget, and their metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from stratagraph import _sync
from stratagraph.errors import CallFailed
from stratagraph.eval.datasets import Dataset, Question
from stratagraph.eval.metrics import METRICS
from stratagraph.eval.rankers import AnswerFailed, Ranker, Workbench
from stratagraph.eval.results import Row
from stratagraph.models.gate import CallItem, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import plain_text
from stratagraph.types.question import Length
from stratagraph.types.records import Failure, Usage

T = TypeVar("T")
PROMPTS = {
    "short": load_prompt("stratagraph.eval", "answer_short"),
    "full": load_prompt("stratagraph.eval", "answer_full"),
}
_EXPECTED = {"short": 20, "full": 400}
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
        Tokens are counted for each row.
    style
        `short` asks for a name, a date, yes or no, as metrics of wording need it; `full` for a text; `auto`
        decides by the gold answers, see `Dataset.wants_texts`.
    judge
        Let a model judge answers by the gold answers.
    judge_llm
        Model that judges, or a list of models; None uses the one that answers.
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
    """Answers by a ranker's own prompts. As many questions run at once as the limits allow calls."""
    length: Length = "brief" if config.style == "short" else "full"

    async def ask(question: Question) -> tuple[str | Failure, Usage]:
        try:
            return await ranker.answer(question.question, config.context_tokens, length)
        except CallFailed as error:
            spent = error.usage if isinstance(error, AnswerFailed) else Usage()
            return Failure(stage, question.id, str(error)), spent

    results = _sync.run(_side_by_side(ask, bench.dataset.questions, bench.config.limits.concurrency))
    failures = tuple(answer for answer, _ in results if isinstance(answer, Failure))
    answers = [None if isinstance(answer, Failure) else answer for answer, _ in results]
    return answers, sum((spent for _, spent in results), Usage()), failures


async def _side_by_side(
    ask: Callable[[Question], Awaitable[T]], questions: Sequence[Question], width: int
) -> list[T]:
    """Ask `width` questions at a time; results in order, or the first error, after which none is begun."""
    slots = asyncio.Semaphore(width)
    errors: list[Exception] = []
    results: dict[str, T] = {}

    async def worker(question: Question) -> None:
        async with slots:
            if not errors:
                try:
                    results[question.id] = await ask(question)
                except Exception as error:
                    errors.append(error)

    await asyncio.gather(*map(worker, questions))
    if errors:
        raise errors[0]
    return [results[question.id] for question in questions]
