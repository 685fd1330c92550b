"""Words of passages: BM25 over arrays that are stored with the graph, memory-mapped and asked by mask.

A passage p of a corpus of n has, for the distinct terms t of a question (Robertson et al. 1994, in the form
that Lucene computes; Kamphuis et al. 2020 compare the forms; `kernels.bm25` computes it),

    score(p) = sum over t of  idf(t) * tf / (tf + k1 * (1 - b + b * |p| / mean |p|)),
    idf(t) = ln(1 + (n - df + 0.5) / (df + 0.5)),

with tf the number of times t stands in p and df the number of passages that it stands in. Words of grammar
in a question are passed over, unless it has no others.

Terms are the words of `names.spelling`: folded, bigrams of characters where a script has no spaces, and
stemmed by Snowball's rules for the language that most of the corpus is written in. The arrays hold their
hashes, so that no vocabulary is read at a question.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.bm25 import Postings, bm25
from stratarag.pipeline.names.arrays import hash_words
from stratarag.pipeline.names.index import words
from stratarag.protocols import Rows
from stratarag.stopwords import ENGLISH, FUNCTION

K1 = 1.5
"""How soon further occurrences of a term count little."""
B = 0.75
"""How much a long passage's occurrences count less: 0 not at all, 1 in proportion."""
MOST_POSTINGS = 200_000
"""Postings that a question reads at most. Its rarest terms come first: what is left out is "the" in a corpus
of a million passages, and what is common in a question of a megabyte."""

_NO_ROWS: Rows = np.zeros(0, np.int64)
_MOST_OFTEN = 255  # occurrences in a passage that are told apart

Arrays = dict[str, NDArray[Any]]
Stem = Callable[[str], str]

# Words of grammar that tell the languages apart for which there are rules.
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


class Scored(NamedTuple):
    """Rows of passages with their BM25 scores, all above 0."""

    rows: Rows
    scores: NDArray[np.float32]


class LexicalIndex:
    """BM25 over the passages of a corpus.

    Parameters
    ----------
    arrays
        What `build` made, in memory or memory-mapped. For n passages and t terms: `language`, its name in
        ASCII; `norms` (n,), what the length of a passage adds to tf; `keys` (t,), ascending hashes of the
        terms; `starts` (t + 1,); and the postings `rows`, ascending for each term, and `counts`.

    Raises
    ------
    ValueError
        If the arrays do not fit each other.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._keys: NDArray[np.uint64] = arrays["keys"]
        self._starts: NDArray[np.int64] = arrays["starts"]
        self._all = Postings(arrays["rows"], arrays["counts"], arrays["norms"])
        self.language = bytes(arrays["language"]).decode("ascii", "replace")
        if len(self._starts) != len(self._keys) + 1 or len(self._all.rows) != len(self._all.counts):
            raise ValueError("the arrays of the words are damaged: their lengths do not fit each other")

    @staticmethod
    def build(passages: Iterable[str]) -> Arrays:
        """The arrays of an index; rows are places among the passages."""
        return _build(passages)

    def search(self, question: str, k: int, allowed: NDArray[np.bool_] | None = None) -> Scored:
        """Rows and scores of the `k` best admitted passages, best first; of equals, lower rows first.

        Passages that have none of the question's terms are none.
        """
        return best(*self.scores(question, allowed), k)

    def scores(self, question: str, allowed: NDArray[np.bool_] | None = None) -> Scored:
        """The scores of all admitted passages that have a term of the question, by ascending row.

        Raises
        ------
        ValueError
            If the arrays are damaged where the question's terms stand.
        """
        return Scored(*bm25(self._all, *self._postings(question), allowed))

    def _postings(self, question: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the postings of the question's terms start and how many they are, the rarest terms first."""
        stems = [_stemmed(word, self.language) for word in content_words(question, self.language)]
        keys = np.unique(hash_words(stems))
        if not len(keys) or not len(self._keys):
            return _NO_ROWS, _NO_ROWS
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        places = places[self._keys[places] == keys]
        starts = self._starts[places].astype(np.int64)
        counts = self._starts[places + 1].astype(np.int64) - starts
        if np.any((counts < 1) | (counts > len(self._all.norms))):
            raise ValueError("the postings are damaged: those of a term are out of bounds")
        order = np.argsort(counts, kind="stable")
        order = order[np.cumsum(counts[order]) <= MOST_POSTINGS]
        return starts[order], counts[order]


