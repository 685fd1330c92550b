"""PageRank from the names in a question: HippoRAG, HippoRAG 2, FastGraphRAG, and KAG's mutual index.

HippoRAG: Gutiérrez et al. 2024 and 2025. FastGraphRAG: after the program of circlemind-ai; there is no paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field

from papers.corpus import Baseline, Corpus, json_task
from stratagraph.eval import Passage
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.ingest.names.index import canonical
from stratagraph.kernels.ppr import shallow_pagerank, transition_matrix
from stratagraph.kernels.topk import top_k
from stratagraph.search.questions import DECOMPOSE

SYNONYM, SYNONYMS, SHORTEST = 0.8, 100, 3
"""Of HippoRAG's synonym edges: least similarity, most from one entity, and least letters of its name."""
DAMPING = 0.5
"""Probability of following an edge in HippoRAG; KAG states none."""


class Walk(Baseline):
    """A system that starts from the entities most similar to the names in a question."""

    def ready(self) -> None:
        names = self.graph.names
        self.vectors = self.corpus.embedder.documents(names) if names else None
        self.entities = len(names)
        ends, weights = self.edges()
        self.transition = transition_matrix(self.entities + self.extra, ends, weights)

    extra = 0  # nodes beside the entities

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends, shape (edges, 2), and weights of the graph that is walked."""
        raise NotImplementedError

    def names(self, question: str) -> tuple[str, ...]:
        """Names in the question: those that the model finds, else those that rules find."""
        answer = self.ask("names", DECOMPOSE, question)
        return question_entities(question) if answer is None else answer.names

    def linked(self, question: str) -> dict[int, float]:
        """The entity most similar to each name, with its best similarity; rows ascending."""
        best: dict[int, float] = {}
        for name in self.names(question) if self.vectors is not None else ():
            (row,), (score,) = top_k(self.vectors, self.corpus.embedder.documents([name])[0], 1)
            best[int(row)] = max(float(score), best.get(int(row), -1.0))
        return dict(sorted(best.items()))

    def spread(self, restart: np.ndarray, damping: float = DAMPING) -> np.ndarray:
        """Personalised PageRank to convergence, shape (nodes,), from masses of which proportions matter."""
        entries = np.flatnonzero(restart > 0)
        rows, mass = shallow_pagerank(
            self.transition,
            entries,
            weights=restart[entries],
            restart=1 - damping,
            steps=None,
            tolerance=1e-6,
        )
        scores = np.zeros(len(restart))
        scores[rows] = mass
        return scores

    def mentions(self) -> np.ndarray:
        """Edges between entities and the passages that mention them, which are nodes after them."""
        return np.stack(self.graph.mentions.nonzero(), axis=1) + np.array([0, self.entities])


def synonyms(
    names: Sequence[str],
    vectors: np.ndarray,
    threshold: float,
    *,
    most: int = SYNONYMS,
    shortest: int = SHORTEST,
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of names of at least this cosine similarity, shape (pairs, 2), and their similarities.

    Each name of at least `shortest` letters and digits finds at most the `most` nearest.
    """
    pairs: dict[tuple[int, int], float] = {}
    for row, name in enumerate(names):
        if len(canonical(name).replace(" ", "")) < shortest:
            continue
        likeness = vectors @ vectors[row]
        near = np.flatnonzero(likeness >= threshold)
        near = near[np.argsort(-likeness[near], kind="stable")]
        for other in near[near != row][:most].tolist():
            pairs[min(row, other), max(row, other)] = float(likeness[other])
    return np.array(list(pairs), np.int64).reshape(-1, 2), np.array(list(pairs.values()), np.float64)


