"""Metrics of an answer's wording that the papers report, by the libraries that they use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from papers.layouts import Asked
from stratagraph.eval import Question
from stratagraph.eval.metrics import contains_answer, tokens
from stratagraph.ingest.names.spelling import UNSPACED

_WORD = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])\w)+")


def spoken(text: str) -> list[str]:
    """Words in lower case, without punctuation; in writing without spaces, characters."""
    return _WORD.findall(text.lower())


def token_recall(answer: str, gold: Sequence[str]) -> float:
    """Share of a gold answer's words that the answer has.

    0 wherever either has the word "yes" or "no", as in the papers' tables (ERRATA A9).
    """
    ours = tokens(answer)

    def recall(words: Sequence[str]) -> float:
        if not words or {"yes", "no"} & {*ours, *words}:
            return 0.0
        return (Counter(ours) & Counter(words)).total() / len(words)

    return max((recall(tokens(each)) for each in gold), default=0.0)


def bleu1(answer: str, gold: Sequence[str]) -> float:
    """BLEU of single words, with the brevity penalty, by `nltk` (Papineni et al. 2002)."""
    from nltk.translate.bleu_score import sentence_bleu

    ours, references = spoken(answer), [spoken(each) for each in gold]
    if not set(ours).intersection(word for words in references for word in words):
        return 0.0  # where nltk warns
    return float(sentence_bleu(references, ours, weights=(1.0,)))


def meteor(answer: str, gold: Sequence[str]) -> float:
    """METEOR by `nltk` (Banerjee and Lavie 2005), with synonyms if WordNet is installed."""
    from nltk.translate.meteor_score import meteor_score

    references = [spoken(each) for each in gold]
    return float(meteor_score(references, spoken(answer), wordnet=_wordnet())) if references else 0.0


def rouge_l(answer: str, gold: Sequence[str]) -> float:
    """F-measure of the longest common subsequence of words, by `rouge-score` (Lin 2004)."""
    scorer = _rouge()
    return max((float(scorer.score(each, answer)["rougeL"].fmeasure) for each in gold), default=0.0)


METRICS = {"answer_recall": token_recall, "bleu1": bleu1, "meteor": meteor, "rouge_l": rouge_l}


def scores(
    questions: Sequence[Question], answers: Sequence[str | None]
) -> Mapping[str, tuple[float | None, ...]]:
    """All metrics by question; for answers in parts, ALCE's STRREC, STREM and STRHIT too."""
    pairs = list(zip(questions, answers, strict=True))
    found = {
        name: tuple(metric(answer or "", each.answers) if each.answers else None for each, answer in pairs)
        for name, metric in METRICS.items()
    }
    parts = [each.parts if isinstance(each, Asked) else () for each in questions]
    if any(parts):
        held = [
            [contains_answer(answer or "", part) for part in own]
            for own, answer in zip(parts, answers, strict=True)
        ]
        found["strrec"] = tuple(sum(each) / len(each) if each else None for each in held)
        found["strem"] = tuple(float(all(each)) if each else None for each in held)
        found["strhit"] = tuple(float(any(each)) if each else None for each in held)
    return found


class _NoWordNet:
    """A dictionary without synonyms."""

    def synsets(self, word: str) -> list[Any]:
        return []


@cache
def _wordnet() -> Any:
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except LookupError:  # its data is a download of its own
        return _NoWordNet()
    return wordnet


class _Words:
    """A tokenizer as `rouge-score` takes it; its own drops all letters but the English ones."""

    def tokenize(self, text: str) -> list[str]:
        return spoken(text)


@cache
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=_Words())
