"""The nodes of a part, in segments: compressed in blocks, each record read by itself.

A record is JSON: id, kind, level, text, extra. Records lie in the order of the first chunk that they came
from, so that what a chunk says stands together: its sentences, which are units, relations and descriptions at
once, are compressed to one, and the deletion of a document touches few segments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.store.blocks import Records, encode, fields, leading, packed, write_segments
from stratagraph.store.checksums import FileEntry
from stratagraph.store.files import Directory
from stratagraph.store.metadata import ADVICE, Extra, NodeFields, NoSuchRow, from_json, to_json
from stratagraph.store.segments import KeyIndex, Keys, planned
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Carried, MadeLate, Node, content_keys

SLOTS = "nodes.slots"
"""Array of a part: the slot of each node."""
FOLDER = "nodes"
COLUMNS = {"hashes": np.uint64, "ids": np.uint64}
"""Of each record 64 bits that stand for its JSON, and 64 that stand for its id."""
FEWEST = 256
"""Nodes in a new segment, where there are as many."""


def label(part: str) -> str:
    """What the nodes of a part are called in errors."""
    return f"part '{part}'"


def encoded(node: Node) -> bytes:
    """The record of a node; `ValueError` names metadata without a JSON form."""
    extra = node.extra
    try:
        if not extra:
            return encode([node.id, node.kind, int(node.level), node.text, {}]).encode("utf-8")
        if all(type(key) is str for key in extra):
            return encode([node.id, node.kind, int(node.level), node.text, dict(extra)]).encode("utf-8")
    except (TypeError, ValueError):
        pass  # to_json says what is wrong, or mends it
    head = encode([node.id, node.kind, int(node.level), node.text])
    return f"{head[:-1]},{to_json(extra, f'node {node.id!r}')}]".encode()


def decoded(raw: bytes, owner: str) -> NodeFields:
    """The fields of a record; `Damaged` if it is not valid."""
    found = fields(raw, owner)
    try:
        identity, kind, level, text, extra = found
        if not (type(identity) is type(kind) is type(text) is str and type(level) is int):
            raise TypeError(f"fields of other types in {raw[:60]!r}")
        if b"\\ud" in raw or not isinstance(extra, dict):
            extra = from_json(json.dumps(extra))
        return identity, kind, level, text, Extra(f"{owner}: node {identity[:80]!r}", extra)
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged(f"{owner}: a node that is none ({error})") from error


class NodeRecords:
    """The nodes of a part by row, stored as records in an order of their own."""

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

    def keys(self, rows: Sequence[int] | Rows) -> Keys:
        """The 64-bit key of the id of each row."""
        keys: Keys = self.records.column("ids")[self.slots[np.asarray(rows, np.int64)]]
        return keys

    def marks(self, rows: Sequence[int] | Rows) -> Keys:
        """The 64-bit hash of all fields of each row."""
        hashes: Keys = self.records.column("hashes")[self.slots[np.asarray(rows, np.int64)]]
        return hashes

    def _raw(self, rows: Sequence[int]) -> list[bytes]:
        wanted = np.asarray(rows, np.int64)
        if len(wanted) and (int(wanted.min()) < 0 or int(wanted.max()) >= len(self)):
            bad = int(wanted[(wanted < 0) | (wanted >= len(self))][0])
            raise NoSuchRow(f"{self.records.name}: row {bad} does not exist; there are {len(self)}{ADVICE}")
        return self.records.raw(np.asarray(self.slots[wanted]))

    def rows(self, ids: Sequence[str]) -> dict[str, int]:
        """Rows by id; ids that are not there are left out."""
        wanted = list(dict.fromkeys(ids))
        found = self.find(content_keys(wanted)).tolist() if wanted else []
        return {identity: row for identity, row in zip(wanted, found, strict=True) if row >= 0}

    def find(self, keys: Keys) -> Rows:
        """The row of each key of an id, or -1."""
        if self._index is None:
            self._index = KeyIndex(self.records.column("ids")[self.slots])
        return self._index.find(keys)


def written(
    directory: Directory,
    generation: int,
    name: str,
    nodes: Sequence[Node],
    order: Rows,
    base: Records | None,
    *,
    kept: Rows | None = None,
    out_of_use: float = 0.0,
    compact: bool = False,
) -> tuple[dict[str, FileEntry], tuple[str, ...], NDArray[np.uint32]]:
    """Write the nodes of a part that the previous generation lacks.

    Parameters
    ----------
    nodes
        Those that may be new, in order.
    order
        Sort key of new records, so that records of one place lie together, shape (all nodes of the part,).
    base
        The records of the previous generation.
    kept
        The slot in `base` of each node, -1 for those in `nodes`; None if all nodes are given.
    out_of_use, compact
        See `segments.planned`.

    Returns
    -------
    The files written, the segments of `base` that are kept, and the slot of each node.

    Raises
    ------
    ValueError
        If two nodes have the same id, or metadata have no JSON form.
    """
    ids = content_keys(_ids(nodes))
    before = 0 if base is None else len(base)
    found = _known(nodes, base)
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
    plan = planned(sizes, used, coming, fewest=FEWEST, out_of_use=out_of_use, compact=compact)

    def arrays(old: Rows, coming: Rows) -> dict[str, NDArray[Any]]:
        rows = fresh[coming]
        records = [encoded(nodes[row]) for row in rows.tolist()]
        content = [*(base.content(old) if base is not None else ()), *records]
        columns = {"hashes": _hashes(records), "ids": ids[rows]}
        return packed(content) | {
            key: np.concatenate([_column(base, key, old), new]) for key, new in columns.items()
        }

    files = write_segments(directory, generation, plan, arrays, before)
    stay = () if base is None else tuple(base.files[number] for number in plan.kept)
    return files, stay, plan.slots[slots].astype(np.uint32)


def _known(nodes: Sequence[Node], base: Records | None) -> Rows:
    """The slots in `base` of nodes, -1 for those it lacks.

    Records are encoded here and again when written, so that they are never all in memory.
    """
    if base is None:
        return np.full(len(nodes), -1, np.int64)
    return KeyIndex(base.column("hashes")).find(_hashes(map(encoded, nodes)))


def _hashes(records: Iterable[bytes]) -> Keys:
    return content_keys(records)


def _column(base: Records | None, name: str, slots: Rows) -> Keys:
    return np.zeros(0, np.uint64) if base is None else base.values(name, slots)


def _require_distinct(name: str, nodes: Sequence[Node], keys: Keys) -> None:
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    seen: set[str] = set()
    for identity in _ids(nodes):
        if identity in seen:
            raise ValueError(f"two nodes of {name!r} have the same id {identity!r}")
        seen.add(identity)


def _ids(nodes: Sequence[Node]) -> Iterable[str]:
    return nodes.ids() if isinstance(nodes, MadeLate) else (node.id for node in nodes)


def compressed_sources(nodes: Sequence[Node] | Carried, size: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The sources of all nodes as row pointers and chunk rows.

    Raises
    ------
    ValueError
        If a node's sources are not ascending rows below `size`.
    """
    if isinstance(nodes, Carried):
        indptr, indices = nodes.indptr, nodes.indices
    else:
        indptr = np.zeros(len(nodes) + 1, dtype=np.int64)
        np.cumsum(np.fromiter((len(node.sources) for node in nodes), np.int64, len(nodes)), out=indptr[1:])
        indices = np.fromiter(chain.from_iterable(node.sources for node in nodes), np.int64, int(indptr[-1]))
    wrong = (indices < 0) | (indices >= size)
    wrong[1:] |= np.diff(indices) <= 0
    starts = indptr[:-1][np.diff(indptr) > 0]
    wrong[starts] = (indices[starts] < 0) | (indices[starts] >= size)  # a node's first has none before it
    if wrong.any():
        row = int(np.searchsorted(indptr, np.flatnonzero(wrong)[0], side="right")) - 1
        node = f"node {row}" if isinstance(nodes, Carried) else f"node {nodes[row].id!r}"
        found = indices[indptr[row] : indptr[row + 1]].tolist()[:10]
        raise ValueError(f"{node}: sources must be ascending rows below {size}, not {found}")
    return indptr, indices.astype(np.int32 if size < 2**31 else np.int64)


def first_sources(indptr: NDArray[np.int64], indices: NDArray[Any]) -> Rows:
    """The first source of each node; nodes without any sort last."""
    found = np.full(len(indptr) - 1, np.iinfo(np.int64).max, np.int64)
    some = np.diff(indptr) > 0
    found[some] = indices[indptr[:-1][some]]
    return found
