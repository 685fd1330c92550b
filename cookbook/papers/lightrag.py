"""LightRAG's dual-level retrieval: keywords for entities, keywords for relations (Guo et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, Field
from scipy.sparse import csr_array

from stratagraph.eval.baselines.plain import Dense
from stratagraph.eval.baselines.shared import OncePerQuestion, by_support, passage_of, shared_out
from stratagraph.eval.measuring import json_task
from stratagraph.eval.workbench import Passage, Workbench
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.ingest.lexical import content_words
from stratagraph.kernels.topk import top_k
from stratagraph.types.protocols import Vectors

Mode = Literal["local", "global", "hybrid", "mix", "naive"]
TOP_K = 60
"""Maximum entities or relations that keywords find, in the program."""
LEAST = 0.2
"""Minimum cosine similarity of these, in the program."""


class Keywords(BaseModel):
    """Themes and particular things of a question."""

    high_level: list[str] = Field(default_factory=list, description="Themes and aims of the question")
    low_level: list[str] = Field(default_factory=list, description="Names and particular things in it")


KEYWORDS = json_task("lightrag_keywords", Keywords, 60)


class _Level(NamedTuple):
    """Rows that one level of keywords found, best first."""

    entities: list[int]
    relations: list[int]
    chunks: list[int]


class LightRAG:
    """Low-level keywords find entities, high-level ones relations; each adds the other, and passages.

    `local` takes entities similar to the low-level keywords, their relations (best connected ends first), and
    their passages (entity by entity, those first that its neighbours share). `global` takes relations similar
    to the high-level keywords, their ends, and the passages that state them. `hybrid` alternates both, `mix`
    alternates these with the passages most similar to the question, and `naive` takes only the latter. In
    view `nodes` entities, relations and passages have a third of the context each, as in the program.

    This is the program of the paper's time; later ones take the passages most similar to the question.
    Neighbours one step away, which the paper adds, are in the relations.

    Keywords are the model's. Without a model, or where it fails or finds none, they are the names in the
    question and its other words.
    """

    name = "lightrag"
    description = "LightRAG: entities by low-level keywords, relations by high-level ones, and their passages"

    def __init__(self, bench: Workbench, *, mode: Mode = "hybrid") -> None:
        self._bench = bench
        self._graph = graph = bench.graph
        self._mode = mode
        self._dense = Dense(bench)
        self._asked = OncePerQuestion(bench, "keywords", KEYWORDS) if bench.gate.has_llm else None
        self._entities, self._relations = (
            bench.embedder.documents([node.text for node in nodes]) if nodes else None
            for nodes in (graph.entities, graph.relations)
        )

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages or nodes, best first."""
        if self._mode == "naive":
            return self._dense.rank(question, k)
        keywords = self._keywords(question)
        levels = []
        if self._mode != "global" and keywords.low_level:
            levels.append(self._local(", ".join(keywords.low_level)))
        if self._mode != "local" and keywords.high_level:
            levels.append(self._global(", ".join(keywords.high_level)))
        plain = self._dense.rows(question, k).tolist() if self._mode == "mix" else []
        chunks = [self._bench.passages[row] for row in in_turn([plain, *(each.chunks for each in levels)])]
        if self._bench.view == "chunks":
            return chunks[:k]
        entities = [self._graph.entities[row] for row in in_turn([each.entities for each in levels])]
        relations = [self._graph.relations[row] for row in in_turn([each.relations for each in levels])]
        shown = [
            [passage_of(self._bench, node.text, node.sources) for node in nodes]
            for nodes in (entities, relations)
        ]
        return shared_out([(1 / 3, each) for each in (*shown, chunks)], self._bench, k)

    def _keywords(self, question: str) -> Keywords:
        """The model's keywords; else the names in the question and its other words."""
        keywords = None if self._asked is None else self._asked(question)
        if keywords is not None and (keywords.high_level or keywords.low_level):
            return keywords
        names = list(question_entities(question))
        named = {word.casefold() for name in names for word in name.split()}
        others = [word for word in content_words(question, "") if word.casefold() not in named]
        return Keywords(high_level=others or names or [question], low_level=names or others or [question])

    def _similar(self, vectors: Vectors | None, keywords: str) -> list[int]:
        if vectors is None:
            return []
        rows, scores = top_k(vectors, self._bench.embedder.documents([keywords])[0], TOP_K)
        return [row for row, score in zip(rows.tolist(), scores.tolist(), strict=True) if score >= LEAST]

    def _local(self, keywords: str) -> _Level:
        """Entities like the keywords, their relations, and the passages that their neighbours share."""
        graph = self._graph
        entities = self._similar(self._entities, keywords)
        beside = np.flatnonzero(np.isin(graph.ends, entities).any(axis=1))
        degrees = graph.degrees[graph.ends[beside]].sum(axis=1)
        beside = beside[np.lexsort((beside, -graph.weights[beside], -degrees))]

        def neighbours(entity: int) -> csr_array:
            own = graph.ends[(graph.ends == entity).any(axis=1)].ravel()
            return graph.mentions[np.unique(own[own != entity])]

        return _Level(entities, beside.tolist(), by_support(graph, entities, neighbours))

    def _global(self, keywords: str) -> _Level:
        """Relations like the keywords, their ends, and the passages that state them."""
        graph = self._graph
        relations = self._similar(self._relations, keywords)
        entities = dict.fromkeys(graph.ends[relations].ravel().tolist())
        chunks = dict.fromkeys(at for row in relations for at in sorted(graph.relations[row].sources))
        return _Level(list(entities), relations, list(chunks))


def in_turn(rankings: Sequence[Sequence[int]]) -> list[int]:
    """The first of each ranking, then the second of each, and so on, without repeats."""
    both = chain.from_iterable(zip_longest(*rankings))
    return list(dict.fromkeys(row for row in both if row is not None))
