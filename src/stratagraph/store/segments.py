"""Segments: files of many records or vectors, which generations share; and the writing of such files.

An item of a segment has a *slot*, its place in all segments of a generation. A generation hard-links segments
of the previous one. What it needs of the other segments it writes again, together with new items. After a
deletion it links only segments that are wholly in use, so nothing deleted is left once the previous
generation is removed. If nothing was deleted, a fifth of a segment may be out of use: texts and vectors that
newer ones replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratagraph.store.arrays import Arrays, NamedArrays, OpenFile, open_arrays, write_arrays
from stratagraph.store.checksums import FileEntry
from stratagraph.store.layout import Layout
from stratagraph.store.manifest import Manifest
from stratagraph.types.protocols import Rows

Keys = NDArray[np.uint64]

MOST_SEGMENTS = 64
"""Segments of a whole index, if each then has enough items."""
OUT_OF_USE = 0.2
"""Share of a segment that may be out of use while nothing was deleted.

An insert replaces summaries in most segments. With four methods over 5,000 passages, one insert writes 3.3
MB; with a share of 0 it wrote 11.6 MB.
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


class FileWriter:
    """Fills the directory of a new generation.

    It shares files with the generation of the manifest `before`, whose open files are in `opened`. `entries`
    has size and checksums of each file, by its path in the generation. `Layout.remove_partial` removes the
    directory if the generation is not published.
    """

    def __init__(
        self, layout: Layout, number: int, before: Manifest | None, opened: Mapping[str, OpenFile]
    ) -> None:
        self.number = number
        self.directory = layout.make_partial(number)
        self.entries: dict[str, FileEntry] = {}
        self._layout = layout
        self._before = before
        self._opened = opened

    def write(self, folder: str, files: Iterable[tuple[str, Arrays]]) -> dict[str, NamedArrays]:
        """Write files of arrays to a folder of the generation; returns the arrays as stored, by file name."""
        stored = {}
        with self.directory.holding(f"{folder}/", make=True) as (directory, _):
            for file, arrays in files:
                self.entries[f"{folder}/{file}"] = write_arrays(directory, file, arrays)
                with directory.reader(file) as opened:
                    stored[file] = open_arrays(directory, file, opened.fileno())
            directory.sync()
        return stored

    def share(self, folder: str, files: Sequence[str]) -> dict[str, NamedArrays]:
        """Hard-link files of the previous generation; returns their arrays by file name."""
        if not files or self._before is None:
            return {}
        before, paths = self._before, {file: f"{folder}/{file}" for file in files}
        with (
            self._layout.generation(before.generation) as generation,
            generation.holding(f"{folder}/") as (source, _),
            self.directory.holding(f"{folder}/", make=True) as (directory, _),
        ):
            for file in files:
                directory.link(source, file)
            directory.sync()
        self.entries |= {path: before.files[path] for path in paths.values()}
        return {file: self._opened[path].arrays for file, path in paths.items()}


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
        """Add keys that are not in it."""
        order = np.argsort(keys)
        at = np.searchsorted(self._sorted, keys[order])
        self._sorted = np.insert(self._sorted, at, keys[order])
        self._order = np.insert(self._order, at, places[order])


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a new generation: which segments are kept and which are written.

    `kept` are the numbers of the segments that stay as they are, ascending. `moved` has, for each new
    segment, the slots of what is written in it, in order; new items have the slots that follow the last one
    of the previous generation. `slots` has the slot of each item in the new generation, -1 if it is dropped,
    shape (before + coming,).
    """

    kept: tuple[int, ...]
    moved: tuple[Rows, ...]
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

    `sizes` are those of the segments there are. `used` says whether each item is needed: those in the
    segments, then new ones, shape (before + coming,). New items are written in the `order` of their numbers,
    from 0, shape (coming,). A new segment has `fewest` items, and the index `most` segments, if there are
    enough items; a segment with less than half of `fewest` is written again. A share of `out_of_use` may be
    unneeded in one that is kept. `compact` writes everything anew.
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
    starts = np.arange(size, len(moved), size)
    if len(starts) and 2 * (len(moved) - starts[-1]) < size:  # a rest that is no half of one joins the last
        starts = starts[:-1]
    return Plan(whole, tuple(np.split(moved, starts)) if len(moved) else (), slots)
