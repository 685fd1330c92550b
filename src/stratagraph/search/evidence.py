"""Whether an index covers what a question asks, and how many of its words texts contain.

The best similarity of a question is compared with that of general questions, which an index answers only by
chance: similarities of unrelated texts differ from embedder to embedder and from corpus to corpus. Where the
embedder compares words alone, the question's words are counted in the hits instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from math import log, log2
from typing import NamedTuple

from stratagraph.ingest.extraction.by_rules import proper_names, question_entities
from stratagraph.ingest.headings import statements
from stratagraph.ingest.names.spelling import words
from stratagraph.text.sentences import clip
from stratagraph.text.stopwords import ENGLISH, FUNCTION, stop_words
from stratagraph.types.records import Metadata, at_place, sections_in

LEAST_WORDS = 0.25
"""Least share of a question's content words in the hits together."""
LEAST_NAMES = 0.5
"""Least share of the words of the names in a question.

Both measured on questions about other corpora, with each corpus left out in turn. The first is below the best
value, because questions about themes share few words with passages.
"""
LEAST_TOGETHER = 0.2
"""Least share of the weight of a question's words (`weights`) in one sentence.

Refuses 0 of 209 answerable questions of four corpora and the demo, and 2 of 60 of multihop_rag_dev, whose
questions are long; with .25 it refuses a sixth of those.
"""
GENERAL = (
    "Who wrote the novel War and Peace?",
    "How do I renew my passport?",
    "What time does the supermarket open on Sunday?",
    "Why is the sky blue?",
    "How many players are in a basketball team?",
    "What is the square root of 144?",
    "How do I install Python on Windows?",
    "Which ingredients do I need for pancakes?",
    "What are the symptoms of the flu?",
    "When did the Second World War end?",
    "How far is the Moon from the Earth?",
    "What is the currency of Japan?",
    "How do I sort a list in Java?",
    "Who composed the Ninth Symphony?",
    "What is the capital of Australia?",
    "How can I lose weight quickly?",
)
"""Questions that few corpora answer; one that answers some of them changes their median little."""
LEAST_ALIKE = 2.5
"""Least similarity of a question's best hit, above that of general questions, in spreads of similarities."""
ALIKE_NAMED = 1.6
"""Added to that similarity for a name in the question that only one passage has.

Both chosen with all corpora of `cookbook/benchmarks/unanswerable.py` in view. It also prints what the first
would be, and what it refuses, with each corpus left out.
"""
_LATIN_END = "\u0250"  # the first letter behind those of Latin script
_ENDINGS = ("ing", "ed", "es", "s")
_SHORTEST = 4  # letters of a stem


class Background(NamedTuple):
    """How similar an index is to questions that have nothing to do with it.

    `best` is the median over general questions of the similarity of their best passage; `spread` is the
    standard deviation of their similarities to all passages.
    """

    best: float
    spread: float

    def is_alike(self, similarity: float, names: float) -> bool:
        """Whether a question is more similar to its best hit than unrelated questions are.

        `names` is the restart mass of its names (`search.walk.Gate`).
        """
        above = (similarity - self.best) / max(self.spread, 1e-6)
        return above + ALIKE_NAMED * min(1.0, names) >= LEAST_ALIKE


def answers(question: str, texts: Sequence[str]) -> bool:
    """Whether texts have enough of a question's words to answer it.

    A question in another language passes. One without words of grammar ("Crane Sands Petrel") counts as
    being in the texts' language if it is in their script.
    """
    text_words = {word for text in texts for word in words(text)}
    if not _same_language(question, texts, text_words):
        return True
    text_stems = {_stem(word) for word in text_words}
    named = {stem for name in question_entities(question) for stem in stems(name)}
    if _share(stems(question), text_stems) < LEAST_WORDS or _share(named, text_stems) < LEAST_NAMES:
        return False
    is_wanted = asked_for(question)
    statement_stems = [stems(text[start:end]) for text in texts for start, end in statements(text, is_wanted)]
    scores = weighed(question, statement_stems)
    return max(scores, default=0.0) >= LEAST_TOGETHER or not weights(question, statement_stems)


def telling(question: str, text: str, most: int) -> str:
    """A text in one line, cut to `most` characters around the sentence with most words of the question.

    The cut begins with the first sentence from which that sentence fits; "..." stands for omitted text.
    """
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    spans = statements(text)
    scores = weighed(question, [stems(text[start:end]) for start, end in spans])
    best = scores.index(max(scores))
    starts = [0, *(start for start, _ in spans[: best + 1])]
    parts = (" ".join(text[start : spans[best][1]].split()) for start in starts)
    begin = next((start for start, part in zip(starts, parts, strict=True) if len(part) <= most), starts[-1])
    rest = " ".join(text[begin:].split())
    return f"{'... ' if begin else ''}{rest if len(rest) <= most else rest[:most] + '...'}"


