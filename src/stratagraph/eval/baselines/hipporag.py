"""HippoRAG: personalised PageRank over entities, from those that a question names (Gutiérrez et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stratagraph.eval.baselines.options import Damping
from stratagraph.eval.baselines.plain import Dense
from stratagraph.eval.baselines.spreading import (
    Linker,
    Namer,
    best_passages,
    phrase_edges,
    spread,
)
from stratagraph.eval.rankers import Passage, Workbench
from stratagraph.kernels.ppr import transition_matrix


class HippoRAG:
    """Nodes are entities; edges are triples (weight: passages that state them) and synonyms (similarity).

    Each name in the question is linked to the entity of the most similar name. These share the restart mass,
    each with its node specificity 1 / |P_i|, where |P_i| is the number of passages that mention it. A passage
    scores the sum of the probabilities of its entities, each as often as it is in its triples, once where it
    is only mentioned. A question without a name is searched by similarity, as in the authors' program.

    Parameters
    ----------
    specificity
        Whether node specificity counts.
    synonymy
        Least cosine similarity of synonyms (0.8 in the paper); above 1 there are none.
    damping
        0.5 in the paper.
    """

    name = "hipporag"
    description = "HippoRAG: entities of the question, node specificity, personalised PageRank over entities"

    def __init__(
        self, bench: Workbench, *, specificity: bool = True, synonymy: float = 0.8, damping: Damping = 0.5
    ) -> None:
        self._bench = bench
        self._graph = graph = bench.graph
        self._namer, self._linker, self._dense = Namer(bench), Linker(bench, graph), Dense(bench)
        self._damping = damping
        self._weights = 1 / graph.frequency if specificity else np.ones(len(graph.entities))
        self._transition = transition_matrix(len(graph.entities), *phrase_edges(bench, synonymy))

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first; those without a reached entity are none."""
        linked, _ = self._linker.link(self._namer.names(question))
        if not len(linked):
            return self._dense.rank(question, k)
        restart = np.zeros(len(self._graph.entities))
        restart[linked] = self._weights[linked]
        mass = spread(self._transition, restart, self._damping)
        return best_passages(self._bench, self._graph.appearances.T @ mass, k)
