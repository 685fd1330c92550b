"""The arrays of the words of passages (`lexical`): of all passages, or brought up to date where some changed.

Of n passages and t terms: `language`, its name in ASCII; `lengths` (n,), words of each passage, and `norms`
(n,), what these add to the number of times that a term stands in it; `markers`, how often the words stand in
the corpus by which its language is told; `keys` (t,), ascending hashes of the terms; `starts` (t + 1,); and
the postings `rows`, ascending for each term, and `counts`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.postings import Postings
from stratagraph.pipeline.names.index import words
from stratagraph.protocols import Rows
from stratagraph.records import content_keys

K1 = 1.5
"""How soon further occurrences of a term count little."""
B = 0.75
"""How much a long passage's occurrences count less: 0 not at all, 1 in proportion."""

Arrays = dict[str, NDArray[Any]]
Counts = NDArray[np.uint8]
Keys = NDArray[np.uint64]
Stem = Callable[[str], str]

_MOST_OFTEN = 255  # occurrences in a passage that are told apart

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
MARKED = tuple(sorted({word for each in _MARKERS.values() for word in each.split()}))


class Stemmers(threading.local):
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


_STEMMERS = Stemmers()


STEMMERS = Stemmers()


@dataclass(frozen=True, slots=True)
class _Read:
    """The distinct words of some passages, and in which they stand.

    Attributes
    ----------
    words
        Each distinct word once.
    often
        How often each stands in the passages.
    lengths
        Words of each passage.
    numbers, rows, counts
        For each passage and distinct word of it: the word's number, the passage, how often it stands there.
    """

    words: Sequence[str]
    often: Mapping[int, int]
    lengths: NDArray[np.uint32]
    numbers: NDArray[np.int32]
    rows: Rows
    counts: Counts

    @classmethod
    def of(cls, passages: Iterable[str]) -> _Read:
        place: dict[str, int] = {}
        lengths: list[int] = []
        numbers: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
        counts: list[Counts] = [np.zeros(0, np.uint8)]
        owners: list[int] = []
        often: Counter[int] = Counter()
        for passage in passages:
            found = Counter(place.setdefault(word, len(place)) for word in words(passage))
            often.update(found)
            lengths.append(found.total())
            owners.append(len(found))
            numbers.append(np.fromiter(found, np.int32, len(found)))
            times = np.fromiter(found.values(), np.int64, len(found))
            counts.append(np.minimum(times, _MOST_OFTEN).astype(np.uint8))
        rows = np.repeat(np.arange(len(owners)), owners)
        sizes = np.array(lengths, np.uint32)
        return cls(list(place), often, sizes, np.concatenate(numbers), rows, np.concatenate(counts))

    def markers(self) -> NDArray[np.int64]:
        """How often each word of grammar stands in them, shape (words of grammar,)."""
        times = {word: self.often[number] for number, word in enumerate(self.words)}
        return np.fromiter((times.get(word, 0) for word in MARKED), np.int64, len(MARKED))

    def postings(self, language: str) -> Postings:
        """Their terms in a language."""
        hashes = content_keys(list(map(STEMMERS.of(language), self.words)))
        return _postings(hashes[self.numbers], self.rows, self.counts)


def _postings(keys: Keys, rows: Rows, counts: Counts) -> Postings:
    """In order; words of one stem in one passage are one posting."""
    order = np.lexsort((rows, keys))
    keys, rows, counts = keys[order], rows[order], counts[order]
    fresh = np.ones(len(keys), np.bool_)
    fresh[1:] = (keys[1:] != keys[:-1]) | (rows[1:] != rows[:-1])
    firsts = np.flatnonzero(fresh)
    total = np.add.reduceat(counts.astype(np.int64), firsts) if len(firsts) else np.zeros(0, np.int64)
    return Postings.of(keys[firsts], rows[firsts], np.minimum(total, _MOST_OFTEN).astype(np.uint8))


def build(passages: Iterable[str]) -> Arrays:
    """The arrays of some passages, whose rows are their places."""
    read = _Read.of(passages)
    return _arrays(read.markers(), read.lengths, read.postings(_language(read.markers())))


def update(
    before: Mapping[str, NDArray[Any]],
    kept: tuple[Rows, Rows],
    gone: Iterable[str],
    coming: Mapping[int, str],
) -> Arrays | None:
    """The arrays of a corpus of which some passages changed: what `build` gives, at the cost of those.

    Parameters
    ----------
    before
        The arrays of the corpus before.
    kept
        The passages that stayed: their rows now, ascending, and their rows before.
    gone
        The texts of those that did not.
    coming
        The texts of those that are new, by their rows.

    Returns
    -------
    None if the corpus is in another language now: then all is to be read.
    """
    now, then = kept
    read = _Read.of(coming.values())
    markers = before["markers"] + read.markers() - _Read.of(gone).markers()
    language = _language(markers)
    if language.encode("ascii") != bytes(before["language"]):
        return None
    lengths = np.zeros(len(now) + len(coming), np.uint32)
    lengths[now], lengths[list(coming)] = before["lengths"][then], read.lengths
    rows = np.full(len(before["lengths"]), -1, np.int64)
    rows[then] = now
    fresh, places = read.postings(language), np.array(list(coming), np.int64)
    fresh = Postings.of(
        np.repeat(fresh.keys, np.diff(fresh.starts)), places[np.asarray(fresh.rows)], fresh.values
    )
    known = Postings(before["keys"], before["starts"], before["rows"], before["counts"])
    return _arrays(markers, lengths, known.updated(rows, fresh, len(lengths)))


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
    found = {name: sum(often[word] for word in each.split()) for name, each in _MARKERS.items()}
    best = max(found, key=found.__getitem__)
    return best if found[best] else "none"