def asked_metadata(question: str, text: str, metadata: Metadata) -> Metadata:
    """The metadata of a chunk as of its section that has most words of the question; see `at_place`."""
    starts = [start for start, _ in sections_in(metadata)]
    if not starts:
        return metadata
    field_stems = [
        stems(text[start:end]) for start, end in zip(starts, [*starts[1:], len(text)], strict=True)
    ]
    scores = weighed(question, field_stems)
    best = max(scores)
    return at_place(metadata, starts[scores.index(best)]) if best and scores.count(best) == 1 else metadata


def shortened(
    question: str,
    texts: Sequence[str],
    tokens: int,
    count_tokens: Callable[[str], int],
    told: Sequence[Set[str]] = (),
) -> list[str]:
    """Texts, best first, cut to a total of tokens: long ones keep their best sentences.

    Sentences are chosen by the question's words, and stand in their order after the text's title, with "..."
    where others are left out. Long texts share what short ones leave over, the text at place n by
    1 / log2(n + 1): of five ways to share, the one that keeps most answers of three corpora and the demo.
    Words of which `told` has the stems, for each text, are known without it and choose no sentence.
    """
    costs = [count_tokens(text) for text in texts]
    parts = [1 / log2(place + 2) for place in range(len(texts))]
    left, unit, rest = float(tokens), 0.0, sum(parts)
    for place in sorted(range(len(texts)), key=lambda place: costs[place] / parts[place]):
        unit = left / rest
        if costs[place] > unit * parts[place]:
            break
        left, rest = left - costs[place], rest - parts[place]
    if sum(costs) <= tokens:
        return list(texts)
    spans = [statements(text) for text in texts]
    told = told or [frozenset()] * len(texts)
    statement_stems = [
        stems(text[start:end]) - known
        for text, own, known in zip(texts, spans, told, strict=True)
        for start, end in own
    ]
    scores = iter(weighed(question, statement_stems))
    scored = [[(next(scores), span) for span in own] for own in spans]
    return [
        text if cost <= unit * part else _best_sentences(text, own, int(unit * part), count_tokens)
        for text, cost, part, own in zip(texts, costs, parts, scored, strict=True)
    ]


def _best_sentences(
    text: str,
    scored: Sequence[tuple[float, tuple[int, int]]],
    limit: int,
    count_tokens: Callable[[str], int],
) -> str:
    """The sentences of largest score at these places of a text, in their order, up to `limit` tokens."""
    spans = [span for _, span in scored]
    lead = text[: spans[0][0]].strip() if spans else ""
    left = limit - count_tokens(lead)
    chosen: list[int] = []
    for place in sorted(range(len(spans)), key=lambda place: (-scored[place][0], place)):
        start, end = spans[place]
        cost = count_tokens(text[start:end]) + 1
        if not chosen or cost <= left:  # the best one in any case
            chosen.append(place)
            left -= cost
    parts = [lead] if lead else []
    before = -1
    for place in sorted(chosen):
        gap = "... " if place > before + 1 else ""
        parts.append(gap + " ".join(text[spans[place][0] : spans[place][1]].split()))
        before = place
    shown = clip(" ".join(parts) or text, limit, count_tokens)
    return f"{shown} ..." if before < len(spans) - 1 else shown


def asked_for(question: str) -> Callable[[str], bool]:
    """A test for bylines that the question asks for, by a common word that is no name ("who signed")."""
    wanted = stems(question)

    def has_asked(byline: str) -> bool:
        return bool(wanted & stems(byline) - {stem for name in proper_names(byline) for stem in stems(name)})

    return has_asked


def stems(text: str) -> frozenset[str]:
    """The content words of a text, without endings."""
    return frozenset(_stem(word) for word in words(text) if word not in ENGLISH and len(word) > 1)


def weights(question: str, texts: Sequence[Set[str]]) -> Mapping[str, float]:
    """The weight of each word of a question by inverse document frequency among texts (stems); the sum is 1.

    A word that no text has is left out.
    """
    counts = {stem: sum(stem in text for text in texts) for stem in stems(question)}
    raw = {stem: log(1 + len(texts) / count) for stem, count in counts.items() if count}
    total = sum(raw.values())
    return {stem: weight / total for stem, weight in raw.items()}


def weighed(question: str, texts: Sequence[Set[str]]) -> list[float]:
    """For each text (stems) the sum of the weights of the question's words that it has."""
    weight_of = weights(question, texts)
    return [sum(weight for stem, weight in weight_of.items() if stem in text) for text in texts]


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


def _share(question_stems: Set[str], text_stems: Set[str]) -> float:
    return len(question_stems & text_stems) / len(question_stems) if question_stems else 1.0


@lru_cache(maxsize=32_768)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word.removesuffix(ending)
    return word
