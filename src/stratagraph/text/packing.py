"""Statements of retrieved texts that fit a budget of tokens, chosen by words, of a theme's by vectors.

All texts stay whole if they fit. Otherwise their statements (`text.statements`) compete, and those chosen
stand under the title of their text, in reading order. Several short sentences of a line, as in a chat, count
as one. A statement scores by

- the question's words that no chosen statement has, weighed by inverse frequency in statements;
- the rarest name or number that it, or its title, shares with a chosen statement of another text;
- being the first sentence of its text, which mostly says what the text is about;
- the similarity of its text to the question, where that is known, less a charge for the text's rank.

For a theme, whose words say little, statements are chosen by maximal marginal relevance of their stored
vectors (Carbonell and Goldstein 1998): `MMR` of the similarity to the question, or to the most similar of the
queries of an overview, less the rest of the similarity to the most similar chosen statement. A statement
without a vector is as similar to the question as its text, by the share that it has of the words asked for,
relative to the best such statement; and as similar to what is chosen as words of it stand there.

In excerpts for readers, the record of a text that has most of the question's words stands before its other
statements. Nothing is embedded.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.text import CountTokens
from stratagraph.text.folding import folded
from stratagraph.text.sentences import without_added
from stratagraph.text.statements import Statement, statements, title_line, whole_fields
from stratagraph.text.stopwords import FUNCTION, stop_words

LINK = 0.35
"""Gain by a name that one other text has; names of many texts gain less."""
FIRST = 0.2
"""Best of 13 settings on the others, whichever of MuSiQue, HotpotQA, LiHua-World, MultiHop-RAG and the demo
is left out (`cookbook/benchmarks/packing.py`); without 2WikiMultiHopQA a lower `RANK` is."""
SIMILAR = 0.4
RANK = 0.7
"""Charge of the twentieth text; one of rank r has log(r) / log(20) of it."""
MMR = 0.7
SHORTLIST = 0.25
"""Statements that are considered for each token of the budget, the most similar to the question."""
SHORT = 80
"""Characters; a shorter sentence is one statement with the next one of its line.

