"""The entities of all layers of a hierarchy while it is built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratarag.methods.base import Graph, Stored
from stratarag.methods.hirag.naming import Summary
from stratarag.pipeline.before import carried_keys
from stratarag.pipeline.carryover import Keys, keys_of, lookup
from stratarag.pipeline.names.index import canonical
from stratarag.protocols import Rows, Vectors
from stratarag.records import Node

NAMES = "entities.names"
"""The array of the keys of the names by which the entities of the graph are shown."""
_READ = 8192


class MemberRelation(NamedTuple):
    """A relation from a member of a cluster to its summary entity; `strength` is 0 where nothing is known."""

    member: int
    summary: int
    reason: str
    strength: float


@dataclass(slots=True)
class Entities:
    """The entities of all layers: those of the graph, then the summary entities, in one numbering.

    Those of the graph are read when they are asked for, and before that when they are `fetch`ed together.

    Attributes
    ----------
    graph
        The graph.
    vectors, keys
        Of all entities.
    origin, same
        The number that each had in the previous index, or -1, and whether it is as it was, sources and all.
    names
        The keys of the names of the graph's entities.
    nodes
        The nodes of the summary entities.
    relations
        Of members of clusters with the summary entities of these.
    summaries
        What the clusters of each summary entity say of it, by its row.
    complete
        Whether a model wrote all summaries.
    """

    graph: Graph
    vectors: Vectors
    keys: Keys
    origin: Rows
    same: NDArray[np.bool_]
    names: Keys
    nodes: list[Node] = field(default_factory=list)
    relations: list[MemberRelation] = field(default_factory=list)
    summaries: dict[int, list[Summary]] = field(default_factory=dict)
    complete: bool = True
    _read: dict[int, Node] = field(default_factory=dict)
    _named: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, previous: Stored | None) -> Entities:
        """The entities of the basic graph, layer 0; keys that the previous index has are not made again."""
        count = graph.entities
        origin, same = np.full(count, -1, np.int64), np.zeros(count, np.bool_)
        named = origin
        if previous is not None and graph.before is not None:
            origin, same = graph.before.origin[:count], graph.before.same[:count].copy()
            named = np.where(graph.before.rewritten[:count], -1, origin)
        arrays = {} if previous is None else previous.arrays
        none = np.zeros(0, np.uint64)
        if NAMES not in arrays:
            named = np.full(count, -1, np.int64)
        vectors = np.asarray(graph.vectors)
        keys = carried_keys(arrays.get("entities.keys", none), origin, lambda rows: _id_keys(graph, rows))
        names = carried_keys(arrays.get(NAMES, none), named, lambda rows: _name_keys(graph, rows))
        return cls(graph, vectors, keys, origin, same, names)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.keys)

    def fetch(self, rows: Iterable[int]) -> None:
        """Read what is not read yet of some rows, at once."""
        missing = [row for row in sorted(set(rows)) if row < self.graph.entities and row not in self._read]
        self._read |= zip(missing, self.graph.stored.nodes(missing), strict=True)

    def node(self, row: int) -> Node:
        """The node of an entity."""
        if row >= self.graph.entities:
            return self.nodes[row - self.graph.entities]
        if row not in self._read:
            self.fetch([row])
        return self._read[row]

    def name(self, row: int) -> str:
        """The name of an entity."""
        return str(self.node(row).extra["name"])

    def sources_of(self, members: Sequence[int]) -> list[int]:
        """The union of the members' sources, ascending."""
        indptr, indices = self.graph.sources
        parts = [
            indices[indptr[row] : indptr[row + 1]] if row < self.graph.entities else self.node(row).sources
            for row in members
        ]
        found: list[int] = np.unique(np.concatenate([np.zeros(0, np.int64), *parts])).tolist()
        return found

    def rows_named(self, names: Sequence[str]) -> dict[str, int]:
        """What some canonical names mean: the entity with this id, one shown so, or a summary entity."""
        first = self.graph.entities
        shown = lookup(keys_of("name", names), self.names).tolist()
        found = {name: row for name, row in zip(names, shown, strict=True) if row >= 0}
        found |= {name: row for name, row in self.graph.stored.rows(names).items() if row < first}
        return {name: self._named[name] for name in names if name in self._named} | found

    def add(self, made: Sequence[tuple[int, int, bool]]) -> None:
        """Of summary entities that were appended: keys, numbers in the previous index, whether the same."""
        keys, origin, same = zip(*made, strict=True) if made else ((), (), ())
        self.keys = np.concatenate([self.keys, np.array(keys, np.uint64)])
        self.origin = np.concatenate([self.origin, np.array(origin, np.int64)])
        self.same = np.concatenate([self.same, np.array(same, np.bool_)])

    def append(self, node: Node) -> None:
        """The node of a summary entity, whose key and vector follow."""
        self._named.setdefault(canonical(str(node.extra["name"])), self.graph.entities + len(self.nodes))
        self.nodes.append(node)


def _id_keys(graph: Graph, rows: Sequence[int]) -> Keys:
    return keys_of("entity", (each for batch in _batches(rows) for each in graph.stored.ids(batch)))


def _name_keys(graph: Graph, rows: Sequence[int]) -> Keys:
    nodes = (node for batch in _batches(rows) for node in graph.stored.nodes(batch))
    return keys_of("name", (canonical(node.extra["name"]) for node in nodes))


def _batches(rows: Sequence[int]) -> Iterable[Sequence[int]]:
    return (rows[start : start + _READ] for start in range(0, len(rows), _READ))
