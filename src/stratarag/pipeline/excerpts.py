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
from stratarag.kernels.topk import products
from stratarag.pipeline.carryover import VECTOR_KEYS
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.summarize import EXTRACTIVE, FAILED
from stratarag.protocols import Rows, Vectors
from stratarag.records import Node

OF_ENTITY = 200
"""Characters that are shown of an entity, about: as many statements as have them on average."""
OF_GROUP = 600
"""The same of a community or a summary entity.

Both were chosen on musique_train100 with given triples, by answers found within 1,000 tokens. Without the
triples groups of 300 find as much there and groups of 1,200 less; on lihua_world 1,200 finds a little more.
With these two, `archrag` and `hirag` find more than with the texts of the build on each of four further sets.
"""
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
        related = [node.kind == "relation" and row >= 0 for node, row in zip(nodes, rows, strict=True)]
        behind = self._behind(nodes, rows, query, [bool(most) for most in wanted], related)
        similarity = _similarities(self._graph.unit_vectors, query, behind)
        told = np.zeros(self._graph.units, np.bool_)
        chosen: list[Rows | None] = []
        for units, most, relation in zip(behind, wanted, related, strict=True):
            if relation:
                chosen.append(_related(units, told))
            else:
                chosen.append(_chosen(units, similarity, most, told, dropped) if most else None)
        texts = self._texts(chosen)
        return [
            None
            if dropped and units is not None and not len(units)
            else self._shown(node, full, units, texts)
            for node, full, units in zip(nodes, whole, chosen, strict=True)
        ]

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

    def _behind(
        self,
        nodes: Sequence[Node],
        rows: Sequence[int],
        query: Vectors,
        excerpted: Sequence[bool],
        related: Sequence[bool],
    ) -> list[Rows]:
        """Ascending units behind each node: those of its passages that name the entity, or both ends.

        Of an excerpted node with many passages the most similar ones count; other nodes that are not of a
        relation have none.
        """
        sources = [
            np.asarray(node.sources if excerpt or relation else (), np.int64)
            for node, excerpt, relation in zip(nodes, excerpted, related, strict=True)
        ]
        long = [place for place in np.flatnonzero(excerpted).tolist() if len(sources[place]) > MOST_PASSAGES]
        if long:
            scores = _similarities(self._passages, query, [sources[place] for place in long])
            for place in long:
                nearest = np.argpartition(-scores[sources[place]], MOST_PASSAGES)[:MOST_PASSAGES]
                sources[place] = sources[place][nearest]
        passages = np.concatenate([_NO_UNITS, *sources])
        owners = np.repeat(np.arange(len(nodes)), [len(each) for each in sources])
        indptr, units = self._said
        starts = indptr[passages]
        counts = indptr[passages + 1] - starts
        pairs = np.unique(np.repeat(owners, counts) * self._graph.units + units[ranges(starts, counts)])
        owners, found = np.divmod(pairs, self._graph.units)
        kept = self._naming(found, self._names(rows, related)[owners])
        owners, found = owners[kept], found[kept]
        return np.split(found, np.searchsorted(owners, np.arange(1, len(nodes))))

    def _names(self, rows: Sequence[int], related: Sequence[bool]) -> Rows:
        """The entities that units behind each node name, shape (nodes, 2); -1 for none."""
        names = np.full((len(rows), 2), -1, np.int64)
        names[:, 0] = rows
        relations = np.flatnonzero(related)
        names[relations] = self._graph.ends[names[relations, 0] - self._graph.entities]
        return names

    def _naming(self, units: Rows, entities: Rows) -> NDArray[np.bool_]:
        """Which of some units name all of their entities, of shape (units, 2)."""
        found = np.ones(len(units), np.bool_)
        asked = np.flatnonzero(entities[:, 0] >= 0)
        indptr, names = self._graph.unit_entities
        starts = indptr[units[asked]]
        counts = indptr[units[asked] + 1] - starts
        of = np.repeat(asked, counts)
        named = names[ranges(starts, counts)]
        for column in entities.T:
            hits = of[named == column[of]]
            found &= (column < 0) | (np.bincount(hits, minlength=len(units)) > 0)
        return found

    def _texts(self, chosen: Sequence[Rows | None]) -> Mapping[int, str]:
        shown = [each for each in chosen if each is not None]
        units = np.unique(np.concatenate([_NO_UNITS, *shown]))
        first = self._graph.entities + self._graph.relations
        return dict(zip(units.tolist(), self._graph.stored.texts((first + units).tolist()), strict=True))

    def _shown(self, node: Node, full: Excerpt, units: Rows | None, texts: Mapping[int, str]) -> Excerpt:
        if units is None or not len(units):
            return full
        text = joined([texts[unit] for unit in units.tolist()])
        if node.kind == "entity":
            text = f"{node.extra['name']}: {text}"
        indptr, chunks = self._graph.sources
        row = self._graph.entities + self._graph.relations + units
        said_by = chunks[ranges(indptr[row], indptr[row + 1] - indptr[row])]
        return Excerpt(text, tuple(sorted(set(node.sources).intersection(said_by.tolist()))))

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


def _related(units: Rows, told: NDArray[np.bool_]) -> Rows | None:
    """Nothing where all that a relation says is told; else None, and it is told from now on."""
    if len(units) and told[units].all():
        return _NO_UNITS
    told[units] = True
    return None


def _chosen(
    units: Rows, similarity: NDArray[np.float32], most: int, told: NDArray[np.bool_], dropped: bool
) -> Rows | None:
    """The units to show, ascending, which are told from now on; None: the node is shown as it is."""
    if not len(units):
        return None
    new = units[~told[units]]
    if not len(new):
        if dropped:
            return _NO_UNITS
        new = units
    best = np.sort(new[np.argsort(-similarity[new], kind="stable")[:most]])
    told[best] = True
    return best


def _similarities(vectors: Vectors, query: Vectors, rows: Sequence[Rows]) -> NDArray[np.float32]:
    """Cosines of some rows with a unit vector, each read once, shape (vectors,); 0 for the others."""
    asked = np.zeros(len(vectors), np.bool_)
    for each in rows:
        asked[each] = True
    found = np.zeros(len(vectors), np.float32)
    found[asked] = products(vectors, query, np.flatnonzero(asked))
    return found


def joined(statements: Sequence[str]) -> str:
    """Statements one after the other: sentences as they are, what has no end of its own with a semicolon."""
    parts = [each if each[-1:] in ".!?。！？" else f"{each};" for each in statements]
    return " ".join(parts).removesuffix(";")
