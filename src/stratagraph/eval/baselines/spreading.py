"""Parts of walks over a corpus' graph: names in a question, nodes for them, edges, PageRank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.eval.baselines.shared import OncePerQuestion
from stratagraph.eval.rankers import Passage, Workbench
from stratagraph.eval.shared_graph import SharedGraph
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.ingest.names.index import canonical
from stratagraph.kernels.ppr import shallow_pagerank
from stratagraph.kernels.topk import top_k
from stratagraph.search.decompose import DECOMPOSE
from stratagraph.types.protocols import Rows, Vectors

Scores = NDArray[np.float64]

SYNONYMS = 100
"""Maximum synonym edges from one entity, in HippoRAG's program."""
SHORTEST = 3
"""Minimum letters and digits of a name that looks for synonyms, in HippoRAG's program."""
_BLOCK = 512


class Namer:
    """Names in a question: those of the dataset, else the model's, else those found by rules."""

    def __init__(self, bench: Workbench) -> None:
        self._given = bench.question_entities
        self._asked = OncePerQuestion(bench.gate, "names", DECOMPOSE) if bench.gate.has_llm else None

    def names(self, question: str) -> tuple[str, ...]:
        """Names without repeats; may be empty."""
        if question in self._given:
            return tuple(dict.fromkeys(self._given[question]))
        found = None if self._asked is None else self._asked(question)
        return question_entities(question) if found is None else found.names


class Linker:
    """The entity most similar to a name, by the vectors of both."""

    def __init__(self, bench: Workbench, graph: SharedGraph) -> None:
        self._embedder = bench.embedder
        self._vectors = graph.vectors_of_names(bench.embedder) if graph.entities else None

    def link(self, names: Sequence[str]) -> tuple[Rows, Scores]:
        """The nearest entity of each name, each once with its best similarity; rows ascending."""
        best: dict[int, float] = {}
        if self._vectors is not None:
            for name in names:
                (row,), (score,) = top_k(self._vectors, self._embedder.documents([name])[0], 1)
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
    alike, likeness = synonyms(graph.names, graph.vectors_of_names(bench.embedder), synonymy)
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
