"""LightRAG's dual-level retrieval: keywords for entities, keywords for relations (Guo et al. 2024)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, Field
from scipy.sparse import csr_array

from papers.corpus import Baseline, Corpus, json_task
from stratagraph.eval import Passage
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.ingest.lexical import content_words
from stratagraph.kernels.topk import top_k

TOP_K, LEAST = 60, 0.2
"""Maximum entities or relations that keywords find in the program, and their minimum cosine similarity."""


class Keywords(BaseModel):
    """Themes and particular things of a question."""

    high_level: list[str] = Field(default_factory=list, description="Themes and aims of the question")
    low_level: list[str] = Field(default_factory=list, description="Names and particular things in it")


KEYWORDS = json_task("lightrag_keywords", Keywords, 60)


class Found(NamedTuple):
    """Rows that one level of keywords found, best first."""

    entities: list[int]
    relations: list[int]
    chunks: list[int]


class LightRAG(Baseline):
    """LightRAG: entities by low-level keywords, relations by high-level ones, and their passages.

    `local` takes entities similar to the low-level keywords, their relations (best connected ends first), and
    their passages (entity by entity, those first that its neighbours share). `global` takes relations similar
    to the high-level keywords, their ends, and the passages that state them. `hybrid` alternates both.
    Entities, relations and passages have a third of the context each, as in the program.

    This is the program of the paper's time; later ones take the passages most similar to the question.
    Neighbours one step away, which the paper adds, are in the relations. Keywords are the model's. Without a
    model, or where it fails or finds none, they are the names in the question and its other words.
    """

    def __init__(
        self,
        name: str,
        corpus: Corpus,
        *,
        mode: Literal["local", "global", "hybrid"] = "hybrid",
        passages: bool = False,
    ) -> None:
        super().__init__(name, corpus, passages=passages)
        self._mode = mode

    def ready(self) -> None:
        self._entities, self._relations = (
            self.corpus.embedder.documents([node.text for node in nodes]) if nodes else None
            for nodes in (self.graph.entities, self.graph.relations)
        )

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        keywords, levels, graph = self._keywords(question), [], self.graph
        if self._mode != "global" and keywords.low_level:
            levels.append(self._local(", ".join(keywords.low_level)))
        if self._mode != "local" and keywords.high_level:
            levels.append(self._global(", ".join(keywords.high_level)))
        chunks = self.shown(in_turn(each.chunks for each in levels))
        if self.passages:
            return chunks[:k]
        entities = [graph.entities[row] for row in in_turn(each.entities for each in levels)]
        relations = [graph.relations[row] for row in in_turn(each.relations for each in levels)]
        shown = [[self.passage(node.text, node.sources) for node in nodes] for nodes in (entities, relations)]
        return self.shared_out([(1 / 3, each) for each in (*shown, chunks)], k)

    def _keywords(self, question: str) -> Keywords:
        keywords = self.ask("keywords", KEYWORDS, question)
        if keywords is not None and (keywords.high_level or keywords.low_level):
            return keywords
        names = list(question_entities(question))
        named = {word.casefold() for name in names for word in name.split()}
        others = [word for word in content_words(question, "") if word.casefold() not in named]
        return Keywords(high_level=others or names or [question], low_level=names or others or [question])

    def _similar(self, vectors: np.ndarray | None, keywords: str) -> list[int]:
        if vectors is None:
            return []
        rows, scores = top_k(vectors, self.corpus.embedder.documents([keywords])[0], TOP_K)
        return rows[scores >= LEAST].tolist()

    def _local(self, keywords: str) -> Found:
        """Entities like the keywords, their relations, and the passages that their neighbours share."""
        graph, entities = self.graph, self._similar(self._entities, keywords)
        beside = np.flatnonzero(np.isin(graph.ends, entities).any(axis=1))
        degrees = graph.degrees[graph.ends[beside]].sum(axis=1)
        beside = beside[np.lexsort((beside, -graph.weights[beside], -degrees))]

        def neighbours(entity: int) -> csr_array:
            own = graph.ends[(graph.ends == entity).any(axis=1)].ravel()
            return graph.mentions[np.unique(own[own != entity])]

        return Found(entities, beside.tolist(), graph.by_support(entities, neighbours))

    def _global(self, keywords: str) -> Found:
        """Relations like the keywords, their ends, and the passages that state them."""
        graph, relations = self.graph, self._similar(self._relations, keywords)
        entities = dict.fromkeys(graph.ends[relations].ravel().tolist())
        chunks = dict.fromkeys(at for row in relations for at in sorted(graph.relations[row].sources))
        return Found(list(entities), relations, list(chunks))


def in_turn(rankings: Iterable[Sequence[int]]) -> list[int]:
    """The first of each ranking, then the second of each, and so on, without repeats."""
    both = chain.from_iterable(zip_longest(*rankings))
    return list(dict.fromkeys(row for row in both if row is not None))
