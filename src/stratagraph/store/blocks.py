"""Records in segments, compressed in blocks; each block is read by itself.

`node_records` and `corpus` define the records, and the columns of numbers beside them.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.store.arrays import write_arrays
from stratagraph.store.checksums import FileEntry
from stratagraph.store.files import Directory
from stratagraph.store.segments import Plan, segment_file
from stratagraph.system.locks import Lock, cached_property
from stratagraph.types.protocols import Rows

ARRAYS = {"blocks": np.uint8, "bounds": np.int64, "firsts": np.int64, "lengths": np.int32}
"""Arrays of a segment: compressed blocks, where each begins and its first record; of each record
its bytes."""
BLOCK = 1 << 13
"""Bytes of records from which a block is closed, where its readers want many at once."""
_LONGEST = 1 << 30  # bytes of records of a block that are believed
_HELD = 1 << 24  # bytes of opened blocks that are kept
_LEVEL = 6
_FEW = 32  # values that are taken one by one
_decode = json.JSONDecoder().raw_decode
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""JSON as records have it."""

Segment = Mapping[str, NDArray[Any]]
Columns = Mapping[str, Any]


class Block(NamedTuple):
    """A compressed block, and the length of each of its records in bytes."""

    data: bytes
    lengths: NDArray[np.int32]


