"""Keywords, vectors, both, the vector of a made-up passage, and the model alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from stratagraph.eval.baselines.shared import OncePerQuestion
from stratagraph.eval.measuring import booked, unestimated
from stratagraph.eval.workbench import Passage, Workbench, needs_model
from stratagraph.ingest.names.index import words
from stratagraph.kernels.topk import top_k
from stratagraph.models.gate import Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as, plain_text
from stratagraph.search.ranking import reciprocal_ranks
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.question import Length
from stratagraph.types.records import Usage

_FUSED = 100  # places of each ranking that are fused, at least


class Dense:
    """Plain vector search."""

    name = "dense"
    description = "cosine similarity of passage and question, exact"

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._vectors = bench.vectors

    def rows(self, question: str, k: int) -> Rows:
        """The nearest passages."""
        return self.nearest(self._bench.embedder.question(question), k)

    def nearest(self, vector: Vectors, k: int) -> Rows:
        """The passages nearest to a vector."""
        return top_k(self._vectors, vector, k)[0]

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        return [self._bench.passages[row] for row in self.rows(question, k)]


class Bm25:
    """Keyword search by `bm25s`, with stems and without possessives and stop words, as Lucene does English.

    Writing without spaces is searched by character bigrams.
    """

    name = "bm25"
    description = "BM25 (Lucene's form, k1 1.5, b 0.75) over stemmed words"

    def __init__(self, bench: Workbench) -> None:
        import bm25s
        from bm25s.stopwords import STOPWORDS_EN
        from nltk.stem.snowball import SnowballStemmer

        self._bench = bench
        self._stem = cache(SnowballStemmer("english").stem)
        self._stop_words = frozenset(STOPWORDS_EN)
        self._index: Any = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        tokens = [self._tokens(chunk.searched_text) for chunk in bench.chunks]
        self._known = {token for text in tokens for token in text}
        if self._known:
            self._index.index(tokens, show_progress=False)

    def _tokens(self, text: str) -> list[str]:
        return [self._stem(word) for word in words(text) if word not in self._stop_words]

    def rows(self, question: str, k: int) -> Rows:
        """The best passages that share a word with the question."""
        tokens = [token for token in self._tokens(question) if token in self._known]
        if not tokens:
            return np.zeros(0, dtype=np.int64)
        scores: NDArray[np.float32] = self._index.get_scores(tokens)
        order = np.argsort(-scores, kind="stable")[:k].astype(np.int64)
        return order[scores[order] > 0]

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        return [self._bench.passages[row] for row in self.rows(question, k)]


class Hybrid:
    """BM25 and dense, fused by reciprocal ranks."""

    name = "hybrid"
    description = "BM25 and dense by reciprocal rank fusion (Cormack et al. 2009)"

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._parts = (Bm25(bench), Dense(bench))

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        rankings = [part.rows(question, max(k, _FUSED)) for part in self._parts]
        return [self._bench.passages[row] for row in reciprocal_ranks(rankings)[0][:k]]


HYDE_PROMPT = load_prompt("stratagraph.eval", "hyde")
TASK: Task[str] = Task("hyde", HYDE_PROMPT, plain_text, unestimated)


class HyDE:
    """Search by the mean vector of the question and of a passage that the model makes up (Gao et al. 2023).

    The paper samples several passages at a temperature; this takes one, as at temperature 0. If the model
    fails, the question alone is searched.
    """

    name = "hyde"
    description = "dense, by the mean vector of the question and an answer that the LLM makes up"

    def __init__(self, bench: Workbench) -> None:
        needs_model(bench, "HyDE")
        self._bench = bench
        self._dense = Dense(bench)
        self._made_up = OncePerQuestion(bench, "hyde", TASK)

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        embedder = self._bench.embedder
        vector = embedder.question(question)
        if passage := self._made_up(question):
            vector = vector + embedder.documents([passage])[0]
        length = np.float32(np.linalg.norm(vector)) or np.float32(1)
        return [self._bench.passages[row] for row in self._dense.nearest(vector / length, k)]


_ASKED = {
    "brief": "the shortest answer that is complete: a name, a date, a number, yes or no, or a few words",
    "full": "all sides of the question, in paragraphs",
}


class Reasoned(BaseModel):
    """Steps towards an answer, and the answer."""

    steps: str = ""
    answer: str


ZERO_SHOT: Task[str] = Task(
    name="eval/zero_shot",
    prompt=load_prompt("stratagraph.eval", "zero_shot"),
    parse=plain_text,
    placeholder=unestimated,
    expected_output_tokens=20,
)
CHAIN_OF_THOUGHT: Task[str] = Task(
    name="eval/chain_of_thought",
    prompt=load_prompt("stratagraph.eval", "chain_of_thought"),
    parse=lambda text: json_as(Reasoned)(text).answer,
    placeholder=unestimated,
    schema=Reasoned,
    expected_output_tokens=200,
)


class ZeroShot:
    """The model's own knowledge, from the question alone. It retrieves nothing, so its recall is 0."""

    name = "zero_shot"
    description = "the model alone, without retrieval"
    own_prompt = True
    task = ZERO_SHOT

    def __init__(self, bench: Workbench) -> None:
        needs_model(bench, self.name)
        self._gate = bench.gate

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """Nothing."""
        return []

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        """An answer and its usage."""
        with booked(self._gate, f"answer {self.name}") as gate:
            values = {"question": question, "length": _ASKED[length]}
            text = await gate.call(self.task, values, item=question)
        return text, gate.ledger.total


class ChainOfThought(ZeroShot):
    """The question, with steps before the answer (Wei et al. 2022; Kojima et al. 2022)."""

    name = "cot"
    description = "the model alone, without retrieval, step by step"
    task = CHAIN_OF_THOUGHT