Of 0, 60, 80, 120 and 200 none is .01 better than another on five corpora and the demo, by answers in 350 to
2,000 tokens; with 80 there are a third fewer statements, and those of a chat keep their speaker.
"""
LONGEST_TOKEN = 16
"""Characters of a token, on average over a text, at most."""
MISSES = 4
"""Best statements that do not fit, one after the other, after which what is left of a budget stays empty."""
_LONGEST_QUESTION = 2000  # characters whose words are looked for
_GAP, _ROWS_GAP = " \u2026 ", "\n\u2026\n"
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


Vectors = NDArray[np.float32]


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
    if text.isascii() and "[" not in text:
        return text
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
    """A text with what stands above it, and its statements."""

    place: int
    text: str
    head: str
    statements: Sequence[Statement]

    @classmethod
    def of(cls, piece: Piece, head: str | None) -> _Text:
        """`head` is what readers are told of the text, which then stands before its own title."""
        title, begin = title_line(piece.text)
        lines = [head, title] if head is not None and title not in head else [title if head is None else head]
        found = _with_short_ones(piece.text, statements(piece.text, begin))
        return cls(piece.place, piece.text, "\n".join(filter(None, lines)), found)

    def shown(self, orders: Sequence[int]) -> Piece:
        """The head and some statements in this order; the text between neighbours is kept."""
        text, last = "", -1
        for order in orders:
            each = self.statements[order]
            before = self.statements[last] if last >= 0 else None
            seen = [] if before is None else [*before.heads, self.text[before.start : before.end]]
            missing = [head for head in each.heads if not any(own.startswith(head) for own in seen)]
            if before is not None and order == last + 1 and not missing:
                text += self.text[before.end : each.end]
            else:
                if before is not None:
                    text += _ROWS_GAP if before.record or each.record else _GAP
                text += "".join(f"{head}\n" for head in missing) + self.text[each.start : each.end]
            last = order
        if last >= 0 and self.statements[last].cut:
            text += " ..."
        return Piece(self.place, f"{self.head}\n{text}" if self.head else text)


def divided(text: str) -> list[str]:
    """The statements of a text between which packing chooses, each with the lines that it needs above it."""
    text = text.strip()
    return [each.shown(text) for each in _Text.of(Piece(0, text), None).statements]


@dataclass(frozen=True, slots=True)
class Theme:
    """By what statements are chosen for a theme.

    Parameters
    ----------
    asked
        The question and the queries of an overview.
    aims
        Their unit vectors, shape (aims, dimension).
    statements
        For ids of hits, the vectors of the statements of their texts (`divided`), shape (n, dimension).
    """

    asked: Sequence[str]
    aims: Vectors
    statements: Mapping[str, Vectors]


def _with_short_ones(text: str, found: Iterable[Statement]) -> list[Statement]:
    """Statements in which a short sentence is one with the next one of its line."""
    joined: list[Statement] = []
    for each in found:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.end - last.start < SHORT
            and not (last.record or each.record or "\n" in text[last.end : each.start])
        ):
            joined[-1] = last._replace(end=each.end)
        else:
            joined.append(each)
    return joined


def pack(
    question: str,
    texts: Sequence[str],
    max_tokens: int,
    count_tokens: CountTokens,
    similarities: Sequence[float],
    heads: Sequence[str] | None = None,
    theme: tuple[Vectors, Sequence[Vectors | None]] | None = None,
) -> list[Piece]:
    """What to show of texts, best first, so that `joined` has at most `max_tokens`.

    Parameters
    ----------
    similarities
        Of the texts to the question; all alike if they are unknown.
    heads
        For excerpts: the lines above the texts, each before the text's own title. The record of a text that
        has most of the question's words then stands before its other statements.
    theme
        `Theme.aims`, and for each text the vectors of its first statements where they are known. Without it,
        statements are chosen by words.

    Returns
    -------
    Pieces in the order of the texts. A text that is part of an earlier one, or none of whose
    statements was chosen, has none. The first text has at least one statement, unless none of it fits.
    """
    whole: list[Piece] = []
    for place, text in enumerate(map(str.strip, texts)):
        if text and not any(text in earlier.text for earlier in whole):
            whole.append(Piece(place, text))
    if not whole or (heads is None and _fit(whole, max_tokens, count_tokens)):
        return whole
    read = [_Text.of(piece, None if heads is None else heads[piece.place]) for piece in whole]
    rows = [(at, order) for at, own in enumerate(read) for order in range(len(own.statements))]
    entire = [] if heads is None else [own.shown(range(len(own.statements))) for own in read]
    every = heads is not None and _fit(entire, max_tokens, count_tokens)
    measured = None
    if theme is not None and not every:
        vectors, known, similar = _measured(question, read, rows, similarities, *theme)
        most = max(1, round(SHORTLIST * max_tokens))
        likely = np.sort(np.argsort(-similar, kind="stable")[:most])
        likely = np.union1d(likely, np.arange(len(read[0].statements)))  # one of the first text leads
        rows = [rows[row] for row in likely.tolist()]
        measured = vectors[likely], known[likely], similar[likely]
    said = [read[at].statements[order].shown(read[at].text) for at, order in rows]
    written = [] if measured is not None and heads is None else [_WORD.findall(text) for text in said]
    weights = words_in(question, said, written) if written else np.zeros((len(rows), 0))
    if every:
        chosen = list(range(len(rows)))
    elif measured is not None:
        chosen = _chosen(read, rows, max_tokens, count_tokens, _ByVectors(said, *measured))
    else:
        ranked = [
            SIMILAR * similarities[each.place] - RANK * log(rank) / log(20)
            for rank, each in enumerate(read, 1)
        ]
        by_words = _ByWords(question, read, rows, written, weights, ranked)
        chosen = _chosen(read, rows, max_tokens, count_tokens, by_words)
    asked = weights.sum(axis=1).tolist()
    while True:
        orders = defaultdict[int, list[int]](list)
        for row in sorted(chosen):
            orders[rows[row][0]].append(row)
        for at, own in orders.items() if heads is not None else ():
            record = [read[at].statements[rows[row][1]].record for row in own]
            best = max(range(len(own)), key=lambda place: (record[place] and asked[own[place]], -own[place]))
            if record[best] and asked[own[best]]:
                own.insert(0, own.pop(best))
        pieces = [read[at].shown([rows[row][1] for row in own]) for at, own in orders.items()]
        if not chosen or count_tokens(joined(pieces)) <= max_tokens:
            return pieces
        chosen.pop()


def _fit(pieces: Sequence[Piece], max_tokens: int, count_tokens: CountTokens) -> bool:
    if sum(len(piece.text) for piece in pieces) > LONGEST_TOKEN * max_tokens:
        return False
    for piece in pieces:
        max_tokens -= count_tokens(str(piece)) + 1
        if max_tokens < 0:
            return False
    return True


def beginning(question: str, text: str, max_tokens: int, count_tokens: CountTokens) -> str:
    """What fits of the statement of a text that has most words of the question, cut between fields."""
    found = [each.shown(text) for each in statements(text, title_line(text)[1])] or [text]
    best = found[int(np.argmax(words_in(question, found).sum(axis=1)))]
    return whole_fields(best, max_tokens, count_tokens)


def _chosen(
    texts: Sequence[_Text],
    rows: Sequence[tuple[int, int]],
    budget: int,
    count_tokens: CountTokens,
    scores: _ByWords | _ByVectors,
) -> list[int]:
    """Rows of statements that fit a budget with the lines above them; the best of the first text leads.

    `rows` are places of texts and statements. Only the tokens of statements that come to be chosen are
    counted. What does not fit once never does: what is left shrinks by all that others pay for shared lines.
    """
    at = np.array([at for at, _ in rows], np.int64)
    left, misses = at == 0, 0
    above: set[tuple[int, tuple[str, ...]]] = set()  # lines that stand there already
    earlier: set[str] = set()
    chosen: list[int] = []
    while misses < MISSES and left.any():
        best = int(np.argmax(np.where(left, scores.now, -np.inf)))
        left[best] = False
        text, each = texts[at[best]], texts[at[best]].statements[rows[best][1]]
        own = text.text[each.start : each.end]
        key = " ".join(_WORD.findall(without_added(own))).lower()
        if key in earlier:
            continue
        missing = {(text.place, heads) for heads in ((), each.heads)} - above
        lines = ["\n".join(heads) or str(Piece(text.place, text.head)) for _, heads in missing]
        cost = count_tokens("\n".join([*lines, own])) + len(lines) + 1
        if cost > budget:
            misses += bool(chosen)
            continue
        if not chosen:
            left |= at > 0
        budget, misses = budget - cost, 0
        chosen.append(best)
        above |= missing
        earlier.add(key)
        scores.take(best)
    return chosen


class _ByWords:
    """Scores of statements by the question's words, by links and by the scores of their texts."""

    def __init__(
        self,
        question: str,
        texts: Sequence[_Text],
        rows: Sequence[tuple[int, int]],
        written: Sequence[Sequence[str]],
        weights: NDArray[np.float64],
        scores: Sequence[float],
    ) -> None:
        self._at, self._weights = np.array([at for at, _ in rows], np.int64), weights
        self._plain = np.array(scores)[self._at]
        for row, (at, order) in enumerate(rows):
            if not (order or texts[at].statements[0].record):
                self._plain[row] += FIRST
        titles = [_WORD.findall(each.head) for each in texts]
        self._names, self._shared = _names_in(question, written, titles, self._at)
        self._links, self._unsaid = np.zeros(len(rows)), np.ones(weights.shape[1])
        self._followed: set[str] = set()

    @property
    def now(self) -> NDArray[np.float64]:
        """The score of each statement beside those that were taken."""
        return np.asarray(self._plain + self._weights @ self._unsaid + self._links)

    def take(self, row: int) -> None:
        """Count a statement among those that were taken."""
        self._unsaid[self._weights[row] > 0] = 0.0
        for name in self._names[row] - self._followed:
            sharing, rarity = self._shared[name]
            others = sharing[self._at[sharing] != self._at[row]]
            self._links[others] = np.maximum(self._links[others], LINK * rarity)
            self._followed.add(name)


