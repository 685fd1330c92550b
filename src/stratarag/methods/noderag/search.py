"""Searching the heterograph: entry points, a shallow walk, cross nodes (paper 001, 2.5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.ppr import shallow_pagerank
from stratarag.methods.base import Corpus, Description, Graph, Origin, Query, Ranking, Stored
from stratarag.methods.noderag.config import RETRIEVABLE, TYPES, NodeRAGConfig, NodeRAGOptions
from stratarag.methods.noderag.entries import Admitted, DualSearch, Entries
from stratarag.methods.noderag.heterograph import Heterograph
from stratarag.methods.noderag.passages import Support
from stratarag.pipeline.filters import nodes_allowed
from stratarag.pipeline.ranking import filled
from stratarag.pipeline.walk import PassageWalk, Seeds
from stratarag.protocols import Rows

PASSAGE_SHARE = 0.01
"""Restart mass that the heterograph adds to the walk over passages (view `chunks`), where an entity that the
question names has 1."""
PASSAGES = 10
"""Passages that share it."""

_Mass = NDArray[np.float32]


class HeterographSearcher:
    """An opened heterograph."""

    def __init__(self, corpus: Corpus, graph: Graph, stored: Stored, config: NodeRAGConfig) -> None:
        self._heterograph = Heterograph(stored.arrays)
        self._layout = self._heterograph.layout
        self._entries = DualSearch(corpus, graph, stored, self._layout)
        self._graph_sources = graph.sources
        self._own_sources = stored.arrays["sources.indptr"], stored.arrays["sources.indices"]
        self._support = Support(self._layout, self._graph_sources, self._own_sources)
        self._projection = PassageWalk(corpus, graph, self._entries.chunks)

    def nodes(self, query: Query) -> Ranking:
        """Entry points and cross nodes by the mass of the walk, or the entry points alone (see the options).

        What is missing to `k` are passages by similarity.
        """
        options: NodeRAGOptions = query.options or NodeRAGOptions()
        admitted = self._admitted(query)
        found = (
            self._entry_points(query, options, admitted)
            if options.mode == "entry"
            else self._retrieval(query, options, admitted)
        )
        if len(found) >= query.k:
            return filled(found, found, query.k)
        passages = Ranking.of(
            Origin.CHUNK, *self._entries.chunks.search(query.vector, query.k, query.allowed)
        )
        return filled(found, passages, query.k)

    def chunks(self, query: Query) -> Ranking:
        """Passages by the walk of `pipeline.walk`.

        Those that hold most mass of the heterograph, their own and that of what they support, are a little of
        its restart.
        """
        options: NodeRAGOptions = query.options or NodeRAGOptions()
        ranked = self._projection.rank(
            query.text,
            query.vector,
            query.k,
            allowed=query.allowed,
            entities=query.entities,
            seeds=self._seeds(query, options),
        )
        return ranked.found

    def _seeds(self, query: Query, options: NodeRAGOptions) -> Seeds:
        entries = self._entries.search(query, options, self._admitted(query))
        if not len(entries.nodes):
            return Seeds()
        passages, mass = self._support.passages(*self._walk(entries, options))
        best = np.argsort(-mass, kind="stable")[:PASSAGES]
        best = best[mass[best] > 0]
        if not len(best):
            return Seeds()
        return Seeds(chunks=passages[best], chunk_weights=PASSAGE_SHARE * mass[best] / mass[best].sum())

    def describe(self) -> Description:
        """The paper's Table 4: nodes by type, edges of similarity and others."""
        return Description(self._heterograph.counts(), self._heterograph.edge_counts())

    def _retrieval(self, query: Query, options: NodeRAGOptions, admitted: Admitted) -> Ranking:
        """Section 2.5: the retrievable ones of entry and cross nodes."""
        entries = self._entries.search(query, options, admitted)
        if not len(entries.nodes):
            return self._found(entries, np.zeros(0, np.int64), np.zeros(0, np.float32))
        reached, mass = self._walk(entries, options)
        kinds = self._layout.types(reached)
        passing = self._passing(reached, admitted)
        kept = [np.flatnonzero(passing & np.isin(reached, entries.nodes) & _of(kinds, RETRIEVABLE))]
        for kind, limit in options.limits.items():
            kept.append(_best(np.flatnonzero(passing & _of(kinds, kind)), reached, mass, limit))
        chosen = np.unique(np.concatenate(kept))
        chosen = chosen[_of(kinds[chosen], options.types or RETRIEVABLE)]
        return self._found(entries, reached[chosen], mass[chosen])

    def _entry_points(self, query: Query, options: NodeRAGOptions, admitted: Admitted) -> Ranking:
        """Dual search alone: what the question names first, then what is similar to it."""
        enough = replace(options, similar=max(options.similar, query.k))
        entries = self._entries.search(query, enough, admitted)
        scores = np.where(np.isnan(entries.similarity), entries.weights + 1, entries.similarity)
        wanted = _of(self._layout.types(entries.nodes), options.types or TYPES)
        kept = wanted & self._passing(entries.nodes, admitted)
        return self._found(entries, entries.nodes[kept], scores[kept].astype(np.float32), "score")

    def _walk(self, entries: Entries, options: NodeRAGOptions) -> tuple[Rows, _Mass]:
        return shallow_pagerank(
            self._heterograph.matrix(options.semantic_edges),
            entries.nodes,
            weights=entries.weights,
            restart=options.restart,
            steps=options.steps,
        )

    def _found(self, entries: Entries, nodes: Rows, scores: _Mass, measure: str = "mass") -> Ranking:
        """A ranking of nodes by score; the trace tells the type, the score, and how it was entered."""
        order = np.lexsort((nodes, -scores))
        nodes, scores = nodes[order], scores[order]
        at = np.searchsorted(entries.nodes, nodes).clip(max=max(0, len(entries.nodes) - 1))
        trace = []
        for place, node, score, kind in zip(
            at.tolist(), nodes.tolist(), scores.tolist(), self._layout.types(nodes).tolist(), strict=True
        ):
            told: dict[str, object] = {"type": TYPES[kind], measure: score}
            if entries.nodes[place] == node:
                similarity = float(entries.similarity[place])
                told["entry"] = "name" if np.isnan(similarity) else "similarity"
                if not np.isnan(similarity):
                    told["similarity"] = similarity
            trace.append(told)
        origin, rows = self._layout.place(nodes)
        return Ranking(rows, scores.astype(np.float32), origin, trace)

    def _admitted(self, query: Query) -> Admitted:
        if query.allowed is None:
            return Admitted()
        return Admitted(
            query.allowed,
            nodes_allowed(*self._graph_sources, query.allowed),
            nodes_allowed(*self._own_sources, query.allowed),
        )

    def _passing(self, nodes: Rows, admitted: Admitted) -> NDArray[np.bool_]:
        """Which nodes a filter admits."""
        if admitted.chunks is None or admitted.graph is None or admitted.own is None:
            return np.ones(len(nodes), np.bool_)
        return np.concatenate([admitted.chunks, admitted.graph, admitted.own])[nodes]


def _of(kinds: NDArray[np.int8], wanted: str | tuple[str, ...]) -> NDArray[np.bool_]:
    known = np.zeros(len(TYPES), np.bool_)
    known[[TYPES.index(kind) for kind in wanted]] = True
    return known[kinds]


def _best(places: Rows, nodes: Rows, mass: _Mass, limit: int) -> Rows:
    """The places with most mass, of equals the lower nodes."""
    if len(places) > limit > 0:
        least = np.partition(mass[places], len(places) - limit)[len(places) - limit]
        places = places[mass[places] >= least]
    return places[np.lexsort((nodes[places], -mass[places]))[:limit]]
