"""Answers from rankings, all with one prompt and one budget, and their metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from stratagraph import _sync
from stratagraph.errors import CallFailed
from stratagraph.eval.datasets import Dataset, Question
from stratagraph.eval.measuring import AnswerFailed, unestimated
from stratagraph.eval.metrics import METRICS, STRING_SCORES, context_of, string_scores
from stratagraph.eval.workbench import Workbench
from stratagraph.models.gate import CallItem, Gate, Task
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
FREE_HITS = 20
"""Results that an answer is made from where tokens are free."""
_UNCUT = 1 << 30  # tokens: more than any context has


@dataclass(frozen=True, slots=True)
class AnswerConfig:
    """How questions are answered and judged.

    Parameters
    ----------
    max_tokens
        Tokens of context, the same for every ranker; `free` gives each its first 20 results whole, and to
        methods that answer by their own prompts all that they retrieve. Tokens are counted for each row.
    style
        `short` asks for a name, a date, yes or no, as metrics of wording need it; `full` for a text, as
        abstract questions need it; `auto` decides by the gold answers, see `Dataset.wants_texts`.
    judge
        Let a model judge answers by the gold answers.
    head_to_head
        Let a model compare each ranker's answers with the reference's.
    against_gold
        Let a model compare each ranker's answers with the gold answers, where these are long.
    judge_llm
        Model that judges, or a list of models; None uses the one that answers.
    """

    max_tokens: int | Literal["free"] = 2000
    style: Literal["auto", "short", "full"] = "auto"
    judge: bool = True
    head_to_head: bool = False
    against_gold: bool = False
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


@dataclass(frozen=True, slots=True)
class Answered:
    """A ranker's answers (None where the call failed), their metrics, their usage, and the failures."""

    answers: tuple[str | None, ...]
    scores: Mapping[str, tuple[float | None, ...]]
    usage: Usage = field(default_factory=Usage)
    failures: tuple[Failure, ...] = ()


def answer_all(
    bench: Workbench, name: str, rankings: Sequence[Sequence[str]], config: AnswerConfig
) -> Answered:
    """Answer every question from the context its ranking fills, and score the answers.

    A question whose call fails scores 0 everywhere; the failure is this ranker's and does not end the run.
    Other errors are those of the gate.
    """
    questions = bench.dataset.questions
    task: Task[str] = Task(
        name=f"eval/answer_{config.style}",
        prompt=PROMPTS[config.style],
        parse=plain_text,
        placeholder=unestimated,
        expected_output_tokens=_EXPECTED[config.style],
    )
    contexts = contexts_of(bench, rankings, config)
    items = [
        CallItem({"context": context, "question": question.question}, question.id)
        for question, context in zip(questions, contexts, strict=True)
    ]
    stage = f"answer {name}"
    with bench.gate.stage(stage, len(questions)):
        answers = _sync.run(bench.gate.map(task, items, required=False))
    usage, failures = bench.gate.ledger.stages[stage], failures_of(bench.gate, stage)
    return Answered(tuple(answers), _scores(questions, answers), usage, failures)


def contexts_of(bench: Workbench, rankings: Sequence[Sequence[str]], config: AnswerConfig) -> list[str]:
    """The context that each ranking fills."""
    hits = FREE_HITS if config.max_tokens == "free" else None
    return [context_of(texts[:hits], config.context_tokens, bench.count_tokens) for texts in rankings]


def failures_of(gate: Gate, stage: str) -> tuple[Failure, ...]:
    """Failures of a stage."""
    return tuple(failure for failure in gate.failures if failure.stage == stage)


@runtime_checkable
class Answering(Protocol):
    """A ranker that can answer questions by its own prompts, and does if `own_prompt` is true."""

    @property
    def own_prompt(self) -> bool:
        """Whether it answers by its own prompts; else it answers from its ranking by the prompt for all."""
        ...

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        """An answer from a context of at most `max_tokens`, and its usage; `CallFailed` if there is none."""
        ...


def own_answers(bench: Workbench, name: str, ranker: Answering, config: AnswerConfig) -> Answered:
    """Answer every question by a ranker's own prompts, and score the answers.

    As many questions run at once as the limits allow calls. A question whose answer fails scores 0
    everywhere, and its usage counts. After any other error no new question is begun.
    """
    length: Length = "brief" if config.style == "short" else "full"

    async def ask(question: Question) -> tuple[str | Failure, Usage]:
        try:
            return await ranker.answer(question.question, config.context_tokens, length)
        except CallFailed as error:
            spent = error.usage if isinstance(error, AnswerFailed) else Usage()
            return Failure(f"answer {name}", question.id, str(error)), spent

    questions = bench.dataset.questions
    results = _sync.run(_side_by_side(ask, questions, bench.config.limits.concurrency))
    failures = tuple(answer for answer, _ in results if isinstance(answer, Failure))
    answers = [None if isinstance(answer, Failure) else answer for answer, _ in results]
    usage = sum((spent for _, spent in results), Usage())
    return Answered(tuple(answers), _scores(questions, answers), usage, failures)


async def _side_by_side(
    ask: Callable[[Question], Awaitable[T]], questions: Sequence[Question], width: int
) -> list[T]:
    """Ask `width` questions at a time; results in the order of the questions, or the first error."""
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


def _scores(
    questions: Sequence[Question], answers: Sequence[str | None]
) -> dict[str, tuple[float | None, ...]]:
    pairs = list(zip(questions, answers, strict=True))
    scores = {
        name: tuple(
            None if not question.answers else 0.0 if answer is None else metric(answer, question.answers)
            for question, answer in pairs
        )
        for name, metric in METRICS.items()
    }
    if any(question.parts for question in questions):
        of_parts = [
            string_scores(answer or "", question.parts) if question.parts else {}
            for question, answer in pairs
        ]
        scores |= {name: tuple(each.get(name) for each in of_parts) for name in STRING_SCORES}
    return scores
