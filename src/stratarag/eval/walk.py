"""A walk over passages and the entities in them, as HippoRAG does it (Gutiérrez et al. 2024)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratarag.eval.rankers import Passage, Workbench
from stratarag.kernels.ppr import shallow_pagerank, transition_matrix
from stratarag.kernels.topk import top_k
from stratarag.pipeline.extraction.by_rules import extract
from stratarag.pipeline.names.index import NameIndex, canonical
from stratarag.pipeline.names.linking import link
from stratarag.protocols import Rows
from stratarag.records import Chunk, Extraction

RESTART = 0.5
"""Restart probability, HippoRAG's."""
PASSAGE_SHARE = 0.2
"""Restart mass of the passages nearest to the question; the entities it names have the rest."""
_NEAREST = 100


class EntityWalk:
    """Personalised PageRank over passages, their entities, and relations between entities.

    The walk restarts from entities that the question names, a rare one more often, and a little from the
    passages nearest to the question: from these alone where it names none. Passages are ranked by their mass.
    Entities are those given with the dataset, else those that the package extracts without a model.
    """

    name = "ppr"
    description = "personalised PageRank over the passage-entity graph (HippoRAG-style)"

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._vectors = bench.vectors
        self._given = bench.question_entities
        mentions, relations, names = _read(bench)
        self._names = NameIndex(NameIndex.build(names))
        self._entities = {name: row for row, name in enumerate(names)}
        self._rarity = 1 / np.maximum(np.bincount(mentions[:, 1], minlength=len(names)), 1)
        self._transition = _graph(len(bench.chunks), len(names), mentions, relations)

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        passages = len(self._bench.chunks)
        entries, weights = self._entries(question)
        nodes, mass = shallow_pagerank(
            self._transition, entries, weights=weights, restart=RESTART, steps=None, tolerance=1e-4
        )
        reached = nodes < passages
        nodes, mass = nodes[reached], mass[reached]
        order = np.lexsort((nodes, -mass))[:k]
        return [self._bench.passages[row] for row in nodes[order]]

    def _entries(self, question: str) -> tuple[Rows, NDArray[np.float64]]:
        """Where the walk restarts, and with what shares."""
        vector = self._bench.embedder.question(question)
        rows, scores = top_k(self._vectors, vector, _NEAREST + 1)
        likeness = np.maximum(scores - (scores[-1] if len(scores) > _NEAREST else 0.0), 1e-6)
        near = likeness[:_NEAREST] / likeness[:_NEAREST].sum()
        named = self._named(question)
        if not len(named):
            return rows[:_NEAREST], near.astype(np.float64)
        rare = self._rarity[named] / self._rarity[named].sum()
        entries = np.concatenate([len(self._bench.chunks) + named, rows[:_NEAREST]])
        return entries, np.concatenate([(1 - PASSAGE_SHARE) * rare, PASSAGE_SHARE * near])

    def _named(self, question: str) -> Rows:
        """The entities that a question names: those given for it, else those found in it."""
        given = [
            self._entities[key]
            for key in map(canonical, self._given.get(question, ()))
            if key in self._entities
        ]
        return np.unique(np.array(given, dtype=np.int64)) if given else link(question, self._names).named


def _read(bench: Workbench) -> tuple[Rows, Rows, list[str]]:
    """Pairs of chunk and entity, pairs of related entities, and the entities' names."""
    rows: dict[str, int] = {}
    mentions: dict[tuple[int, int], None] = {}
    relations: list[tuple[int, int]] = []
    for number, chunk in enumerate(bench.chunks):
        extraction = _extraction(bench, chunk)
        for entity in extraction.entities:
            if key := canonical(entity.name):
                mentions[number, rows.setdefault(key, len(rows))] = None
        for relation in extraction.relations:
            ends = canonical(relation.source), canonical(relation.target)
            if ends[0] in rows and ends[1] in rows:
                relations.append((rows[ends[0]], rows[ends[1]]))
    return _pairs(mentions), _pairs(relations), list(rows)


def _extraction(bench: Workbench, chunk: Chunk) -> Extraction:
    given = bench.dataset.extractions
    found = given.get(chunk.ref) if chunk.ref else given.get(chunk.document_id)
    return extract(chunk.text, title=str(chunk.metadata.get("title") or "")) if found is None else found


def _pairs(pairs: Sequence[tuple[int, int]] | dict[tuple[int, int], None]) -> Rows:
    return np.array(list(pairs), dtype=np.int64).reshape(-1, 2)


def _graph(passages: int, entities: int, mentions: Rows, relations: Rows) -> csr_array:
    """Passages first, then entities. A relation weighs as often as it is stated, a mention 1."""
    stated = Counter((min(pair), max(pair)) for pair in relations.tolist())
    related = np.array(list(stated), dtype=np.int64).reshape(-1, 2) + passages
    ends = np.concatenate([mentions + np.array([0, passages]), related])
    weights = np.concatenate([np.ones(len(mentions)), np.array(list(stated.values()), dtype=np.float64)])
    return transition_matrix(passages + entities, ends, weights)
