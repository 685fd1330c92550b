"""Ask a ranker every question and score the rankings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from stratagraph.eval.datasets import Question
from stratagraph.eval.methods import MethodRanker
from stratagraph.eval.metrics import (
    all_recall_at,
    contains_answer,
    context_of,
    fitting,
    is_yes_no,
    ndcg_at,
    recall_at,
    reciprocal_rank,
)
from stratagraph.eval.workbench import Passage, Ranker
from stratagraph.text import CountTokens
from stratagraph.types.records import Chunk

PACKED = 20
"""Hits that a method packs into a context, as its answers do."""


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

    def depth(self, chunks: Sequence[Chunk], count_tokens: CountTokens) -> int:
        """Number of passages that amply fill the largest budget."""
        tokens = sum(count_tokens(chunk.text) for chunk in chunks) / max(len(chunks), 1)
        filling = ceil(2 * max(self.budgets, default=0) / max(tokens, 1))
        return min(len(chunks), max(self.k[-1], filling))


@dataclass(frozen=True, slots=True)
class Asked:
    """Scores by metric and question, milliseconds, and the texts of the rankings."""

    scores: dict[str, tuple[float | None, ...]]
    latency_ms: tuple[float, ...]
    cpu_ms: tuple[float, ...]
    texts: tuple[tuple[str, ...], ...]


def ask_all(
    ranker: Ranker,
    questions: Sequence[Question],
    cutoffs: Cutoffs,
    depth: int,
    count_tokens: CountTokens,
    advance: Callable[[], None],
    waited: Mapping[str, float],
) -> Asked:
    """Ask every question once for the largest k, timed, and once as deep as the token budgets need.

    The first question is asked once more before, untimed, since it opens much. More is asked for where short
    texts do not fill the largest budget. `waited` are the seconds of model calls that a search takes from
    memory; they count too. An exception of the ranker gets a note on the question.
    """
    results: list[dict[str, float | None]] = []
    latency: list[float] = []
    cpu: list[float] = []
    texts: list[tuple[str, ...]] = []
    for number, question in enumerate(questions):
        try:
            if number == 0:
                ranker.rank(question.question, cutoffs.k[-1])
            remembered = waited.get(question.question, 0.0)
            began, worked = time.perf_counter(), time.process_time()
            hits = ranker.rank(question.question, cutoffs.k[-1])
            latency.append(1000 * (remembered + time.perf_counter() - began))
            cpu.append(1000 * (time.process_time() - worked))
            deep = hits if depth <= cutoffs.k[-1] else ranker.rank(question.question, depth)
            deep = _filled(ranker, question, deep, max(depth, cutoffs.k[-1]), cutoffs, count_tokens)
        except Exception as error:
            error.add_note(f"at question {question.id!r}, {number + 1} of {len(questions)}")
            raise
        texts.append(tuple(passage.text for passage in deep))
        contexts = {
            budget: _context(ranker, question, deep, budget, count_tokens) for budget in cutoffs.budgets
        }
        results.append(score(question, hits, deep, cutoffs, count_tokens, contexts))
        advance()
    scores = {metric: tuple(result[metric] for result in results) for metric in results[0]}
    return Asked(scores, tuple(latency), tuple(cpu), tuple(texts))


def _filled(
    ranker: Ranker,
    question: Question,
    ranking: Sequence[Passage],
    depth: int,
    cutoffs: Cutoffs,
    count_tokens: CountTokens,
) -> Sequence[Passage]:
    """A ranking that fills the largest budget, or is complete."""
    budget = max(cutoffs.budgets, default=0)
    while budget and len(ranking) >= depth:
        if fitting([passage.text for passage in ranking], budget, count_tokens) < len(ranking):
            break
        depth *= 2
        ranking = ranker.rank(question.question, depth)
    return ranking


def _context(
    ranker: Ranker, question: Question, deep: Sequence[Passage], budget: int, count_tokens: CountTokens
) -> str:
    """The ranker's own context of `PACKED` hits, or as many as fit whole; else the first texts, cut."""
    texts = [passage.text for passage in deep]
    if not _answerable(question):
        return ""
    if isinstance(ranker, MethodRanker):
        return ranker.context(question.question, max(PACKED, fitting(texts, budget, count_tokens)), budget)
    return context_of(texts, budget, count_tokens)


def _answerable(question: Question) -> bool:
    return bool(question.answers) and not is_yes_no(question.answers)


def score(
    question: Question,
    hits: Sequence[Passage],
    deep: Sequence[Passage],
    cutoffs: Cutoffs,
    count_tokens: CountTokens,
    contexts: Mapping[int, str],
) -> dict[str, float | None]:
    """Metrics of one question; None for those that do not apply.

    Parameters
    ----------
    question
        Without gold documents it has no retrieval metrics; without answers, or with a yes or no, no
        `answer@`.
    hits
        Ranking for the largest k. A passage of several documents takes one place for each, so that a summary
        of a whole corpus does not find everything at once.
    deep
        Ranking that fills contexts. `doc_recall@5` is the recall of its first five documents, in which a
        further passage of a document takes no place. `recall@1000t` is the recall of what fits 1,000 tokens
        in full.
    contexts
        The contexts that `answer@` is of, by budget.
    """
    scores: dict[str, float | None] = {}
    ranking = [document for passage in hits for document in passage.documents]
    documents = list(dict.fromkeys(document for passage in deep for document in passage.documents))
    gold = question.supporting_ids
    for k in cutoffs.k:
        scores[f"recall@{k}"] = recall_at(ranking, gold, k) if gold else None
        scores[f"all_recall@{k}"] = all_recall_at(ranking, gold, k) if gold else None
        scores[f"ndcg@{k}"] = ndcg_at(ranking, gold, k) if gold else None
        scores[f"doc_recall@{k}"] = recall_at(documents, gold, k) if gold else None
    deepest = cutoffs.k[-1]
    scores[f"mrr@{deepest}"] = reciprocal_rank(ranking, gold, deepest) if gold else None
    texts = [passage.text for passage in deep]
    for budget in cutoffs.budgets:
        contained = float(contains_answer(contexts[budget], question.answers))
        scores[f"answer@{budget}"] = contained if _answerable(question) else None
        scores[f"recall@{budget}t"] = None
        if gold:  # a summary counts for none of its documents
            whole = deep[: fitting(texts, budget, count_tokens)]
            alone = [passage.documents[0] for passage in whole if len(passage.documents) == 1]
            scores[f"recall@{budget}t"] = recall_at(alone, gold, len(alone)) if alone else 0.0
    for k in cutoffs.k:
        scores[f"tokens@{k}"] = float(sum(count_tokens(passage.text) for passage in hits[:k]))
    return scores
