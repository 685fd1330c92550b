"""The arrays of a name index of which some names came or went: what a build gives, at the cost of those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.postings import Postings
from stratagraph.kernels.ranges import ranges
from stratagraph.pipeline.names.arrays import Arrays, build

Rows = NDArray[np.int64]


def updated(before: Mapping[str, NDArray[Any]], now: Rows, size: int, fresh: Mapping[int, str]) -> Arrays:
    """The arrays of an index of names of which most were there.

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
    kept = np.flatnonzero(now >= 0)
    starts, sequence = _sequences(before, new, (kept, now[kept]), places, size)
    sizes = np.diff(starts)
    rows = np.concatenate([now[before["name_rows"]], places[new["name_rows"]]])
    keys = np.concatenate([before["name_keys"], new["name_keys"]])
    order = np.lexsort((rows, keys))
    order = order[rows[order] >= 0]
    postings = _postings(before, new, (now, places), sizes)
    return {
        "lengths": np.minimum(sizes, np.iinfo(np.uint16).max).astype(np.uint16),
        "starts": starts,
        "sequence": sequence,
        "distinct_lengths": np.unique(sizes[sizes > 0]).astype(np.int32),
        "name_keys": keys[order],
        "name_rows": rows[order].astype(np.int32),
        **postings,
        **_spelling(before, new, postings["keys"]),
    }


def _sequences(
    before: Mapping[str, NDArray[Any]], new: Arrays, kept: tuple[Rows, Rows], places: Rows, size: int
) -> tuple[Rows, NDArray[np.uint32]]:
    """Where the words of each name begin, and these."""
    old, rows = kept
    own, sizes = np.diff(before["starts"])[old], np.zeros(size, np.int64)
    sizes[rows], sizes[places] = own, np.diff(new["starts"])
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    found = np.zeros(int(starts[-1]), np.uint32)
    found[ranges(starts[rows], own)] = before["sequence"][ranges(before["starts"][old], own)]
    found[ranges(starts[places], sizes[places])] = new["sequence"]
    return starts, found


def _postings(
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
    found = old.updated(ranks, came, len(sizes))
    return {
        "keys": found.keys,
        "key_starts": np.asarray(found.starts),
        "key_rows": order[found.rows].astype(np.int32),
    }


def _spelling(before: Mapping[str, NDArray[Any]], new: Arrays, keys: NDArray[np.uint64]) -> Arrays:
    """The words of all names, which are among `keys`, and the words with each trigram."""
    there = np.isin(before["vocabulary"], keys)
    vocabulary = np.union1d(before["vocabulary"][there], new["vocabulary"])
    place = np.full(len(there), -1, np.int64)
    place[there] = np.searchsorted(vocabulary, before["vocabulary"][there])
    counts = np.zeros(len(vocabulary), np.uint16)
    counts[place[there]] = before["gram_counts"][there]
    ours = np.searchsorted(vocabulary, new["vocabulary"])
    counts[ours] = new["gram_counts"]
    known = np.isin(new["vocabulary"], before["vocabulary"][there])
    old = _as_postings(before, "grams", "gram_starts", before["gram_words"])
    words = new["gram_words"]
    grams = np.repeat(new["grams"].astype(np.uint64), np.diff(new["gram_starts"]))[~known[words]]
    words = ours[words[~known[words]]]
    came = Postings.of(grams, words, np.zeros(len(words), np.uint8))
    found = old.updated(place, came, len(vocabulary))
    return {
        "vocabulary": vocabulary,
        "gram_counts": counts,
        "grams": found.keys.astype(np.uint32),
        "gram_starts": np.asarray(found.starts),
        "gram_words": found.rows.astype(np.int32),
    }


def _as_postings(
    arrays: Mapping[str, NDArray[Any]], keys: str, starts: str, rows: NDArray[np.integer]
) -> Postings:
    return Postings(
        arrays[keys].astype(np.uint64), arrays[starts], rows.astype(np.int64), np.zeros(len(rows), np.uint8)
    )
