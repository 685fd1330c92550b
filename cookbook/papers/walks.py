"""PageRank from the names in a question: HippoRAG, HippoRAG 2, FastGraphRAG, and KAG's mutual index.

HippoRAG: Gutiérrez et al. 2024 and 2025. FastGraphRAG: after the program of circlemind-ai; there is no paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from scipy.sparse import csr_array

from stratagraph.eval.baselines import Damping, Share, Weight
from stratagraph.eval.baselines.plain import Dense
from stratagraph.eval.baselines.shared import OncePerQuestion, passage_of, shared_out
from stratagraph.eval.measuring import json_task
from stratagraph.eval.workbench import Passage, Workbench, needs_model
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.ingest.names.index import canonical
from stratagraph.kernels.ppr import shallow_pagerank, transition_matrix
from stratagraph.kernels.topk import top_k
from stratagraph.search.questions import DECOMPOSE
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
        answer = None if self._asked is None else self._asked(question)
        return question_entities(question) if answer is None else answer.names

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


class HippoRAG:
    """HippoRAG: nodes are entities, edges are triples and synonyms.

    A triple weighs the number of passages that state it, a pair of synonyms its similarity. Each name in the
    question is linked to the entity with the most similar name. These share the restart mass by node
    specificity 1 / |P_i|, with |P_i| the number of passages that mention it. A passage scores the sum of the
    probabilities of its entities, each as often as it is in its triples, once if only mentioned. A question
    without a name is searched by similarity, as in the authors' program.

    Parameters
    ----------
    specificity
        Whether node specificity is used.
    synonymy
        Minimum cosine similarity of synonyms (0.8 in the paper); none above 1.
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
        self._linker, self._dense = Linker(bench), Dense(bench)
        self._damping = damping
        self._weights = 1 / graph.frequency if specificity else np.ones(len(graph.entities))
        self._transition = transition_matrix(len(graph.entities), *phrase_edges(bench, synonymy))

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages with a reached entity, best first."""
        linked, _ = self._linker.link(question)
        if not len(linked):
            return self._dense.rank(question, k)
        restart = np.zeros(len(self._graph.entities))
        restart[linked] = self._weights[linked]
        mass = spread(self._transition, restart, self._damping)
        return best_passages(self._bench, self._graph.appearances.T @ mass, k)


LINKED = 5
"""Maximum number of linked triples, and of entities that are seeds."""


class Relevant(BaseModel):
    """The numbers of the facts that may help to answer a question."""

    facts: list[int] = Field(description="Numbers of the facts that help; may be empty")


RECOGNITION = json_task("recognition", Relevant, 20)


class HippoRAG2:
    """HippoRAG 2: nodes are entities and passages; edges are triples, synonyms, and mentions.

    An edge between entities weighs twice that of HippoRAG's graph, a mention 1: the program enters the former
    from both ends of an undirected graph.

    The five triples most similar to the question are linked; with recognition memory the model removes those
    that do not help. An entity in them restarts with the mean similarity of its triples (scaled to [0, 1])
    divided by the number of its passages; the five heaviest are kept. Every passage restarts with its own
    similarity (scaled to [0, 1]) times `passage_weight`. Passages are ranked by their own mass, and by
    similarity if no triple is left.

    Parameters
    ----------
    recognition
        Whether the model filters the triples; None filters if there is a model.
    passage_weight
        0.05 in the paper.
    synonymy, damping
        As for HippoRAG.
    """

    name = "hipporag2"
    description = (
        "HippoRAG 2: triples like the question, recognition memory, PageRank over entities and passages"
    )

    def __init__(
        self,
        bench: Workbench,
        *,
        recognition: bool | None = None,
        passage_weight: Weight = 0.05,
        synonymy: float = 0.8,
        damping: Damping = 0.5,
    ) -> None:
        if recognition:
            needs_model(bench, "recognition memory")
        self._bench = bench
        self._graph = graph = bench.graph
        recognises = bench.gate.has_llm if recognition is None else recognition
        self._recognition = OncePerQuestion(bench, "recognition", RECOGNITION) if recognises else None
        self._passage_weight, self._damping = passage_weight, damping
        self._dense = Dense(bench)
        self._facts = bench.embedder.documents(graph.triple_texts) if graph.triples else None
        entities = len(graph.entities)
        mentions = np.stack(graph.mentions.nonzero(), axis=1)
        ends, weights = phrase_edges(bench, synonymy)
        self._transition = transition_matrix(
            entities + len(bench.chunks),
            np.concatenate([ends, mentions + np.array([0, entities])]),
            np.concatenate([2 * weights, np.ones(len(mentions))]),
        )

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        vector = self._bench.embedder.question(question)
        if self._facts is None:
            return self._dense.rank(question, k)
        scores = relative((self._facts @ vector).astype(np.float64))
        linked: Sequence[int] = np.argsort(-scores, kind="stable")[:LINKED].tolist()
        if self._recognition is not None:
            linked = self._recognised(self._recognition, question, linked)
        if not linked:
            return self._dense.rank(question, k)
        passages = relative((self._bench.vectors @ vector).astype(np.float64))
        restart = np.concatenate([self._seeds(linked, scores), self._passage_weight * passages])
        mass = spread(self._transition, restart, self._damping)
        return best_passages(self._bench, mass[len(self._graph.entities) :], k)

    def _seeds(self, linked: Sequence[int], scores: Scores) -> Scores:
        graph = self._graph
        total, times = np.zeros(len(graph.entities)), np.zeros(len(graph.entities))
        for fact in linked:
            for end in (graph.triples[fact].subject, graph.triples[fact].object):
                total[end] += scores[fact] / graph.frequency[end]
                times[end] += 1
        mean = total / np.maximum(times, 1)
        mean[np.argsort(-mean, kind="stable")[LINKED:]] = 0
        return mean

    def _recognised(
        self, ask: OncePerQuestion[Relevant], question: str, linked: Sequence[int]
    ) -> Sequence[int]:
        """The triples that the model finds helpful; all if it fails."""
        texts = [self._graph.triple_texts[row] for row in linked]
        helpful = ask(question, facts="\n".join(f"[{place}] {text}" for place, text in enumerate(texts, 1)))
        if helpful is None:
            return linked
        return [row for place, row in enumerate(linked, 1) if place in helpful.facts]


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
        apart = [pair for pair in pairs.tolist() if frozenset(pair) not in related]
        return np.array(apart, np.int64).reshape(-1, 2)

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages or nodes, best first, without passages that state none of the facts."""
        restart = self._restart(question)
        if not restart.any():
            return self._dense.rank(question, k)
        mass = _strongest(spread(self._transition, restart, self._damping), self._threshold, MOST_ENTITIES)
        facts = _strongest(mass[self._ends].sum(axis=1), 0.0, MOST_RELATIONS)
        passages = self._stated.T @ facts
        if self._bench.view == "chunks":
            return best_passages(self._bench, passages, k)
        graph, bench = self._graph, self._bench
        entities = [graph.entities[row] for row in _best(mass)]
        relations = [self._facts[row] for row in _best(facts)]
        shown = {
            "entities": [passage_of(bench, node.text, node.sources) for node in entities],
            "relations": [
                passage_of(bench, graph.triple_texts[row], graph.triples[row].chunks) for row in relations
            ],
            "passages": best_passages(bench, passages, len(passages)),
        }
        return shared_out([(share, shown[kind]) for kind, share in SHARES.items()], bench, k)

    def _restart(self, question: str) -> Scores:
        """The largest share of each entity over the names and the question, shape (entities,)."""
        restart = np.zeros(len(self._graph.entities))
        if self._vectors is None:
            return restart
        embedder = self._bench.embedder
        names = self._linker.names(question)
        of_names = [(vector, 1, NAMED) for vector in (embedder.documents(names) if names else ())]
        for vector, most, least in [*of_names, (embedder.question(question), NEAREST, ASKED)]:
            rows, scores = top_k(self._vectors, vector, most)
            rows, near = rows[scores >= least], scores[scores >= least]
            shares = near.astype(np.float64) / max(float(near.sum()), 1e-8)
            restart[rows] = np.maximum(restart[rows], shares)
        return restart


def _best(scores: Scores) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    best: list[int] = order[scores[order] > 0].tolist()
    return best


def _strongest(scores: Scores, threshold: float, most: int) -> Scores:
    """Scores of at least a threshold, of at most so many rows; 0 for others."""
    best = np.where(scores >= threshold, scores, 0.0)
    best[np.argsort(-best, kind="stable")[most:]] = 0
    return best


CANDIDATES = 20
"""Similar passages that are compared, for each passage that is returned."""


class MutualIndex:
    """KAG's mutual index: edges join entities with the passages that mention them, and related entities.

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
