"""Finds the names in a question, among a million, without comparing it with all of them.

The index holds 64-bit keys in flat arrays that are memory-mapped. A sequence of words w1 ... wk has the key
h(w1) B^(k-1) + ... + h(wk) mod 2^64, so that one running sum gives the keys of all word sequences of a
question. The chance that two of a million names share a key is 3e-8.

Arrays of n names: `lengths` (n,) words of each; `starts` (n + 1,) and `sequence`, the low half of the keys of
their words in order; `name_keys` ascending keys of whole names and `name_rows`, their rows;
`distinct_lengths`. Postings: `keys` ascending keys of words and of pairs of neighbouring words, `key_starts`,
`key_rows` with the shortest names first. Spelling: `vocabulary` ascending keys of words, `gram_counts`
trigrams of each; `grams` ascending hashes of trigrams, `gram_starts`, `gram_words`, places in the vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stratagraph.ingest.checks import Checks, damage
from stratagraph.ingest.names.spelling import canonical, name_words, words
from stratagraph.kernels.bm25 import Postings
from stratagraph.kernels.checks import check_ascending
from stratagraph.kernels.ranges import among, borders, firsts, ranges
from stratagraph.text.stopwords import stop_words
from stratagraph.types.built import Holds
from stratagraph.types.records import content_keys

__all__ = ["HOLDS", "NameIndex", "NameMatches", "canonical", "words"]

Rows = NDArray[np.int64]
Codes = NDArray[np.uint64]
Grams = NDArray[np.uint32]
Arrays = dict[str, NDArray[Any]]

BASE = 0x9E3779B97F4A7C15  # odd, so that multiplying modulo 2^64 loses nothing
HOLDS = {
    Holds.ROWS: (
        *("starts", "distinct_lengths", "name_rows", "key_starts", "key_rows"),
        *("gram_starts", "gram_words"),
    ),
    Holds.MEASURES: ("lengths", "gram_counts"),
    Holds.CONTENT: ("sequence", "name_keys", "keys", "vocabulary", "grams"),
}
"""What the arrays of a name index hold."""
_LONGEST = 0xFFFF  # words of a name that are counted
_NONE: Rows = np.empty(0, np.int64)
_EMPTY: Arrays = {
    **dict.fromkeys(("starts", "key_starts", "gram_starts"), np.zeros(1, np.int64)),
    **dict.fromkeys(("name_rows", "key_rows", "gram_words"), np.empty(0, np.int32)),
    **dict.fromkeys(("name_keys", "keys", "vocabulary"), np.empty(0, np.uint64)),
    **dict.fromkeys(("sequence", "grams"), np.empty(0, np.uint32)),
}
"""The arrays of an index without names that an update reads."""
_BLOCK = 4096  # postings looked at together
_SIMILAR = 0.5  # Dice coefficient of trigrams from which two words may be one
_SIMILAR_WORDS = 32
_POSTINGS = 2000  # names considered per similar word, the shortest first


def check_arrays(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise `ValueError`, with the array, value and place, unless the arrays are those of an index."""
    checks = Checks(arrays)
    sequence = checks.of("sequence", np.uint32, (None,))
    starts = checks.borders("starts", len(sequence))
    count, words = len(starts) - 1, np.diff(starts)
    lengths = checks.of("lengths", np.uint16, (count,))
    wrong = lengths != np.minimum(words, _LONGEST)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ValueError(f"array 'lengths' holds {lengths[place]} at place {place}, not {words[place]}")
    sizes = checks.of("distinct_lengths", np.int32, (None,))
    if not np.array_equal(sizes, np.flatnonzero(np.bincount(words)[1:]) + 1):
        raise ValueError(f"array 'distinct_lengths' holds {sizes.tolist()[:10]}, not every length of a name")
    check_ascending(checks.of("name_keys", np.uint64, (None,)), "name_keys")
    checks.rows("name_rows", count, checks.any("name_keys").shape, dtype=np.int32)
    _check_postings(checks, "keys", np.uint64, "key_starts", "key_rows", count)
    vocabulary = checks.of("vocabulary", np.uint64, (None,))
    check_ascending(vocabulary, "vocabulary", strictly=True)
    if len(vocabulary) > len(checks.any("keys")):  # every word of a name is a key
        raise ValueError(f"array 'vocabulary' has {len(vocabulary)} words, more than 'keys'")
    checks.of("gram_counts", np.uint16, vocabulary.shape)
    _check_postings(checks, "grams", np.uint32, "gram_starts", "gram_words", len(vocabulary))


