"""Dual search: where a walk begins (paper 001, 2.5 and C.4; ERRATA N5 and N8)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratarag.methods.base import Corpus, Graph, Mask, Query, Stored
from stratarag.methods.noderag.config import NodeRAGOptions
from stratarag.methods.noderag.heterograph import Layout
from stratarag.pipeline.extract_nlp import question_entities
from stratarag.pipeline.linking import link
from stratarag.pipeline.names import NameIndex
from stratarag.pipeline.nearest import Nearest
from stratarag.protocols import Rows

TITLES = 20
"""Titles that a name in the question may match; one that matches more ("the") tells nothing."""
NEAR_SHARE = 0.25
"""Restart mass of entities that a name may mean, where one that the question names has 1."""


class Entries(NamedTuple):
    """Entry points: nodes, ascending; restart weights; similarities, NaN for those found by name."""

    nodes: Rows
    weights: NDArray[np.float64]
    similarity: NDArray[np.float32]


class Admitted(NamedTuple):
    """What a filter admits of texts, rows of the graph, and own nodes; None admits all."""

    chunks: Mask | None = None
    graph: Mask | None = None
    own: Mask | None = None


class DualSearch:
    """Names and titles by whole words, and nodes with much to say by similarity."""

    def __init__(self, corpus: Corpus, graph: Graph, stored: Stored, layout: Layout) -> None:
        arrays = stored.arrays
        self._graph = graph
        self._layout = layout
        self.chunks = Nearest(corpus.vectors, arrays, "chunks")
        self._units = Nearest(arrays["units.vectors"], arrays, "units")
        embedded = layout.count("A") + layout.count("H")
        self._own = Nearest(arrays["vectors"][:embedded], arrays, "own")
        prefix = "titles."
        self._titles = NameIndex(
            {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
        )

    def search(self, query: Query, options: NodeRAGOptions, admitted: Admitted) -> Entries:
        """The entry points of a question, each once.

        Every one has the same restart weight (2.5), but that the candidates for a name which no entity has
        share a part of it.
        """
        exact, weights = self._exact(query) if options.names else (_NO_NODES, np.zeros(0))
        similar, similarity = self.similar(query, options, options.similar, admitted)
        nodes = np.concatenate([exact, similar])
        shares = np.concatenate([weights, np.ones(len(similar))])
        told = np.concatenate([np.full(len(exact), np.nan, np.float32), similarity])
        order = np.argsort(nodes, kind="stable")
        return Entries(nodes[order], shares[order], told[order])

    def _exact(self, query: Query) -> tuple[Rows, NDArray[np.float64]]:
        """Entities and titles that the question names, with weights."""
        names = question_entities(query.text) if query.entities is None else query.entities
        named, _, near, likeness = link(query.text, self._graph.names, names)
        titles = [self._titles.match(name, TITLES + 1) for name in names]
        titles.append(self._titles.lookup(query.text))
        told = np.unique(np.concatenate([_NO_NODES, *(rows for rows in titles if len(rows) <= TITLES)]))
        entities, overviews = self._layout.first("N"), self._layout.first("O")
        nodes = np.concatenate([entities + named, entities + near, overviews + told])
        ones = np.ones(len(named)), NEAR_SHARE * likeness, np.ones(len(told))
        _, kept = np.unique(nodes, return_index=True)
        return nodes[kept], np.concatenate(ones)[kept]

    def similar(
        self, query: Query, options: NodeRAGOptions, k: int, admitted: Admitted
    ) -> tuple[Rows, NDArray[np.float32]]:
        """The `k` admitted nodes of the entry types that are most similar to the question."""
        if not k:
            return _NO_NODES, np.zeros(0, np.float32)
        parts = [self._of(kinds, query, k, admitted) for kinds in _tables(options.entry_types)]
        nodes = np.concatenate([_NO_NODES, *(nodes for nodes, _ in parts)])
        similarity = np.concatenate([np.zeros(0, np.float32), *(scores for _, scores in parts)])
        order = np.lexsort((nodes, -similarity))[:k]
        return nodes[order], similarity[order]

    def _of(self, kinds: str, query: Query, k: int, admitted: Admitted) -> tuple[Rows, NDArray[np.float32]]:
        """The nearest of T, of S, or of A and H, as nodes."""
        first = self._layout.first(kinds[0])
        if kinds == "T":
            rows, scores = self.chunks.search(query.vector, k, admitted.chunks)
        elif kinds == "S":
            start = self._layout.first("S") - self._layout.first("N")
            mask = None if admitted.graph is None else admitted.graph[start:]
            rows, scores = self._units.search(query.vector, k, mask)
        else:
            first = self._layout.first("A")
            rows, scores = self._own.search(query.vector, k, self._own_mask(kinds, admitted))
        return first + rows, scores

    def _own_mask(self, kinds: str, admitted: Admitted) -> Mask | None:
        attributes, elements = self._layout.count("A"), self._layout.count("H")
        if kinds == "AH":
            return None if admitted.own is None else admitted.own[: attributes + elements]
        wanted = np.zeros(attributes + elements, np.bool_)
        wanted[slice(0, attributes) if kinds == "A" else slice(attributes, None)] = True
        return wanted if admitted.own is None else wanted & admitted.own[: attributes + elements]


def _tables(types: tuple[str, ...]) -> list[str]:
    """The tables that hold some types; attributes and elements are in one."""
    own = "".join(kind for kind in "AH" if kind in types)
    return [*(kind for kind in "TS" if kind in types), *([own] if own else [])]


_NO_NODES: Rows = np.zeros(0, np.int64)
