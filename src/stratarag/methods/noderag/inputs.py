"""What a build reads of the corpus' graph, once: ids, keys, and the texts of semantic units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stratarag.methods.base import Corpus, Graph
from stratarag.pipeline.carryover import Keys, keys_of
from stratarag.protocols import Rows
from stratarag.records import Node

_BATCH = 4096


@dataclass(frozen=True, slots=True)
class BuildInputs:
    """The rows of the graph: entities, then relations, then units.

    Attributes
    ----------
    ids
        Of all rows.
    keys
        The key of each row's id, shape (rows,).
    units
        The texts of the units.
    """

    corpus: Corpus
    graph: Graph
    ids: Sequence[str]
    keys: Keys
    units: Sequence[str]

    @classmethod
    def read(cls, corpus: Corpus, graph: Graph) -> BuildInputs:
        """Read a graph's nodes, a batch at a time."""
        first = graph.entities + graph.relations
        ids: list[str] = []
        units: list[str] = []
        for start in range(0, first + graph.units, _BATCH):
            end = min(start + _BATCH, first + graph.units)
            ids += graph.stored.ids(range(start, end))
            units += graph.stored.texts(range(max(first, start), max(first, end)))
        return cls(corpus, graph, ids, keys_of("graph", ids), units)

    @property
    def first_unit(self) -> int:
        """The row of the first unit."""
        return self.graph.entities + self.graph.relations

    def texts(self, rows: Iterable[int]) -> dict[int, str]:
        """Texts of relations and units by row."""
        rows = list(rows)
        relations = self._nodes(row for row in rows if row < self.first_unit)
        return {
            row: relations[row].text if row in relations else self.units[row - self.first_unit]
            for row in rows
        }

    def names(self, entities: Iterable[int]) -> dict[int, str]:
        """Names of entities by row."""
        return {row: str(node.extra["name"]) for row, node in self._nodes(entities).items()}

    def sources(self, rows: Iterable[int]) -> list[int]:
        """The chunks that any of some rows came from, ascending."""
        indptr, indices = self.graph.sources
        parts = [indices[indptr[row] : indptr[row + 1]] for row in rows]
        found: list[int] = np.unique(np.concatenate([np.zeros(0, np.int64), *parts])).tolist()
        return found

    def first_chunks_of_units(self) -> Rows:
        """The first chunk that each unit came from, shape (units,)."""
        indptr, indices = self.graph.sources
        return np.asarray(indices[indptr[self.first_unit : -1]], np.int64)

    def chunk_ids(self, rows: Iterable[int]) -> list[str]:
        """Ids of the chunks that any of some rows came from."""
        return self.corpus.ids(self.sources(rows))

    def _nodes(self, rows: Iterable[int]) -> dict[int, Node]:
        distinct = sorted(set(rows))
        return dict(zip(distinct, self.graph.stored.nodes(distinct), strict=True))
