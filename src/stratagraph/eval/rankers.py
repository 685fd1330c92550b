"""What is compared: searches in an index of the run and rankers of your own; asking and scoring each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stratagraph.api import build_index
from stratagraph.config import Config
from stratagraph.errors import CallFailed
from stratagraph.eval.datasets import Dataset, Question
from stratagraph.eval.embedding import SharedEmbedder
from stratagraph.eval.metrics import (
    all_recall_at,
    contains_answer,
    context_of,
    is_yes_no,
    ndcg_at,
    recall_at,
    reciprocal_rank,
)
from stratagraph.eval.names import PLAIN, RowName, settings_of
from stratagraph.index import Index
from stratagraph.ingest.chunk import split
from stratagraph.models.budget import Budget
from stratagraph.models.gate import Gate
from stratagraph.text import CountTokens
from stratagraph.types.question import WALK, Length
from stratagraph.types.records import Chunk, Failure, Usage
from stratagraph.types.results import Retrieval

Scores = Mapping[str, tuple[float | None, ...]]
HITS = 20
"""Passages of a ranker that a context is made from, as of a search by default."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrieved text and its documents: one for a passage, several for a summary."""

    text: str
    documents: tuple[str, ...]


class Packed(NamedTuple):
    """A context, and the documents that it cites."""

    text: str
    documents: frozenset[str]


class AnswerFailed(CallFailed):
    """An answer failed; `usage` counts its calls and tokens."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True, slots=True)
class Indexing:
    """Cost of making a ranker ready, without the embedding of passages, which all share.

    `cpu_seconds` are those of all threads. `stages` has calls, tokens and seconds of a build; what methods
    share, such as the extraction, is in the row of the first one. `bytes` on disk are None for what is in
    memory.
    """

    seconds: float
    cpu_seconds: float
    stages: Mapping[str, Usage] = field(default_factory=dict)
    bytes: int | None = None

    @property
    def usage(self) -> Usage:
        """The sum over all stages."""
        return sum(self.stages.values(), Usage())


class Ranker:
    """What a row measures. Yours names itself and ranks; it may also prepare itself and answer by itself.

    With `own_prompt`, `answer` writes the answers; else one prompt for all writes them from `context`.
    `failures` are those that did not end the row, `asking` the calls and tokens of the searches, a repeated
    question once.
    """

    name: str
    description: str = ""
    own_prompt: bool = False
    failures: Sequence[Failure] = ()
    asking: Usage = Usage()

    def prepare(self, bench: Workbench) -> Indexing | None:
        """Get ready to search; None if there was nothing to do."""
        self.bench = bench
        return None

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        raise NotImplementedError

    def context(self, question: str, max_tokens: int) -> Packed:
        """The context that an answer is made from: the first texts, of which the last is cut."""
        passages = self.rank(question, HITS)
        text = context_of([each.text for each in passages], max_tokens, self.bench.count_tokens)
        alone = {each.documents[0] for each in passages if len(each.documents) == 1 and each.text in text}
        return Packed(text, frozenset(alone))

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        """An answer by the ranker's own prompts, and its usage; `CallFailed` if there is none."""
        raise NotImplementedError


