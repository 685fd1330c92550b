"""Patches: arrays as differences from those of an earlier generation.

Rows are in canonical order, so one new document shifts the numbers of all rows behind it, and nearly every
array changes. A patch takes about a thousandth of the bytes; whole arrays of four methods over 19,000
passages take 110 MB, 75 of them without codes of vectors. Its file holds a list of the arrays, and for the
i-th array:

    i          the array, if it is stored whole
    i.spans    runs of the earlier array, and the number of new items behind each (`kernels.alignment.Spans`)
    i.items    the new items, one after the other
    i.moves    ascending pairs: from which value on numbers moved, and by how much

Spans and moves are int32 where that holds them, else int64.

The writer looks for common runs in several ways and takes the smallest patch. Each gives the exact array. A
reader applies a patch when it first reads the array.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.alignment import Spans, aligned, shifts
from stratagraph.kernels.ranges import ranges
from stratagraph.store.arrays import Arrays, check_name

LIST = "list"
ROW_TYPES = (np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint32))
"""Types of row numbers."""
SHARE = 8
"""A patch takes at most 1 / 8 of the bytes of what it patches; else all arrays are written anew."""
LEAST = 1 << 16
"""Bytes: a smaller group of arrays is always written whole."""
SMALL = 1 << 12
"""Bytes: a smaller array is stored whole if it changed, since a patch would not pay."""
_FEW = 256  # so many items may be new, however short the array is
_NEW = 8  # at most this fraction of an array's items may be new
_NEAR = (1 << 6, 1 << 12, 1 << 17)  # by how much numbers may have moved, tried in this order
_ENOUGH = 50  # a patch that is so many times smaller than its array is not improved
_WIDE = 8  # bytes
_MOST_SMALL = (1 << 31) - 1
_TABLE = 1 << 22  # numbers below this, or below four times the items, may move

How = Literal["same", "whole", "spliced", "lengths"]
"""Unchanged; stored in the patch; spliced from the earlier array; borders of lists with spliced lengths."""


@dataclass(frozen=True, slots=True)
class Splice:
    """The steps from an earlier array to a later one: move its numbers, take runs of it, add new items."""

    spans: NDArray[np.signedinteger[Any]]
    items: NDArray[Any]
    moves: NDArray[np.signedinteger[Any]]

    @classmethod
    def of(cls, before: NDArray[Any], now: NDArray[Any], spans: Spans, moves: NDArray[np.int64]) -> Splice:
        """From the runs that two flat arrays share, the first with its numbers moved."""
        added = spans[:, 2]
        return cls(_small(spans), now[ranges(np.cumsum(spans[:, 1] + added) - added, added)], _small(moves))

    @property
    def bytes(self) -> int:
        """Its size in bytes."""
        return int(self.spans.nbytes + self.items.nbytes + self.moves.nbytes)

    def applied(self, before: NDArray[Any]) -> NDArray[Any]:
        """The later array, from the earlier flat one."""
        source = moved(before, self.moves)
        pieces, new = [], 0
        for begin, run, added in self.spans.tolist():
            pieces += [source[begin : begin + run], self.items[new : new + added]]
            new += added
        return np.concatenate(pieces) if pieces else source[:0]

    def misfit(self, before: int, kind: np.dtype[Any]) -> bool:
        """Whether it does not fit `before` items of this type. Checked before it is applied."""
        if not {self.spans.dtype, self.moves.dtype} <= {np.dtype(np.int32), np.dtype(np.int64)}:
            return True
        spans, moves = self.spans.astype(np.int64), self.moves.astype(np.int64)
        if spans.shape[1:] != (3,) or moves.shape[1:] != (2,) or self.items.ndim != 1 or (spans < 0).any():
            return True
        if len(moves):
            starts = moves[:, 0]
            if (
                kind.kind != "i"
                or starts[0] < 0
                or (np.diff(starts) <= 0).any()
                or starts[-1] >= _most(before)
            ):
                return True
        if (spans > max(before, len(self.items))).any():  # so that sums do not overflow
            return True
        ends = spans[:, 0] + spans[:, 1]
        apart = bool((spans[1:, 0] >= ends[:-1]).all()) and (not len(ends) or int(ends[-1]) <= before)
        return not apart or self.items.dtype != kind or int(spans[:, 2].sum()) != len(self.items)

    def __len__(self) -> int:
        return int(self.spans[:, 1:].sum())


def _small(numbers: NDArray[np.int64]) -> NDArray[np.signedinteger[Any]]:
    """The same numbers as int32, if that holds them and the number behind each."""
    fits = not numbers.size or (numbers.max() < _MOST_SMALL and numbers.min() > -_MOST_SMALL)
    return numbers.astype(np.int32) if fits else numbers


def moved(numbers: NDArray[Any], moves: NDArray[np.signedinteger[Any]]) -> NDArray[Any]:
    """Numbers, each moved by the entry of `moves` with the largest start not above it; negative ones stay."""
    if not len(moves):
        return numbers
    starts, distances = moves.T
    by_number = np.append(0, distances).repeat(np.diff(starts, prepend=0, append=starts[-1] + 1))
    by = by_number.astype(numbers.dtype).take(numbers, mode="clip")
    return np.where(numbers < 0, numbers, numbers + by)


def patch(before: Arrays, now: Arrays, moving: Collection[str]) -> dict[str, NDArray[Any]] | None:
    """The arrays of the file that turns `before` into `now`; None if a patch does not pay.

    Both are as `arrays.as_plain` makes them. `moving` are the names of the arrays of row numbers, which may
    have moved: of `ROW_TYPES`. Items of others are compared as they are.
    """
    whole = sum(array.nbytes for array in now.values())
    if whole < LEAST:
        return None
    described: list[tuple[str, How, str, tuple[int, ...]]] = []
    arrays: dict[str, NDArray[Any]] = {}
    for at, (name, array) in enumerate(now.items()):
        how, splice = _described(before.get(name), array, name in moving)
        described.append((name, how, array.dtype.str, array.shape))
        if splice is not None:
            arrays |= {f"{at}.spans": splice.spans, f"{at}.items": splice.items, f"{at}.moves": splice.moves}
        elif how == "whole":
            arrays[f"{at}"] = array
        if sum(each.nbytes for each in arrays.values()) * SHARE > whole:
            return None
    text = json.dumps(described, separators=(",", ":")).encode("ascii")
    return {LIST: np.frombuffer(text, np.uint8), **arrays}


def _described(before: NDArray[Any] | None, now: NDArray[Any], moving: bool) -> tuple[How, Splice | None]:
    """How an array follows from the earlier one, and the splice if there is one."""
    if before is None or before.dtype != now.dtype or before.shape[1:] != now.shape[1:]:
        return "whole", None
    if before.shape == now.shape and np.array_equal(_bits(before), _bits(now)):
        return "same", None
    if now.nbytes <= SMALL:
        return "whole", None
    if moving and _are_borders(before) and _are_borders(now):
        splice = _spliced(np.diff(before), np.diff(now), False)
        if splice is not None:
            return "lengths", splice
    row = math.prod(now.shape[1:])
    splice = _spliced(_bits(before), _bits(now), moving, row)
    if splice is None or splice.bytes >= now.nbytes:
        return "whole", None
    return "spliced", splice


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """The items of an array one after the other, as integers."""
    flat = array.reshape(-1)
    if array.dtype in ROW_TYPES:
        return flat.view(np.int32 if array.itemsize == 4 else np.int64)
    size = array.itemsize if array.itemsize in (1, 2, 4, 8) else 1
    return flat.view(f"u{size}")


def _most(count: int) -> int:
    """Upper bound of `count` numbers that may move, so that the table in `moved` stays small."""
    return max(_TABLE, 4 * count)


def _are_borders(array: NDArray[Any]) -> bool:
    """Whether these can be the borders of lists that follow one another."""
    return array.ndim == 1 and len(array) > 1 and not array[0] and bool((array[1:] >= array[:-1]).all())


def _in_common(before: NDArray[Any], now: NDArray[Any], most: int, row: int) -> Spans | None:
    """The runs that two flat arrays share.

    Rows of bytes are compared eight bytes at a time if their length allows it. Single bytes, zeros above all,
    would match everywhere.
    """
    if before.itemsize > 1 or row % _WIDE:
        return aligned(before, now, most=most)
    spans = aligned(before.view(np.uint64), now.view(np.uint64), most=most // _WIDE)
    return None if spans is None else spans * _WIDE


def _spliced(before: NDArray[Any], now: NDArray[Any], numbers: bool, row: int = 1) -> Splice | None:
    """The smallest splice that turns `before` into `now`; None if none is small. A row has `row` items."""
    most = max(_FEW, len(now) // _NEW)
    none = np.zeros((0, 2), np.int64)
    spans = _in_common(before, now, most // 8 if numbers else most, row)
    best = None if spans is None else Splice.of(before, now, spans, none)
    if not numbers or before.max(initial=-1) >= _most(len(before)):
        return best
    for tolerance in _NEAR:
        if best is not None and best.bytes * _ENOUGH < now.nbytes:
            break
        spans = aligned(before, now, most=most, tolerance=tolerance)
        if spans is None:
            continue
        by = shifts(before, now, spans)
        steps = np.flatnonzero(np.diff(by, prepend=0))
        moves = np.column_stack([steps, by[steps]]).astype(np.int64)
        source = moved(before, moves)
        spans = aligned(source, now, most=most)
        if spans is not None:
            splice = Splice.of(source, now, spans, moves)
            best = splice if best is None or splice.bytes < best.bytes else best
    return best


class Patched(Mapping[str, NDArray[Any]]):
    """The arrays that a patch makes from earlier ones, each when it is first read.

    `ValueError`, `TypeError` or `LookupError` if the patch does not fit the earlier arrays.
    """

    def __init__(self, before: Arrays, patch: Arrays) -> None:
        self._before = before
        self._arrays: dict[str, NDArray[Any]] = {}
        self._entries: dict[str, tuple[How, str, tuple[int, ...], Splice | None]] = {}
        for at, (name, how, kind, shape) in enumerate(json.loads(bytes(patch[LIST]))):
            check_name(name, "array name")
            self._take(patch, str(at), name, how, kind, tuple(shape))

    def _take(self, patch: Arrays, at: str, name: str, how: How, kind: str, shape: tuple[int, ...]) -> None:
        """Read the entry of an array, and check that it fits the earlier array."""
        if name in self._entries or not all(
            type(length) is int and 0 <= length < 1 << 48 for length in shape
        ):
            raise ValueError(f"it cannot hold {name!r} of the shape {shape}")
        splice = None
        if how == "whole":
            array = patch[at]
            self._arrays[name] = array
            fits = array.dtype.str == kind and array.shape == shape
        else:
            array = self._before[name]
            fits = array.dtype.str == kind
        if how == "same":
            self._arrays[name] = array
            fits &= array.shape == shape
        elif how in ("spliced", "lengths"):
            splice = Splice(*(patch[f"{at}.{each}"] for each in ("spans", "items", "moves")))
            length = math.prod(shape) - (how == "lengths")
            source = max(len(array) - 1, 0) if how == "lengths" else len(_bits(array))
            items = array.dtype if how == "lengths" else _bits(array).dtype
            per = max(1, array.itemsize // items.itemsize)
            fits &= not splice.misfit(source, items) and len(splice) == length * per
            if how == "lengths":
                fits &= array.dtype in ROW_TYPES and array.ndim == 1 == len(shape)
                fits &= len(array) > 0 < shape[0]
            else:
                fits &= array.shape[1:] == shape[1:]
        elif how != "whole":
            raise ValueError(f"it describes {name!r} as {how!r}")
        if not fits:
            raise ValueError(f"what it says of {name!r} does not fit")
        self._entries[name] = how, kind, shape, splice

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            how, kind, shape, splice = self._entries[name]
            assert splice is not None
            before = self._before[name]
            if how == "lengths":
                lengths = splice.applied(np.diff(before))
                array = np.concatenate([before[:1], before[:1] + np.cumsum(lengths, dtype=before.dtype)])
            else:
                array = splice.applied(_bits(before)).view(kind)
            array = array.reshape(shape)
            array.flags.writeable = False
            self._arrays[name] = array
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