def relative(scores: np.ndarray) -> np.ndarray:
    """Scores scaled to [0, 1]; all 1 if they are equal."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)


class HippoRAG(Walk):
    """HippoRAG: PageRank over entities, joined by triples and synonyms, from the names in the question.

    A triple weighs the number of passages that state it, a pair of synonyms its similarity, also where it has
    triples. The linked entities share the restart mass by node specificity 1 / |P_i|, with |P_i| the number
    of passages that mention it. A passage scores the sum of the probabilities of its entities, each as often
    as it is in its triples, once if only mentioned. A question without a name is searched by similarity, as
    in the authors' program.
    """

    def __init__(
        self,
        name: str,
        corpus: Corpus,
        *,
        specificity: bool = True,
        synonymy: bool = True,
        passages: bool = True,
    ) -> None:
        super().__init__(name, corpus, passages=passages)
        self._specificity, self._synonymy = specificity, synonymy

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        graph = self.graph
        stated = [each for each in graph.triples if each.subject != each.object]
        facts = np.array([(each.subject, each.object) for each in stated], np.int64).reshape(-1, 2)
        weights = np.array([len(each.chunks) for each in stated], np.float64)
        if self.vectors is None or not self._synonymy:
            return facts, weights
        alike, likeness = synonyms(graph.names, self.vectors, SYNONYM)
        same = {frozenset(pair) for pair in alike.tolist()}
        apart = np.array([frozenset(pair) not in same for pair in facts.tolist()], bool)
        return np.concatenate([facts[apart], alike]), np.concatenate([weights[apart], likeness])

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        linked = list(self.linked(question))
        if not linked:
            return self.shown(self.nearest(question, k))
        restart = np.zeros(self.entities)
        restart[linked] = 1 / self.graph.frequency[linked] if self._specificity else 1
        return self.best(self.graph.appearances.T @ self.spread(restart), k)


class Relevant(BaseModel):
    """The numbers of the facts that may help to answer a question."""

    facts: list[int] = Field(description="Numbers of the facts that help; may be empty")


RECOGNITION = json_task("recognition", Relevant, 20)
LINKED = 5
"""Maximum number of linked triples, and of entities that are seeds."""
PASSAGE_WEIGHT = 0.05
"""Of a passage's similarity to the question, as its restart mass."""


class HippoRAG2(HippoRAG):
    """HippoRAG 2: PageRank over entities and passages, from the triples most similar to the question.

    An edge between entities weighs twice that of HippoRAG's graph, a mention 1: the program enters the former
    from both ends of an undirected graph. Five triples are linked; where there is a model, it removes those
    that do not help (recognition memory). An entity in them restarts with the mean similarity of its triples
    (scaled to [0, 1]) divided by the number of its passages; the five heaviest are kept. Every passage
    restarts with its own similarity (scaled to [0, 1]) times `PASSAGE_WEIGHT`. Passages are ranked by their
    own mass, and by similarity if no triple is left.
    """

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        ends, weights = super().edges()
        self.extra, mentions = len(self.corpus.chunks), self.mentions()
        facts = self.graph.triple_texts
        self._facts = self.corpus.embedder.documents(facts) if facts else None
        return np.concatenate([ends, mentions]), np.concatenate([2 * weights, np.ones(len(mentions))])

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        vector = self.corpus.embedder.question(question)
        linked: list[int] = []
        if self._facts is not None:
            scores = relative((self._facts @ vector).astype(np.float64))
            linked = self._recognised(question, np.argsort(-scores, kind="stable")[:LINKED].tolist())
        if not linked:
            return self.shown(self.nearest(question, k))
        similar = relative((self.corpus.vectors @ vector).astype(np.float64))
        restart = np.concatenate([self._seeds(linked, scores), PASSAGE_WEIGHT * similar])
        return self.best(self.spread(restart)[self.entities :], k)

    def _seeds(self, linked: list[int], scores: np.ndarray) -> np.ndarray:
        total, times = np.zeros(self.entities), np.zeros(self.entities)
        for fact in linked:
            for end in (self.graph.triples[fact].subject, self.graph.triples[fact].object):
                total[end] += scores[fact] / self.graph.frequency[end]
                times[end] += 1
        mean = total / np.maximum(times, 1)
        mean[np.argsort(-mean, kind="stable")[LINKED:]] = 0
        return mean

    def _recognised(self, question: str, linked: list[int]) -> list[int]:
        """The triples that the model finds helpful; all without a model, or if it fails."""
        lines = [f"[{place}] {self.graph.triple_texts[row]}" for place, row in enumerate(linked, 1)]
        helpful = self.ask("recognition", RECOGNITION, question, facts="\n".join(lines))
        if helpful is None:
            return linked
        return [row for place, row in enumerate(linked, 1) if place in helpful.facts]


NAMED = 0.7
"""Minimum similarity of an entity to a name in the question, whose whole share it then gets."""
WHOLE, NEAREST = 0.5, 20
"""Minimum similarity of entities to the whole question, and how many of them share its restart."""
SAME, SAMES = 0.9, 2
"""Minimum similarity of entities that count as one, and how many are compared with each."""
LEAST, MOST_ENTITIES, MOST_RELATIONS = 0.005, 128, 64
"""Least probability of an entity that is kept, and how many entities and facts are, at most."""
FOLLOWED = 0.8


