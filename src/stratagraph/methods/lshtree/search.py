"""Searching the tree: top-k over all levels together, or from each level (paper 004, 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.checks import Checks
from stratagraph.ingest.graph.stage import Graph
from stratagraph.methods.base import MethodDescription, Opened, Ranking, RowTable, SearchQuestion
from stratagraph.methods.drift import DRIFT
from stratagraph.methods.groups import check_nodes
from stratagraph.methods.lshtree.build import CODES
from stratagraph.methods.lshtree.config import LSHTreeOptions
from stratagraph.methods.settings import searched_levels
from stratagraph.search.ranking import interleaved, merged


class TreeSearcher:
    """An opened tree. Level 0 are the corpus' chunks, levels 1 and up the summaries."""

    def __init__(self, opened: Opened) -> None:
        arrays = opened.part.arrays
        self._chunk_count = opened.corpus.size
        self._levels: NDArray[np.int16] = arrays["levels"]
        self._passages = opened.passages
        self._summaries = opened.nearest("nodes", arrays["vectors"])

    def nodes(self, question: SearchQuestion) -> Ranking:
        """Chunks and summaries by cosine similarity: the best of all levels together, or those of each level.

        Of several levels each has an equal share of the `k` results, from the chunks upwards. With
        `k_per_level` and without `fill` the results are exactly so many of each level.
        """
        options: LSHTreeOptions = question.options
        present = searched_levels(options.levels, int(self._levels.max(initial=0)) + 1)
        levels = [level for level in present if level or not question.mixed]
        if options.mode == "collapsed":
            return self._nearest(question, levels, question.k)
        rankings = [self._nearest(question, [level], options.k_per_level or question.k) for level in levels]
        exact = options.k_per_level is not None and not question.fill
        return interleaved(rankings, [1.0] * len(rankings), sum(map(len, rankings)) if exact else question.k)

    def describe(self) -> MethodDescription:
        """Nodes per level."""
        levels, counts = np.unique(self._levels, return_counts=True)
        nodes = {"chunks": self._chunk_count, "summaries": len(self._levels)}
        per_level = {str(level): int(count) for level, count in zip(levels, counts, strict=True)}
        return MethodDescription(nodes, {"levels": {"0": self._chunk_count, **per_level}})

    def _nearest(self, question: SearchQuestion, levels: Sequence[int], k: int) -> Ranking:
        """The nearest members of some levels, as one ranking."""
        allowed = question.allowed
        rankings = []
        if 0 in levels:
            chunks = None if allowed is None else allowed.chunks
            rankings.append(Ranking.of(RowTable.CHUNK, *self._passages.search(question.vector, k, chunks)))
        above = [level for level in levels if level > 0]
        if above:
            mask = None if allowed is None else allowed.nodes
            if len(above) < int(self._levels.max(initial=0)):
                searched = np.isin(self._levels, above)
                mask = searched if mask is None else mask & searched
            rankings.append(Ranking.of(RowTable.NODE, *self._summaries.search(question.vector, k, mask)))
        return merged(rankings, k)


def check_arrays(checks: Checks, graph: Graph, chunks: int, dimension: int) -> None:
    """Check that the arrays fit each other and the number of chunks. The graph is not used."""
    nodes = check_nodes(checks, chunks, dimension)
    levels = checks.of("levels", np.int16, (nodes,))
    steps = np.diff(levels, prepend=np.int16(0))  # nodes are numbered level by level, from 1
    if nodes and (levels[0] != 1 or not np.isin(steps, (0, 1)).all()):
        raise ValueError("array 'levels' does not ascend from 1 by steps of 1")
    checks.csr("children", max(chunks, nodes), nodes)
    checks.of(CODES, np.uint64, (nodes, None))
    checks.rows(DRIFT, 2**62, (1,))
    checks.nearest("nodes", nodes, dimension)
