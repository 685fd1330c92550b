"""Metrics of an answer's wording against gold answers. With several gold answers, the best one counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from stratagraph.errors import MissingExtra
from stratagraph.eval.metrics import contains_answer, normalized
from stratagraph.pipeline.names.spelling import UNSPACED

_PIECE = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])\S)+")
_WORD = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])\w)+")
_YES_NO = frozenset({"yes", "no"})

Metric = Callable[[str, Sequence[str]], float]


def tokens(text: str) -> list[str]:
    """The words of a text as SQuAD compares them; in writing without spaces, its characters."""
    return _PIECE.findall(normalized(text))


def accuracy(answer: str, gold: Sequence[str]) -> float:
    """1 if the answer contains a gold answer, normalised and as whole words; else 0."""
    return float(contains_answer(answer, gold))


def exact_match(answer: str, gold: Sequence[str]) -> float:
    """1 if the answer is a gold answer, normalised; else 0 (SQuAD, Rajpurkar et al. 2016)."""
    return float(any(normalized(answer) == normalized(each) for each in gold))


def token_f1(answer: str, gold: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of the words (SQuAD)."""
    return max((_f1(tokens(answer), tokens(each)) for each in gold), default=0.0)


def _f1(ours: Sequence[str], gold: Sequence[str]) -> float:
    if not ours or not gold:
        return float(ours == gold)
    common = (Counter(ours) & Counter(gold)).total()
    return 2 * common / (len(ours) + len(gold))


def token_recall(answer: str, gold: Sequence[str], *, yes_no_rule: bool = True) -> float:
    """The share of a gold answer's words that the answer has.

    Parameters
    ----------
    answer, gold
        What was said, and what would be right.
    yes_no_rule
        0 wherever the answer or the gold answer has the word "yes" or "no", as in the papers' tables (see
        ERRATA A9). So recall is read beside `accuracy`.
    """
    said = tokens(answer)
    return max((_recall(said, tokens(each), yes_no_rule) for each in gold), default=0.0)


def _recall(said: Sequence[str], gold: Sequence[str], yes_no_rule: bool) -> float:
    if not gold or (yes_no_rule and not _YES_NO.isdisjoint([*said, *gold])):
        return 0.0
    return (Counter(said) & Counter(gold)).total() / len(gold)


def bleu1(answer: str, gold: Sequence[str]) -> float:
    """BLEU of single words, with the brevity penalty, by `nltk` (Papineni et al. 2002)."""
    _, sentence_bleu = _nltk()
    said, references = _spoken(answer), [_spoken(each) for each in gold]
    if not set(said).intersection(*[{word for words in references for word in words}]):
        return 0.0  # where nltk warns
    return float(sentence_bleu(references, said, weights=(1.0,)))


def meteor(answer: str, gold: Sequence[str]) -> float:
    """METEOR by `nltk` (Banerjee and Lavie 2005), with synonyms only where WordNet is on this machine."""
    meteor_score, _ = _nltk()
    references = [_spoken(each) for each in gold]
    return float(meteor_score(references, _spoken(answer), wordnet=_wordnet())) if references else 0.0


def rouge_l(answer: str, gold: Sequence[str]) -> float:
    """F-measure of the longest common subsequence of words, by `rouge-score` (Lin 2004)."""
    scorer = _rouge()
    return max((float(scorer.score(each, answer)["rougeL"].fmeasure) for each in gold), default=0.0)


def string_scores(answer: str, parts: Sequence[Sequence[str]]) -> dict[str, float]:
    """What an answer says of the parts of a gold answer; one wording of a part is enough (ALCE).

    `strrec` is the share of the parts that it says, `strem` 1 if it says all, `strhit` 1 if it says any.
    """
    said = [contains_answer(answer, part) for part in parts]
    return {"strrec": sum(said) / len(said), "strem": float(all(said)), "strhit": float(any(said))}


def metrics(*, yes_no_rule: bool = True) -> Mapping[str, Metric]:
    """All of the above, by name."""

    def recall(answer: str, gold: Sequence[str]) -> float:
        return token_recall(answer, gold, yes_no_rule=yes_no_rule)

    return {
        "accuracy": accuracy,
        "answer_recall": recall,
        "em": exact_match,
        "f1": token_f1,
        "bleu1": bleu1,
        "meteor": meteor,
        "rouge_l": rouge_l,
    }


def has_wordnet() -> bool:
    """Whether METEOR knows synonyms here."""
    return not isinstance(_wordnet(), _NoWordNet)


def _spoken(text: str) -> list[str]:
    """Words in lower case, without punctuation; in writing without spaces, characters."""
    return _WORD.findall(text.lower())


class _NoWordNet:
    """A dictionary without synonyms."""

    def synsets(self, word: str) -> list[Any]:
        return []


@cache
def _wordnet() -> Any:
    _nltk()
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except LookupError:  # its data is a download of its own
        return _NoWordNet()
    return wordnet


@cache
def _nltk() -> tuple[Callable[..., Any], Callable[..., Any]]:
    try:
        from nltk.translate.bleu_score import sentence_bleu
        from nltk.translate.meteor_score import meteor_score
    except ImportError as error:
        raise MissingExtra("nltk", "eval") from error
    return meteor_score, sentence_bleu


class _Words:
    """A tokenizer as `rouge-score` takes it; its own drops all letters but the English ones."""

    def tokenize(self, text: str) -> list[str]:
        return _spoken(text)


@cache
def _rouge() -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise MissingExtra("rouge-score", "eval") from error
    return RougeScorer(["rougeL"], tokenizer=_Words())
