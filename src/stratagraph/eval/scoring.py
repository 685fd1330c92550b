"""Ask a ranker every question and score what it finds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stratagraph.eval.datasets import Question
from stratagraph.eval.metrics import (
    all_recall_at,
    contains_answer,
    is_yes_no,
    ndcg_at,
    recall_at,
    reciprocal_rank,
)
from stratagraph.eval.rankers import Packed, Passage, Ranker
from stratagraph.text import CountTokens

Scores = Mapping[str, tuple[float | None, ...]]


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """Cutoffs of rankings, ascending: `k` in passages, `budgets` in tokens of context."""

    k: tuple[int, ...] = (2, 5, 10)
    budgets: tuple[int, ...] = (1000, 2000, 5000)

    def __post_init__(self) -> None:
        for name, values in (("k", self.k), ("budgets", self.budgets)):
            if any(isinstance(value, bool) or not isinstance(value, int) or value < 1 for value in values):
                raise ValueError(f"{name} must be whole numbers from 1, not {values}")
            object.__setattr__(self, name, tuple(sorted(set(values))))
        if not self.k:
            raise ValueError("k must have at least one value")

    @property
    def middle(self) -> int:
        """The k of summaries: 5 if it is a cutoff, else the middle one."""
        return 5 if 5 in self.k else self.k[len(self.k) // 2]


@dataclass(frozen=True, slots=True)
class Measured:
    """Scores by metric and question, and the milliseconds of each search, by the clock and of the CPU."""

    scores: Scores
    latency_ms: tuple[float, ...]
    cpu_ms: tuple[float, ...]


def ask_all(
    ranker: Ranker,
    questions: Sequence[Question],
    cutoffs: Cutoffs,
    count_tokens: CountTokens,
    advance: Callable[[], None],
) -> Measured:
    """Ask every question for the largest k, timed, and for its contexts.

    The first question is asked once more before, untimed, since it opens much. An exception of the ranker
    gets a note on the question.
    """
    results: list[dict[str, float | None]] = []
    latency: list[float] = []
    cpu: list[float] = []
    for number, question in enumerate(questions):
        try:
            if number == 0:
                ranker.rank(question.question, cutoffs.k[-1])
            began, worked = time.perf_counter(), time.process_time()
            hits = ranker.rank(question.question, cutoffs.k[-1])
            latency.append(1000 * (time.perf_counter() - began))
            cpu.append(1000 * (time.process_time() - worked))
            packed = {budget: ranker.context(question.question, budget) for budget in cutoffs.budgets}
        except Exception as error:
            error.add_note(f"at question {question.id!r}, {number + 1} of {len(questions)}")
            raise
        results.append(score(question, hits, packed, cutoffs, count_tokens))
        advance()
    scores = {metric: tuple(result[metric] for result in results) for metric in results[0]}
    return Measured(scores, tuple(latency), tuple(cpu))


def score(
    question: Question,
    hits: Sequence[Passage],
    packed: Mapping[int, Packed],
    cutoffs: Cutoffs,
    count_tokens: CountTokens,
) -> dict[str, float | None]:
    """Metrics of one question; None for those that do not apply.

    Without gold documents there are no retrieval metrics; without answers, or with a yes or no, no
    `answer@`. A passage of several documents takes one place of the ranking for each, so that a summary of a
    whole corpus does not find everything at once. `packed` are contexts by budget: `answer@1000` is whether
    one of 1,000 tokens contains a gold answer, `recall@1000t` the share of the gold documents of which it
    cites a passage.
    """
    scores: dict[str, float | None] = {}
    ranking = [document for passage in hits for document in passage.documents]
    gold = question.supporting_ids
    for k in cutoffs.k:
        scores[f"recall@{k}"] = recall_at(ranking, gold, k) if gold else None
        scores[f"all_recall@{k}"] = all_recall_at(ranking, gold, k) if gold else None
        scores[f"ndcg@{k}"] = ndcg_at(ranking, gold, k) if gold else None
    deepest = cutoffs.k[-1]
    scores[f"mrr@{deepest}"] = reciprocal_rank(ranking, gold, deepest) if gold else None
    answerable = bool(question.answers) and not is_yes_no(question.answers)
    for budget, context in packed.items():
        contained = float(contains_answer(context.text, question.answers))
        scores[f"answer@{budget}"] = contained if answerable else None
        scores[f"recall@{budget}t"] = len(context.documents.intersection(gold)) / len(gold) if gold else None
    for k in cutoffs.k:
        scores[f"tokens@{k}"] = float(sum(count_tokens(passage.text) for passage in hits[:k]))
    return scores
