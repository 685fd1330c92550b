"""HippoRAG (Gutiérrez et al. 2024) and HippoRAG 2 (Gutiérrez et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field

from stratagraph.eval.baselines import Damping, Weight
from stratagraph.eval.baselines.plain import Dense
from stratagraph.eval.baselines.shared import OncePerQuestion
from stratagraph.eval.baselines.walks import (
    Linker,
    Scores,
    best_passages,
    phrase_edges,
    relative,
    spread,
)
from stratagraph.eval.measuring import json_task
from stratagraph.eval.rankers import Passage, Workbench, needs_model
from stratagraph.kernels.ppr import transition_matrix


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
