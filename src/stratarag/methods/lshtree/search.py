"""Searching the tree: top-k over all levels together, or from each level (paper 004, 4.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratarag.methods.base import Corpus, Description, Mask, Origin, Query, Ranking, Stored
from stratarag.methods.lshtree.config import LSHTreeConfig, LSHTreeOptions
from stratarag.pipeline.filters import nodes_allowed
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.ranking import merged
from stratarag.pipeline.walk import PassageWalk, Seeds

SUMMARIES = 5
"""Summaries whose passages a walk restarts at (view `chunks`)."""
SUMMARY_SHARE = 0.02
"""Restart mass of a summary, where an entity that the question names has 1."""


class TreeSearcher:
    """An opened tree. Level 0 are the corpus' chunks, levels 1 and up the summaries."""

    def __init__(self, corpus: Corpus, graph: Graph, stored: Stored, config: LSHTreeConfig) -> None:
        self._corpus = corpus
        self._levels: NDArray[np.int16] = stored.arrays["levels"]
        self._indptr: NDArray[np.int64] = stored.arrays["sources.indptr"]
        self._indices: NDArray[np.int64] = stored.arrays["sources.indices"]
        self._chunks = Nearest(corpus.vectors, stored.arrays, "chunks")
        self._summaries = Nearest(stored.arrays["vectors"], stored.arrays, "nodes")
        self._projection = PassageWalk(corpus, graph, self._chunks)

    def nodes(self, query: Query) -> Ranking:
        """Chunks and summaries by cosine similarity, best first."""
        options: LSHTreeOptions = query.options or LSHTreeOptions()
        levels = self._searched(options)
        if options.mode == "collapsed":
            return merged([self._level(query, levels, query.k)], query.k)
        k = options.k_per_level or query.k
        return merged([self._level(query, (level,), k) for level in levels], query.k)

    def chunks(self, query: Query) -> Ranking:
        """Passages by the walk of `pipeline.walk`, which restarts at the summaries' passages too."""
        ranked = self._projection.rank(
            query.text,
            query.vector,
            query.k,
            allowed=query.allowed,
            entities=query.entities,
            seeds=self._seeds(query),
        )
        return ranked.found

    def _seeds(self, query: Query) -> Seeds:
        """The passages below the nearest summaries; each summary shares its weight among them."""
        rows, similarity = self._summaries.search(query.vector, SUMMARIES, self._admitted(query))
        counts = self._indptr[rows + 1] - self._indptr[rows]
        passages = [self._indices[self._indptr[row] : self._indptr[row + 1]] for row in rows]
        weights = SUMMARY_SHARE * np.maximum(similarity, 0.0) / np.maximum(counts, 1)
        return Seeds(
            chunks=np.concatenate([np.zeros(0, np.int64), *passages]),
            chunk_weights=np.repeat(weights.astype(np.float64), counts),
        )

    def describe(self) -> Description:
        """Nodes per level."""
        levels, counts = np.unique(self._levels, return_counts=True)
        nodes = {"chunks": self._corpus.size, "summaries": len(self._levels)}
        per_level = {str(level): int(count) for level, count in zip(levels, counts, strict=True)}
        return Description(nodes, {"levels": {"0": self._corpus.size, **per_level}})

    def _searched(self, options: LSHTreeOptions) -> tuple[int, ...]:
        present = tuple(range(int(self._levels.max(initial=0)) + 1))
        if options.levels is None:
            return present
        absent = sorted(set(options.levels) - set(present))
        if absent:
            raise ValueError(f"level {absent[0]} is not in this tree, which has levels 0 to {present[-1]}")
        return options.levels

    def _admitted(self, query: Query) -> Mask | None:
        return None if query.allowed is None else nodes_allowed(self._indptr, self._indices, query.allowed)

    def _level(self, query: Query, levels: tuple[int, ...], k: int) -> Ranking:
        """The nearest members of some levels, as one ranking."""
        found = []
        if 0 in levels:
            found.append(Ranking.of(Origin.CHUNK, *self._chunks.search(query.vector, k, query.allowed)))
        above = [level for level in levels if level > 0]
        if above:
            admitted = self._admitted(query)
            if len(above) < int(self._levels.max(initial=0)):
                wanted = np.isin(self._levels, above)
                admitted = wanted if admitted is None else admitted & wanted
            found.append(Ranking.of(Origin.NODE, *self._summaries.search(query.vector, k, admitted)))
        return merged(found, k)
