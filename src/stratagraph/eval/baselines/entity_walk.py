"""A walk over passages and their entities, after HippoRAG."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stratagraph.eval.rankers import Passage, Workbench
from stratagraph.ingest.names.index import NameIndex, canonical
from stratagraph.ingest.names.linking import link
from stratagraph.kernels.ppr import shallow_pagerank, transition_matrix
from stratagraph.kernels.topk import top_k
from stratagraph.types.protocols import Rows

RESTART = 0.5
"""Restart probability, HippoRAG's."""
PASSAGE_SHARE = 0.2
"""Restart mass of the passages nearest to the question; the entities it names have the rest."""
_NEAREST = 100


class EntityWalk:
    """Personalised PageRank over passages, entities, and relations between entities.

    It restarts from entities the question names, weighted by rarity, and a little from the passages nearest
    to the question; from these alone if it names none. A relation weighs the number of its statements, a
    mention 1.
    """

    name = "ppr"
    description = "personalised PageRank over the passage-entity graph (HippoRAG-style)"

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._vectors = bench.vectors
        self._given = bench.question_entities
        self._graph = graph = bench.graph
        self._names = NameIndex(NameIndex.build([node.id for node in graph.entities]))
        passages = len(bench.chunks)
        mentions = np.stack(graph.mentions.T.nonzero(), axis=1) + np.array([0, passages])
        stated = graph.statements.sum(axis=1)
        self._transition = transition_matrix(
            passages + len(graph.entities),
            np.concatenate([mentions, graph.ends + passages]),
            np.concatenate([np.ones(len(mentions)), np.asarray(stated, np.float64)]),
        )

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        passages = len(self._bench.chunks)
        entries, weights = self._entries(question)
        nodes, mass = shallow_pagerank(
            self._transition, entries, weights=weights, restart=RESTART, steps=None, tolerance=1e-4
        )
        reached = nodes < passages
        nodes, mass = nodes[reached], mass[reached]
        order = np.lexsort((nodes, -mass))[:k]
        return [self._bench.passages[row] for row in nodes[order]]

    def _entries(self, question: str) -> tuple[Rows, NDArray[np.float64]]:
        vector = self._bench.embedder.question(question)
        rows, scores = top_k(self._vectors, vector, _NEAREST + 1)
        likeness = np.maximum(scores - (scores[-1] if len(scores) > _NEAREST else 0.0), 1e-6)
        near = likeness[:_NEAREST] / likeness[:_NEAREST].sum()
        named = self._named(question)
        if not len(named):
            return rows[:_NEAREST], near.astype(np.float64)
        rare = 1 / self._graph.frequency[named]
        entries = np.concatenate([len(self._bench.chunks) + named, rows[:_NEAREST]])
        return entries, np.concatenate([(1 - PASSAGE_SHARE) * rare / rare.sum(), PASSAGE_SHARE * near])

    def _named(self, question: str) -> Rows:
        """Entities of a question: those given for it, else those named in it."""
        names = map(canonical, self._given.get(question, ()))
        given = [self._graph.rows[name] for name in names if name in self._graph.rows]
        return np.unique(np.array(given, dtype=np.int64)) if given else link(question, self._names).named
