"""KAG's mutual index (Liang et al. 2024, and the authors' program), without its logical forms and solver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stratagraph.eval.baselines.options import Damping, Share
from stratagraph.eval.baselines.plain import Dense
from stratagraph.eval.baselines.spreading import Linker, Namer, best_passages, relative, spread
from stratagraph.eval.rankers import Passage, Workbench
from stratagraph.kernels.ppr import transition_matrix
from stratagraph.kernels.topk import top_k

CANDIDATES = 20
"""Similar passages that are compared, for each passage that is returned."""


class MutualIndex:
    """Entities and the passages that mention them are joined both ways; relations join entities.

    PageRank restarts from the entities most similar to the names in the question. If all similarities exceed
    `certain`, passages are ranked by PageRank alone; else by its sum with the similarity to the question,
    both scaled to [0, 1], weighted by `walk_share`. Entities have no types here, so each name finds one. The
    program replaces the last passage by the best one by keywords; a ranking that is cut at several depths has
    no last one.

    Parameters
    ----------
    certain
        0.9 in the program.
    walk_share
        0.5 in the program.
    damping
        Not stated; HippoRAG's.
    """

    name = "kag"
    description = "KAG's mutual index: PageRank over entities and passages, joined with similarity"

    def __init__(
        self, bench: Workbench, *, certain: float = 0.9, walk_share: Share = 0.5, damping: Damping = 0.5
    ) -> None:
        self._bench = bench
        self._graph = graph = bench.graph
        self._namer, self._linker, self._dense = Namer(bench), Linker(bench, graph), Dense(bench)
        self._certain, self._share, self._damping = certain, walk_share, damping
        entities = len(graph.entities)
        mentions = np.stack(graph.mentions.nonzero(), axis=1) + np.array([0, entities])
        ends = np.concatenate([graph.ends, mentions])
        self._transition = transition_matrix(entities + len(bench.chunks), ends, np.ones(len(ends)))

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        linked, likeness = self._linker.link(self._namer.names(question))
        if not len(linked):
            return self._dense.rank(question, k)
        entities, passages = len(self._graph.entities), len(self._bench.chunks)
        restart = np.zeros(entities + passages)
        restart[linked] = 1
        walked = spread(self._transition, restart, self._damping)[entities:]
        if likeness.min() > self._certain:
            return best_passages(self._bench, walked, k)
        vector = self._bench.embedder.question(question)
        similar = np.zeros(passages)
        rows, scores = top_k(self._bench.vectors, vector, min(passages, CANDIDATES * k))
        similar[rows] = np.maximum(scores, 0)
        joined = self._share * relative(walked) + (1 - self._share) * relative(similar)
        return best_passages(self._bench, joined, k)
