"""What a build reads of the corpus' graph: keys of all rows, and ids and texts of those that it asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stratagraph.ingest.carryover import Keys
from stratagraph.methods.base import Graph
from stratagraph.methods.groups import GroupBuilder, united
from stratagraph.methods.noderag.config import NodeRAGConfig
from stratagraph.types.protocols import Rows

Builder = GroupBuilder[NodeRAGConfig]
BORDERS, MEMBERS = "attributes.indptr", "attributes.indices"
"""Arrays: where the rows of the graph of each attribute begin and end, and these: its entity, then others."""


@dataclass(frozen=True)
class BuildInputs:
    """The rows of the graph: entities, then relations, then units.

    Attributes
    ----------
    keys
        The key of each row's id, shape (rows,).
    """

    builder: Builder
    graph: Graph
    keys: Keys

    @classmethod
    def read(cls, builder: Builder) -> BuildInputs:
        """Of a graph."""
        graph = builder.graph
        count = graph.entities + graph.relations + graph.units
        return cls(builder, graph, graph.stored.keys(np.arange(count)))

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.keys)

    @property
    def first_unit(self) -> int:
        """The row of the first unit."""
        return self.graph.entities + self.graph.relations

    @cached_property
    def attributes_before(self) -> Rows:
        """The place of each entity's attribute in the previous index, or -1, shape (entities,)."""
        graph, previous = self.graph, self.builder.previous
        if previous is None or graph.before is None:
            return np.full(graph.entities, -1, np.int64)
        owners = previous.arrays[MEMBERS][previous.arrays[BORDERS][:-1]]
        places = np.full(graph.before.size + 1, -1, np.int64)  # the last is found where there was no entity
        places[owners] = np.arange(len(owners))
        return places[graph.before.origin[: graph.entities]]

    def ids(self, rows: Iterable[int]) -> dict[int, str]:
        """Ids by row."""
        distinct = sorted(set(rows))
        return dict(zip(distinct, self.graph.stored.ids(distinct), strict=True))

    def texts(self, rows: Iterable[int]) -> dict[int, str]:
        """Texts of relations and units by row."""
        distinct = sorted(set(rows))
        return dict(zip(distinct, self.graph.stored.texts(distinct), strict=True))

    def names(self, entities: Iterable[int]) -> dict[int, str]:
        """Names of entities by row."""
        distinct = sorted(set(entities))
        nodes = self.graph.stored.nodes(distinct)
        return {row: str(node.extra["name"]) for row, node in zip(distinct, nodes, strict=True)}

    def sources(self, rows: Iterable[int]) -> list[int]:
        """The chunks that any of some rows came from, ascending."""
        indptr, indices = self.graph.sources
        return united(indices[indptr[row] : indptr[row + 1]] for row in rows)

    def first_chunks_of_units(self) -> Rows:
        """The first chunk that each unit came from, shape (units,)."""
        indptr, indices = self.graph.sources
        return np.asarray(indices[indptr[self.first_unit : -1]], np.int64)
