"""From what a method found to source passages: one projection for all methods.

Vector hits alone do not find a second hop; names and walks do. So passages are ranked by a personalised
PageRank over the provenance graph (passages and the entities they name, entities and their relations). It
restarts at the entities that the question names, at the passages most similar to it, and at whatever the
method itself found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratarag.kernels.ppr import shallow_pagerank
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.names.linking import link
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.ranking import Origin, Ranking
from stratarag.protocols import Corpus, Rows, Vectors

RESTART = 0.3
STEPS = 4
"""Steps of the walk. Further ones touch much more of the graph and change little."""
PER_EDGE = 3e-5
"""Mass per edge below which a node passes nothing on: a step walks 33,000 edges at most, however large the
corpus."""
MOST_SEEDS = 1000
"""Nodes that a walk restarts from at most: those of largest weight."""
SIMILAR_PASSAGES = 100
SIMILAR_SHARE = 0.08
"""Restart mass of the passage most similar to the question, where an entity named in it and found in one
passage has 1."""
SHARPNESS = 8
"""Power of a passage's relative similarity: the hundredth most similar passage is nearly as similar as the
first, and must not start as much of the walk."""
NEAR_SHARE = 0.25
"""Restart mass of an entity that the question may mean, where one that it names has 1.

So much that a misspelt name still leads the walk, and so little that a name which the corpus does not have
leads it nowhere: what is only alike does not outweigh what is named.
"""

_NO_ROWS: Rows = np.zeros(0, dtype=np.int64)
_NO_WEIGHTS: NDArray[np.float64] = np.zeros(0)


@dataclass(frozen=True, slots=True)
class Seeds:
    """What a method adds to the restart: rows of chunks and of entities, with weights above 0."""

    chunks: Rows = field(default_factory=lambda: _NO_ROWS)
    chunk_weights: NDArray[np.float64] = field(default_factory=lambda: _NO_WEIGHTS)
    entities: Rows = field(default_factory=lambda: _NO_ROWS)
    entity_weights: NDArray[np.float64] = field(default_factory=lambda: _NO_WEIGHTS)


@dataclass(frozen=True, slots=True)
class RankedPassages:
    """Passages best first, their share of the walk's mass, and their similarity to the question.

    `named` are rows of the entities that the question names.
    """

    rows: Rows
    mass: NDArray[np.float32]
    similarity: NDArray[np.float32]
    named: Rows

    @property
    def found(self) -> Ranking:
        """As a ranking; the trace tells mass and similarity."""
        trace = [
            {"mass": float(mass), "similarity": float(similarity)}
            for mass, similarity in zip(self.mass, self.similarity, strict=True)
        ]
        return Ranking.of(Origin.CHUNK, self.rows, self.mass, trace)


class PassageWalk:
    """Ranks the passages of an opened index."""

    def __init__(self, corpus: Corpus, graph: Graph, nearest: Nearest) -> None:
        self._corpus = corpus
        self._graph = graph
        self._nearest = nearest
        arrays = graph.stored.arrays
        nodes = corpus.size + graph.entities
        parts = (arrays["walk.data"], arrays["walk.indices"], arrays["walk.indptr"])
        self._transition = csr_array(parts, shape=(nodes, nodes))
        self._frequency = np.diff(graph.sources[0][: graph.entities + 1])

    def rank(
        self,
        question: str,
        vector: Vectors,
        k: int,
        *,
        allowed: NDArray[np.bool_] | None = None,
        entities: Sequence[str] | None = None,
        seeds: Seeds | None = None,
        fuzzy: bool = True,
    ) -> RankedPassages:
        """The `k` best admitted passages.

        An entity that the question names restarts with a mass of 1 shared among its passages, a similar
        passage with its similarity relative to the best. `entities` are the names in the question, if they
        are known better than by `pipeline.names.linking`; with `fuzzy`, a name that no entity has stands for
        those most like it. Passages that no walk reaches follow by similarity.
        """
        seeds = seeds or Seeds()
        named, _, near, likeness = link(question, self._graph.names, entities, fuzzy=fuzzy)
        similar, similarity = self._nearest.search(vector, max(SIMILAR_PASSAGES, k), allowed)
        nodes = np.concatenate(
            [
                self._corpus.size + named,
                self._corpus.size + near,
                similar,
                seeds.chunks,
                self._corpus.size + seeds.entities,
            ]
        )
        weights = np.concatenate(
            [
                1.0 / np.maximum(self._frequency[named], 1),
                NEAR_SHARE * likeness / np.maximum(self._frequency[near], 1),
                SIMILAR_SHARE * _relative(similarity),
                seeds.chunk_weights,
                seeds.entity_weights,
            ]
        )
        nodes, weights = _heaviest(nodes, weights)
        if not len(nodes):
            return self._ranked(_NO_ROWS, np.zeros(0, np.float32), similar, vector, k, named)
        reached, mass = shallow_pagerank(
            self._transition, nodes, weights=weights, restart=RESTART, steps=STEPS, per_edge=PER_EDGE
        )
        passages = reached < self._corpus.size
        if allowed is not None:
            passages[passages] = allowed[reached[passages]]
        return self._ranked(reached[passages], mass[passages], similar, vector, k, named)

    def _ranked(
        self, rows: Rows, mass: NDArray[np.float32], similar: Rows, vector: Vectors, k: int, named: Rows
    ) -> RankedPassages:
        order = np.lexsort((rows, -mass))[:k]
        rows, mass = rows[order], mass[order]
        if len(rows) < k:
            rest = similar[~np.isin(similar, rows)][: k - len(rows)]
            rows = np.concatenate([rows, rest])
            mass = np.concatenate([mass, np.zeros(len(rest), np.float32)])
        return RankedPassages(rows, mass, self._corpus.vectors[rows] @ vector, named)


def _heaviest(nodes: Rows, weights: NDArray[np.float64]) -> tuple[Rows, NDArray[np.float64]]:
    """The seeds of largest weight; of equals the lower nodes. What weighs nothing is none."""
    order = np.lexsort((nodes, -weights))[:MOST_SEEDS]
    order = order[weights[order] > 0]
    return nodes[order], weights[order]


def _relative(similarity: NDArray[np.float32]) -> NDArray[np.float64]:
    """Similarities as parts of the best one, sharpened; what points away from the question counts nothing."""
    positive = np.maximum(similarity.astype(np.float64), 0.0)
    return np.asarray((positive / positive[0]) ** SHARPNESS) if len(positive) and positive[0] else positive
