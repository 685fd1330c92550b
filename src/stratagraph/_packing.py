"""Statements of retrieved texts that fit a budget of tokens, chosen by the words of the question.

All texts stay whole if they fit. Otherwise their sentences compete, and those chosen stand under the title of
their text, in reading order. A sentence scores by

- the question's words in it, weighed by inverse sentence frequency; a word counts half as much for each
  chosen sentence that has it;
- the rarest name or number that it, or its title, shares with a chosen sentence of another text;
- being the first of its text, which mostly says what the text is about;
- the similarity of its text to the question, where that is known, less a charge for the text's rank.

Nothing is embedded for it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph._sentences import each_sentence, title_line, without_added
from stratagraph.protocols import CountTokens
from stratagraph.stopwords import FUNCTION, stop_words

SAID_AGAIN = 0.5
"""Factor of a question's word for each chosen sentence that has it."""
LINK = 0.35
"""Gain by a name that one other text has; names of many texts gain less."""
FIRST = 0.1
SIMILAR = 0.4
RANK = 0.7
"""Charge of the twentieth text; one of rank r has log(r) / log(20) of it.

Chosen with five corpora and the demo in view; `cookbook/benchmarks/packing.py` tells what settings chosen
without a corpus hold on it.
"""
_LONGEST_QUESTION = 2000  # characters whose words are looked for
_GAP = " \u2026 "
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[^\W\d_a-z][^\W_]+|\d{2,}")
_ENDINGS = re.compile(r"(?<=\w{4})(?:ing|ed|es|s)$")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)


class Piece(NamedTuple):
    """What is shown of the text at a place."""

    place: int
    text: str

    def __str__(self) -> str:
        return f"[{self.place + 1}] {self.text}"


def joined(pieces: Iterable[Piece]) -> str:
    """Pieces with their numbers, an empty line between two."""
    return "\n\n".join(map(str, pieces))


@dataclass(frozen=True, slots=True)
class _Text:
    """A text with its title, and the offsets of its sentences."""

    place: int
    text: str
    title: str
    spans: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, piece: Piece) -> _Text:
        title, begin = title_line(piece.text)
        spans = [(begin + start, begin + end) for start, end in each_sentence(piece.text[begin:])]
        return cls(piece.place, piece.text, title, spans)

    def shown(self, orders: Sequence[int]) -> Piece:
        """The title and some sentences; neighbours keep what is between them."""
        if len(orders) == len(self.spans):
            return Piece(self.place, self.text)
        runs: list[tuple[int, int]] = []
        for order in orders:
            start, end = self.spans[order]
            if runs and order and runs[-1][1] == self.spans[order - 1][1]:
                start = runs.pop()[0]
            runs.append((start, end))
        said = _GAP.join(self.text[start:end] for start, end in runs)
        return Piece(self.place, f"{self.title}\n{said}" if self.title else said)


def pack(
    question: str,
    texts: Sequence[str],
    max_tokens: int,
    count_tokens: CountTokens,
    similarities: Sequence[float],
) -> list[Piece]:
    """What to show of texts, best first, so that `joined` has at most `max_tokens`.

    Parameters
    ----------
    similarities
        Of the texts to the question; all alike if they are unknown.

    Returns
    -------
    Pieces in the order of the texts. A text that is part of an earlier one, or whose sentences others say
    better, has none. The first text has at least one sentence, unless none of it fits.
    """
    whole: list[Piece] = []
    for place, text in enumerate(map(str.strip, texts)):
        if text and not any(text in earlier.text for earlier in whole):
            whole.append(Piece(place, text))
    if sum(count_tokens(str(piece)) + 1 for piece in whole) <= max_tokens:
        return whole
    read = [_Text.of(piece) for piece in whole]
    scores = [
        SIMILAR * similarities[each.place] - RANK * log(rank) / log(20) for rank, each in enumerate(read, 1)
    ]
    chosen = _Choice(question, read, scores, count_tokens).within(max_tokens)
    while True:
        orders = defaultdict[int, list[int]](list)
        for at, order in sorted(chosen):
            orders[at].append(order)
        pieces = [read[at].shown(own) for at, own in orders.items()]
        if not chosen or count_tokens(joined(pieces)) <= max_tokens:
            return pieces
        chosen.pop()


