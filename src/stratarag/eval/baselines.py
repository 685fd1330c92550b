"""What the methods are compared with: keywords, vectors, both, and a hypothetical answer's vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag import _sync
from stratarag.errors import MissingExtra, ModelError
from stratarag.eval.rankers import Passage, Ranker, Workbench
from stratarag.kernels.topk import top_k
from stratarag.models.gate import Task
from stratarag.models.structured import plain_text
from stratarag.pipeline.fusion import reciprocal_ranks
from stratarag.pipeline.names.index import words
from stratarag.pipeline.prompts import load_prompt
from stratarag.protocols import Rows, Vectors

HYDE_PROMPT = load_prompt("stratarag.eval", "hyde")
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
    """Keyword search by `bm25s`, with what Lucene does to English: no possessives, no stop words, stems.

    Writing without spaces between words is searched by character bigrams.
    """

    name = "bm25"
    description = "BM25 (Lucene's form, k1 1.5, b 0.75) over stemmed words"

    def __init__(self, bench: Workbench) -> None:
        try:
            import bm25s
            from bm25s.stopwords import STOPWORDS_EN
            from nltk.stem.snowball import SnowballStemmer
        except ImportError as error:
            raise MissingExtra("bm25s or nltk", "eval") from error
        self._bench = bench
        self._stem: Callable[[str], str] = _remembered(SnowballStemmer("english").stem)
        self._stop_words = frozenset(STOPWORDS_EN)
        self._index: Any = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        tokens = [self._tokens(chunk.text) for chunk in bench.chunks]
        self._known = {token for text in tokens for token in text}
        if self._known:
            self._index.index(tokens, show_progress=False)

    def _tokens(self, text: str) -> list[str]:
        return [self._stem(word) for word in words(text) if word not in self._stop_words]

    def rows(self, question: str, k: int) -> Rows:
        """The best passages; those that share no word with the question are none."""
        tokens = [token for token in self._tokens(question) if token in self._known]
        if not tokens:
            return np.zeros(0, dtype=np.int64)
        scores: NDArray[np.float32] = self._index.get_scores(tokens)
        order = np.argsort(-scores, kind="stable")[:k].astype(np.int64)
        return order[scores[order] > 0]

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        return [self._bench.passages[row] for row in self.rows(question, k)]


def _remembered(function: Callable[[str], str]) -> Callable[[str], str]:
    """Stemming once per distinct word."""
    known: dict[str, str] = {}

    def look_up(word: str) -> str:
        if word not in known:
            known[word] = function(word)
        return known[word]

    return look_up


class Hybrid:
    """Both rankings, fused by the reciprocals of their places."""

    name = "hybrid"
    description = "BM25 and dense by reciprocal rank fusion (Cormack et al. 2009)"

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._parts = (Bm25(bench), Dense(bench))

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        rankings = [part.rows(question, max(k, _FUSED)) for part in self._parts]
        return [self._bench.passages[row] for row in reciprocal_ranks(rankings)[0][:k]]


class HyDE:
    """Search by the vector of a passage that the model makes up (Gao et al. 2023)."""

    name = "hyde"
    description = "dense, by the mean vector of the question and an answer that the LLM makes up"

    def __init__(self, bench: Workbench) -> None:
        if not bench.gate.has_llm:
            raise ModelError("HyDE needs a language model, and there is none: pass llm=...")
        self._bench = bench
        self._dense = Dense(bench)
        self._task = Task("hyde", HYDE_PROMPT, plain_text, lambda values: values["question"])

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        embedder, call = self._bench.embedder, self._bench.gate.call
        passage = _sync.run(call(self._task, {"question": question}, item=question))
        vector = embedder.question(question) + embedder.documents([passage])[0]
        return [self._bench.passages[row] for row in self._dense.nearest(_unit(vector), k)]


def _unit(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector


def baselines() -> Mapping[str, Callable[[Workbench], Ranker]]:
    """The baselines by name. Those that need more than this file are imported when they are asked for."""

    def walk(bench: Workbench) -> Ranker:
        from stratarag.eval.walk import EntityWalk

        return EntityWalk(bench)

    def tree(bench: Workbench) -> Ranker:
        from stratarag.eval.gmm_tree import GmmTree

        return GmmTree(bench)

    return {"bm25": Bm25, "dense": Dense, "hybrid": Hybrid, "hyde": HyDE, "ppr": walk, "raptor": tree}
