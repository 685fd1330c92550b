"""Statements of retrieved texts that fit a budget of tokens, chosen by the words of the question.

All texts stay whole if they fit. Otherwise their statements compete, and those chosen stand under the title
of their text, in reading order. A statement is a sentence, or several short ones of a line, as in a chat. It
scores by

- the question's words that no chosen statement has, weighed by inverse frequency in statements;
- the rarest name or number that it, or its title, shares with a chosen statement of another text;
- being the first of its text, which mostly says what the text is about;
- the similarity of its text to the question, where that is known, less a charge for the text's rank.

Nothing is embedded for it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.text import CountTokens
from stratagraph.text.folding import folded
from stratagraph.text.sentences import sentences, title_line, without_added
from stratagraph.text.stopwords import FUNCTION, stop_words

LINK = 0.35
"""Gain by a name that one other text has; names of many texts gain less."""
FIRST = 0.2
"""Best of 13 settings on the others, whichever of MuSiQue, HotpotQA, LiHua-World, MultiHop-RAG and the demo
is left out (`cookbook/benchmarks/packing.py`); without 2WikiMultiHopQA a lower `RANK` is."""
SIMILAR = 0.4
RANK = 0.7
"""Charge of the twentieth text; one of rank r has log(r) / log(20) of it."""
SHORT = 80
"""Characters; a shorter sentence is one statement with the next one of its line.

Of 0, 60, 80, 120 and 200 none is .01 better than another on five corpora and the demo, by answers in 350 to
2,000 tokens; with 80 there are a third fewer statements, and those of a chat keep their speaker.
"""
_LONGEST_QUESTION = 2000  # characters whose words are looked for
_NEVER = 1 << 40  # costs more tokens than any budget has
_GAP = " \u2026 "
_BREAKS = "\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029"
_BREAKS = "\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029"
_LIKE_A_NUMBER = re.compile(  # in folded texts; a bounded number of breaks inside keeps it linear
    rf"(?:\A|[{_BREAKS}])(?:[^\w\[{_BREAKS}]|_)*"
    rf"\[(?:[^\w\]{_BREAKS}]|_)*(?:[{_BREAKS}](?:[^\w\]{_BREAKS}]|_)*){{0,3}}\d+[\W_]*?\]"
)
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[^\W\d_a-z]\w|\d{2}")
_ENDINGS = re.compile(r"(?<=\w{4})(?:ing|ed|es|s)$")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)


class Piece(NamedTuple):
    """What is shown of the text at a place."""

    place: int
    text: str

    def __str__(self) -> str:
        return numbered(self.place + 1, self.text)


def numbered(number: int, text: str) -> str:
    """A text with its number in brackets, as prompts show it.

    A line of the text that itself begins with a number in brackets, in any disguise, gets round ones, so that
    no document can pass off a part of itself as another text of the list, and have that one cited.
    """
    return f"[{number}] {_without_numbers(text)}"


def _without_numbers(text: str) -> str:
    plain = folded(text)
    matches = list(_LIKE_A_NUMBER.finditer(plain))
    if not matches:
        return text
    shown, at = list(text), 0
    offsets = [0, *accumulate(len(folded(letter)) for letter in text)]  # of each letter in the folded text
    for match in matches:
        at = bisect_left(offsets, match.start(), at)
        while offsets[at] < match.end():
            shown[at] = {"[": "(", "]": ")"}.get(folded(text[at]), text[at])
            at += 1
    return "".join(shown)


def joined(pieces: Iterable[Piece]) -> str:
    """Pieces with their numbers, an empty line between two."""
    return "\n\n".join(map(str, pieces))


@dataclass(frozen=True, slots=True)
class _Text:
    """A text with its title, and the offsets of its statements."""

    place: int
    text: str
    title: str
    spans: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, piece: Piece) -> _Text:
        title, begin = title_line(piece.text)
        return cls(piece.place, piece.text, title, _statements(piece.text, begin))

    def shown(self, orders: Sequence[int]) -> Piece:
        """The title and some statements; the text between neighbours is kept."""
        if len(orders) == len(self.spans):
            return Piece(self.place, self.text)
        runs: list[tuple[int, int]] = []
        for order in orders:
            start, end = self.spans[order]
            if runs and order and runs[-1][1] == self.spans[order - 1][1]:
                start = runs.pop()[0]
            runs.append((start, end))
        statements = _GAP.join(self.text[start:end] for start, end in runs)
        return Piece(self.place, f"{self.title}\n{statements}" if self.title else statements)


def _statements(text: str, begin: int) -> list[tuple[int, int]]:
    """Offsets of the statements of a text from `begin` on."""
    spans: list[tuple[int, int]] = []
    for start, end in sentences(text[begin:]):
        start, end = begin + start, begin + end
        if spans and spans[-1][1] - spans[-1][0] < SHORT and "\n" not in text[spans[-1][1] : start]:
            start = spans.pop()[0]
        spans.append((start, end))
    return spans


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
    Pieces in the order of the texts. A text that is part of an earlier one, or none of whose
    statements was chosen, has none. The first text has at least one sentence, unless none of it fits.
    """
    whole: list[Piece] = []
    for place, text in enumerate(map(str.strip, texts)):
        if text and not any(text in earlier.text for earlier in whole):
            whole.append(Piece(place, text))
    left = max_tokens
    for piece in whole:
        left -= count_tokens(str(piece)) + 1
        if left < 0:
            break
    else:
        return whole
    read = [_Text.of(piece) for piece in whole]
    scores = [
        SIMILAR * similarities[each.place] - RANK * log(rank) / log(20) for rank, each in enumerate(read, 1)
    ]
    chosen = _chosen(question, read, scores, max_tokens, count_tokens)
    while True:
        orders = defaultdict[int, list[int]](list)
        for at, order in sorted(chosen):
            orders[at].append(order)
        pieces = [read[at].shown(own) for at, own in orders.items()]
        if not chosen or count_tokens(joined(pieces)) <= max_tokens:
            return pieces
        chosen.pop()


