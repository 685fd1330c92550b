"""FastGraphRAG's walk: entities by PageRank, relations by their ends, passages by their relations.

As the program of circlemind-ai does it; there is no paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stratarag.eval.baselines.plain import Dense
from stratarag.eval.baselines.spreading import (
    Linker,
    Namer,
    best_passages,
    checked_damping,
    spread,
)
from stratarag.eval.rankers import Passage, Workbench
from stratarag.kernels.ppr import transition_matrix

MOST_ENTITIES = 128


class FastGraphRAG:
    """Each name in the question is linked to the most similar entity, which restarts with the similarity.

    Entities keep their PageRank if it is at least `threshold`, the 128 best at most. A relation scores the
    sum of its ends, a passage the sum of the relations that it states. A question without a name is searched
    by similarity, where the program gives nothing.

    Parameters
    ----------
    threshold
        0.05 in the program.
    damping
        0.8 in the program.
    """

    name = "fastgraphrag"
    description = "FastGraphRAG: PageRank over entities, passed on to relations and from them to passages"

    def __init__(self, bench: Workbench, *, threshold: float = 0.05, damping: float = 0.8) -> None:
        self._bench = bench
        self._graph = graph = bench.graph
        self._namer, self._linker, self._dense = Namer(bench), Linker(bench, graph), Dense(bench)
        self._threshold, self._damping = threshold, checked_damping(damping)
        self._transition = transition_matrix(len(graph.entities), graph.ends, np.ones(len(graph.ends)))

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first; those that state no relation of a kept entity are none."""
        linked, likeness = self._linker.link(self._namer.names(question))
        restart = np.zeros(len(self._graph.entities))
        restart[linked] = np.maximum(likeness, 0.0)
        if not restart.any():
            return self._dense.rank(question, k)
        mass = spread(self._transition, restart, self._damping)
        mass[mass < self._threshold] = 0
        mass[np.argsort(-mass, kind="stable")[MOST_ENTITIES:]] = 0
        relations = mass[self._graph.ends].sum(axis=1)
        return best_passages(self._bench, self._graph.statements.T @ relations, k)
