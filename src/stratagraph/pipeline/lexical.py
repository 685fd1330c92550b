"""Words of passages: BM25 over arrays that are stored with the graph, memory-mapped and asked by mask.

A passage p of a corpus of n has, for the distinct terms t of a question (Robertson et al. 1994, in the form
that Lucene computes; Kamphuis et al. 2020 compare the forms; `kernels.bm25` computes it),

    score(p) = sum over t of  idf(t) * tf / (tf + k1 * (1 - b + b * |p| / mean |p|)),
    idf(t) = ln(1 + (n - df + 0.5) / (df + 0.5)),

with tf the number of times t stands in p and df the number of passages that it stands in. Words of grammar
in a question are passed over, unless it has no others.

Terms are the words of `names.spelling`: folded, bigrams of characters where a script has no spaces, and
stemmed by Snowball's rules for the language that most of the corpus is written in. The arrays hold their
hashes, so that no vocabulary is read at a question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.bm25 import TermPostings, bm25
from stratagraph.kernels.topk import kth_largest
from stratagraph.pipeline.lexical_arrays import K1, STEMMERS, Arrays, B, build
from stratagraph.pipeline.names.index import words
from stratagraph.protocols import Rows
from stratagraph.records import content_keys
from stratagraph.stopwords import ENGLISH, FUNCTION

MOST_POSTINGS = 200_000
"""Postings that a question reads at most. Its rarest terms come first: what is left out is "the" in a corpus
of a million passages, and what is common in a question of a megabyte."""

_NO_ROWS: Rows = np.zeros(0, np.int64)


class Scored(NamedTuple):
    """Rows of passages with their BM25 scores, all above 0."""

    rows: Rows
    scores: NDArray[np.float32]


class LexicalIndex:
    """BM25 over the passages of a corpus.

    Parameters
    ----------
    arrays
        What `build` made, in memory or memory-mapped; `pipeline.lexical_arrays` tells what they are.

    Raises
    ------
    ValueError
        If the arrays do not fit each other.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._keys: NDArray[np.uint64] = arrays["keys"]
        self._starts: NDArray[np.int64] = arrays["starts"]
        self._all = TermPostings(arrays["rows"], arrays["counts"], arrays["norms"])
        self.language = bytes(arrays["language"]).decode("ascii", "replace")
        if len(self._starts) != len(self._keys) + 1 or len(self._all.rows) != len(self._all.counts):
            raise ValueError("the arrays of the words are damaged: their lengths do not fit each other")

    @staticmethod
    def build(passages: Iterable[str]) -> Arrays:
        """The arrays of an index; rows are places among the passages."""
        return build(passages)

    def search(self, question: str, k: int, allowed: NDArray[np.bool_] | None = None) -> Scored:
        """Rows and scores of the `k` best admitted passages, best first; of equals, lower rows first.

        Passages that have none of the question's terms are none.
        """
        return best(*self.scores(question, allowed), k)

    def scores(self, question: str, allowed: NDArray[np.bool_] | None = None) -> Scored:
        """The scores of all admitted passages that have a term of the question, by ascending row.

        Raises
        ------
        ValueError
            If the arrays are damaged where the question's terms stand.
        """
        keys = np.unique(term_keys(content_words(question, self.language), self.language))
        starts, counts = self.postings(keys)
        chosen = rarest(counts)
        return self.scored(starts[chosen], counts[chosen], allowed)

    def scored(
        self,
        starts: Rows,
        counts: Rows,
        allowed: NDArray[np.bool_] | None = None,
        rarity: NDArray[np.float32] | None = None,
    ) -> Scored:
        """The scores of passages by postings; `rarity` is that of each term where it is known better."""
        return Scored(*bm25(self._all, starts, counts, allowed, rarity=rarity))

    def postings(self, keys: NDArray[np.uint64]) -> tuple[Rows, Rows]:
        """Where the postings of terms start and how many there are, 0 of a term that is not there.

        Raises
        ------
        ValueError
            If the arrays are damaged there.
        """
        if not len(keys) or not len(self._keys):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        known = self._keys[places] == keys
        starts = self._starts[places].astype(np.int64)
        counts = self._starts[places + 1].astype(np.int64) - starts
        if np.any((counts[known] < 1) | (counts[known] > len(self._all.norms))):
            raise ValueError("the postings are damaged: those of a term are out of bounds")
        return starts, np.where(known, counts, 0)

    @property
    def passages(self) -> int:
        """Number of passages."""
        return len(self._all.norms)

    @property
    def words(self) -> int:
        """Words of all passages; more than 255 of one term in one passage count as 255."""
        return int(self._all.counts.sum(dtype=np.int64))

    def within(self, mean: float) -> LexicalIndex:
        """The same passages as a part of a corpus whose passages have `mean` words on average.

        The norms are held in memory, four bytes for each passage.
        """
        own = max(self.words / max(self.passages, 1), 1.0)
        base = np.float32(K1 * (1 - B))
        norms = base + (self._all.norms - base) * np.float32(own / max(mean, 1.0))
        part = copy(self)
        part._all = self._all._replace(norms=norms)
        return part


def rarest(frequencies: Rows) -> NDArray[np.intp]:
    """The places of the terms whose postings a question reads, the rarest first; see `MOST_POSTINGS`."""
    order = np.argsort(frequencies, kind="stable")
    order = order[frequencies[order] > 0]
    return order[np.cumsum(frequencies[order]) <= MOST_POSTINGS]


def term_keys(words: Iterable[str], language: str) -> NDArray[np.uint64]:
    """The hash of each word's term, in order."""
    return content_keys([_stemmed(word, language) for word in words])


def content_words(question: str, language: str) -> list[str]:
    """A question's different words, without those of grammar unless it has no others."""
    distinct = dict.fromkeys(words(question))
    stops = ENGLISH if language == "english" else FUNCTION
    return [word for word in distinct if word not in stops] or list(distinct)


def best(rows: Rows, scores: NDArray[np.float32], k: int) -> Scored:
    """The `k` rows of largest score, best first; of equals the lower rows first."""
    if len(rows) > k:
        likely = scores >= kth_largest(scores, k)
        rows, scores = rows[likely], scores[likely]
    order = np.lexsort((rows, -scores))[:k]
    return Scored(rows[order], scores[order])


@lru_cache(maxsize=1 << 16)
def _stemmed(word: str, language: str) -> str:
    """The stem of a word of a question; the words of questions come again."""
    return STEMMERS.of(language)(word)