class IndexRanker(Ranker):
    """A way of searching an index of the run: a method, the walk, or a plain ranking of its passages."""

    def __init__(self, name: str, row: RowName) -> None:
        self.name = name
        options = "".join(f", {key}={value!r}" for key, value in row.options.items())
        options += "".join(f", built with {key}={value!r}" for key, value in row.build.items())
        self.description = f"{row.ranker} of this package, view {row.view}{options}"
        self.own_prompt = bool(row.own_prompt)
        self.row, self.is_plain = row, row.ranker in PLAIN
        self._asked: set[str] = set()
        self._packed: dict[str, Retrieval] = {}

    def prepare(self, bench: Workbench) -> Indexing | None:
        """Build what is not built yet."""
        self.bench = bench
        self._index, indexing, self.failures = bench.index_of(self.row)
        return indexing

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` hits, best first."""
        retrieval = self._index.retrieve(question, k, **self.row.search)
        if question not in self._asked:
            self._asked.add(question)
            self.asking += retrieval.usage
        return [Passage(hit.text, hit.documents) for hit in retrieval.hits]

    def context(self, question: str, max_tokens: int) -> Packed:
        """As many hits as an answer of this way is made from, packed by `Retrieval.context`."""
        if question not in self._packed:
            k = self._index.answer_k(self.row.search["method"])
            self._packed[question] = self._index.retrieve(question, k, **self.row.search)
        context = self._packed[question].context(max_tokens)
        documents = [self._packed[question].hits[each.number - 1].documents for each in context.citations]
        return Packed(context.text, frozenset(each[0] for each in documents if len(each) == 1))

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        """The method's answer by its own prompts, and its usage; `AnswerFailed` if it would be extractive."""
        search = {"guided": False, **self.row.search}  # an answer's own default is guided
        answer = await self._index.aanswer(question, max_tokens=max_tokens, length=length, **search)
        if answer.extractive and answer.retrieval.hits:
            fault = "the model could not answer, and excerpts of the sources would stand for it"
            raise AnswerFailed(fault, answer.usage)
        return answer.text, answer.usage


@dataclass
class Workbench:
    """What the rankers of a run share: one split of the corpus, one embedder, gates and indexes.

    `chunks` are in the order of an index: by document id, then by place in the document. Methods are added to
    one index, each measured by itself; a row with settings of its own build has its own index, of the same
    extraction. Plain rankings need no model: where there is one, they have an index that was made without it.
    `llm` and `budget` are as `build_index` takes them; `calls` is the file of model calls.
    """

    dataset: Dataset
    embedder: SharedEmbedder
    config: Config
    gate: Gate
    count_tokens: CountTokens
    llm: Any = None
    budget: Budget | None = None
    calls: Path | None = None
    judge_gates: Sequence[Gate] = ()
    chunks: Sequence[Chunk] = field(init=False)
    _indexes: dict[str, Index] = field(default_factory=dict)
    _bytes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.judge_gates = tuple(self.judge_gates) or (self.gate,)
        parts = [
            chunk
            for item in self.dataset.documents
            for chunk in (
                [item] if isinstance(item, Chunk) else split(item, self.config.chunking, self.count_tokens)
            )
        ]
        self.chunks = sorted(parts, key=lambda chunk: (chunk.document_id, chunk.ordinal))

    def index_of(self, row: RowName) -> tuple[Index, Indexing | None, Sequence[Failure]]:
        """An index with the method, the cost of adding it (None if it is there), and what failed."""
        plain, method = row.ranker in PLAIN, WALK if row.ranker in PLAIN else row.ranker
        key = PLAIN[0] if plain and self.llm is not None else json.dumps(row.build and [method, row.build])
        index = self._indexes.get(key)
        if index is not None and (plain or method in (WALK, *index.methods)):
            return index, None, ()
        began, worked = time.perf_counter(), time.process_time()
        if index is None:
            given = self.dataset.extractions
            extraction: dict[str, Any] = {"extraction": given} if given else {}
            index = self._indexes[key] = build_index(
                self.dataset.documents,
                method,
                llm=None if plain else self.llm,
                embedder=self.embedder,
                config=settings_of(row, self.config),
                budget=self.budget,
                cache=self.calls,
                progress=False,
                **extraction,
            )
        else:
            index.add_method(method)
        spent = time.perf_counter() - began, time.process_time() - worked
        report = index.last_report
        assert report is not None
        size = int(index.stats()["bytes"])
        own, self._bytes[key] = size - self._bytes.get(key, 0), size
        return index, None if plain else Indexing(*spent, report.stages, own), report.failures

    def close(self) -> None:
        """Remove the indexes."""
        for index in self._indexes.values():
            index.close()


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


def ask_all(
    ranker: Ranker,
    questions: Sequence[Question],
    cutoffs: Cutoffs,
    count_tokens: CountTokens,
    advance: Callable[[], None],
) -> tuple[Scores, tuple[float, ...], tuple[float, ...]]:
    """Scores by metric and question, and the milliseconds of each search, by the clock and of the CPU.

    Every question is asked for the largest k, timed, and for its contexts. The first is asked once more
    before, untimed, since it opens much. An exception of the ranker gets a note on the question.
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
    return scores, tuple(latency), tuple(cpu)


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
