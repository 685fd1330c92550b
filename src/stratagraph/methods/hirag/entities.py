"""The entities of all layers of a hierarchy while it is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import Keys, lookup
from stratagraph.ingest.marks import Marks, combined
from stratagraph.ingest.summarize import MODEL
from stratagraph.kernels.float16 import stacked
from stratagraph.kernels.ranges import ranges
from stratagraph.methods.groups import GroupBuilder, NodeTable, united
from stratagraph.methods.hirag.config import HiRAGConfig
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.records import Node

Builder = GroupBuilder[HiRAGConfig]


class MemberRelations(NamedTuple):
    """The relations that a layer's proposals make between members of clusters and summary entities."""

    members: Rows
    entities: Rows
    proposals: Rows  # the place in the layer's `summary_entities.Proposals`
    strengths: NDArray[np.float64]  # 0 if unknown, -1 if the model did not list the member


class Entities:
    """The entities of all layers in one numbering: those of the graph, then the summary entities.

    Nodes are read one by one when they are needed, or many at once by `fetch`. `rows_before` has the number
    of each entity in the previous index, or -1; `marks` are those of all entities with their sources,
    `contents` without. Of the summary entities, `summary_names` has the key of each canonical name, `levels`
    the layer, `before` the row of the unchanged node in the previous index, or -1, and `own_marks` the marks
    of its proposals; `new_nodes` are the other ones by row, and `summaries` the vectors of all.
    """

    def __init__(self, builder: Builder) -> None:
        graph, count = builder.graph, builder.graph.entities
        self.builder, self.graph, self.previous = builder, graph, builder.previous
        self.rows_before = np.full(count, -1, np.int64)
        if builder.previous is not None and graph.before is not None:
            self.rows_before = graph.before.rows_before[:count]
        self.marks: Marks = builder.row_marks[:count]
        self.contents: Marks = combined(graph.stored.keys[:count], graph.stored.hashes[:count])
        self.summaries: Vectors = np.zeros((0, graph.vectors.shape[1]), np.float32)
        self.summary_names: Keys = np.zeros(0, np.uint64)
        self.levels, self.before = np.zeros(0, np.int16), np.zeros(0, np.int64)
        self.own_marks: Marks = np.zeros((0, 2), np.uint64)
        self.new_nodes: dict[int, Node] = {}
        self.relations: list[MemberRelations] = []  # by layer
        self.complete = True  # whether a model wrote all new summaries
        self.notes = Counter[str]()  # what was dropped of a model's answers
        self._read: dict[int, Node] = {}

    @property
    def vectors(self) -> Vectors:
        """Vectors of all entities."""
        return stacked([self.graph.vectors, self.summaries])

    @property
    def count(self) -> int:
        """Number of entities."""
        return len(self.rows_before)

    @property
    def count_before(self) -> int:
        """Number of entities in the previous index."""
        return 0 if self.previous is None else len(self.previous.arrays["layered.indptr"]) - 1

    @property
    def first_before(self) -> int:
        """Number of the first summary entity in the previous index."""
        return self.count_before - (0 if self.previous is None else int(self.previous.arrays["counts"][0]))

    def fetch(self, rows: Iterable[int]) -> None:
        """Read nodes that are not read yet, at once."""
        missing = [row for row in sorted(set(rows)) if row not in self._read and row not in self.new_nodes]
        first = self.graph.entities
        own, above = [row for row in missing if row < first], [row for row in missing if row >= first]
        self._read |= zip(own, self.graph.stored.nodes(own), strict=True)
        if above:
            rows_before = self.before[np.array(above, np.int64) - first]
            nodes = self.builder.table(rows_before, []).read(range(len(above)))
            self._read |= zip(above, nodes, strict=True)

    def node(self, row: int) -> Node:
        """The node of an entity."""
        if row in self.new_nodes:
            return self.new_nodes[row]
        if row not in self._read:
            self.fetch([row])
        return self._read[row]

    def nodes(self) -> NodeTable:
        """The nodes of the summary entities."""
        fresh = [self.new_nodes[row] for row in sorted(self.new_nodes)]
        return self.builder.table(self.before, fresh, self.own_marks)

    def name(self, row: int) -> str:
        """The name of an entity."""
        return str(self.node(row).extra["name"])

    def named_by_members(self, row: int) -> bool:
        """Whether a summary entity's name is composed of its members' names."""
        return row >= self.graph.entities and self.node(row).extra["summaries"][0]["by"] != MODEL

    def sources_of(self, members: Sequence[int] | Rows) -> list[int]:
        """Union of the members' sources, ascending."""
        indptr, indices = self.graph.sources
        rows, first = np.asarray(members, np.int64), self.graph.entities
        own, above = rows[rows < first], rows[rows >= first]
        sources = [indices[ranges(indptr[own], indptr[own + 1] - indptr[own])]]
        rows_before = self.before[above - first]
        if self.previous is not None and self.graph.before is not None:
            sources.append(self.graph.before.sources(self.previous, rows_before[rows_before >= 0])[1])
        return united([*sources, *(self.new_nodes[row].sources for row in above[rows_before < 0].tolist())])

    def rows_named(self, names: Keys) -> Rows:
        """The entity with each name: by id, by shown name, or a summary entity; -1 if there is none.

        `names` are keys of the names as a shown name and as an id, shape (names, 2).
        """
        summaries = lookup(names[:, 0], self.summary_names)
        named_rows, count = np.where(summaries >= 0, summaries + self.graph.entities, -1), self.graph.entities
        for column, keys in enumerate((self.graph.shown[:, 0], self.graph.stored.keys[:count])):
            rows = lookup(names[:, column], keys)
            named_rows = np.where(rows >= 0, rows, named_rows)
        return named_rows

    def add(self, level: int, names: Keys, rows_before: Rows, nodes: NodeTable, vectors: Vectors) -> None:
        """Append the summary entities of a layer."""
        new = self.count + np.flatnonzero(nodes.before < 0)
        self.new_nodes |= zip(new.tolist(), nodes.fresh, strict=True)
        self.rows_before = np.concatenate([self.rows_before, rows_before])
        self.own_marks = np.concatenate([self.own_marks, nodes.marks])
        self.marks = np.concatenate([self.marks, nodes.member_marks()])
        self.contents = np.concatenate([self.contents, combined(nodes.keys())])  # of the text, too
        self.summary_names = np.concatenate([self.summary_names, names])
        self.levels = np.concatenate([self.levels, np.full(len(names), level, np.int16)])
        self.before = np.concatenate([self.before, nodes.before])
        self.summaries = np.concatenate([self.summaries, vectors])
