"""What a hit shows of a node that no model wrote: the statements in it that bear most on the question.

Without a model, the description of an entity and the report on a community are statements of their passages,
chosen before any question is known: long, general, and the same in many hits. So a search shows others: of
the statements behind a node (semantic units of its passages), the few that are most similar to the question
and that no better hit has told. A relation is shown as it is, unless better hits say all that it does. What a
model wrote is shown as it is too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratarag._locks import cached_property
from stratarag.kernels.ranges import ranges
from stratarag.pipeline.carryover import VECTOR_KEYS
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.summarize import EXTRACTIVE, FAILED
from stratarag.protocols import Rows, Vectors
from stratarag.records import Node

OF_ENTITY = 200
"""Characters that are shown of an entity, about: as many statements as have them on average."""
OF_GROUP = 600
"""The same of a community or a summary entity."""
_SAMPLE = 64  # statements of which the average is taken
MOST_PASSAGES = 64
"""Passages behind a node whose statements are looked at: the most similar ones, where there are more."""
_GROUPS = ("community", "summary_entity")
_NO_UNITS: Rows = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A node as a hit shows it: text, and ascending rows of the chunks that say what is shown."""

    text: str
    sources: Sequence[int]


class Excerpts:
    """Makes excerpts of the nodes of an opened index. Safe to use from several threads.

    Parameters
    ----------
    graph
        Of the corpus; there are excerpts only where its units have vectors.
    passages
        Vectors of the chunks, shape (chunks, dimension).
    """

    def __init__(self, graph: Graph, passages: Vectors) -> None:
        self._graph = graph
        self._passages = passages
        arrays = graph.stored.arrays
        self._available = "units.vectors" in arrays and graph.units > 0
        self._described = arrays.get(VECTOR_KEYS)

    def of(
        self, nodes: Sequence[Node], rows: Sequence[int], query: Vectors, *, dropped: bool
    ) -> list[Excerpt | None]:
        """What hits show, best first; None for one of which better hits have told everything.

        Parameters
        ----------
        nodes
            Nodes of the graph, and of a method.
        rows
            Their rows in the graph; -1 for those of a method.
        query
            The question's unit vector.
        dropped
            Whether that of which everything is told may be None; else it is shown again.
        """
        whole = [Excerpt(node.text, node.sources) for node in nodes]
        if not self._available:
            return list(whole)
        wanted = [self._wanted(node, row) for node, row in zip(nodes, rows, strict=True)]
        told: set[int] = set()
        chosen: list[Rows | None] = []
        for node, row, most in zip(nodes, rows, wanted, strict=True):
            if node.kind == "relation":
                chosen.append(self._related(node, row - self._graph.entities, told))
            else:
                chosen.append(self._chosen(node, row, query, most, told, dropped) if most else None)
        texts = self._texts(chosen)
        return [
            None
            if dropped and units is not None and not len(units)
            else self._shown(node, full, units, texts)
            for node, full, units in zip(nodes, whole, chosen, strict=True)
        ]

    def _related(self, node: Node, relation: int, told: set[int]) -> Rows | None:
        """Nothing where all that a relation says is told; else None, and it is told from now on."""
        units = set(self._between(node, relation).tolist())
        if units and units <= told:
            return _NO_UNITS
        told.update(units)
        return None

    @cached_property
    def _length(self) -> float:
        """Characters of a statement, on average over a sample."""
        first = self._graph.entities + self._graph.relations
        sample = np.unique(np.linspace(first, first + self._graph.units - 1, _SAMPLE).astype(np.int64))
        return sum(len(node.text) for node in self._graph.stored.nodes(sample.tolist())) / len(sample)

    def _wanted(self, node: Node, row: int) -> int:
        """Statements to show of a node at most; 0: it is shown as it is."""
        if node.kind in _GROUPS:
            return self._count(OF_GROUP) if node.extra.get("by") in (EXTRACTIVE, FAILED) else 0
        if node.kind == "entity" and row >= 0 and self._described is not None:
            return self._count(OF_ENTITY) if not self._described[row] else 0
        return 0

    def _count(self, length: int) -> int:
        return max(1, round(length / max(self._length, 1.0)))

    def _chosen(
        self, node: Node, row: int, query: Vectors, most: int, told: set[int], dropped: bool
    ) -> Rows | None:
        """The units to show, ascending, which are told from now on; None: the node is shown as it is."""
        units = self._behind(node.sources, query)
        if row >= 0:
            units = units[self._naming(units, row)]
        if not len(units):
            return None
        new = units[[unit not in told for unit in units.tolist()]]
        if not len(new):
            if dropped:
                return _NO_UNITS
            new = units
        similarity = self._graph.unit_vectors[new] @ query
        best = np.sort(new[np.argsort(-similarity, kind="stable")[:most]])
        told.update(best.tolist())
        return best

    def _behind(self, sources: Sequence[int], query: Vectors) -> Rows:
        """Ascending units of some passages, of many passages those of the most similar ones."""
        passages = np.asarray(sources, np.int64)
        if len(passages) > MOST_PASSAGES:
            similarity = self._passages[passages] @ query
            passages = passages[np.argpartition(-similarity, MOST_PASSAGES)[:MOST_PASSAGES]]
        indptr, units = self._said
        starts = indptr[passages]
        return np.unique(units[ranges(starts, indptr[passages + 1] - starts)])

    def _naming(self, units: Rows, *entities: int) -> NDArray[np.bool_]:
        """Which of some units name all of these entities, shape (units,)."""
        indptr, names = self._graph.unit_entities
        counts = indptr[units + 1] - indptr[units]
        of = np.repeat(np.arange(len(units)), counts)
        named = names[ranges(indptr[units], counts)]
        found = np.ones(len(units), np.bool_)
        for entity in entities:
            found &= np.bincount(of[named == entity], minlength=len(units)) > 0
        return found

    def _between(self, node: Node, relation: int) -> Rows:
        """Units that say what a relation does."""
        indptr, units = self._said
        passages = np.asarray(node.sources, np.int64)
        starts = indptr[passages]
        behind = np.unique(units[ranges(starts, indptr[passages + 1] - starts)])
        return behind[self._naming(behind, *self._graph.ends[relation].tolist())]

    def _texts(self, chosen: Sequence[Rows | None]) -> Mapping[int, Node]:
        shown = [each for each in chosen if each is not None]
        units = np.unique(np.concatenate([_NO_UNITS, *shown]))
        first = self._graph.entities + self._graph.relations
        return dict(zip(units.tolist(), self._graph.stored.nodes((first + units).tolist()), strict=True))

    def _shown(self, node: Node, full: Excerpt, units: Rows | None, texts: Mapping[int, Node]) -> Excerpt:
        if units is None or not len(units):
            return full
        said = [texts[unit] for unit in units.tolist()]
        text = joined([each.text for each in said])
        if node.kind == "entity":
            text = f"{node.extra['name']}: {text}"
        own = set(node.sources)
        sources = {source for each in said for source in each.sources if source in own}
        return Excerpt(text, tuple(sorted(sources)))

    @cached_property
    def _said(self) -> tuple[Rows, Rows]:
        """The units of each passage, as compressed rows."""
        indptr, indices = self._graph.sources
        first = self._graph.entities + self._graph.relations
        borders = indptr[first:]
        chunks = indices[borders[0] : borders[-1]]
        units = np.repeat(np.arange(self._graph.units), np.diff(borders))
        order = np.argsort(chunks, kind="stable")
        counts = np.bincount(chunks, minlength=len(self._passages))
        return np.concatenate([[0], np.cumsum(counts)]), units[order]


def joined(statements: Sequence[str]) -> str:
    """Statements one after the other: sentences as they are, what has no end of its own with a semicolon."""
    parts = [each if each[-1:] in ".!?。！？" else f"{each};" for each in statements]
    return " ".join(parts).removesuffix(";")
