"""What texts have of a question's words, and whether that is enough to answer from them.

By words and not by vectors: how similar two texts are that have nothing to do with each other differs from
embedder to embedder, so a threshold on it would hold for none but the one that it was found with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import log

from stratagraph.pipeline.extraction.by_rules import proper_names, question_entities
from stratagraph.pipeline.extraction.terms import stop_words
from stratagraph.pipeline.headings import statements
from stratagraph.pipeline.names.spelling import words
from stratagraph.stopwords import ENGLISH, FUNCTION

LEAST_WORDS = 0.25
"""Share of a question's content words that the hits must have between them."""
LEAST_NAMES = 0.5
"""Share of the words of the names in a question that they must have.

Measured on questions about other corpora, with each corpus left out in turn, by
`cookbook/benchmarks/unanswerable.py`. The first is below what is best there: a question about a theme has few
of its passages' words.
"""
LEAST_TOGETHER = 0.2
"""Share of the weight of a question's words (`weights`) that one sentence must have.

At most so high that it refuses next to nothing wrongly: 0 of 209 answerable questions of four corpora and the
demo, 2 of 60 of multihop_rag_dev, whose questions are long. Higher ones do not carry over: .25, right for the
others, refuses a sixth of those wrongly.
"""
_LATIN_END = "\u0250"  # the first letter behind those of Latin script
_ENDINGS = ("ing", "ed", "es", "s")
_SHORTEST = 4  # letters of a stem


def answers(question: str, texts: Sequence[str]) -> bool:
    """Whether texts have enough of a question's words to answer it.

    A question in another language than theirs cannot be judged by words, and passes; one without any word of
    grammar ("Crane Sands Petrel") counts as in theirs where it is in their script.
    """
    of_words, of_names = shares(question, texts)
    return of_words >= LEAST_WORDS and of_names >= LEAST_NAMES and together(question, texts) >= LEAST_TOGETHER


def shares(question: str, texts: Sequence[str]) -> tuple[float, float]:
    """The shares of a question's content words and of the words of its names that texts have."""
    text_words = {word for text in texts for word in words(text)}
    if not _same_language(question, texts, text_words):
        return 1.0, 1.0
    there = {_stem(word) for word in text_words}
    named = {stem for name in question_entities(question) for stem in stems(name)}
    return _share(stems(question), there), _share(named, there)


def together(question: str, texts: Sequence[str]) -> float:
    """The share of the weight of a question's words that one sentence of the texts has, at most."""
    if not _same_language(question, texts, {word for text in texts for word in words(text)}):
        return 1.0
    asked = asked_for(question)
    said = [stems(text[start:end]) for text in texts for start, end in statements(text, asked)]
    weighed = weights(question, said)
    return (
        max((sum(weighed.get(stem, 0.0) for stem in each) for each in said), default=0.0) if weighed else 1.0
    )


def telling(question: str, text: str, most: int) -> str:
    """A text in one line; of one longer than `most` characters a part in which its best sentence is.

    That is the one with most of the question's words. The part begins with the first sentence from which the
    best one fits; "..." stands for what is left out.
    """
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    spans = statements(text)
    weighed = weights(question, said := [stems(text[start:end]) for start, end in spans])
    scores = [sum(weighed.get(stem, 0.0) for stem in each) for each in said]
    best = scores.index(max(scores))
    starts = [0, *(start for start, _ in spans[: best + 1])]
    parts = (" ".join(text[start : spans[best][1]].split()) for start in starts)
    begin = next((start for start, part in zip(starts, parts, strict=True) if len(part) <= most), starts[-1])
    rest = " ".join(text[begin:].split())
    return f"{'... ' if begin else ''}{rest if len(rest) <= most else rest[:most] + '...'}"


def asked_for(question: str) -> Callable[[str], bool]:
    """Tells of a byline whether the question has a word of it beside its names ("who signed", "signed")."""
    wanted = stems(question)

    def has_asked(byline: str) -> bool:
        return bool(wanted & stems(byline) - {stem for name in proper_names(byline) for stem in stems(name)})

    return has_asked


def stems(text: str) -> frozenset[str]:
    """The content words of a text, without endings."""
    return frozenset(_stem(word) for word in words(text) if word not in ENGLISH and len(word) > 1)


def weights(question: str, texts: Sequence[Set[str]]) -> Mapping[str, float]:
    """How much each word of a question tells about some texts, given by their stems; the sum is 1.

    Inverse document frequency among the texts; a word that none has weighs nothing.
    """
    found = {stem: sum(stem in text for text in texts) for stem in stems(question)}
    raw = {stem: log(1 + len(texts) / count) for stem, count in found.items() if count}
    total = sum(raw.values())
    return {stem: weight / total for stem, weight in raw.items()}


def _same_language(question: str, texts: Sequence[str], text_words: Set[str]) -> bool:
    if not any(word in FUNCTION for word in words(question)):
        return _is_latin(question) and any(_is_latin(text) for text in texts)
    english = stop_words(question) is ENGLISH
    if english or any(stop_words(text) is ENGLISH for text in texts):
        return english and any(stop_words(text) is ENGLISH for text in texts)
    grammar = {word for word in words(question) if word in FUNCTION}
    return 2 * len(grammar & text_words) >= len(grammar)


def _is_latin(text: str) -> bool:
    letters = [letter for letter in text if letter.isalpha()]
    return 2 * sum(letter < _LATIN_END for letter in letters) > len(letters)


def _share(question_stems: Set[str], there: Set[str]) -> float:
    return len(question_stems & there) / len(question_stems) if question_stems else 1.0


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word.removesuffix(ending)
    return word
