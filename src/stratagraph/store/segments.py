"""Segments: files of many small things, shared by generations.

A thing has a *slot*, its place in the segments of a generation. A generation hard-links segments of the
previous one, and writes again what it needs of the others, together with new things. After a deletion it
links only segments that are wholly in use, so nothing deleted is left once the previous generation is
removed. Where nothing was deleted, a fifth of a segment may be out of use: texts and vectors that newer
ones replaced.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratagraph.types.protocols import Rows

Keys = NDArray[np.uint64]

MOST_SEGMENTS = 64
"""Segments that a whole index is divided into, if they then have enough things."""
OUT_OF_USE = 0.2
"""Share of a segment that may be out of use while nothing was deleted.

An insert replaces summaries in most segments. With four methods over 5,000 passages one insert wrote 11.6
MB where this was 0, and writes 3.3 MB.
"""
_FILE = re.compile(r"([1-9][0-9]{0,17})-([0-9]{1,9})\.arrays")


def segment_file(generation: int, number: int) -> str:
    """The file name of a segment: its generation, and its number among the segments of that generation."""
    return f"{generation}-{number}.arrays"


def segment_order(file: str) -> tuple[int, int]:
    """The sort key of a segment's file name; `ValueError` if it is not such a name."""
    if not (match := _FILE.fullmatch(file)):
        raise ValueError(f"{file!r} is not the name of a segment")
    return int(match[1]), int(match[2])


class KeyIndex:
    """Finds places by keys."""

    def __init__(self, keys: Keys) -> None:
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    def find(self, keys: Keys) -> Rows:
        """The first place of each key, or -1."""
        if not len(self._sorted):
            return np.full(len(keys), -1, np.int64)
        at = np.searchsorted(self._sorted, keys).clip(max=len(self._sorted) - 1)
        return np.where(self._sorted[at] == keys, self._order[at], -1).astype(np.int64)

    def add(self, keys: Keys, places: Rows) -> None:
        """Take in keys that are not there."""
        order = np.argsort(keys)
        at = np.searchsorted(self._sorted, keys[order])
        self._sorted = np.insert(self._sorted, at, keys[order])
        self._order = np.insert(self._order, at, places[order])


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a new generation: which segments are kept and which are written.

    Attributes
    ----------
    kept
        Which segments stay as they are, ascending.
    moved
        Slots of the things that are written anew, in the order in which they are written, shape (n,).
        Those that come are counted on from the last slot there was.
    sizes
        How many things each new segment has.
    slots
        The slots in the new generation of all that is in a segment, else -1, shape (before + coming,).
    """

    kept: tuple[int, ...]
    moved: Rows
    sizes: tuple[int, ...]
    slots: Rows


def planned(
    sizes: Sequence[int],
    used: NDArray[np.bool_],
    order: Rows,
    *,
    fewest: int,
    most: int = MOST_SEGMENTS,
    out_of_use: float = 0.0,
    compact: bool = False,
) -> Plan:
    """Plan which segments are kept and what is written.

    Parameters
    ----------
    sizes
        Of the segments there are.
    used
        Whether a thing is needed: those in the segments, then those that come, shape (before + coming,).
    order
        The order in which those that come are written: their numbers, from 0, shape (coming,).
    fewest
        Things in a new segment, where there are as many. One with less than half as many is written anew.
    most
        Segments that a whole index is divided into, if they then have enough things.
    out_of_use
        Share of a segment that may be unneeded if it is kept; 0 after a deletion.
    compact
        Whether everything is written anew.
    """
    starts = np.cumsum([0, *sizes])
    before = int(starts[-1])
    whole = tuple(
        number
        for number, size in enumerate(sizes)
        if not compact
        and 2 * size >= fewest
        and np.count_nonzero(~used[starts[number] : starts[number + 1]]) <= out_of_use * size
    )
    stays = np.zeros(before, np.bool_)
    for number in whole:
        stays[starts[number] : starts[number + 1]] = True
    coming = before + order
    moved = np.concatenate([np.flatnonzero(used[:before] & ~stays), coming[used[coming]]])
    slots = np.full(len(used), -1, np.int64)
    unmoved = np.flatnonzero(stays)
    slots[unmoved] = np.arange(len(unmoved))
    slots[moved] = len(unmoved) + np.arange(len(moved))
    size = max(fewest, (len(unmoved) + len(moved)) // most)
    return Plan(whole, moved, _divided(len(moved), size), slots)


def _divided(count: int, size: int) -> tuple[int, ...]:
    """The sizes of new segments; a rest that is no half of one joins the last."""
    whole, rest = divmod(count, size)
    if whole and 2 * rest < size:
        return (*(size,) * (whole - 1), size + rest)
    return (size,) * whole + ((rest,) if rest else ())
