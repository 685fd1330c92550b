"""KAG's mutual index, and the parts of walks over entities that several baselines use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.eval.baselines import Damping, Share
from stratagraph.eval.baselines.plain import Dense
from stratagraph.eval.baselines.shared import OncePerQuestion
from stratagraph.eval.rankers import Passage, Workbench
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.ingest.names.index import canonical
from stratagraph.kernels.ppr import shallow_pagerank, transition_matrix
from stratagraph.kernels.topk import top_k
from stratagraph.search.decompose import DECOMPOSE
from stratagraph.types.protocols import Rows, Vectors

Scores = NDArray[np.float64]

SYNONYMS = 100
"""Maximum synonym edges from one entity, in HippoRAG's program."""
SHORTEST = 3
"""Minimum letters and digits of a name that looks for synonyms, in HippoRAG's program."""
_BLOCK = 512


class Linker:
    """Finds the names in a question, and their entities.

    Names are those that the data set gives; else those that the model names; else those that rules find.

    `vectors` are those of the entities' names, shape (entities, dimension); None without entities.
    """

    def __init__(self, bench: Workbench) -> None:
        self._embedder = bench.embedder
        self._given = bench.question_entities
        self._asked = OncePerQuestion(bench, "names", DECOMPOSE) if bench.gate.has_llm else None
        names = bench.graph.names
        self.vectors = bench.embedder.documents(names) if names else None

    def names(self, question: str) -> tuple[str, ...]:
        """Names without repeats; may be empty."""
        if question in self._given:
            return tuple(dict.fromkeys(self._given[question]))
        found = None if self._asked is None else self._asked(question)
        return question_entities(question) if found is None else found.names

    def link(self, question: str) -> tuple[Rows, Scores]:
        """The entity most similar to each name, each once with its best similarity; rows ascending."""
        best: dict[int, float] = {}
        names = self.names(question)
        if self.vectors is not None:
            for name in names:
                (row,), (score,) = top_k(self.vectors, self._embedder.documents([name])[0], 1)
                best[int(row)] = max(float(score), best.get(int(row), -1.0))
        linked = sorted(best)
        return np.array(linked, np.int64), np.array([best[row] for row in linked], np.float64)


def synonyms(
    names: Sequence[str],
    vectors: Vectors,
    threshold: float,
    *,
    most: int = SYNONYMS,
    shortest: int = SHORTEST,
) -> tuple[Rows, Scores]:
    """Pairs of names of at least this cosine similarity, shape (pairs, 2), and their similarities.

    Each name of at least `shortest` letters and digits finds at most the `most` nearest.
    """
    long = np.array([len(canonical(name).replace(" ", "")) >= shortest for name in names], bool)
    pairs: dict[tuple[int, int], float] = {}
    for start in range(0, len(names), _BLOCK):
        block = vectors[start : start + _BLOCK] @ vectors.T
        for place, likeness in enumerate(block):
            row = start + place
            if not long[row]:
                continue
            near = np.flatnonzero(likeness >= threshold)
            near = near[np.argsort(-likeness[near], kind="stable")]
            for other in near[near != row][:most].tolist():
                pairs[min(row, other), max(row, other)] = float(likeness[other])
    return np.array(list(pairs), np.int64).reshape(-1, 2), np.array(list(pairs.values()), np.float64)


def phrase_edges(bench: Workbench, synonymy: float) -> tuple[Rows, Scores]:
    """Edges between entities in HippoRAG's graphs, shape (edges, 2), and their weights.

    A triple weighs the number of passages that state it, a pair of synonyms its similarity (none if
    `synonymy` is above 1). A pair that has both weighs its similarity, as in the programs.
    """
    graph = bench.graph
    stated = [each for each in graph.triples if each.subject != each.object]
    facts = np.array([(each.subject, each.object) for each in stated], np.int64).reshape(-1, 2)
    weights = np.array([len(each.chunks) for each in stated], np.float64)
    if not graph.entities or synonymy > 1:
        return facts, weights
    alike, likeness = synonyms(graph.names, bench.embedder.documents(graph.names), synonymy)
    same = {frozenset(pair) for pair in alike.tolist()}
    apart = np.array([frozenset(pair) not in same for pair in facts.tolist()], bool)
    return np.concatenate([facts[apart], alike]), np.concatenate([weights[apart], likeness])


def spread(transition: csr_array, restart: Scores, damping: float) -> Scores:
    """Personalised PageRank to convergence, shape (nodes,).

    `restart` are masses, shape (nodes,), not all 0, of which only proportions matter. `damping` is the
    probability of following an edge.
    """
    entries = np.flatnonzero(restart > 0)
    rows, mass = shallow_pagerank(
        transition, entries, weights=restart[entries], restart=1 - damping, steps=None, tolerance=1e-6
    )
    scores = np.zeros(len(restart))
    scores[rows] = mass
    return scores


def relative(scores: Scores) -> Scores:
    """Scores scaled to [0, 1]; all 1 if they are equal."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)


def best_passages(bench: Workbench, scores: Scores, k: int) -> list[Passage]:
    """The `k` passages with the highest scores above 0; equal ones in the order of the corpus."""
    order = np.argsort(-scores, kind="stable")[:k]
    return [bench.passages[row] for row in order[scores[order] > 0]]


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
        self._linker, self._dense = Linker(bench), Dense(bench)
        self._certain, self._share, self._damping = certain, walk_share, damping
        entities = len(graph.entities)
        mentions = np.stack(graph.mentions.nonzero(), axis=1) + np.array([0, entities])
        ends = np.concatenate([graph.ends, mentions])
        self._transition = transition_matrix(entities + len(bench.chunks), ends, np.ones(len(ends)))

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        linked, likeness = self._linker.link(question)
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