def _check_postings(checks: Checks, keys: str, dtype: DTypeLike, starts: str, rows: str, count: int) -> None:
    table = checks.of(keys, dtype, (None,))
    check_ascending(table, keys, strictly=True)
    postings = checks.rows(rows, count, (None,), dtype=np.int32)
    checks.borders(starts, len(postings), len(table))


def sequence_keys(codes: Codes, starts: NDArray[np.int64]) -> Codes:
    """The keys of the word sequences `codes[starts[i]:starts[i + 1]]`; 0 for an empty one."""
    lengths = np.diff(starts)
    keys = np.zeros(lengths.size, np.uint64)
    active = np.flatnonzero(lengths)
    place = 0
    while active.size:
        keys[active] = keys[active] * np.uint64(BASE) + codes[starts[active] + place]
        place += 1
        active = active[lengths[active] > place]
    return keys


def trigrams(tokens: Sequence[str]) -> tuple[Grams, NDArray[np.int64]]:
    """Hashes of the character trigrams of words, with their borders, and the place of each one's word."""
    padded = "".join(f"\0{word}\0" for word in tokens)
    letters = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), "<u4")
    if letters.size < 3:
        return np.empty(0, np.uint32), np.empty(0, np.int64)
    sizes = np.fromiter(map(len, tokens), np.int64, len(tokens)) + 2
    owner = np.repeat(np.arange(len(tokens)), sizes)
    whole = owner[2:] == owner[:-2]
    wide = letters.astype(np.uint64)
    mixed = ((wide[:-2] * np.uint64(BASE) + wide[1:-1]) * np.uint64(BASE) + wide[2:]) * np.uint64(BASE)
    return (mixed[whole] >> np.uint64(32)).astype(np.uint32), owner[2:][whole]


def build(names: Sequence[str]) -> Arrays:
    """The arrays of an index of `names`, whose places are the rows. Names may be equal or without words."""
    return updated({}, _NONE, len(names), dict(enumerate(names)))


def updated(
    before: Mapping[str, NDArray[Any]], now: Rows, size: int, fresh: Mapping[int, str], what: str = "names"
) -> Arrays:
    """What `build` gives of `size` names, most of which the index `before` has too.

    `now` is the present row of each previous name, or -1, `fresh` are the new names by present rows, and
    `what` is the owner of the names in the error. `Damaged` if the previous arrays are not those of an index
    of `len(now)` names. It takes a twentieth of the time of a build, which is that of a whole insert (.3 s of
    23,000 names).
    """
    if before:
        with damage(what):
            check_arrays(before)
            Checks(before).of("lengths", np.uint16, now.shape)
    before = before or _EMPTY
    new_rows = np.array(sorted(fresh), np.int64)
    numbers, places, word_counts = dict[str, int](), list[int](), list[int]()
    for row in new_rows.tolist():
        parts = name_words(fresh[row])
        word_counts.append(len(parts))
        places += [numbers.setdefault(word, len(numbers)) for word in parts]
    codes = content_keys(numbers)[np.array(places, np.int64)]
    new_lengths = np.array(word_counts, np.int64)
    stays = now >= 0
    lengths, old_lengths = np.zeros(size, np.int64), np.diff(before["starts"])[stays]
    lengths[now[stays]], lengths[new_rows] = old_lengths, new_lengths
    starts = borders(lengths)
    sequence = np.zeros(int(starts[-1]), np.uint32)
    old_words = ranges(before["starts"][:-1][stays], old_lengths)
    sequence[ranges(starts[now[stays]], old_lengths)] = before["sequence"][old_words]
    sequence[ranges(starts[new_rows], new_lengths)] = codes.astype(np.uint32)

    has_words = new_lengths > 0
    new_keys = sequence_keys(codes, borders(new_lengths))[has_words]
    name_keys = np.concatenate([before["name_keys"], new_keys])
    name_rows = np.concatenate([now[before["name_rows"]], new_rows[has_words]])
    order = np.lexsort((name_rows, name_keys))
    order = order[name_rows[order] >= 0]

    # Shortest names first, so that the most specific are found without looking at the others.
    by_length = np.argsort(lengths, kind="stable")
    rank = np.empty(size, np.int64)
    rank[by_length] = np.arange(size)
    old_ranks = np.full(len(now), -1, np.int64)
    old_ranks[stays] = rank[now[stays]]
    owners = np.repeat(rank[new_rows], new_lengths)
    paired = owners[1:] == owners[:-1]
    pairs = (codes[:-1] * np.uint64(BASE) + codes[1:])[paired]
    all_keys, all_owners = np.concatenate([codes, pairs]), np.concatenate([owners, owners[1:][paired]])
    stored = before["keys"], before["key_starts"], before["key_rows"]
    postings = _postings(stored, old_ranks, all_keys, all_owners, size)
    return {
        "lengths": np.minimum(lengths, _LONGEST).astype(np.uint16),
        "starts": starts,
        "sequence": sequence,
        "distinct_lengths": np.unique(lengths[lengths > 0]).astype(np.int32),
        "name_keys": name_keys[order],
        "name_rows": name_rows[order].astype(np.int32),
        "keys": postings.keys,
        "key_starts": np.asarray(postings.starts),
        "key_rows": by_length[postings.rows].astype(np.int32),
        **_spelling(before, list(numbers), postings.keys),
    }