class _Choice:
    """The sentences of texts, one row for each, and what is known of them."""

    def __init__(
        self, question: str, texts: Sequence[_Text], scores: Sequence[float], count_tokens: CountTokens
    ) -> None:
        self._rows = [(at, order) for at, each in enumerate(texts) for order in range(len(each.spans))]
        said = [texts[at].text[slice(*texts[at].spans[order])] for at, order in self._rows]
        self._at = np.array([at for at, _ in self._rows], np.int64)
        self._costs = np.array([count_tokens(text) + 1 for text in said], np.int64)
        self._heads = np.array([count_tokens(str(Piece(each.place, each.title))) + 2 for each in texts])
        words = [_WORD.findall(text.lower()) for text in said]
        self._repeats = _repeats([_WORD.findall(without_added(text).lower()) for text in said])
        self._words = _words_in(question, said, words)
        self._scores = np.array([scores[at] for at, _ in self._rows])
        self._scores[[not order for _, order in self._rows]] += FIRST
        self._names = _names_in(question, said, [each.title for each in texts], self._at)

    def within(self, budget: int) -> list[tuple[int, int]]:
        """Places and orders of sentences that fit a budget, best first; one of the first text leads."""
        said, used = self._repeats.copy(), np.zeros(len(self._heads), np.bool_)
        links, weight = np.zeros(len(said)), np.ones(self._words.shape[1])
        followed: set[str] = set()
        chosen: list[tuple[int, int]] = []
        while True:
            costs = self._costs + np.where(used[self._at], 0, self._heads[self._at])
            open_rows = np.flatnonzero(~said & (costs <= budget) & (used.any() | (self._at == 0)))
            if not len(open_rows):
                return chosen
            scores = self._scores + self._words @ weight + LINK * links
            best = int(open_rows[np.argmax(scores[open_rows])])
            chosen.append(self._rows[best])
            budget -= int(costs[best])
            said[best] = used[self._at[best]] = True
            weight[self._words[best] > 0] *= SAID_AGAIN
            for name in self._names.of[best] - followed:
                rows, rarity = self._names.rows[name]
                others = rows[self._at[rows] != self._at[best]]
                links[others] = np.maximum(links[others], rarity)
                followed.add(name)


class _Names(NamedTuple):
    """The names of each row, and for each name of several texts its rows and its rarity, at most 1."""

    of: Sequence[set[str]]
    rows: Mapping[str, tuple[NDArray[np.int64], float]]


def _names_in(question: str, said: Sequence[str], titles: Sequence[str], at: NDArray[np.int64]) -> _Names:
    """Names and numbers in sentences or their titles that the question does not have."""
    asked = {word.lower() for word in _WORD.findall(question[:_LONGEST_QUESTION])} | FUNCTION
    entitled = [_names(title) - asked for title in titles]
    of = [_names(text) - asked | entitled[place] for text, place in zip(said, at.tolist(), strict=True)]
    rows = defaultdict[str, list[int]](list)
    for row, names in enumerate(of):
        for name in names:
            rows[name].append(row)
    places = at.tolist()
    counts = {name: len({places[row] for row in own}) for name, own in rows.items() if len(own) > 1}
    shared = {
        name: (np.array(rows[name], np.int64), log(1 + len(titles) / count) / log(1 + len(titles)))
        for name, count in counts.items()
        if count > 1
    }
    return _Names([names & shared.keys() for names in of], shared)


def _names(text: str) -> set[str]:
    return {name.lower() for name in _NAME.findall(text)}


def _words_in(question: str, said: Sequence[str], words: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """The weight of each word of the question in each sentence, shape (sentences, words of the question).

    By inverse sentence frequency; the weights of all words that any sentence has sum to 1.
    """
    spaced, pairs = _stems(question[:_LONGEST_QUESTION])
    stems = tuple(spaced)
    columns = {
        word: _columns(word, stems) for word in set(chain.from_iterable(words)) if word.startswith(stems)
    }
    has = np.zeros((len(said), len(spaced) + len(pairs)), np.bool_)
    for row, own in enumerate(words):
        for word in columns.keys() & own:
            has[row, columns[word]] = True
    for column, pair in enumerate(pairs, len(spaced)):
        has[:, column] = [pair in text for text in said]
    count = has.sum(axis=0)
    weights = np.where(count > 0, np.log1p(len(said) / np.maximum(count, 1)), 0.0)
    return np.asarray(has * (weights / max(weights.sum(), 1e-9)))


def _columns(word: str, stems: Sequence[str]) -> list[int]:
    """The stems that a word has, with an ending of at most three letters."""
    return [at for at, stem in enumerate(stems) if word.startswith(stem) and len(word) <= len(stem) + 3]


def _stems(question: str) -> tuple[list[str], list[str]]:
    """The question's words without endings and those of grammar; pairs of characters of unspaced scripts."""
    small = stop_words(question)
    spaced, pairs = dict[str, None](), dict[str, None]()
    for word in _WORD.findall(question.lower()):
        if _UNSPACED.search(word):
            pairs.update(dict.fromkeys(word[at : at + 2] for at in range(max(1, len(word) - 1))))
        elif word not in small and len(word) > 1:
            spaced[_ENDINGS.sub("", word)] = None
    return list(spaced), list(pairs)


def _repeats(words: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
    """Which sentences have the same words as an earlier one."""
    seen: set[tuple[str, ...]] = set()
    repeats = np.zeros(len(words), np.bool_)
    for row, own in enumerate(map(tuple, words)):
        repeats[row] = own in seen
        seen.add(own)
    return repeats
