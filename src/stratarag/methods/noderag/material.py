"""What a build reads of the corpus' graph, once: ids, texts of semantic units, and where rows came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratarag.methods.base import Corpus, Graph
from stratarag.protocols import Rows
from stratarag.records import content_id

Keys = NDArray[np.uint64]
_BATCH = 4096


def key_of(*parts: str) -> int:
    """64 bits of a content id: what is kept of a node's identity where its id would take too much room."""
    return int(content_id(*parts)[:16], 16)


@dataclass(frozen=True, slots=True)
class Material:
    """Rows of the graph: entities, then relations, then units.

    Attributes
    ----------
    ids
        Of all rows.
    keys
        `key_of` each row's id, shape (rows,).
    units
        The texts of the units.
    """

    corpus: Corpus
    graph: Graph
    ids: Sequence[str]
    keys: Keys
    units: Sequence[str]

    @classmethod
    def read(cls, corpus: Corpus, graph: Graph) -> Material:
        """Read a graph's nodes, a batch at a time."""
        first = graph.entities + graph.relations
        ids: list[str] = []
        units: list[str] = []
        for start in range(0, first + graph.units, _BATCH):
            end = min(start + _BATCH, first + graph.units)
            nodes = graph.stored.nodes(range(start, end))
            ids += [node.id for node in nodes]
            units += [node.text for node in nodes[max(0, first - start) :]]
        keys = np.fromiter((key_of("graph", identity) for identity in ids), np.uint64, len(ids))
        return cls(corpus, graph, ids, keys, units)

    @property
    def first_unit(self) -> int:
        """The row of the first unit."""
        return self.graph.entities + self.graph.relations

    def texts(self, rows: Iterable[int]) -> list[str]:
        """Texts of relations and units by row."""
        wanted = list(rows)
        read = [row for row in wanted if row < self.first_unit]
        nodes = dict(zip(read, self.graph.stored.nodes(read), strict=True))
        return [nodes[row].text if row in nodes else self.units[row - self.first_unit] for row in wanted]

    def names(self, entities: Sequence[int]) -> dict[int, str]:
        """Names of entities by row."""
        rows = sorted(set(entities))
        return {
            row: str(node.extra["name"])
            for row, node in zip(rows, self.graph.stored.nodes(rows), strict=True)
        }

    def sources(self, rows: Iterable[int]) -> list[int]:
        """The chunks that any of some rows came from, ascending."""
        indptr, indices = self.graph.sources
        parts = [indices[indptr[row] : indptr[row + 1]] for row in rows]
        found: list[int] = np.unique(np.concatenate([np.zeros(0, np.int64), *parts])).tolist()
        return found

    def chunk_ids(self, rows: Iterable[int]) -> list[str]:
        """Ids of the chunks that any of some rows came from."""
        return self.corpus.ids(self.sources(rows))


def lookup(keys: Keys, known: Keys) -> Rows:
    """For each key its place in `known`, or -1."""
    if not len(known):
        return np.full(len(keys), -1, np.int64)
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known, keys, sorter=order).clip(max=len(known) - 1)
    places = order[at]
    return np.where(known[places] == keys, places, -1).astype(np.int64)
