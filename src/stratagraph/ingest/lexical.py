"""BM25 over the words of passages; its arrays are stored with the graph and memory-mapped.

A passage p of a corpus of n has, for the distinct terms t of a question (Robertson et al. 1994, in the form
that Lucene computes; Kamphuis et al. 2020 compare the forms; `kernels.bm25` computes it),

    score(p) = sum over t of  idf(t) * tf / (tf + k1 * (1 - b + b * |p| / mean |p|)),
    idf(t) = ln(1 + (n - df + 0.5) / (df + 0.5)),

with tf the number of times t stands in p and df the number of passages that have it. Words of grammar in a
question are left out, unless it has no others. Terms are the words of `names.spelling` (folded; bigrams of
characters where a script has no spaces), stemmed by Snowball's rules for the language of most of the corpus.

Arrays of n passages and t terms: `language`, its name in ASCII; `lengths` (n,), words of each passage, and
`norms` (n,), the length term of the formula; `markers`, how often the words occur that tell the language;
`keys` (t,), ascending keys of the terms; `starts` (t + 1,); and the postings `rows`, ascending for each
term, and `counts`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.names.index import words
from stratagraph.ingest.names.spelling import is_unspaced
from stratagraph.kernels.bm25 import Postings, TermPostings, bm25
from stratagraph.kernels.ranges import firsts
from stratagraph.kernels.topk import kth_largest
from stratagraph.text.stopwords import ENGLISH, FUNCTION, GRAMMAR, language_of
from stratagraph.types.protocols import Rows
from stratagraph.types.records import content_keys

K1, B = 1.5, 0.75

Arrays = dict[str, NDArray[Any]]
Keys = NDArray[np.uint64]

_MOST_OFTEN = 255  # occurrences in a passage that are counted

# Words of grammar by which the language of a corpus is recognised, for the languages with rules of stemming.
_MARKERS = {
    "arabic": "في من على إلى أن هذا التي الذي كان عن",
    "armenian": "եւ է որ մեջ են համար",
    "catalan": "els amb dels és una més aquest per",
    "danish": "og af til ikke blev det som også",
    "dutch": "het een van niet zijn voor ook werd",
    "english": "the of and to is was for with",
    "finnish": "ja on oli joka sekä mutta ovat hän",
    "french": "les des est dans une par pour qui",
    "german": "der und die das ist nicht mit wurde",
    "greek": "και το της να του με για είναι",
    "hindi": "के है में की और से का को",
    "hungarian": "az és hogy nem egy volt is meg",
    "indonesian": "yang dan dengan untuk adalah dari pada ini",
    "italian": "della che il nel è gli una sono",
    "norwegian": "og av til ikke ble det som også",
    "polish": "w i na z się jest oraz nie",
    "portuguese": "não uma os da em foi com ao",
    "romanian": "și în este din care cu pentru sau",
    "russian": "и в на не что он был из",
    "spanish": "los del las una con fue por el",
    "swedish": "och att det som på inte är av",
    "tamil": "மற்றும் ஒரு இந்த என்று இது",
    "turkish": "ve bir bu için ile olarak da olan",
}
MARKED = tuple(sorted({word for each in _MARKERS.values() for word in each.split()}))


_THREAD = threading.local()  # each has its own stemmers, because a stemmer holds the word it works on


def _stemmer(language: str) -> Callable[[str], str]:
    """What stems a word of a language; a word of a language without rules stays as it is."""
    stemmers: dict[str, Callable[[str], str]] = vars(_THREAD)
    if language not in stemmers:
        import snowballstemmer  # imported late, because it has thirty modules

        is_supported = language in snowballstemmer.algorithms()
        stemmers[language] = snowballstemmer.stemmer(language).stemWord if is_supported else str
    return stemmers[language]


def stemmer_of(texts: Iterable[str]) -> Callable[[str], str]:
    """What stems the words of some texts, by the rules of their language.

    Without a known language, the last two letters are the ending.
    """
    language = _language(_Read(texts).markers())
    return _stemmer(language) if language != "none" else lambda word: word[: max(3, len(word) - 2)]


class _Read:
    """The distinct words of some passages, and the passages that have them.

    `often` and `lengths` count the occurrences of each word, and the words of each passage. For each passage
    and distinct word of it, `numbers`, `rows` and `counts` hold the word's number, the passage, and the
    occurrences.
    """

    def __init__(self, passages: Iterable[str]) -> None:
        place: dict[str, int] = {}
        lengths: list[int] = []
        numbers: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
        counts: list[NDArray[np.uint8]] = [np.zeros(0, np.uint8)]
        owners: list[int] = []
        often: Counter[int] = Counter()
        for passage in passages:
            counted = Counter(place.setdefault(word, len(place)) for word in words(passage))
            often.update(counted)
            lengths.append(counted.total())
            owners.append(len(counted))
            numbers.append(np.fromiter(counted, np.int32, len(counted)))
            times = np.fromiter(counted.values(), np.int64, len(counted))
            counts.append(np.minimum(times, _MOST_OFTEN).astype(np.uint8))
        self.words, self.often, self.lengths = list(place), often, np.array(lengths, np.uint32)
        self.rows = np.repeat(np.arange(len(owners)), owners)
        self.numbers, self.counts = np.concatenate(numbers), np.concatenate(counts)

    def markers(self) -> NDArray[np.int64]:
        """How often each word of grammar stands in them, shape (words of grammar,)."""
        times = {word: self.often[number] for number, word in enumerate(self.words)}
        return np.fromiter((times.get(word, 0) for word in MARKED), np.int64, len(MARKED))

    def postings(self, language: str) -> Postings:
        """The postings of their terms; words of one stem in one passage are one posting."""
        hashes = content_keys(map(_stemmer(language), self.words))
        order = np.lexsort((self.rows, hashes[self.numbers]))
        keys, rows, counts = hashes[self.numbers][order], self.rows[order], self.counts[order]
        start = firsts(keys, rows)
        total = np.add.reduceat(counts.astype(np.int64), start) if len(start) else np.zeros(0, np.int64)
        return Postings.of(keys[start], rows[start], np.minimum(total, _MOST_OFTEN).astype(np.uint8))


def _arrays(markers: NDArray[np.int64], lengths: NDArray[np.uint32], postings: Postings) -> Arrays:
    return {
        "language": np.frombuffer(_language(markers).encode("ascii"), np.uint8),
        "markers": markers,
        "lengths": lengths,
        "norms": norms_of(lengths.astype(np.float64)),
        "keys": postings.keys,
        "starts": postings.starts,
        "rows": postings.rows.astype(np.int32),
        "counts": postings.values,
    }


def norms_of(lengths: NDArray[np.float64]) -> NDArray[np.float32]:
    """What the lengths of passages, in words, add to the number of times that a term stands in them."""
    mean = max(float(lengths.mean()) if len(lengths) else 0.0, 1.0)
    return np.asarray(K1 * (1 - B + B * lengths / mean), np.float32)


def _language(markers: NDArray[np.int64]) -> str:
    """The language whose words of grammar stand most often in a corpus; the first of equals."""
    often = dict(zip(MARKED, markers.tolist(), strict=True))
    scores = {name: sum(often[word] for word in each.split()) for name, each in _MARKERS.items()}
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] else "none"


MOST_POSTINGS = 200_000
"""Postings that a question reads at most, those of its rarest terms first."""


class Scored(NamedTuple):
    """Rows of passages with their BM25 scores, all above 0."""

    rows: Rows
    scores: NDArray[np.float32]


class LexicalIndex:
    """BM25 over the passages of a corpus.

    `arrays` are those of `build`, in memory or memory-mapped. Methods raise `ValueError` where these are
    damaged at the terms of a question.
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
        read = _Read(passages)
        return _arrays(read.markers(), read.lengths, read.postings(_language(read.markers())))

    @staticmethod
    def updated(
        before: Mapping[str, NDArray[Any]],
        rows_before: Rows,
        removed_texts: Iterable[str],
        coming: Iterable[str],
    ) -> Arrays | None:
        """Update the arrays of `build` (`before`) at the cost of the passages that changed.

        `rows_before` is the previous row of each passage, or -1. `removed_texts` are those of deleted
        passages, `coming` those of new ones in order. None if the language of the corpus changed: all
        passages are to be read.
        """
        read = _Read(coming)
        markers = before["markers"] + read.markers() - _Read(removed_texts).markers()
        language = _language(markers)
        if language.encode("ascii") != bytes(before["language"]):
            return None
        stays, places = np.flatnonzero(rows_before >= 0), np.flatnonzero(rows_before < 0)
        lengths = np.zeros(len(rows_before), np.uint32)
        lengths[stays], lengths[places] = before["lengths"][rows_before[stays]], read.lengths
        rows = np.full(len(before["lengths"]), -1, np.int64)
        rows[rows_before[stays]] = stays
        fresh = read.postings(language)
        fresh = Postings.of(
            np.repeat(fresh.keys, np.diff(fresh.starts)), places[np.asarray(fresh.rows)], fresh.values
        )
        postings = Postings(before["keys"], before["starts"], before["rows"], before["counts"])
        return _arrays(markers, lengths, postings.updated(rows, fresh, len(lengths)))

    def scores(self, question: str, allowed: NDArray[np.bool_] | None = None) -> Scored:
        """The scores of all admitted passages that have a term of the question, by ascending row."""
        keys = np.unique(term_keys(content_words(question, self.language), self.language))
        starts, counts = self.postings(keys)
        chosen = rarest(counts)
        return self.scored(starts[chosen], counts[chosen], allowed)

    def frequencies(self, asked: Sequence[str], allowed: NDArray[np.bool_] | None = None) -> Rows:
        """How many admitted passages have a word of the same stem, shape (words,)."""
        starts, counts = self.postings(term_keys(asked, self.language))
        if allowed is None:
            return counts
        frequencies = np.zeros(len(asked), np.int64)
        for place in np.flatnonzero(counts).tolist():
            rows = self._all.rows[starts[place] : starts[place] + counts[place]]
            if rows.min() < 0 or rows.max() >= self.passages:
                raise ValueError("the postings are damaged: a passage is out of bounds")
            frequencies[place] = np.count_nonzero(allowed[rows])
        return frequencies

    def scored(
        self,
        starts: Rows,
        counts: Rows,
        allowed: NDArray[np.bool_] | None = None,
        rarity: NDArray[np.float32] | None = None,
    ) -> Scored:
        """The scores of passages by postings; `rarity` is the idf of each term in a larger corpus."""
        return Scored(*bm25(self._all, starts, counts, allowed, rarity=rarity))

    def postings(self, keys: NDArray[np.uint64]) -> tuple[Rows, Rows]:
        """Where the postings of terms start and how many there are, 0 of a term that is not there."""
        if not len(keys) or not len(self._keys):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        is_word = self._keys[places] == keys
        starts = self._starts[places].astype(np.int64)
        counts = self._starts[places + 1].astype(np.int64) - starts
        if np.any((counts[is_word] < 1) | (counts[is_word] > len(self._all.norms))):
            raise ValueError("the postings are damaged: those of a term are out of bounds")
        return starts, np.where(is_word, counts, 0)

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


def whole_words(question: str) -> list[str]:
    """A question's different words, without those of grammar of its own language.

    Scripts without spaces give none, since their terms are no words.
    """
    distinct = list(dict.fromkeys(words(question)))
    grammar = GRAMMAR.get(language_of(distinct), FUNCTION)
    return [word for word in distinct if word not in grammar and not is_unspaced(word)]


def best(rows: Rows, scores: NDArray[np.float32], k: int) -> Scored:
    """The `k` rows of largest score, best first; of equals the lower rows first."""
    if len(rows) > k:
        likely = scores >= kth_largest(scores, k)
        rows, scores = rows[likely], scores[likely]
    order = np.lexsort((rows, -scores))[:k]
    return Scored(rows[order], scores[order])


@lru_cache(maxsize=1 << 16)
def _stemmed(word: str, language: str) -> str:
    return _stemmer(language)(word)
