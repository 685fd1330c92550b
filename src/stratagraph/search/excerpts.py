"""Excerpts: what a hit shows of a node that no model wrote, the statements in it nearest to the question.

Without a model, the description of an entity and the report on a community are chosen before any question is
known. A search shows other statements (semantic units of the node's passages): those most similar to the
question that no better hit contains; a passage among the hits contains all of its own. A relation is shown as
it is, unless better hits contain all its statements. What a model wrote is shown as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import VECTOR_KEYS
from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.nearest import Nearest
from stratagraph.ingest.summarize import EXTRACTIVE, FAILED
from stratagraph.kernels.statements import Csr, IntegerGroups, behind, most_telling
from stratagraph.kernels.topk import SCAN_LIMIT, products
from stratagraph.system.locks import cached_property
from stratagraph.types.built import Item
from stratagraph.types.protocols import Rows, Vectors

LENGTH = 600
"""Characters that are shown of an entity, a community or a summary entity: as many statements as have this
length on average.

Best of six pairs of lengths (200 to 800 for entities, 400 to 900 for groups) by answers in 1,000 and 2,000
tokens of ArchRAG's and HiRAG's nodes, whichever of musique_train100 (given triples and without),
hotpotqa_train100, 2wiki_dev164 and lihua_world is left out: .014 above 200 and 600.
"""
_SAMPLE = 64  # statements of which the average is taken
MOST_PASSAGES = 64
"""Passages of a node whose statements are considered: the most similar ones, where there are more."""
_GROUPS = ("community", "summary_entity")
_NO_ROWS: Rows = np.zeros(0, np.int64)


class Excerpts:
    """Makes excerpts of the nodes of an opened index. Safe to use from several threads.

    Parameters
    ----------
    graph
        The corpus' graph; excerpts need the vectors of its units.
    passages, nearest
        Vectors of the chunks, shape (chunks, dimension), and the index that searches them.
    """

    def __init__(self, graph: Graph, passages: Vectors, nearest: Nearest) -> None:
        self.graph = graph
        self.passages = passages
        self.nearest = nearest
        arrays = graph.stored.arrays
        self.available = "units.vectors" in arrays and graph.units > 0
        self._described = arrays.get(VECTOR_KEYS)

    def asked(self, query: Vectors) -> Telling:
        """The maker of excerpts for a question with this unit vector."""
        return Telling(self, query)

    def wanted(self, item: Item, row: int) -> int:
        """The number of statements to show of a node; 0 shows its whole text."""
        if item.kind in _GROUPS:
            shortened = item.extra.get("by") in (EXTRACTIVE, FAILED)
        else:
            described = self._described
            shortened = item.kind == "entity" and row >= 0 and described is not None and not described[row]
        return max(1, round(LENGTH / max(self._length, 1.0))) if shortened else 0

    def names(self, rows: Sequence[int], related: Sequence[bool]) -> Rows:
        """The entities that units behind each node name, shape (nodes, 2); -1 for none."""
        names = np.full((len(rows), 2), -1, np.int64)
        names[:, 0] = rows
        relations = np.flatnonzero(related)
        names[relations] = self.graph.ends[names[relations, 0] - self.graph.entities]
        return names

    @cached_property
    def _length(self) -> float:
        """Characters of a statement, on average over a sample."""
        sample = np.unique(np.linspace(0, self.graph.units - 1, _SAMPLE).astype(np.int64)) + self.first
        return sum(map(len, self.graph.stored.texts(sample.tolist()))) / len(sample)

    @cached_property
    def first(self) -> int:
        """The row of the first unit in the graph."""
        return self.graph.entities + self.graph.relations

    @cached_property
    def said(self) -> Csr:
        """The units of each passage, as compressed rows."""
        indptr, indices = self.graph.sources
        borders = indptr[self.first :]
        chunks = indices[borders[0] : borders[-1]]
        units = np.repeat(np.arange(self.graph.units), np.diff(borders))
        order = np.argsort(chunks, kind="stable")
        counts = np.bincount(chunks, minlength=len(self.passages))
        return np.concatenate([[0], np.cumsum(counts)]), units[order]


class Telling:
    """Excerpts for one question; statements are read and measured once for all its rankings."""

    def __init__(self, excerpts: Excerpts, query: Vectors) -> None:
        self._of = excerpts
        self._query = query
        self._near: dict[tuple[str, str], Rows] = {}
        self._texts: dict[int, str] = {}
        self._said_by: dict[int, list[int]] = {}
        units = excerpts.graph.units if excerpts.available else 0
        self._similarity = np.zeros(units, np.float32)
        self._measured = np.zeros(units, np.bool_)

    def shown(
        self, items: Sequence[Item], rows: Sequence[int], *, dropped: bool
    ) -> tuple[list[Item], list[bool]]:
        """Nodes as hits show them, and whether better hits contain all their statements.

        Parameters
        ----------
        items
            Passages, nodes of the graph and of a method, best first.
        rows
            Rows of nodes of the graph; -1 for all else.
        dropped
            Whether a node whose statements are all contained stays as it is; else its best ones are shown
            again.
        """
        if not self._of.available:
            return list(items), [False] * len(items)
        wanted = [self._of.wanted(item, row) for item, row in zip(items, rows, strict=True)]
        related = [item.kind == "relation" and row >= 0 for item, row in zip(items, rows, strict=True)]
        passage = np.array([item.kind == "chunk" for item in items], np.bool_)
        entire = passage | np.array(related, np.bool_)
        stating = behind(
            self._of.said,
            self._of.graph.unit_entities,
            self._passages(items, wanted, entire),
            self._of.names(rows, related),
        )
        self._measure(stating.distinct)
        most = np.where(entire, len(stating.values), wanted)
        shown = np.zeros(self._of.graph.units, np.bool_)
        groups = IntegerGroups(stating.values, stating.borders)
        chosen = most_telling(groups, self._similarity[stating.values], most, shown, again=not dropped)
        nothing = (np.diff(stating.borders) > 0) & (np.diff(chosen.borders) == 0) & ~passage
        units = np.split(chosen.values, chosen.borders[1:-1])
        read = [own for own, most in zip(units, wanted, strict=True) if most]
        self._read(np.concatenate([_NO_ROWS, *read]))
        return [
            self._excerpt(item, own) if most and len(own) else item
            for item, most, own in zip(items, wanted, units, strict=True)
        ], nothing.tolist()

    def _passages(
        self, items: Sequence[Item], wanted: Sequence[int], entire: NDArray[np.bool_]
    ) -> IntegerGroups:
        """The passages whose units are considered: the most similar ones of an excerpted node."""
        passages = [
            item.sources if most or all_of_it else _NO_ROWS
            for item, most, all_of_it in zip(items, wanted, entire.tolist(), strict=True)
        ]
        long = [at for at, rows in enumerate(passages) if wanted[at] and len(rows) > MOST_PASSAGES]
        self._narrow([items[at] for at in long])
        for at in long:
            passages[at] = self._near[items[at].kind, items[at].id]
        borders = np.cumsum([0, *map(len, passages)], dtype=np.int64)
        return IntegerGroups(np.concatenate([_NO_ROWS, *passages]), borders)

    def _narrow(self, items: Sequence[Item]) -> None:
        """Find the most similar passages of some nodes: exactly, unless there are very many."""
        new = [item for item in items if (item.kind, item.id) not in self._near]
        scanned = [item for item in new if len(item.sources) <= SCAN_LIMIT]
        scores = np.zeros(len(self._of.passages) if scanned else 0, np.float32)
        needed = np.zeros(len(scores), np.bool_)
        for item in scanned:
            needed[item.sources] = True
        scores[needed] = products(self._of.passages, self._query, np.flatnonzero(needed))
        for item in new:
            rows = item.sources.astype(np.int64)
            if len(rows) > SCAN_LIMIT:
                mask = np.zeros(len(self._of.passages), np.bool_)
                mask[rows] = True
                near = self._of.nearest.search(self._query, MOST_PASSAGES, mask)[0]
                self._near[item.kind, item.id] = near
            else:
                best = np.argpartition(-scores[rows], MOST_PASSAGES)[:MOST_PASSAGES]
                self._near[item.kind, item.id] = rows[best]

    def _measure(self, units: Rows) -> None:
        new = units[~self._measured[units]]
        self._similarity[new] = products(self._of.graph.unit_vectors, self._query, new)
        self._measured[new] = True

    def _read(self, units: Rows) -> None:
        new = [unit for unit in np.unique(units).tolist() if unit not in self._texts]
        texts = self._of.graph.stored.texts([self._of.first + unit for unit in new])
        self._texts.update(zip(new, texts, strict=True))
        indptr, chunks = self._of.graph.sources
        for unit in new:
            row = self._of.first + unit
            self._said_by[unit] = chunks[indptr[row] : indptr[row + 1]].tolist()

    def _excerpt(self, item: Item, units: Rows) -> Item:
        """A node with the texts of some units, and the passages that state them."""
        rows = units.tolist()
        text = joined([self._texts[unit] for unit in rows])
        if item.kind == "entity":
            text = f"{item.extra['name']}: {text}"
        said_by = np.array(sorted({chunk for unit in rows for chunk in self._said_by[unit]}), np.int64)
        at = np.minimum(np.searchsorted(item.sources, said_by), len(item.sources) - 1)
        return replace(item, text=text, sources=said_by[item.sources[at] == said_by])


def joined(statements: Sequence[str]) -> str:
    """Statements joined to one text; what ends without punctuation, as a record does, ends its line."""
    return "".join(f"{each}{' ' if each[-1:] in '.!?。！？' else chr(10)}" for each in statements)[:-1]
