"""Finds which of a million names stand in a question, without a scan over all of them.

The index holds 64-bit keys in flat arrays that are memory-mapped. A sequence of words w1 ... wk has the key
h(w1) B^(k-1) + ... + h(wk) mod 2^64, so that one running sum gives those of all stretches of a question. Two
of a million names share a key with a chance of 3e-8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.checks import damage
from stratagraph.ingest.names.arrays import BASE, Codes, build, check_arrays, trigrams, updated
from stratagraph.ingest.names.spelling import canonical, name_words, words
from stratagraph.kernels.ranges import ranges
from stratagraph.text.stopwords import stop_words
from stratagraph.types.records import content_keys

__all__ = ["NameIndex", "NameMatches", "canonical", "words"]

Rows = NDArray[np.int64]

_NONE: Rows = np.empty(0, np.int64)
_BLOCK = 4096  # postings looked at together
_SIMILAR = 0.5  # Dice coefficient of trigrams from which two words may be one
_SIMILAR_WORDS = 32
_POSTINGS = 2000  # names considered per similar word, the shortest first


class NameMatches(NamedTuple):
    """Names in a text: the row, the first word and the number of words of each occurrence."""

    rows: Rows
    starts: Rows
    sizes: Rows


class NameIndex:
    """Finds names by whole words (ERRATA N8): in a question, by a part, or misspelt.

    Parameters
    ----------
    arrays
        What `build` made, in memory or memory-mapped; checked once.
    what
        Whose names they are, for the message.

    Raises
    ------
    Damaged
        If an array is missing, has another dtype or shape, or holds what leads nowhere; it is named.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], what: str = "names") -> None:
        with damage(what):
            check_arrays(arrays)
        self._arrays = arrays
        self._sizes = [int(size) for size in arrays["distinct_lengths"]]

    build = staticmethod(build)
    updated = staticmethod(updated)

    def __len__(self) -> int:
        return len(self._arrays["lengths"])

    @property
    def sizes(self) -> Sequence[int]:
        """The numbers of words that names have, ascending."""
        return self._sizes

    def keys(self) -> Codes:
        """The hash of each name, shape (n,); 0 of one that has no word."""
        hashes = np.zeros(len(self), np.uint64)
        hashes[self._arrays["name_rows"]] = self._arrays["name_keys"]
        return hashes

    def lengths(self, rows: Rows) -> Rows:
        """How many words names have."""
        lengths: Rows = self._arrays["lengths"][rows].astype(np.int64)
        return lengths

    def lookup(self, question: str) -> Rows:
        """The rows of all names whose words stand next to each other in the question, ascending.

        A name of words of grammar ("The Who", "It") counts only where it is written as a name.
        """
        return np.unique(self.find(question).rows)

    def find(self, question: str) -> NameMatches:
        """As `lookup`, with the place of every occurrence, counted in `words(question)`."""
        tokens = words(question)
        keys, starts, sizes = self._stretches(content_keys(tokens))
        left = np.searchsorted(self._arrays["name_keys"], keys, "left")
        counts = np.searchsorted(self._arrays["name_keys"], keys, "right") - left
        hits = np.flatnonzero(counts)
        if hits.size:
            stops = stop_words(question)
            spans = [tokens[starts[hit] : starts[hit] + sizes[hit]] for hit in hits]
            hits = hits[[not stops.issuperset(span) or _capitalised(span, question) for span in spans]]
        each = np.repeat(hits, counts[hits])
        rows = self._arrays["name_rows"][ranges(left[hits], counts[hits])]
        return NameMatches(rows.astype(np.int64), starts[each], sizes[each])

    def match(self, entity: str, limit: int = 100) -> Rows:
        """The rows of names that contain the entity's words next to each other.

        At most `limit`, those with the fewest other words first.
        """
        codes = content_keys(name_words(entity))
        if codes.size < 3:
            return self._postings(codes)[:limit].astype(np.int64)
        rarest = min((self._postings(codes[at : at + 2]) for at in range(codes.size - 1)), key=len)
        matching, count = [_NONE], 0
        for start in range(0, len(rarest), _BLOCK):
            rows = rarest[start : start + _BLOCK].astype(np.int64)
            matching.append(rows[self._contain(rows, codes)])
            count += matching[-1].size
            if count >= limit:
                break
        return np.concatenate(matching)[:limit]

    def fuzzy(self, entity: str, limit: int = 10) -> tuple[Rows, NDArray[np.float32]]:
        """Names whose words are spelt like the entity's, by character trigrams: candidates, not matches.

        Returns
        -------
        Rows and scores in (0, 1], best first. The score is the mean over words of the best Dice coefficient,
        where a word that only one of the two has counts 0.
        """
        tokens = name_words(entity)
        alike = [self._names_like(word) for word in tokens]
        rows = np.concatenate([_NONE, *(rows for rows, _ in alike)])
        similar = np.concatenate([np.empty(0), *(similar for _, similar in alike)])
        unique, inverse = np.unique(rows, return_inverse=True)
        lengths = np.maximum(self._arrays["lengths"][unique], len(tokens))
        scores = (np.bincount(inverse, similar, unique.size) / lengths).astype(np.float32)
        best = np.lexsort((unique, -scores))[:limit]
        return unique[best], scores[best]

    def _stretches(self, codes: Codes) -> tuple[Codes, Rows, Rows]:
        """Hash, first word and number of words of all stretches that are as long as some name."""
        running = [0]
        for code in codes.tolist():
            running.append((running[-1] * BASE + code) % 2**64)
        sums = np.array(running, np.uint64)
        parts = [(np.empty(0, np.uint64), _NONE, _NONE)]
        for size in self._sizes:
            count = codes.size - size + 1
            if count > 0:
                keys = sums[size:] - sums[:-size] * np.uint64(pow(BASE, size, 2**64))
                parts.append((keys, np.arange(count), np.full(count, size)))
        keys, starts, sizes = (np.concatenate(column) for column in zip(*parts, strict=True))
        return keys, starts, sizes

    def _postings(self, codes: Codes) -> NDArray[np.int32]:
        """The names with this word or these two neighbouring words, the shortest first."""
        key = 0
        for code in codes.tolist():
            key = (key * BASE + code) % 2**64
        table = self._arrays["keys"]
        at = int(np.searchsorted(table, np.uint64(key)))
        if not codes.size or at == len(table) or int(table[at]) != key:
            return np.empty(0, np.int32)
        start, end = self._arrays["key_starts"][at : at + 2]
        rows: NDArray[np.int32] = self._arrays["key_rows"][start:end]
        return rows

    def _contain(self, rows: Rows, codes: Codes) -> NDArray[np.bool_]:
        starts = self._arrays["starts"][rows]
        lengths = self._arrays["starts"][rows + 1] - starts
        owner = np.repeat(np.arange(rows.size), lengths)
        sequence = self._arrays["sequence"][ranges(starts, lengths)]
        last = sequence.size - codes.size + 1
        here = owner[:last] == owner[codes.size - 1 :]
        for at, code in enumerate(codes.astype(np.uint32)):
            here &= sequence[at : at + last] == code
        containing = np.zeros(rows.size, np.bool_)
        containing[owner[:last][here]] = True
        return containing

    def _names_like(self, word: str) -> tuple[Rows, NDArray[np.float64]]:
        """Names with a word spelt like `word`, and how alike the most similar one is."""
        grams = np.unique(trigrams([word])[0])
        at = np.searchsorted(self._arrays["grams"], grams)
        inside = at < len(self._arrays["grams"])
        at = at[inside][self._arrays["grams"][at[inside]] == grams[inside]]
        starts = self._arrays["gram_starts"][at]
        postings = self._arrays["gram_words"][ranges(starts, self._arrays["gram_starts"][at + 1] - starts)]
        places, shared = np.unique(postings, return_counts=True)
        dice = 2 * shared / (self._arrays["gram_counts"][places] + grams.size)
        best = np.argsort(-dice, kind="stable")[:_SIMILAR_WORDS]
        best = best[dice[best] >= _SIMILAR]
        codes = self._arrays["vocabulary"][places[best]]
        at = np.searchsorted(self._arrays["keys"], codes)
        at[at == len(self._arrays["keys"])] = 0
        best, at = best[self._arrays["keys"][at] == codes], at[self._arrays["keys"][at] == codes]
        starts = self._arrays["key_starts"][at]
        counts = np.minimum(self._arrays["key_starts"][at + 1] - starts, _POSTINGS)
        rows = self._arrays["key_rows"][ranges(starts, counts)].astype(np.int64)
        unique, first = np.unique(rows, return_index=True)
        return unique, np.repeat(dice[best], counts)[first]


def _capitalised(span: Sequence[str], question: str) -> bool:
    """Whether words of grammar are capitalised as a name, and not because a sentence begins."""
    if question.isupper():
        return False
    stands = False
    pattern = r"\W+".join(map(re.escape, span))
    for match in re.finditer(rf"\b{pattern}\b", question, re.IGNORECASE):
        stands = True
        before = question[: match.start()].rstrip(" \"'(\u201c\u2018")
        if match[0][0].isupper() and before and before[-1] not in ".?!:":
            return True
    return not stands  # written in another way, as "U.S." is
