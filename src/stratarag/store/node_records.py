"""The nodes of a part, in segments: compressed in blocks, each record read by itself.

A record is JSON: id, kind, level, text, extra. Records lie in the order of the first chunk that they came
from, so that what a chunk says stands together: its sentences, which are units, relations and descriptions at
once, are compressed to one, and the deletion of a document touches few segments.
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratarag._locks import Lock, cached_property
from stratarag.errors import Damaged
from stratarag.protocols import Rows
from stratarag.records import Node
from stratarag.store.arrays import write_arrays
from stratarag.store.checksums import FileEntry
from stratarag.store.files import Directory
from stratarag.store.segments import KeyIndex, Keys, key_of, keys_of_ids, planned, segment_file
from stratarag.store.tables import ADVICE, Extra, NodeFields, NoSuchRow, from_json, to_json

SLOTS = "nodes.slots"
"""Array of a part: the slot of each node."""
FOLDER = "nodes"
ARRAYS = {
    "blocks": np.uint8,
    "bounds": np.int64,
    "firsts": np.int64,
    "lengths": np.int32,
    "hashes": np.uint64,
    "ids": np.uint64,
}
"""Arrays of a segment: compressed blocks, where each begins and its first record; of each record the bytes of
its JSON, 64 bits that stand for these, and 64 that stand for its id."""
FEWEST = 1024
"""Nodes in a new segment, where there are as many."""
_BLOCK = 1 << 13  # bytes of JSON from which a block is closed
_LONGEST = 1 << 30  # bytes of JSON of a block that are believed
_HELD = 1 << 24  # bytes of opened blocks that are kept
_LEVEL = 6
_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

Segment = Mapping[str, NDArray[Any]]


class Block(NamedTuple):
    """A block as it lies in a segment, and the bytes of JSON of each of its records."""

    data: bytes
    lengths: NDArray[np.int32]


def encoded(node: Node) -> bytes:
    """The record of a node; `ValueError` names metadata that have no JSON form."""
    extra = node.extra
    try:
        if not extra:
            return _encode([node.id, node.kind, int(node.level), node.text, {}]).encode("utf-8")
        if all(type(key) is str for key in extra):
            return _encode([node.id, node.kind, int(node.level), node.text, dict(extra)]).encode("utf-8")
    except (TypeError, ValueError):
        pass  # to_json says what is wrong, or mends it
    head = _encode([node.id, node.kind, int(node.level), node.text])
    return f"{head[:-1]},{to_json(extra, f'node {node.id!r}')}]".encode()


class Records:
    """The records of segments by slot. Safe to use from several threads.

    Parameters
    ----------
    name
        Of the part, for errors.
    files
        Names of the segments, in order.
    segments
        The arrays of each.
    held
        Bytes of opened blocks that are kept.
    """

    def __init__(
        self, name: str, files: Sequence[str], segments: Sequence[Segment], held: int = _HELD
    ) -> None:
        self.name = name
        self.files = tuple(files)
        self.segments = list(segments)
        self.sizes = [len(each["ids"]) for each in segments]
        self.starts = np.cumsum([0, *self.sizes])
        self._block_starts = np.cumsum([0, *(len(each["firsts"]) for each in segments)])
        self._held = held
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return int(self.starts[-1])

    def column(self, name: str) -> NDArray[Any]:
        """An array with a value for each record, of all segments."""
        parts = [each[name] for each in self.segments]
        return np.concatenate([np.zeros(0, ARRAYS[name]), *parts]).astype(ARRAYS[name], copy=False)

    @cached_property
    def _laid_out(self) -> tuple[Rows, Rows]:
        """Where each record begins in the JSON of all, and each block's first record; both with an end."""
        begins = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.column("lengths"), out=begins[1:])
        firsts = [start + each["firsts"] for start, each in zip(self.starts, self.segments, strict=False)]
        return begins, np.concatenate([*firsts, [len(self)]]).astype(np.int64)

    def raw(self, slots: NDArray[np.integer]) -> list[bytes]:
        """The JSON of the records at some slots; each block is opened once.

        Raises
        ------
        Damaged
            If they cannot be read.
        """
        slots = np.asarray(slots, np.int64)
        if not len(slots):
            return []
        if int(slots.min()) < 0 or int(slots.max()) >= len(self):
            raise Damaged(f"part '{self.name}': there are {len(self)} records, and no {int(slots.max())}")
        begins, firsts = self._laid_out
        blocks = np.searchsorted(firsts, slots, "right") - 1
        starts = begins[slots] - begins[firsts[blocks]]
        ends = starts + begins[slots + 1] - begins[slots]
        found: list[bytes] = [b""] * len(slots)
        last, content = -1, b""
        order = np.argsort(slots, kind="stable")
        fields = zip(*(each[order].tolist() for each in (blocks, starts, ends)), strict=True)
        for place, (block, start, end) in zip(order.tolist(), fields, strict=True):
            if block != last:
                last, content = block, self._opened(block)
            found[place] = content[start:end]
        return found

    def content(self, slots: Rows) -> list[Block | bytes]:
        """The records at ascending slots to be written again: blocks of them, and the JSON of others.

        A block is taken as it is if all of its records are wanted, unless they are few: those join others.
        """
        if not len(slots):
            return []
        begins, firsts = self._laid_out
        of_slots = np.searchsorted(firsts, slots, "right") - 1
        blocks, counts = np.unique(of_slots, return_counts=True)
        full = 2 * (begins[firsts[blocks + 1]] - begins[firsts[blocks]]) >= _BLOCK
        whole = full & (counts == np.diff(firsts)[blocks])
        others = iter(self.raw(slots[~np.repeat(whole, counts)]))
        lengths = np.diff(begins).astype(np.int32)
        found: list[Block | bytes] = []
        for block, count, taken in zip(blocks.tolist(), counts.tolist(), whole.tolist(), strict=True):
            if taken:
                found.append(Block(self._packed(block), lengths[firsts[block] : firsts[block + 1]]))
            else:
                found += (next(others) for _ in range(count))
        return found

    def _packed(self, block: int) -> bytes:
        """A block as it lies in its segment."""
        number = int(np.searchsorted(self._block_starts, block, "right")) - 1
        at = block - int(self._block_starts[number])
        bounds = self.segments[number]["bounds"]
        return bytes(self.segments[number]["blocks"][int(bounds[at]) : int(bounds[at + 1])].tobytes())

    def _opened(self, block: int) -> bytes:
        """The JSON of a block."""
        with self._lock:
            if block in self._blocks:
                self._blocks.move_to_end(block)
                return self._blocks[block]
        begins, firsts = self._laid_out
        size = int(begins[firsts[block + 1]] - begins[firsts[block]])
        try:
            content = zlib.decompressobj().decompress(self._packed(block), size + 1)
            if len(content) != size:
                raise ValueError(f"{len(content)} bytes or more, where {size} were written")
        except (zlib.error, ValueError) as error:
            number = int(np.searchsorted(self._block_starts, block, "right")) - 1
            at = f"block {block - int(self._block_starts[number])} of {self.files[number]}"
            raise Damaged(f"part '{self.name}': {at}: {error}") from error
        with self._lock:
            if block not in self._blocks:  # another thread may have opened it meanwhile
                self._blocks[block] = content
                self._bytes += size
            while self._bytes > self._held and len(self._blocks) > 1:
                self._bytes -= len(self._blocks.popitem(last=False)[1])
        return content


