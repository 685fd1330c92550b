"""Metrics of a ranking against gold documents. Binary relevance; one question at a time.

A ranking is a list of document ids, best first. The same document may come again (another passage of it):
it then takes its place in the ranking and gains nothing, as it would in a reader's context.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections.abc import Collection, Iterable, Sequence

from stratagraph.pipeline.names.spelling import UNSPACED
from stratagraph.results import CountTokens, clip

_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}\u2010-\u2027\u3001-\u303f\uff01-\uff0f]")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_YES_NO = frozenset({"yes", "no"})


def recall_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of the gold documents that are among the first k."""
    _check(gold, k)
    return len(set(ranking[:k]) & set(gold)) / len(set(gold))


def all_recall_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 if every gold document is among the first k, else 0: a chain is as good as its weakest hop."""
    _check(gold, k)
    return float(set(gold) <= set(ranking[:k]))


def ndcg_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain: 1 / log2(1 + place) for each gold document, over the best sum.

    Järvelin and Kekäläinen 2002, with gains of 0 and 1.
    """
    _check(gold, k)
    gain = sum(1 / math.log2(place + 1) for place in _places(ranking[:k], gold))
    best = sum(1 / math.log2(place + 1) for place in range(1, min(k, len(set(gold))) + 1))
    return gain / best


def reciprocal_rank(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 / place of the first gold document; 0 if none is among the first k."""
    _check(gold, k)
    return 1 / next(iter(_places(ranking[:k], gold)), math.inf)


def _check(gold: Collection[str], k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if not gold:
        raise ValueError("a question without gold documents has no retrieval metrics")


def _places(ranking: Sequence[str], gold: Collection[str]) -> list[int]:
    """Places of the gold documents' first occurrences, from 1."""
    first: dict[str, int] = {}
    for place, document in enumerate(ranking, 1):
        if document in gold:
            first.setdefault(document, place)
    return list(first.values())


def normalized(text: str) -> str:
    """Text as SQuAD compares answers: lower case, no punctuation, no English articles, single spaces.

    Compatibility forms are unified (NFKC) first, and the punctuation of other scripts goes too.
    """
    folded = _PUNCTUATION.sub("", unicodedata.normalize("NFKC", text).lower())
    return " ".join(_ARTICLES.sub(" ", folded).split())


def is_yes_no(answers: Iterable[str]) -> bool:
    """Whether a question asks for yes or no, which any text contains by chance."""
    return any(normalized(answer) in _YES_NO for answer in answers)


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether a text has one of the answers in it, normalised and as whole words.

    In writing without spaces between words, any stretch will do.
    """
    searched = normalized(text)
    return any(_contains(searched, normalized(answer)) for answer in answers)


def _contains(text: str, answer: str) -> bool:
    if not answer:
        return False
    return answer in text if _UNSPACED.search(answer) else f" {answer} " in f" {text} "


def fitting(texts: Sequence[str], budget: int, count_tokens: CountTokens) -> int:
    """How many of the texts, best first, a context of so many tokens holds in full.

    A text that has come before costs nothing, as in `context_of`.
    """
    left = budget
    seen: set[str] = set()
    for place, text in enumerate(texts):
        left -= 0 if text in seen else count_tokens(text)
        if left < 0:
            return place
        seen.add(text)
    return len(texts)


def context_of(texts: Iterable[str], budget: int, count_tokens: CountTokens) -> str:
    """What a model would be given: the texts, best first, up to a number of tokens; the last one is cut.

    A text that has come before is left out.
    """
    if budget < 1:
        raise ValueError(f"a token budget must be at least 1, not {budget}")
    kept: list[str] = []
    left = budget
    for text in dict.fromkeys(texts):
        cost = count_tokens(text)
        if cost > left:
            kept.append(clip(text, left, count_tokens))
            break
        kept.append(text)
        left -= cost
        if not left:
            break
    return "\n\n".join(each for each in kept if each)