def _spelling(
    before: Mapping[str, NDArray[Any]], distinct_words: Sequence[str], keys: NDArray[np.uint64]
) -> Arrays:
    """The words of all names, which are among `keys`, and the words with each trigram."""
    stays = among(before["vocabulary"], keys)
    old = before["vocabulary"][stays]
    codes = content_keys(distinct_words)
    is_new = ~among(codes, old)
    vocabulary = np.union1d(old, codes)
    now = np.full(len(stays), -1, np.int64)
    now[stays] = np.searchsorted(vocabulary, old)
    grams, owners = trigrams([word for word, new in zip(distinct_words, is_new, strict=True) if new])
    places = np.searchsorted(vocabulary, codes[is_new])[owners]
    stored = before["grams"], before["gram_starts"], before["gram_words"]
    postings = _postings(stored, now, grams.astype(np.uint64), places, len(vocabulary))
    counts = np.bincount(postings.rows, minlength=len(vocabulary))
    return {
        "vocabulary": vocabulary,
        "gram_counts": np.minimum(counts, _LONGEST).astype(np.uint16),
        "grams": postings.keys.astype(np.uint32),
        "gram_starts": np.asarray(postings.starts),
        "gram_words": postings.rows.astype(np.int32),
    }


def _postings(
    stored: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], now: Rows, keys: Codes, rows: Rows, size: int
) -> Postings:
    """Stored postings of rows that are `now` others, and new ones; what a row has twice is one posting."""
    order = np.lexsort((rows, keys))
    order = order[firsts(keys[order], rows[order])]
    new = Postings.of(keys[order], rows[order], np.zeros(len(order), np.uint8))
    keys_before, starts, rows_before = stored
    values = np.zeros(len(rows_before), np.uint8)
    before = Postings(keys_before.astype(np.uint64), starts, rows_before.astype(np.int64), values)
    return before.updated(now, new, size)


class NameMatches(NamedTuple):
    """Names in a text: the row, the first word and the number of words of each occurrence."""

    rows: Rows
    starts: Rows
    sizes: Rows


class NameIndex:
    """Finds names by whole words (ERRATA N8): in a question, by a part, or misspelt.

    `arrays` are those of `build`, in memory or memory-mapped. They are checked here, once: `Damaged` names
    an array that is missing, has another dtype or shape, or holds a row out of range, and `what` it is of.
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
        """The hash of each name, shape (n,); 0 for a name without words."""
        hashes = np.zeros(len(self), np.uint64)
        hashes[self._arrays["name_rows"]] = self._arrays["name_keys"]
        return hashes

    def lengths(self, rows: Rows) -> Rows:
        """The number of words of some names."""
        lengths: Rows = self._arrays["lengths"][rows].astype(np.int64)
        return lengths

    def find(self, question: str) -> NameMatches:
        """The names whose words occur next to each other in the question, with their places in its `words`.

        A name that consists of stop words ("The Who", "It") counts only where it is capitalised as a name.
        """
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

    def equal(self, name: str) -> Rows:
        """The rows of names with the same words."""
        matches = self.find(name)
        return matches.rows[matches.sizes >= len(name_words(name))]

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
        """Names whose words are spelt like those of the entity, by character trigrams. These are candidates.

        Returns rows and scores in (0, 1], best first. The score is the mean over words of the best Dice
        coefficient, where a word that only one of the two has counts 0.
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
    """Whether stop words are capitalised as a name, and not because a sentence begins."""
    if question.isupper():
        return False
    occurs = False
    pattern = r"\W+".join(map(re.escape, span))
    for match in re.finditer(rf"\b{pattern}\b", question, re.IGNORECASE):
        occurs = True
        before = question[: match.start()].rstrip(" \"'(\u201c\u2018")
        if match[0][0].isupper() and before and before[-1] not in ".?!:":
            return True
    return not occurs  # written in another way, as "U.S." is