def misfit(segment: Segment) -> str | None:
    """What keeps a segment from being read; None if nothing does."""
    for name, kind in ARRAYS.items():
        if name not in segment or segment[name].dtype != kind or segment[name].ndim != 1:
            return f"holds no {name} of {np.dtype(kind)}"
    count, lengths, firsts, bounds = (segment[name] for name in ("ids", "lengths", "firsts", "bounds"))
    if not len(count) == len(lengths) == len(segment["hashes"]):
        return "does not have as many lengths as records"
    if len(lengths) and (int(lengths.min()) < 1 or int(lengths.sum(dtype=np.int64)) > _LONGEST):
        return "has records of lengths that cannot be"
    if len(bounds) != len(firsts) + 1 or (len(firsts) == 0) != (len(count) == 0):
        return "does not divide its records into blocks"
    if len(firsts) and (firsts[0] != 0 or firsts[-1] >= len(count) or (np.diff(firsts) <= 0).any()):
        return "has blocks without records"
    if bounds[0] != 0 or bounds[-1] != len(segment["blocks"]) or (np.diff(bounds) <= 0).any():
        return "has blocks that are not there"
    return None


def decoded(raw: bytes, part: str) -> NodeFields:
    """The fields of a record: id, kind, level, text, extra; `Damaged` if it is none."""
    try:
        record = raw.decode("utf-8", "surrogatepass")
        (identity, kind, level, text, extra), end = _decode(record)
        if end != len(record):
            raise ValueError(f"more than a record in {raw[-60:]!r}")
        if not (type(identity) is type(kind) is type(text) is str and type(level) is int):
            raise TypeError(f"fields of other types in {raw[:60]!r}")
        if b"\\ud" in raw or not isinstance(extra, dict):
            extra = from_json(json.dumps(extra))
        return identity, kind, level, text, Extra(f"part '{part}': node {identity[:80]!r}", extra)
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged(f"part '{part}': a node that is none ({error})") from error