def _chosen(
    question: str, texts: Sequence[_Text], scores: Sequence[float], budget: int, count_tokens: CountTokens
) -> list[tuple[int, int]]:
    """Places and orders of statements that fit a budget, best first; one of the first text leads."""
    statements = [(at, order) for at, each in enumerate(texts) for order in range(len(each.spans))]
    sentences = [texts[at].text[slice(*texts[at].spans[order])] for at, order in statements]
    at = np.array([at for at, _ in statements], np.int64)
    heads = np.array([count_tokens(str(Piece(each.place, each.title))) + 2 for each in texts])
    written = [_WORD.findall(text) for text in sentences]
    words = [[word.lower() for word in own] for own in written]
    costs = np.array([count_tokens(text) + 1 for text in sentences], np.int64) + heads[at]
    costs[_repeats(sentences, words)] = _NEVER
    plain = np.array([scores[place] + FIRST * (not order) for place, order in statements])
    weights = _words_in(question, sentences, words)
    names, shared = _names_in(question, written, [_WORD.findall(each.title) for each in texts], at)
    links, unsaid = np.zeros(len(at)), np.ones(weights.shape[1])
    followed: set[str] = set()
    used: set[int] = set()
    chosen: list[tuple[int, int]] = []
    while True:
        fits = costs <= budget
        if not used:
            fits &= at == 0
        best = int(np.argmax(np.where(fits, plain + weights @ unsaid + links, -np.inf)))
        if not fits[best]:
            return chosen
        chosen.append(statements[best])
        budget -= int(costs[best])
        costs[best] = _NEVER
        place = int(at[best])
        if place not in used:
            used.add(place)
            costs[at == place] -= heads[place]
        unsaid[weights[best] > 0] = 0.0
        for name in names[best] - followed:
            rows, rarity = shared[name]
            others = rows[at[rows] != place]
            links[others] = np.maximum(links[others], LINK * rarity)
            followed.add(name)


def _names_in(
    question: str, said: Sequence[Sequence[str]], titles: Sequence[Sequence[str]], at: NDArray[np.int64]
) -> tuple[list[set[str]], dict[str, tuple[NDArray[np.int64], float]]]:
    """Names and numbers that the question does not have, among the words of statements or their titles.

    Returns those of each statement that several texts have, and the statements and rarity of each, at most 1.
    """
    asked = {word.lower() for word in _WORD.findall(question[:_LONGEST_QUESTION])} | FUNCTION
    entitled = [{word.lower() for word in words if _NAME.match(word)} for words in titles]
    rows, places = defaultdict[str, list[int]](list), defaultdict[str, set[int]](set)
    names = []
    for row, (words, place) in enumerate(zip(said, at.tolist(), strict=True)):
        names.append(({word.lower() for word in words if _NAME.match(word)} | entitled[place]) - asked)
        for name in names[row]:
            rows[name].append(row)
            places[name].add(place)
    most = log(1 + len(titles))
    shared = {
        name: (np.array(rows[name], np.int64), log(1 + len(titles) / len(with_name)) / most)
        for name, with_name in places.items()
        if len(with_name) > 1
    }
    return [own & shared.keys() for own in names], shared


def _words_in(question: str, sentences: Sequence[str], words: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """The weight of each word of the question in each sentence, shape (sentences, words of the question).

    By inverse sentence frequency; the weights of all words that any sentence has sum to 1.
    """
    spaced, pairs = _stems(question[:_LONGEST_QUESTION])
    stems = tuple(spaced)
    columns = {  # a word has a stem with an ending of at most three letters
        word: [at for at, stem in enumerate(stems) if word.startswith(stem) and len(word) <= len(stem) + 3]
        for word in set(chain.from_iterable(words))
        if word.startswith(stems)
    }
    has = np.zeros((len(sentences), len(spaced) + len(pairs)), np.bool_)
    for row, own in enumerate(words):
        for word in columns.keys() & own:
            has[row, columns[word]] = True
    for column, pair in enumerate(pairs, len(spaced)):
        has[:, column] = [pair in text for text in sentences]
    count = has.sum(axis=0)
    weights = np.where(count > 0, np.log1p(len(sentences) / np.maximum(count, 1)), 0.0)
    return np.asarray(has * (weights / max(weights.sum(), 1e-9)))


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


def _repeats(sentences: Sequence[str], words: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
    """Which statements have the same words as an earlier one; words that were added to them do not count."""
    earlier: set[tuple[str, ...]] = set()
    repeats = np.zeros(len(words), np.bool_)
    for row, (text, own) in enumerate(zip(sentences, words, strict=True)):
        plain = without_added(text)
        key = tuple(own if plain is text else _WORD.findall(plain.lower()))
        repeats[row] = key in earlier
        earlier.add(key)
    return repeats