class FastGraphRAG(Walk):
    """FastGraphRAG: PageRank over entities, passed on to facts and from them to passages.

    It restarts at the entity most similar to each name in the question, and at the twenty most similar to the
    question, by their names (the program uses descriptions, for which its bounds are too high here). Edges
    are facts, weighted by the passages that state them (the program merges more than five on a pair by a
    model), and pairs of nearly equal entities. A fact scores the sum of its ends, a passage that of its
    facts. Entities, facts and passages have the program's shares of the context. A question without a similar
    entity is searched by similarity; the program returns nothing.
    """

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        graph = self.graph
        self._facts = [row for row, each in enumerate(graph.triples) if each.subject != each.object]
        ends = [(graph.triples[row].subject, graph.triples[row].object) for row in self._facts]
        self._ends, self._stated = np.array(ends, np.int64).reshape(-1, 2), graph.stated[self._facts]
        related, pairs = {frozenset(pair) for pair in ends}, np.zeros((0, 2), np.int64)
        if self.vectors is not None:
            pairs, _ = synonyms(graph.names, self.vectors, SAME, most=SAMES, shortest=0)
        apart = [pair for pair in pairs.tolist() if frozenset(pair) not in related]
        same = np.array(apart, np.int64).reshape(-1, 2)
        weights = np.concatenate([self._stated.sum(axis=1), np.ones(len(same))])
        return np.concatenate([self._ends, same]), weights

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        restart = self._restart(question)
        if not restart.any():
            return self.shown(self.nearest(question, k))
        mass = _strongest(self.spread(restart, FOLLOWED), LEAST, MOST_ENTITIES)
        facts = _strongest(mass[self._ends].sum(axis=1), 0.0, MOST_RELATIONS)
        scores = self._stated.T @ facts
        if self.passages:
            return self.best(scores, k)
        graph = self.graph
        triples = [graph.triples[self._facts[row]] for row in _best(facts)]
        texts = [graph.triple_texts[self._facts[row]] for row in _best(facts)]
        entities = [
            self.passage(graph.entities[row].text, graph.entities[row].sources) for row in _best(mass)
        ]
        relations = [self.passage(text, each.chunks) for text, each in zip(texts, triples, strict=True)]
        return self.shared_out([(4, entities), (3, relations), (9, self.best(scores, len(scores)))], k)

    def _restart(self, question: str) -> np.ndarray:
        """The largest share of each entity over the names and the question, shape (entities,)."""
        restart, embedder = np.zeros(self.entities), self.corpus.embedder
        if self.vectors is None:
            return restart
        names = self.names(question)
        of_names = [(vector, 1, NAMED) for vector in (embedder.documents(names) if names else ())]
        for vector, most, least in [*of_names, (embedder.question(question), NEAREST, WHOLE)]:
            rows, scores = top_k(self.vectors, vector, most)
            rows, near = rows[scores >= least], scores[scores >= least].astype(np.float64)
            restart[rows] = np.maximum(restart[rows], near / max(near.sum(), 1e-8))
        return restart


def _best(scores: np.ndarray) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    return order[scores[order] > 0].tolist()


def _strongest(scores: np.ndarray, threshold: float, most: int) -> np.ndarray:
    """Scores of at least a threshold, of at most so many rows; 0 for others."""
    best = np.where(scores >= threshold, scores, 0.0)
    best[np.argsort(-best, kind="stable")[most:]] = 0
    return best


CANDIDATES = 20
"""Similar passages that are compared, for each passage that is returned."""
CERTAIN, WALK_SHARE = 0.9, 0.5


class MutualIndex(Walk):
    """KAG's mutual index: PageRank over entities and passages, joined with similarity.

    Edges join entities with the passages that mention them, and related entities. The walk restarts from the
    entities most similar to the names in the question. If all similarities exceed `CERTAIN`, passages are
    ranked by PageRank alone; else by its sum with the similarity to the question, both scaled to [0, 1].
    Entities have no types here, so each name finds one. The program replaces the last passage by the best one
    by keywords; a ranking that is cut at several depths has no last one.
    """

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        self.extra = len(self.corpus.chunks)
        ends = np.concatenate([self.graph.ends, self.mentions()])
        return ends, np.ones(len(ends))

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        linked = self.linked(question)
        if not linked:
            return self.shown(self.nearest(question, k))
        restart = np.zeros(self.entities + self.extra)
        restart[list(linked)] = 1
        walked = self.spread(restart)[self.entities :]
        if min(linked.values()) > CERTAIN:
            return self.best(walked, k)
        similar, vector = np.zeros(self.extra), self.corpus.embedder.question(question)
        rows, scores = top_k(self.corpus.vectors, vector, min(self.extra, CANDIDATES * k))
        similar[rows] = np.maximum(scores, 0)
        return self.best(WALK_SHARE * relative(walked) + (1 - WALK_SHARE) * relative(similar), k)