def leading(raw: bytes, part: str, place: int) -> str:
    """The id of a record (place 0) or its text (3), read without what follows; `Damaged` if none is there.

    This costs a tenth of `decoded`, and an update reads the ids and texts of nearly all nodes.
    """
    try:
        record, value, end = raw.decode("utf-8", "surrogatepass"), None, 0
        for _ in range(place + 1):
            value, end = _decode(record, end + 1)
        if not isinstance(value, str):
            raise TypeError(f"{str(value)[:60]!r} is no string")
        return value
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged(f"part '{part}': a node that is none ({error})") from error


class NodeRecords:
    """The nodes of a part: its rows are records, in an order of their own."""

    def __init__(self, records: Records, slots: NDArray[np.integer]) -> None:
        self.records = records
        self.slots = slots
        self._index: KeyIndex | None = None

    def __len__(self) -> int:
        return len(self.slots)

    def read(self, rows: Sequence[int]) -> list[NodeFields]:
        """The fields of some rows; `IndexError` if there is no such row."""
        return [decoded(raw, self.records.name) for raw in self._raw(rows)]

    def ids(self, rows: Sequence[int]) -> list[str]:
        """The ids of some rows."""
        return [leading(raw, self.records.name, 0) for raw in self._raw(rows)]

    def texts(self, rows: Sequence[int]) -> list[str]:
        """The texts of some rows."""
        return [leading(raw, self.records.name, 3) for raw in self._raw(rows)]

    def keys(self, rows: Sequence[int]) -> Keys:
        """64 bits for each of some rows, which stand for its id."""
        keys: Keys = self.records.column("ids")[self.slots[np.asarray(rows, np.int64)]]
        return keys

    def marks(self, rows: Sequence[int]) -> Keys:
        """64 bits for each of some rows, which stand for all of its fields."""
        hashes: Keys = self.records.column("hashes")[self.slots[np.asarray(rows, np.int64)]]
        return hashes

    def _raw(self, rows: Sequence[int]) -> list[bytes]:
        wanted = np.asarray(rows, np.int64)
        if len(wanted) and (int(wanted.min()) < 0 or int(wanted.max()) >= len(self)):
            bad = int(wanted[(wanted < 0) | (wanted >= len(self))][0])
            raise NoSuchRow(
                f"part '{self.records.name}': row {bad} does not exist; there are {len(self)}{ADVICE}"
            )
        return self.records.raw(np.asarray(self.slots[wanted]))

    def rows(self, ids: Sequence[str]) -> dict[str, int]:
        """Rows by id; ids that are not there are left out."""
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return {}
        if self._index is None:
            self._index = KeyIndex(self.records.column("ids")[self.slots])
        found = self._index.find(keys_of_ids(wanted)).tolist()
        return {identity: row for identity, row in zip(wanted, found, strict=True) if row >= 0}


