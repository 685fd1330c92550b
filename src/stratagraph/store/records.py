"""Stored records: how they are found, read and written.

There are three kinds: chunks, documents, and the nodes of a part. A record is found in four steps:

    row       its place in the corpus or the part
    slot      its place in the segments, by an array of the generation (`Records.slots`)
    block     compressed, in the segment of the slot
    fields    JSON in the block: plain values, then a mapping (metadata, or the extra values of a node)

A segment is a file that generations share (`store.segments`), with these arrays (`store.arrays`):

    blocks, bounds      the blocks one after the other, and where each begins
    firsts, lengths     the first record of each block, and the bytes of each record
    ...                 the columns of the kind: a value for each record, read without its block

Records of one place lie together: chunks and documents in the order of the corpus, nodes in that of the first
chunk that they came from. So repeated sentences compress well, and a deletion touches few segments.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.kernels.ranges import Parts
from stratagraph.store.segments import FileWriter, KeyIndex, Keys, planned, segment_file, segment_order
from stratagraph.system.locks import Lock, cached_property
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Metadata

ARRAYS = {"blocks": np.uint8, "bounds": np.int64, "firsts": np.int64, "lengths": np.int32}
"""The arrays of every segment; a kind adds its columns."""
_LONGEST = 1 << 30  # largest decompressed block that is read, in bytes
_HELD = 1 << 24  # bytes of opened blocks that are kept
_LEVEL = 6
_decode = json.JSONDecoder().raw_decode
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

Segment = Mapping[str, NDArray[Any]]
T = TypeVar("T")


class NoSuchRow(Damaged, IndexError):
    """A row does not exist. The caller asked for it, or a damaged array names it."""


class ChunkRecord(NamedTuple):
    """A chunk, with the metadata that its document does not have. `ref` is the caller's own id."""

    text: str
    ordinal: int
    start: int
    end: int
    ref: str
    prefix: str
    metadata: dict[str, Any]


class DocumentRecord(NamedTuple):
    """A document; `digest`, `file` and `root` as in `types.records.DocumentState`."""

    id: str
    digest: str
    file: str
    root: str
    metadata: dict[str, Any]


