"""HippoRAG 2: triples that are like the question, passages as nodes (Gutiérrez et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field

from stratagraph.eval.baselines.asking import Asked
from stratagraph.eval.baselines.options import Damping, Weight
from stratagraph.eval.baselines.plain import Dense
from stratagraph.eval.baselines.spreading import (
    Scores,
    best_passages,
    phrase_edges,
    relative,
    spread,
)
from stratagraph.eval.rankers import Passage, Workbench, needs_model
from stratagraph.kernels.ppr import transition_matrix
from stratagraph.models.gate import Task
from stratagraph.models.structured import json_as
from stratagraph.pipeline.prompts import load_prompt

LINKED = 5
"""Triples that are linked to a question, and entities that are seeds, at most."""


class Relevant(BaseModel):
    """The numbers of the facts that may help to answer a question."""

    facts: list[int] = Field(description="Numbers of the facts that help; may be empty")


RECOGNITION: Task[Relevant] = Task(
    name="eval/recognition",
    prompt=load_prompt("stratagraph.eval", "recognition"),
    parse=json_as(Relevant),
    placeholder=lambda values: Relevant(facts=[1]),
    schema=Relevant,
    expected_output_tokens=20,
)


class HippoRAG2:
    """Nodes are entities and passages; edges are triples, synonyms, and passages with what they mention.

    An edge between entities weighs twice what it does in HippoRAG's graph, a mention 1: the program enters
    the former from both ends, as two edges of one undirected graph.

    The five triples most similar to the question are linked; with recognition memory the model strikes out
    those that do not help. An entity in them restarts with the mean similarity of its triples (0 to 1 over
    all triples) divided by the number of its passages; the five heaviest do. Every passage restarts with its
    own similarity (0 to 1 over all passages) times `passage_weight`. Passages are ranked by their own mass.
    Without a triple left, by similarity.

    Parameters
    ----------
    recognition
        Whether the model filters the triples; None: where there is a model. Without, this is an LLM-free
        form.
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
        self._recognition = Asked(bench.gate, "recognition", RECOGNITION) if recognises else None
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
        """The restart masses of the entities."""
        graph = self._graph
        total, times = np.zeros(len(graph.entities)), np.zeros(len(graph.entities))
        for fact in linked:
            for end in (graph.triples[fact].subject, graph.triples[fact].object):
                total[end] += scores[fact] / graph.frequency[end]
                times[end] += 1
        mean = total / np.maximum(times, 1)
        mean[np.argsort(-mean, kind="stable")[LINKED:]] = 0
        return mean

    def _recognised(self, ask: Asked[Relevant], question: str, linked: Sequence[int]) -> Sequence[int]:
        """Those triples that the model holds for helpful; all of them where it fails."""
        texts = [self._graph.triple_texts[row] for row in linked]
        helpful = ask(question, facts="\n".join(f"[{place}] {text}" for place, text in enumerate(texts, 1)))
        if helpful is None:
            return linked
        return [row for place, row in enumerate(linked, 1) if place in helpful.facts]