def content_words(question: str, language: str) -> list[str]:
    """A question's different words, without those of grammar unless it has no others."""
    distinct = dict.fromkeys(words(question))
    stops = ENGLISH if language == "english" else FUNCTION
    return [word for word in distinct if word not in stops] or list(distinct)


def best(rows: Rows, scores: NDArray[np.float32], k: int) -> Scored:
    """The `k` rows of largest score, best first; of equals the lower rows first."""
    if len(rows) > k:
        likely = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        rows, scores = rows[likely], scores[likely]
    order = np.lexsort((rows, -scores))[:k]
    return Scored(rows[order], scores[order])


class _Stemmers(threading.local):
    """Stemmers by language, of each thread its own: they keep the word at hand in themselves."""

    def __init__(self) -> None:
        self._known: dict[str, Stem] = {}

    def of(self, language: str) -> Stem:
        """Stems a word; a language without rules leaves it as it is."""
        if language not in self._known:
            import snowballstemmer  # here, since its thirty modules would be read at every import

            known = language in snowballstemmer.algorithms()
            self._known[language] = snowballstemmer.stemmer(language).stemWord if known else str
        return self._known[language]


_STEMMERS = _Stemmers()


@lru_cache(maxsize=1 << 16)
def _stemmed(word: str, language: str) -> str:
    """The stem of a word of a question; the words of questions come again."""
    return _STEMMERS.of(language)(word)


def _language(often: Mapping[str, int]) -> str:
    """The language whose words of grammar stand most often in a corpus; the first of equals."""
    found = {name: sum(often.get(word, 0) for word in markers.split()) for name, markers in _MARKERS.items()}
    best = max(found, key=found.__getitem__)
    return best if found[best] else "none"


def _build(passages: Iterable[str]) -> Arrays:
    place: dict[str, int] = {}
    lengths: list[int] = []
    numbers: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
    counts: list[NDArray[np.uint8]] = [np.zeros(0, np.uint8)]
    owners: list[int] = []
    often: Counter[int] = Counter()
    for passage in passages:
        found = Counter(place.setdefault(word, len(place)) for word in words(passage))
        often.update(found)
        lengths.append(found.total())
        owners.append(len(found))
        numbers.append(np.fromiter(found, np.int32, len(found)))
        counts.append(
            np.minimum(np.fromiter(found.values(), np.int64, len(found)), _MOST_OFTEN).astype(np.uint8)
        )
    language = _language({word: often[number] for word, number in place.items()})
    keys, term = np.unique(hash_words(list(map(_STEMMERS.of(language), place))), return_inverse=True)
    rows = np.repeat(np.arange(len(owners), dtype=np.int32), owners)
    return {
        "language": np.frombuffer(language.encode("ascii"), np.uint8),
        "norms": norms_of(np.array(lengths, np.float64)),
        "keys": keys,
        **_inverted(term[np.concatenate(numbers)], rows, np.concatenate(counts), len(keys)),
    }


def norms_of(lengths: NDArray[np.float64]) -> NDArray[np.float32]:
    """What the lengths of passages, in words, add to the number of times that a term stands in them."""
    mean = max(float(lengths.mean()) if len(lengths) else 0.0, 1.0)
    return np.asarray(K1 * (1 - B + B * lengths / mean), np.float32)


def _inverted(
    terms: NDArray[np.int64], rows: NDArray[np.int32], counts: NDArray[np.uint8], size: int
) -> Arrays:
    """Postings by term and row; words of one stem in one passage are one posting."""
    order = np.lexsort((rows, terms))
    terms, rows, counts = terms[order], rows[order], counts[order]
    fresh = np.ones(len(terms), np.bool_)
    fresh[1:] = (terms[1:] != terms[:-1]) | (rows[1:] != rows[:-1])
    firsts = np.flatnonzero(fresh)
    total = np.add.reduceat(counts.astype(np.int64), firsts) if len(firsts) else np.zeros(0, np.int64)
    return {
        "starts": np.searchsorted(terms[firsts], np.arange(size + 1)).astype(np.int64),
        "rows": rows[firsts],
        "counts": np.minimum(total, _MOST_OFTEN).astype(np.uint8),
    }
