"""The arrays of a name index: built batch by batch, or updated at the cost of the names that changed.

Arrays of n names: `lengths` (n,) words of each; `starts` (n + 1,) and `sequence`, the low half of the keys of
their words in order; `name_keys` ascending keys of whole names and `name_rows`, their rows;
`distinct_lengths`. Postings: `keys` ascending keys of words and of pairs of neighbouring words, `key_starts`,
`key_rows` with the shortest names first. Spelling: `vocabulary` ascending keys of words, `gram_counts`
trigrams of each; `grams` ascending hashes of trigrams, `gram_starts`, `gram_words`, places in the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stratagraph.ingest.checks import Checks
from stratagraph.ingest.names.spelling import name_words
from stratagraph.kernels.bm25 import Postings
from stratagraph.kernels.checks import check_ascending
from stratagraph.kernels.ranges import ranges
from stratagraph.types.records import content_keys

Codes = NDArray[np.uint64]
Grams = NDArray[np.uint32]
Arrays = dict[str, NDArray[Any]]

BASE = 0x9E3779B97F4A7C15  # odd, so that multiplying modulo 2^64 loses nothing
MEASURES = ("lengths", "gram_counts")
"""Arrays of a name index that hold neither words nor rows."""
_BATCH = 1 << 16  # names
_LONGEST = 0xFFFF  # words of a name that are counted


def build(names: Sequence[str]) -> Arrays:
    """The arrays of an index of names; rows are places in `names`. Two may be equal, or be no name."""
    codes, lengths, vocabulary, grams = _read(names)
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    keys = sequence_keys(codes, starts)
    order = np.argsort(keys, kind="stable")
    order = order[lengths[order] > 0]
    return {
        "lengths": np.minimum(lengths, _LONGEST).astype(np.uint16),
        "starts": starts,
        "sequence": codes.astype(np.uint32),
        "distinct_lengths": np.unique(lengths[lengths > 0]).astype(np.int32),
        "name_keys": keys[order],
        "name_rows": order.astype(np.int32),
        **_postings(codes, lengths),
        **_spelling(vocabulary, grams),
    }


def check_arrays(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Whether arrays are those of an index; `ValueError` with the array's name, the value and its place."""
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


def _read(names: Sequence[str]) -> tuple[Codes, NDArray[np.int64], Codes, tuple[Grams, NDArray[np.int64]]]:
    """Hashes of all words in order, words per name, and the distinct words with their trigrams."""
    codes, distinct = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    lengths, owners = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    grams = [np.empty(0, np.uint32)]
    count = 0  # distinct words of the batches so far
    for start in range(0, len(names), _BATCH):
        tokens = [name_words(name) for name in names[start : start + _BATCH]]
        place: dict[str, int] = {}
        flat = [place.setdefault(word, len(place)) for name in tokens for word in name]
        hashes = content_keys(list(place))
        codes.append(hashes[np.array(flat, dtype=np.int64)])
        lengths.append(np.fromiter(map(len, tokens), np.int64, len(tokens)))
        gram, owner = trigrams(list(place))
        distinct.append(hashes)
        grams.append(gram)
        owners.append(owner + count)
        count += len(place)
    return (
        np.concatenate(codes),
        np.concatenate(lengths),
        np.concatenate(distinct),
        (np.concatenate(grams), np.concatenate(owners)),
    )


def _postings(codes: Codes, lengths: NDArray[np.int64]) -> Arrays:
    rows = np.repeat(np.arange(lengths.size, dtype=np.int32), lengths)
    paired = rows[1:] == rows[:-1]
    keys = np.concatenate([codes, (codes[:-1] * np.uint64(BASE) + codes[1:])[paired]])
    rows = np.concatenate([rows, rows[1:][paired]])
    # Shortest names first, so that the most specific are found without looking at the others.
    order = np.lexsort((rows, lengths[rows], keys))
    keys, rows = keys[order], rows[order]
    fresh = np.ones(keys.size, np.bool_)  # a word that a name has twice is one posting
    fresh[1:] = (keys[1:] != keys[:-1]) | (rows[1:] != rows[:-1])
    keys, rows = keys[fresh], rows[fresh]
    unique, starts = np.unique(keys, return_index=True)
    return {"keys": unique, "key_starts": np.append(starts, keys.size).astype(np.int64), "key_rows": rows}


def _spelling(distinct: Codes, grams: tuple[Grams, NDArray[np.int64]]) -> Arrays:
    """The postings of trigrams; a word of several batches has its trigrams once."""
    vocabulary, first, place = np.unique(distinct, return_index=True, return_inverse=True)
    codes, owners = grams
    is_first = first[place[owners]] == owners
    codes, owners = codes[is_first], place[owners[is_first]].astype(np.int32)
    order = np.lexsort((owners, codes))
    codes, owners = codes[order], owners[order]
    fresh = np.ones(codes.size, np.bool_)
    fresh[1:] = (codes[1:] != codes[:-1]) | (owners[1:] != owners[:-1])
    codes, owners = codes[fresh], owners[fresh]
    unique, starts = np.unique(codes, return_index=True)
    return {
        "vocabulary": vocabulary,
        "gram_counts": np.minimum(np.bincount(owners, minlength=vocabulary.size), _LONGEST).astype(np.uint16),
        "grams": unique,
        "gram_starts": np.append(starts, codes.size).astype(np.int64),
        "gram_words": owners,
    }