class Records:
    """The records of segments by slot. Safe to use from several threads.

    Parameters
    ----------
    name
        Named in errors.
    files, segments
        Names of the segments in order, and their arrays.
    columns
        Types of the arrays with a value for each record, by name.
    held
        Bytes of decompressed blocks to keep.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[str],
        segments: Sequence[Segment],
        columns: Columns | None = None,
        held: int = _HELD,
    ) -> None:
        self.name = name
        self.files = tuple(files)
        self.segments = list(segments)
        self.sizes = [len(each["lengths"]) for each in segments]
        self._begins = [0, *accumulate(self.sizes)]
        self._columns = {"lengths": np.int32, **(columns or {})}
        self._block_starts = [0, *accumulate(len(each["firsts"]) for each in segments)]
        self._blocks: LRUCache[int, bytes] = LRUCache(held, getsizeof=len)
        self._lock = Lock()

    def __len__(self) -> int:
        return self._begins[-1]

    def column(self, name: str) -> NDArray[Any]:
        """A column of all segments."""
        parts = [each[name] for each in self.segments]
        kind = self._columns[name]
        return np.concatenate([np.zeros(0, kind), *parts]).astype(kind, copy=False)

    def values(self, name: str, slots: NDArray[np.integer]) -> NDArray[Any]:
        """Values of a column at some slots; if these are few, only their segments are read."""
        every: NDArray[Any]
        if 8 * len(slots) > len(self):
            every = self.column(name)[slots]
            return every
        if len(slots) <= _FEW:
            located = map(self.place, slots.tolist())
            return np.array([self.segments[number][name][at] for number, at in located], self._columns[name])
        numbers = np.searchsorted(self._begins, slots, "right") - 1
        order = np.argsort(numbers, kind="stable")
        found = np.empty(len(slots), self._columns[name])
        for places in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(order) else ():
            number = int(numbers[places[0]])
            found[places] = self.segments[number][name][slots[places] - self._begins[number]]
        return found

    def place(self, slot: int) -> tuple[int, int]:
        """The segment of a slot, and its place there."""
        number = bisect_right(self._begins, slot) - 1
        return number, slot - self._begins[number]

    @cached_property
    def _laid_out(self) -> tuple[Rows, Rows]:
        """First byte of each record, and first record of each block; both with an end."""
        begins = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.column("lengths"), out=begins[1:])
        firsts = [start + each["firsts"] for start, each in zip(self._begins, self.segments, strict=False)]
        return begins, np.concatenate([*firsts, [len(self)]]).astype(np.int64)

    def raw(self, slots: NDArray[np.integer]) -> list[bytes]:
        """The records at some slots; each block is decompressed once. `Damaged` if they cannot be read."""
        slots = np.asarray(slots, np.int64)
        if not len(slots):
            return []
        if int(slots.min()) < 0 or int(slots.max()) >= len(self):
            raise Damaged(f"{self.name}: there are {len(self)} records, and no {int(slots.max())}")
        begins, firsts = self._laid_out
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        blocks = np.searchsorted(firsts, ordered, "right") - 1
        first = begins[firsts[blocks]]
        starts, ends, sizes = (
            begins[ordered] - first,
            begins[ordered + 1] - first,
            begins[firsts[blocks + 1]] - first,
        )
        fields = zip(*(each.tolist() for each in (order, blocks, starts, ends, sizes)), strict=True)
        found: list[bytes] = [b""] * len(slots)
        last, content = -1, b""
        for place, block, start, end, size in fields:
            if block != last:
                last, content = block, self._opened(block, size)
            found[place] = content[start:end]
        return found

    def content(self, slots: Rows, block: int = BLOCK) -> list[Block | bytes]:
        """Blocks and records at ascending slots, to be written again.

        A block is reused if all its records are wanted and it is at least half of `block` bytes.
        """
        if not len(slots):
            return []
        begins, firsts = self._laid_out
        of_slots = np.searchsorted(firsts, slots, "right") - 1
        blocks, counts = np.unique(of_slots, return_counts=True)
        full = 2 * (begins[firsts[blocks + 1]] - begins[firsts[blocks]]) >= block
        whole = full & (counts == np.diff(firsts)[blocks])
        others = iter(self.raw(slots[~np.repeat(whole, counts)]))
        lengths = np.diff(begins).astype(np.int32)
        found: list[Block | bytes] = []
        for at, count, taken in zip(blocks.tolist(), counts.tolist(), whole.tolist(), strict=True):
            if taken:
                found.append(Block(self._packed(at).tobytes(), lengths[firsts[at] : firsts[at + 1]]))
            else:
                found += (next(others) for _ in range(count))
        return found

    def _packed(self, block: int) -> NDArray[np.uint8]:
        number = bisect_right(self._block_starts, block) - 1
        segment, at = self.segments[number], block - self._block_starts[number]
        bounds = segment["bounds"]
        found: NDArray[np.uint8] = segment["blocks"][bounds[at] : bounds[at + 1]]
        return found

    def _opened(self, block: int, size: int) -> bytes:
        """The decompressed block, which must have `size` bytes."""
        with self._lock:
            if (held := self._blocks.get(block)) is not None:
                return held
        try:
            content = zlib.decompressobj().decompress(self._packed(block).data, size + 1)
            if len(content) != size:
                raise ValueError(f"{len(content)} bytes or more, where {size} were written")
        except (zlib.error, ValueError) as error:
            number = bisect_right(self._block_starts, block) - 1
            at = f"block {block - self._block_starts[number]} of {self.files[number]}"
            raise Damaged(f"{self.name}: {at}: {error}") from error
        if size <= self._blocks.maxsize:
            with self._lock:
                self._blocks[block] = content
        return content


def misfit(segment: Segment, columns: Columns) -> str | None:
    """Why a segment cannot be read; None if it can."""
    for name, kind in {**ARRAYS, **columns}.items():
        if name not in segment or segment[name].dtype != kind or segment[name].ndim != 1:
            return f"holds no {name} of {np.dtype(kind)}"
    lengths, firsts, bounds = (segment[name] for name in ("lengths", "firsts", "bounds"))
    if any(len(segment[name]) != len(lengths) for name in columns):
        return "does not have as many lengths as records"
    if len(bounds) != len(firsts) + 1 or (len(firsts) == 0) != (len(lengths) == 0):
        return "does not divide its records into blocks"
    if len(firsts) and (firsts[0] != 0 or firsts[-1] >= len(lengths) or (np.diff(firsts) <= 0).any()):
        return "has blocks without records"
    if len(lengths) and (
        int(lengths.min()) < 1 or int(np.add.reduceat(lengths, firsts, dtype=np.int64).max()) > _LONGEST
    ):
        return "has records of lengths that cannot be"
    if bounds[0] != 0 or bounds[-1] != len(segment["blocks"]) or (np.diff(bounds) <= 0).any():
        return "has blocks that are not there"
    return None


def fields(raw: bytes, owner: str) -> list[Any]:
    """The values of a record; `Damaged` if it is not valid."""
    try:
        record = raw.decode("utf-8", "surrogatepass")
        found, end = _decode(record)
        if end != len(record) or not isinstance(found, list):
            raise ValueError(f"no record in {raw[-60:]!r}")
        return found
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged(f"{owner}: a record that is none ({error})") from error


def leading(raw: bytes, owner: str, place: int) -> str:
    """The text at a place in a record; `Damaged` if there is none. Reads no further.

    This takes a tenth of the time of `fields`. An update reads ids and texts of nearly all nodes.
    """
    try:
        record, value, end = raw.decode("utf-8", "surrogatepass"), None, 0
        for _ in range(place + 1):
            value, end = _decode(record, end + 1)
        if not isinstance(value, str):
            raise TypeError(f"{str(value)[:60]!r} is no string")
        return value
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged(f"{owner}: a record that is none ({error})") from error


def packed(content: Iterable[Block | bytes], block: int = BLOCK) -> dict[str, NDArray[Any]]:
    """The arrays of a segment, from records and blocks."""
    blocks: list[bytes] = []
    firsts: list[int] = []
    lengths: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
    held: list[bytes] = []
    count = size = 0

    def close() -> None:
        nonlocal size
        if held:
            blocks.append(zlib.compress(b"".join(held), _LEVEL))
            firsts.append(count - len(held))
            lengths.append(np.fromiter(map(len, held), np.int32, len(held)))
            held.clear()
            size = 0

    for each in content:
        if size >= block or isinstance(each, Block):
            close()
        if isinstance(each, Block):
            blocks.append(each.data)
            firsts.append(count)
            lengths.append(each.lengths)
            count += len(each.lengths)
        else:
            held.append(each)
            size += len(each)
            count += 1
    close()
    return {
        "blocks": np.frombuffer(b"".join(blocks), np.uint8),
        "bounds": np.cumsum([0, *map(len, blocks)], dtype=np.int64),
        "firsts": np.array(firsts, np.int64),
        "lengths": np.concatenate(lengths),
    }


def write_segments(
    directory: Directory,
    generation: int,
    plan: Plan,
    arrays: Callable[[Rows, Rows], dict[str, NDArray[Any]]],
    before: int,
) -> dict[str, FileEntry]:
    """Write the new segments of a plan, and return their files.

    `arrays` makes the arrays of a segment from the slots it takes over and the numbers of new things;
    `before` is the number of slots there were.
    """
    files, start = {}, 0
    for number, size in enumerate(plan.sizes):
        moved = plan.moved[start : start + size]
        file = segment_file(generation, number)
        made = arrays(moved[moved < before], moved[moved >= before] - before)
        files[file] = write_arrays(directory, file, made)
        start += size
    return files
