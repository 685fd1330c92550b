"""FastGraphRAG: entities by PageRank, relations by their ends, passages by their relations.

After the program of circlemind-ai; there is no paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stratagraph.eval.baselines import Damping
from stratagraph.eval.baselines.plain import Dense
from stratagraph.eval.baselines.shared import passage_of, shared_out
from stratagraph.eval.baselines.walks import Linker, Scores, best_passages, spread, synonyms
from stratagraph.eval.rankers import Passage, Workbench
from stratagraph.kernels.ppr import transition_matrix
from stratagraph.kernels.topk import top_k
from stratagraph.types.protocols import Rows, Vectors

NAMED = 0.7
"""Minimum similarity of an entity to a name in the question, whose whole share it then gets."""
ASKED, NEAREST = 0.5, 20
"""Minimum similarity of entities to the whole question, and how many of them share its restart."""
SAME, SAMES = 0.9, 2
"""Minimum similarity of entities that count as one, and how many are compared with each."""
MOST_ENTITIES, MOST_RELATIONS = 128, 64
SHARES = {"entities": 4, "relations": 3, "passages": 9}
"""Shares of the context in the program, in thousands of tokens."""


class FastGraphRAG:
    """PageRank over entities, passed on to facts and from them to passages.

    It restarts at the entity most similar to each name in the question, and at the twenty most similar to the
    question, by their names (the program uses descriptions, for which its bounds are too high here). Edges
    are facts, weighted by the passages that state them (the program merges more than five on a pair by a
    model), and pairs of nearly equal entities. Entities of at least `threshold` are kept, 128 at most. A fact
    scores the sum of its ends, and the best 64 are kept; a passage scores the sum of its facts. In view
    `nodes` entities, facts and passages have the program's shares of the context. A question without a
    similar entity is searched by similarity; the program returns nothing.

    Parameters
    ----------
    threshold
        0.005 in the program.
    damping
        0.8 in the program.
    """

    name = "fastgraphrag"
    description = "FastGraphRAG: PageRank over entities, passed on to relations and from them to passages"

    def __init__(self, bench: Workbench, *, threshold: float = 0.005, damping: Damping = 0.8) -> None:
        self._bench = bench
        self._graph = graph = bench.graph
        self._linker, self._dense = Linker(bench), Dense(bench)
        self._threshold, self._damping = threshold, damping
        self._vectors = self._linker.vectors
        self._facts = [row for row, each in enumerate(graph.triples) if each.subject != each.object]
        ends = [(graph.triples[row].subject, graph.triples[row].object) for row in self._facts]
        self._ends = np.array(ends, np.int64).reshape(-1, 2)
        self._stated = graph.stated[self._facts]
        same = self._same()
        self._transition = transition_matrix(
            len(graph.entities),
            np.concatenate([self._ends, same]),
            np.concatenate([self._stated.sum(axis=1), np.ones(len(same))]),
        )

    def _same(self) -> Rows:
        """Pairs of nearly equal entities without a common fact, shape (pairs, 2)."""
        if self._vectors is None:
            return np.zeros((0, 2), np.int64)
        related = {frozenset(pair) for pair in self._ends.tolist()}
        pairs, _ = synonyms(self._graph.names, self._vectors, SAME, most=SAMES, shortest=0)
        kept = [pair for pair in pairs.tolist() if frozenset(pair) not in related]
        return np.array(kept, np.int64).reshape(-1, 2)

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages or nodes, best first, without passages that state none of the facts."""
        restart = self._restart(question)
        if not restart.any():
            return self._dense.rank(question, k)
        mass = _kept(spread(self._transition, restart, self._damping), self._threshold, MOST_ENTITIES)
        facts = _kept(mass[self._ends].sum(axis=1), 0.0, MOST_RELATIONS)
        passages = self._stated.T @ facts
        if self._bench.view == "chunks":
            return best_passages(self._bench, passages, k)
        shown = {
            "entities": [self._entity(row) for row in _best(mass)],
            "relations": [self._fact(self._facts[row]) for row in _best(facts)],
            "passages": best_passages(self._bench, passages, len(passages)),
        }
        return shared_out([(share, shown[kind]) for kind, share in SHARES.items()], self._bench, k)

    def _restart(self, question: str) -> Scores:
        """The largest share of each entity over the names and the question, shape (entities,)."""
        restart = np.zeros(len(self._graph.entities))
        if self._vectors is None:
            return restart
        embedder = self._bench.embedder
        names = self._linker.names(question)
        asked = [(vector, 1, NAMED) for vector in (embedder.documents(names) if names else ())]
        for vector, most, least in [*asked, (embedder.question(question), NEAREST, ASKED)]:
            rows, shares = self._alike(vector, most, least)
            restart[rows] = np.maximum(restart[rows], shares)
        return restart

    def _alike(self, vector: Vectors, most: int, least: float) -> tuple[Rows, Scores]:
        """The entities nearest to a vector, if similar enough, and their shares of 1."""
        assert self._vectors is not None
        rows, scores = top_k(self._vectors, vector, most)
        near = scores >= least
        return rows[near], scores[near].astype(np.float64) / max(float(scores[near].sum()), 1e-8)

    def _entity(self, row: int) -> Passage:
        node = self._graph.entities[row]
        return passage_of(self._bench, node.text, node.sources)

    def _fact(self, row: int) -> Passage:
        return passage_of(self._bench, self._graph.triple_texts[row], self._graph.triples[row].chunks)


def _best(scores: Scores) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    best: list[int] = order[scores[order] > 0].tolist()
    return best


def _kept(scores: Scores, threshold: float, most: int) -> Scores:
    """Scores of at least a threshold, of at most so many rows; 0 for others."""
    kept = np.where(scores >= threshold, scores, 0.0)
    kept[np.argsort(-kept, kind="stable")[most:]] = 0
    return kept
