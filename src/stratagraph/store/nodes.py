"""The nodes of a part: their records, and the chunks that they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.store.records import NODES, NodeRecord, Records, encoded, to_json, write_records
from stratagraph.store.segments import FileWriter, KeyIndex, Keys
from stratagraph.system.locks import cached_property
from stratagraph.types.built import Carried, Item, MadeLate, NodeValues
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Node, content_key, content_keys

KEYS, HASHES = "nodes.keys", "nodes.hashes"
"""Arrays of a part: the key of each node's id, and the key of the bytes of its record."""
INDPTR, INDICES = "sources.indptr", "sources.indices"
"""Arrays of a part: node i has the chunk rows `indices[indptr[i]:indptr[i + 1]]`."""


class StoredPart:
    """A part of a generation (the extraction, the graph, a method's index). Unknown rows are `IndexError`s.

    `arrays` are memory-mapped, with the nodes' sources (`INDPTR`, `INDICES`); vectors are read on demand
    (`pool.PooledVectors`). `records` are the nodes without their sources, and `size` is their number.
    """

    def __init__(self, name: str, records: Records[NodeRecord], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.name = name
        self.arrays = MappingProxyType(arrays)
        self.size = len(records)
        self.records = records

    @property
    def keys(self) -> Keys:
        """64-bit keys of the ids of all nodes."""
        return self.arrays[KEYS]

    @property
    def hashes(self) -> Keys:
        """64-bit hashes of all nodes, without their sources."""
        return self.arrays[HASHES]

    @cached_property
    def _index(self) -> KeyIndex:
        return KeyIndex(self.keys)

    def nodes(self, rows: Sequence[int]) -> list[Node]:
        """The nodes at these rows, in their order."""
        return [
            Node(each.id, each.kind, each.level, each.text, tuple(each.sources.tolist()), each.extra)
            for each in self.items(rows)
        ]

    def items(self, rows: Sequence[int]) -> list[Item]:
        """The nodes at these rows for a search, with sources as views."""
        indptr, indices = self.arrays[INDPTR], self.arrays[INDICES]
        wanted = np.asarray(rows, np.int64)
        read = self.records.read(wanted)
        borders = zip(indptr[wanted].tolist(), indptr[wanted + 1].tolist(), strict=True)
        return [
            Item(identity, kind, level, text, indices[begin:end], NodeValues(self.name, identity, extra))
            for (identity, kind, level, text, extra), (begin, end) in zip(read, borders, strict=True)
        ]

    def texts(self, rows: Sequence[int]) -> list[str]:
        """The texts of the nodes at these rows."""
        return self.records.field(rows, "text")

    def ids(self, rows: Sequence[int]) -> list[str]:
        """The ids of the nodes at these rows."""
        return self.records.field(rows, "id")

    def levels(self, rows: Sequence[int]) -> list[tuple[str, int]]:
        """Kind and level of the nodes at these rows."""
        return [(each.kind, each.level) for each in self.records.read(rows)]

    def rows(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of those nodes that exist."""
        wanted = list(dict.fromkeys(ids))
        places = self.find(content_keys(wanted)).tolist()
        return {identity: row for identity, row in zip(wanted, places, strict=True) if row >= 0}

    def find(self, keys: Keys) -> Rows:
        """The row of the node whose id has each of these keys (`keys`), or -1."""
        return self._index.find(keys)


def write_nodes(
    writer: FileWriter,
    name: str,
    nodes: Sequence[Node],
    order: Rows,
    base: StoredPart | None,
    *,
    before: Rows | None = None,
    **more: Any,
) -> tuple[Records[NodeRecord], Keys, Keys]:
    """The nodes of a part in a new generation, with `KEYS` and `HASHES`. Writes those that `base` lacks.

    `nodes` are those that may be new; `before` has the row in `base` of each node of the part, -1 for those
    in `nodes`, or is None if all are given. `order` sorts new records, so that those of one place lie
    together, shape (all nodes of the part,). `more` goes to `records.write_records`. `ValueError` if two
    nodes have the same id, or values have no JSON form.
    """
    rows = np.full(len(order), -1, np.int64) if before is None else before.copy()
    given, keys, hashes = np.flatnonzero(rows < 0), *np.zeros((2, len(order)), np.uint64)
    keys[given] = content_keys(_ids(nodes))
    slots = np.full(len(order), -1, np.int64)
    if base is not None:
        # Records are encoded here and again when written, so that they are never all in memory.
        rows[given] = KeyIndex(base.hashes).find(content_keys(map(_record, nodes)))
        known = rows >= 0
        keys[known], hashes[known] = base.keys[rows[known]], base.hashes[rows[known]]
        slots[known] = base.records.slots[rows[known]]
    ordered = np.sort(keys)
    if (ordered[1:] == ordered[:-1]).any():
        twice = next((each for each, count in Counter(_ids(nodes)).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"two nodes of {name!r} have the same id {twice!r}")
    fresh = np.flatnonzero(rows[given] < 0)

    def new(numbers: Rows) -> Iterable[tuple[bytes, tuple[()]]]:
        for row in fresh[numbers].tolist():
            raw = _record(nodes[row])
            hashes[given[row]] = content_key(raw)
            yield raw, ()

    coming, records = np.argsort(order[given[fresh]], kind="stable"), None if base is None else base.records
    folder = f"{NODES.folder}/{name}"
    written = write_records(writer, folder, f"part '{name}'", NODES, records, slots, new, coming, **more)
    return written, keys, hashes


def _record(node: Node) -> bytes:
    mapping = to_json(node.extra, f"node {node.id!r}")
    return encoded((node.id, node.kind, int(node.level), node.text), mapping)


def _ids(nodes: Sequence[Node]) -> Iterable[str]:
    return nodes.ids() if isinstance(nodes, MadeLate) else (node.id for node in nodes)


def compressed_sources(nodes: Sequence[Node] | Carried, size: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The sources of all nodes as row pointers and chunk rows; `ValueError` if not ascending below `size`."""
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
        shown = indices[indptr[row] : indptr[row + 1]].tolist()[:10]
        raise ValueError(f"{node}: sources must be ascending rows below {size}, not {shown}")
    return indptr, indices.astype(np.int32 if size < 2**31 else np.int64)


def first_sources(indptr: NDArray[np.int64], indices: NDArray[Any]) -> Rows:
    """The first source of each node; nodes without any sort last."""
    first = np.full(len(indptr) - 1, np.iinfo(np.int64).max, np.int64)
    some = np.diff(indptr) > 0
    first[some] = indices[indptr[:-1][some]]
    return first