class _ByVectors:
    """Scores of statements by maximal marginal relevance; `known` tells which have vectors."""

    def __init__(
        self, said: Sequence[str], vectors: Vectors, known: NDArray[np.bool_], similar: NDArray[np.float32]
    ) -> None:
        self._said, self._vectors, self._known, self._similar = said, vectors, known, similar
        self._repeated, self._part = np.zeros(len(said), np.float32), np.zeros(len(said), np.float32)
        self._having = defaultdict[str, list[int]](list)  # the statements without a vector that have a word
        for row in np.flatnonzero(~known).tolist():
            words = self._words(row)
            self._part[row] = 1 / max(len(words), 1)
            for word in words:
                self._having[word].append(row)

    def _words(self, row: int) -> set[str]:
        return set(_WORD.findall(self._said[row].lower()))

    @property
    def now(self) -> NDArray[np.float32]:
        """The score of each statement beside those that were taken."""
        return MMR * self._similar - (1 - MMR) * self._repeated

    def take(self, row: int) -> None:
        """Count a statement among those that were taken."""
        if self._known[row]:
            np.maximum(self._repeated, self._vectors @ self._vectors[row], out=self._repeated)
        for word in self._words(row) & self._having.keys() if self._having else ():
            having = self._having.pop(word)
            self._repeated[having] += self._part[having]


