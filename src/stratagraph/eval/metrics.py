"""Metrics of one question, their means, and whether a difference is more than noise.

A ranking is a list of document ids, best first. A document that comes again (another passage of it) takes its
place in the ranking and gains nothing. With several gold answers, the best one counts.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.names.spelling import UNSPACED
from stratagraph.text import CountTokens
from stratagraph.text.sentences import clip

_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}\u2010-\u2027\u3001-\u303f\uff01-\uff0f]")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_YES_NO = frozenset({"yes", "no"})


def recall_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of the gold documents that are among the first k."""
    return len(set(ranking[:k]) & set(gold)) / len(set(gold))


def all_recall_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 if every gold document is among the first k, else 0."""
    return float(set(gold) <= set(ranking[:k]))


def ndcg_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain with gains 0 and 1 (Järvelin and Kekäläinen 2002)."""
    gain = sum(1 / math.log2(place + 1) for place in _places(ranking[:k], gold))
    best = sum(1 / math.log2(place + 1) for place in range(1, min(k, len(set(gold))) + 1))
    return gain / best


def reciprocal_rank(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 / place of the first gold document; 0 if none is among the first k."""
    return 1 / next(iter(_places(ranking[:k], gold)), math.inf)


def _places(ranking: Sequence[str], gold: Collection[str]) -> list[int]:
    """Places of the gold documents' first occurrences, from 1."""
    first: dict[str, int] = {}
    for place, document in enumerate(ranking, 1):
        if document in gold:
            first.setdefault(document, place)
    return list(first.values())


def normalized(text: str) -> str:
    """Text as SQuAD compares answers: NFKC, lower case, without punctuation and English articles."""
    folded = _PUNCTUATION.sub("", unicodedata.normalize("NFKC", text).lower())
    return " ".join(_ARTICLES.sub(" ", folded).split())


def is_yes_no(answers: Iterable[str]) -> bool:
    """Whether a question asks for yes or no, which any text contains by chance."""
    return any(normalized(answer) in _YES_NO for answer in answers)


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether a text contains one of the answers, normalised and as whole words.

    In writing without spaces, any substring counts.
    """
    searched = normalized(text)
    return any(
        answer in searched if _UNSPACED.search(answer) else f" {answer} " in f" {searched} "
        for answer in map(normalized, answers)
        if answer
    )


def context_of(texts: Iterable[str], budget: int, count_tokens: CountTokens) -> str:
    """The texts, best first, up to a token budget, without repeats; the last one is cut."""
    parts: list[str] = []
    left = budget
    for text in dict.fromkeys(texts):
        cost = count_tokens(text)
        if cost > left:
            parts.append(clip(text, left, count_tokens))
            break
        parts.append(text)
        left -= cost
        if not left:
            break
    return "\n\n".join(each for each in parts if each)


_PIECE = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])\S)+")

Metric = Callable[[str, Sequence[str]], float]


def tokens(text: str) -> list[str]:
    """Words of a text as SQuAD compares them; characters in writing without spaces."""
    return _PIECE.findall(normalized(text))


def accuracy(answer: str, gold: Sequence[str]) -> float:
    """1 if the answer contains a gold answer, normalised and as whole words; else 0."""
    return float(contains_answer(answer, gold))


def exact_match(answer: str, gold: Sequence[str]) -> float:
    """1 if the answer is a gold answer, normalised; else 0 (SQuAD, Rajpurkar et al. 2016)."""
    return float(any(normalized(answer) == normalized(each) for each in gold))


def token_f1(answer: str, gold: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of the words (SQuAD)."""
    ours = tokens(answer)

    def f1(words: Sequence[str]) -> float:
        if not ours or not words:
            return float(ours == words)
        return 2 * (Counter(ours) & Counter(words)).total() / (len(ours) + len(words))

    return max((f1(tokens(each)) for each in gold), default=0.0)


METRICS: Mapping[str, Metric] = {"accuracy": accuracy, "em": exact_match, "f1": token_f1}
"""Metrics of an answer's wording by name."""


def mean(scores: Sequence[float | None]) -> float | None:
    """Mean of the scores that are not None; None if there are none."""
    present = [score for score in scores if score is not None]
    return math.fsum(present) / len(present) if present else None


_BLOCK = 4_000_000  # resampled questions held at a time
_FEW = 10  # questions per distinct difference from which counts are drawn instead: far quicker


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean over questions of (ours - reference), and its confidence interval from `low` to `high`.

    `questions` is the number of questions that both were measured on.
    """

    mean: float
    low: float
    high: float
    questions: int

    @property
    def is_noise(self) -> bool:
        """Whether the interval contains 0."""
        return self.low <= 0 <= self.high


def paired_difference(
    ours: Sequence[float | None],
    reference: Sequence[float | None],
    *,
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Difference | None:
    """Difference of two systems on the same questions, by the percentile bootstrap.

    Questions are drawn with replacement, both systems' scores of each together (Efron and Tibshirani 1993,
    chapter 13; Koehn 2004). The interval is a little narrow below some 30 questions.

    Parameters
    ----------
    ours, reference
        Scores by question, in one order; a question where either is None does not count.
    resamples
        Number of bootstrap samples.
    confidence
        Share of the samples' means within the interval.
    seed
        Seed of the draws.

    Returns
    -------
    The difference, or None if fewer than two questions have both scores.

    Raises
    ------
    ValueError
        If the lengths differ, `confidence` is not between 0 and 1, or `resamples` is below 1.
    """
    if len(ours) != len(reference):
        raise ValueError(f"scores of {len(ours)} and of {len(reference)} questions cannot be paired")
    if not 0 < confidence < 1 or resamples < 1:
        raise ValueError(f"cannot take {resamples} samples for an interval of confidence {confidence}")
    pairs = [(a, b) for a, b in zip(ours, reference, strict=True) if a is not None and b is not None]
    if len(pairs) < 2:
        return None
    differences = np.array([a - b for a, b in pairs], dtype=np.float64)
    means = _means(differences, resamples, np.random.default_rng(seed))
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Difference(float(differences.mean()), float(low), float(high), len(pairs))


def _means(differences: NDArray[np.float64], resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    count = len(differences)
    values, times = np.unique(differences, return_counts=True)
    if _FEW * len(values) <= count:  # how often each value is drawn tells as much as which question was
        drawn = rng.multinomial(count, times / count, size=resamples)
        return np.asarray(drawn @ values) / count
    step = max(1, _BLOCK // count)
    sizes = [min(step, resamples - start) for start in range(0, resamples, step)]
    return np.concatenate(
        [differences[rng.integers(count, size=(size, count))].mean(axis=1) for size in sizes]
    )