def written(
    directory: Directory,
    generation: int,
    name: str,
    nodes: Sequence[Node],
    order: Rows,
    base: Records | None,
    *,
    kept: Rows | None = None,
    compact: bool = False,
) -> tuple[dict[str, FileEntry], tuple[str, ...], NDArray[np.uint32]]:
    """Write the nodes of a part, but for those that the previous generation has.

    Parameters
    ----------
    nodes
        Those that may be new, in order.
    order
        Sorts new records: those of the same place lie together, shape (all nodes of the part,).
    base
        The records of the previous generation.
    kept
        The slots in `base` of the nodes that are known to be there, -1 for each of `nodes`; None if all are
        given.

    Returns
    -------
    The files written, the segments of `base` that are kept, and the slot of each node.

    Raises
    ------
    ValueError
        If two nodes have the same id, or metadata have no JSON form.
    """
    ids = keys_of_ids([node.id for node in nodes])
    payloads = [encoded(node) for node in nodes]
    hashes = np.fromiter((key_of(each) for each in payloads), np.uint64, len(payloads))
    before = 0 if base is None else len(base)
    found = (
        np.full(len(nodes), -1, np.int64) if base is None else KeyIndex(base.column("hashes")).find(hashes)
    )
    fresh = np.flatnonzero(found < 0)
    found[fresh] = before + np.arange(len(fresh))
    slots = np.full(len(order), -1, np.int64) if kept is None else kept.astype(np.int64)
    places = np.flatnonzero(slots < 0)
    slots[places] = found
    _require_distinct(name, nodes, np.concatenate([_column(base, "ids", slots[slots < before]), ids[fresh]]))
    used = np.zeros(before + len(fresh), np.bool_)
    used[slots] = True
    sizes = [] if base is None else base.sizes
    coming = np.argsort(order[places[fresh]], kind="stable")
    plan = planned(sizes, used, coming, fewest=FEWEST, compact=compact)
    files, start = {}, 0
    for number, size in enumerate(plan.sizes):
        moved = plan.moved[start : start + size]
        old, rows = moved[moved < before], fresh[moved[moved >= before] - before]
        content = base.content(old) if base is not None else []
        content += [payloads[row] for row in rows.tolist()]
        both_hashes = np.concatenate([_column(base, "hashes", old), hashes[rows]])
        both_ids = np.concatenate([_column(base, "ids", old), ids[rows]])
        file = segment_file(generation, number)
        files[file] = write_arrays(directory, file, packed(content, both_hashes, both_ids))
        start += size
    stay = () if base is None else tuple(base.files[number] for number in plan.kept)
    return files, stay, plan.slots[slots].astype(np.uint32)


def _column(base: Records | None, name: str, slots: Rows) -> Keys:
    return np.zeros(0, np.uint64) if base is None else base.column(name)[slots]


def _require_distinct(name: str, nodes: Sequence[Node], keys: Keys) -> None:
    """Whether ids differ, by the keys of all nodes; where one comes twice, those given are looked at."""
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    seen: set[str] = set()
    for node in nodes:
        if node.id in seen:
            raise ValueError(f"two nodes of {name!r} have the same id {node.id!r}")
        seen.add(node.id)


def packed(content: Sequence[Block | bytes], hashes: Keys, ids: Keys) -> dict[str, NDArray[Any]]:
    """The arrays of a segment of records, some of which are in blocks already."""
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
        if size >= _BLOCK or isinstance(each, Block):
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
        "hashes": hashes,
        "ids": ids,
    }