class NodeRecord(NamedTuple):
    """A node of a part, without its sources."""

    id: str
    kind: str
    level: int
    text: str
    extra: dict[str, Any]


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of record.

    `noun` is what it is called in errors. Its segments are in `folder` (of nodes, in a folder of the part
    there), and the array `slots` has the slot of each row. `make` makes a record of its fields, whose types
    before the mapping are `types`; `columns` are the types of the columns. A new segment has at least
    `fewest` records if there are enough. A block is closed after `block` bytes: few if few records are read
    at a time.
    """

    noun: str
    folder: str
    slots: str
    make: Callable[..., T]
    types: tuple[type, ...]
    columns: Mapping[str, Any]
    fewest: int
    block: int

    def decoded(self, raw: bytes, owner: str) -> T:
        """The record in some bytes; `Damaged` if there is none."""
        try:
            text = raw.decode("utf-8", "surrogatepass")
            fields, end = _decode(text)
            if end != len(text) or not isinstance(fields, list):
                raise ValueError(f"{raw[-60:]!r} is no list of fields")
            *plain, mapping = fields
            if tuple(map(type, plain)) != self.types:
                raise TypeError(f"fields of the wrong types in {raw[:60]!r}")
            if not isinstance(mapping, dict):
                raise ValueError(f"metadata that is no object but {str(mapping)[:40]}")
            if b"\\ud" in raw:  # we write no escapes of surrogates, whose halves are no text
                mapping = _valid(mapping)
            return self.make(*plain, mapping)
        except (ValueError, TypeError, RecursionError) as error:
            raise Damaged(f"{owner}: a {self.noun} that cannot be read ({error})") from error

    def misfit(self, segment: Segment) -> str | None:
        """Why a segment cannot be read; None if it can."""
        for name, kind in {**ARRAYS, **self.columns}.items():
            if name not in segment or segment[name].dtype != kind or segment[name].ndim != 1:
                return f"holds no {name} of {np.dtype(kind)}"
        lengths, firsts, bounds = (segment[name] for name in ("lengths", "firsts", "bounds"))
        if any(len(segment[name]) != len(lengths) for name in self.columns):
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


CHUNKS = Kind(
    "chunk",
    "corpus/chunks",
    "texts.slots",
    ChunkRecord,
    (str, int, int, int, str, str),
    {"ids": np.uint64, "tails": np.uint64, "refs": np.uint64, "noted": np.bool_},
    fewest=1024,
    block=1 << 9,
)
"""Columns: the halves of the id, the key of the ref (0: none), and whether it has metadata of its own."""
DOCUMENTS = Kind(
    "document",
    "corpus/documents",
    "documents.slots",
    DocumentRecord,
    (str, str, str, str),
    {},
    fewest=1024,
    block=1 << 9,
)
NODES = Kind("node", "nodes", "nodes.slots", NodeRecord, (str, str, int, str), {}, fewest=256, block=1 << 13)


def encoded(fields: Sequence[Any], mapping: str) -> bytes:
    """The bytes of a record; `mapping` is JSON. `ValueError` for text that is not valid Unicode."""
    return f"{encode(fields)[:-1]},{mapping}]".encode()


class Records(Generic[T]):
    """The records of a generation by row. Safe to use from several threads.

    `name` is used in errors, `segments` are the arrays of the segments by file name, `slots` the slot of each
    row, shape (rows,), and `held` the bytes of decompressed blocks to keep. An unknown row is a `NoSuchRow`,
    a record that is not as it was written `Damaged`.
    """

    def __init__(
        self,
        kind: Kind[T],
        name: str,
        segments: Mapping[str, Segment],
        slots: NDArray[np.integer],
        held: int = _HELD,
    ) -> None:
        self.kind = kind
        self.name = name
        self.slots = slots
        self.files = tuple(sorted(segments, key=segment_order))
        self._segments = [segments[file] for file in self.files]
        self.sizes = [len(each["lengths"]) for each in self._segments]
        self._parts = Parts(self.sizes)
        self._block_starts = [0, *accumulate(len(each["firsts"]) for each in self._segments)]
        self._blocks: LRUCache[int, bytes] = LRUCache(held, getsizeof=len)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self.slots)

    def read(self, rows: Sequence[int] | Rows) -> list[T]:
        """The records of some rows, in their order."""
        return [self.kind.decoded(raw, self.name) for raw in self.raw(rows)]

    def field(self, rows: Sequence[int] | Rows, name: str) -> list[Any]:
        """One field of the records of some rows."""
        return [getattr(each, name) for each in self.read(rows)]

    def column(self, name: str, rows: Sequence[int] | Rows | None = None) -> NDArray[Any]:
        """A column at some rows, or at all."""
        return self.values(name, self.slots if rows is None else self._slots(rows))

    def values(self, name: str, slots: NDArray[np.integer]) -> NDArray[Any]:
        """A column at some slots."""
        column = np.empty(len(slots), self.kind.columns[name])
        for number, places, own in self._parts.split(slots.astype(np.int64)):
            column[places] = self._segments[number][name][own]
        return column

    def find(self, keys: Keys) -> Rows:
        """The first row with each of these `ids`, or -1."""
        return self._by_id.find(keys)

    @cached_property
    def _by_id(self) -> KeyIndex:
        return KeyIndex(self.column("ids"))

    def _slots(self, rows: Sequence[int] | Rows) -> NDArray[np.integer]:
        wanted = np.asarray(rows, np.int64)
        if len(wanted) and (int(wanted.min()) < 0 or int(wanted.max()) >= len(self)):
            bad = int(wanted[(wanted < 0) | (wanted >= len(self))][0])
            raise NoSuchRow(
                f"{self.name}: {self.kind.noun} {bad} does not exist; there are {len(self)}. Where no row "
                "was asked for by its number, an array is damaged: verify() says which"
            )
        return np.asarray(self.slots[wanted])

    def raw(self, rows: Sequence[int] | Rows) -> list[bytes]:
        """The bytes of some rows; each block is decompressed once."""
        return self.raw_at(self._slots(rows))

    def raw_at(self, slots: NDArray[np.integer]) -> list[bytes]:
        """The bytes at some slots."""
        if not len(slots):
            return []
        begins, firsts = self._laid_out
        order = np.argsort(slots, kind="stable")
        ordered = slots[order].astype(np.int64)
        blocks = np.searchsorted(firsts, ordered, "right") - 1
        first = begins[firsts[blocks]]
        starts, ends = begins[ordered] - first, begins[ordered + 1] - first
        sizes = begins[firsts[blocks + 1]] - first
        fields = zip(*(each.tolist() for each in (order, blocks, starts, ends, sizes)), strict=True)
        contents: list[bytes] = [b""] * len(slots)
        last, content = -1, b""
        for place, block, start, end, size in fields:
            if block != last:
                last, content = block, self._opened(block, size)
            contents[place] = content[start:end]
        return contents

    @cached_property
    def _laid_out(self) -> tuple[Rows, Rows]:
        """First byte of each slot, and first slot of each block; both with an end."""
        count = self._parts.size
        begins = np.zeros(count + 1, np.int64)
        for number, each in enumerate(self._segments):
            begins[1:][self._parts.of(number)] = each["lengths"]
        np.cumsum(begins, out=begins)
        starts = self._parts.starts[:-1].tolist()
        firsts = [start + each["firsts"] for start, each in zip(starts, self._segments, strict=True)]
        return begins, np.concatenate([*firsts, [count]]).astype(np.int64)

    def _opened(self, block: int, size: int) -> bytes:
        """The decompressed block, which must have `size` bytes."""
        with self._lock:
            if (held := self._blocks.get(block)) is not None:
                return held
        number = bisect_right(self._block_starts, block) - 1
        segment, at = self._segments[number], block - self._block_starts[number]
        start, end = segment["bounds"][at : at + 2].tolist()
        try:
            content = zlib.decompressobj().decompress(segment["blocks"][start:end].data, size + 1)
            if len(content) != size:
                raise ValueError(f"{len(content)} bytes or more, where {size} were written")
        except (zlib.error, ValueError) as error:
            raise Damaged(f"{self.name}: block {at} of {self.files[number]}: {error}") from error
        if size <= self._blocks.maxsize:
            with self._lock:
                self._blocks[block] = content
        return content


NewRecords = Callable[[Rows], Iterable[tuple[bytes, tuple[Any, ...]]]]
"""Gives the bytes and the column values of new records, by their numbers."""


def write_records(
    writer: FileWriter,
    folder: str,
    name: str,
    kind: Kind[T],
    base: Records[T] | None,
    slots: Rows,
    new: NewRecords,
    order: Rows | None = None,
    *,
    out_of_use: float = 0.0,
    compact: bool = False,
    held: int = _HELD,
) -> Records[T]:
    """The records of a new generation.

    Writes those that the previous one (`base`) lacks, and shares its segments.

    `slots` has the slot in `base` of each row, shape (rows,). The rows with -1 are the new records, in order:
    `new` reads them, and `order` has the numbers from 0 in which they are written, if that differs. `folder`,
    `name` and `held` are as in `Records`, `out_of_use` and `compact` as in `segments.planned`.
    """
    sizes = [] if base is None else base.sizes
    before, count = sum(sizes), int(np.count_nonzero(slots < 0))
    order = np.arange(count) if order is None else order
    slots = slots.copy()
    slots[slots < 0] = before + np.arange(count)
    used = np.zeros(before + count, np.bool_)
    used[slots] = True
    plan = planned(sizes, used, order, fewest=kind.fewest, out_of_use=out_of_use, compact=compact)
    segments = (
        (
            segment_file(writer.number, number),
            _segment(kind, base, moved[moved < before], new(moved[moved >= before] - before)),
        )
        for number, moved in enumerate(plan.moved)
    )
    stored = writer.write(folder, segments)
    if base is not None:
        stored |= writer.share(folder, [base.files[number] for number in plan.kept])
    return Records(kind, name, stored, plan.slots[slots].astype(np.uint32), held)


def _segment(
    kind: Kind[T], base: Records[T] | None, old: Rows, new: Iterable[tuple[bytes, tuple[Any, ...]]]
) -> dict[str, NDArray[Any]]:
    """The arrays of a segment, from slots of the previous generation and new records."""
    values: list[tuple[Any, ...]] = []

    def content() -> Iterable[bytes]:
        if base is not None:
            yield from base.raw_at(old)
        for raw, value in new:
            values.append(value)
            yield raw

    segment = packed(content(), kind.block)
    for at, (name, dtype) in enumerate(kind.columns.items()):
        column = np.array([value[at] for value in values], dtype)
        segment[name] = column if base is None else np.concatenate([base.values(name, old), column])
    return segment


def packed(records: Iterable[bytes], size: int) -> dict[str, NDArray[Any]]:
    """The arrays of a segment but its columns, with blocks of `size` bytes or a little more."""
    blocks: list[bytes] = []
    firsts: list[int] = []
    lengths: list[int] = []
    block: list[bytes] = []

    def close() -> None:
        if block:
            blocks.append(zlib.compress(b"".join(block), _LEVEL))
            firsts.append(len(lengths) - len(block))
            block.clear()

    filled = 0
    for each in records:
        if filled >= size:
            close()
            filled = 0
        block.append(each)
        lengths.append(len(each))
        filled += len(each)
    close()
    return {
        "blocks": np.frombuffer(b"".join(blocks), np.uint8),
        "bounds": np.cumsum([0, *map(len, blocks)], dtype=np.int64),
        "firsts": np.array(firsts, np.int64),
        "lengths": np.array(lengths, np.int32),
    }


def to_json(metadata: Metadata, owner: str) -> str:
    """Metadata as stored; half of a surrogate pair becomes U+FFFD.

    `ValueError` names `owner` and the key if a key is not a string or a value has no JSON form.
    """
    members = []
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise ValueError(f"{owner}: the metadata key {key!r} is not a string")
        try:
            members.append(f"{encode(key)}:{encode(value)}")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{owner}: the metadata value of {key!r} cannot be stored as JSON ({error}); "
                "convert it to a string or a number first"
            ) from error
    text = f"{{{','.join(members)}}}"
    try:
        text.encode()
    except UnicodeEncodeError:
        text = encode(_valid(json.loads(text)))
    return text


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_valid(each) for each in value]
    if isinstance(value, dict):
        return {_valid(key): _valid(each) for key, each in value.items()}
    return value