def _measured(
    question: str,
    texts: Sequence[_Text],
    rows: Sequence[tuple[int, int]],
    similarities: Sequence[float],
    aims: Vectors,
    vectors: Sequence[Vectors | None],
) -> tuple[Vectors, NDArray[np.bool_], NDArray[np.float32]]:
    """The vectors of statements, which of them are known, and how similar each is to what is asked for."""
    measured = np.zeros((len(rows), aims.shape[1]), np.float32)
    similar = np.array([similarities[texts[at].place] for at, _ in rows], np.float32)
    start = 0
    for each in texts:
        own = vectors[each.place]
        if own is not None:
            measured[start : start + min(len(own), len(each.statements))] = own[: len(each.statements)]
        start += len(each.statements)
    known: NDArray[np.bool_] = np.linalg.norm(measured, axis=1) > 0
    similar[known] = (measured[known] @ aims.T).max(axis=1)
    unknown = np.flatnonzero(~known)
    said = [
        texts[at].statements[order].shown(texts[at].text)
        for at, order in (rows[row] for row in unknown.tolist())
    ]
    words = words_in(question, said).sum(axis=1)
    similar[unknown] *= words / max(words.max(initial=0), 1e-9)
    return measured, known, similar


def _names_in(
    question: str, said: Sequence[Sequence[str]], titles: Sequence[Sequence[str]], at: NDArray[np.int64]
) -> tuple[list[set[str]], dict[str, tuple[NDArray[np.int64], float]]]:
    """Names and numbers that the question does not have, among the words of statements or their titles.

    Returns those of each statement that several texts have, and the statements and rarity of each, at most 1.
    """
    asked = {word.lower() for word in _WORD.findall(question[:_LONGEST_QUESTION])} | FUNCTION
    words_in = [{*words} for words in titles]  # each text
    for words, place in zip(said, at.tolist(), strict=True):
        words_in[place].update(words)
    named = {
        word: name
        for word in filter(_NAME.match, set().union(*words_in))
        if (name := word.lower()) not in asked
    }
    counts = Counter(name for own in words_in for name in {named[word] for word in own if word in named})
    named = {word: name for word, name in named.items() if counts[name] > 1}
    entitled = [{named[word] for word in words if word in named} for words in titles]
    rows = defaultdict[str, list[int]](list)
    names = []
    for row, (words, place) in enumerate(zip(said, at.tolist(), strict=True)):
        names.append({*(named[word] for word in words if word in named), *entitled[place]})
        for name in names[row]:
            rows[name].append(row)
    most = log(1 + len(titles))
    shared = {
        name: (np.array(own, np.int64), log(1 + len(titles) / counts[name]) / most)
        for name, own in rows.items()
    }
    return names, shared


def words_in(
    question: str, sentences: Sequence[str], words: Sequence[Sequence[str]] | None = None
) -> NDArray[np.float64]:
    """The weight of each word of a question in each sentence, shape (sentences, words of the question).

    By inverse sentence frequency; the weights of all words that any sentence has sum to 1. `words` are those
    of the sentences, if they are known.
    """
    words = [_WORD.findall(sentence) for sentence in sentences] if words is None else words
    spaced, pairs = _stems(question[:_LONGEST_QUESTION])
    stems = tuple(spaced)
    columns = {  # a word has a stem with an ending of at most three letters
        word: [at for at, stem in enumerate(stems) if low.startswith(stem) and len(low) <= len(stem) + 3]
        for word in {*chain.from_iterable(words)}
        if (low := word.lower()).startswith(stems)
    }
    has = np.zeros((len(sentences), len(spaced) + len(pairs)), np.bool_)
    for row, own in enumerate(words):
        for word in own:
            if word in columns:
                has[row, columns[word]] = True
    for column, pair in enumerate(pairs, len(spaced)):
        has[:, column] = [pair in text for text in sentences]
    count = has.sum(axis=0)
    weights = np.where(count > 0, np.log1p(len(sentences) / np.maximum(count, 1)), 0.0)
    return np.asarray(has * (weights / max(weights.sum(), 1e-9)))


def asked_words(question: str) -> list[str]:
    """The beginnings of words by which statements are chosen for a question; pairs of unspaced characters."""
    return [stem for stems in _stems(question[:_LONGEST_QUESTION]) for stem in stems]


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