Rows = NDArray[np.int64]


def updated(before: Mapping[str, NDArray[Any]], now: Rows, size: int, fresh: Mapping[int, str]) -> Arrays:
    """Updates the arrays of a name index of which most names are unchanged.

    Parameters
    ----------
    before
        The arrays of the index there was.
    now
        The row now of each name there was, or -1 if it went.
    size
        Number of names now.
    fresh
        The names that came, by their rows: those to which none of `now` leads.

    Returns
    -------
    What `build` gives of all names.
    """
    places = np.array(sorted(fresh), np.int64)
    new = build([fresh[row] for row in places.tolist()])
    old = np.flatnonzero(now >= 0)
    rows, own, sizes = now[old], np.diff(before["starts"])[old], np.zeros(size, np.int64)
    sizes[rows], sizes[places] = own, np.diff(new["starts"])
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    sequence = np.zeros(int(starts[-1]), np.uint32)
    sequence[ranges(starts[rows], own)] = before["sequence"][ranges(before["starts"][old], own)]
    sequence[ranges(starts[places], sizes[places])] = new["sequence"]
    rows = np.concatenate([now[before["name_rows"]], places[new["name_rows"]]])
    keys = np.concatenate([before["name_keys"], new["name_keys"]])
    order = np.lexsort((rows, keys))
    order = order[rows[order] >= 0]
    postings = _updated_postings(before, new, (now, places), sizes)
    return {
        "lengths": np.minimum(sizes, np.iinfo(np.uint16).max).astype(np.uint16),
        "starts": starts,
        "sequence": sequence,
        "distinct_lengths": np.unique(sizes[sizes > 0]).astype(np.int32),
        "name_keys": keys[order],
        "name_rows": rows[order].astype(np.int32),
        **postings,
        **_updated_spelling(before, new, postings["keys"]),
    }


def _updated_postings(
    before: Mapping[str, NDArray[Any]], new: Arrays, moved: tuple[Rows, Rows], sizes: Rows
) -> Arrays:
    """The names with each word or pair of words, the shortest first, of equals the lower row."""
    now, places = moved
    order = np.argsort(sizes, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    old = _as_postings(before, "keys", "key_starts", before["key_rows"])
    came = _as_postings(new, "keys", "key_starts", rank[places[new["key_rows"]]])
    ranks = np.full(len(now), -1, np.int64)
    ranks[now >= 0] = rank[now[now >= 0]]
    postings = old.updated(ranks, came, len(sizes))
    return {
        "keys": postings.keys,
        "key_starts": np.asarray(postings.starts),
        "key_rows": order[postings.rows].astype(np.int32),
    }


def _updated_spelling(before: Mapping[str, NDArray[Any]], new: Arrays, keys: NDArray[np.uint64]) -> Arrays:
    """The words of all names, which are among `keys`, and the words with each trigram."""
    there = np.isin(before["vocabulary"], keys)
    vocabulary = np.union1d(before["vocabulary"][there], new["vocabulary"])
    place = np.full(len(there), -1, np.int64)
    place[there] = np.searchsorted(vocabulary, before["vocabulary"][there])
    counts = np.zeros(len(vocabulary), np.uint16)
    counts[place[there]] = before["gram_counts"][there]
    ours = np.searchsorted(vocabulary, new["vocabulary"])
    counts[ours] = new["gram_counts"]
    repeated = np.isin(new["vocabulary"], before["vocabulary"][there])
    old = _as_postings(before, "grams", "gram_starts", before["gram_words"])
    words = new["gram_words"]
    grams = np.repeat(new["grams"].astype(np.uint64), np.diff(new["gram_starts"]))[~repeated[words]]
    words = ours[words[~repeated[words]]]
    came = Postings.of(grams, words, np.zeros(len(words), np.uint8))
    postings = old.updated(place, came, len(vocabulary))
    return {
        "vocabulary": vocabulary,
        "gram_counts": counts,
        "grams": postings.keys.astype(np.uint32),
        "gram_starts": np.asarray(postings.starts),
        "gram_words": postings.rows.astype(np.int32),
    }


def _as_postings(
    arrays: Mapping[str, NDArray[Any]], keys: str, starts: str, rows: NDArray[np.integer]
) -> Postings:
    return Postings(
        arrays[keys].astype(np.uint64), arrays[starts], rows.astype(np.int64), np.zeros(len(rows), np.uint8)
    )
