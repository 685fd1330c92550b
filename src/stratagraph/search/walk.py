"""Ranks passages by a walk over the graph of names; all methods share it.

Vector similarity alone does not find a second hop; names and walks do. So passages are ranked by a
personalised PageRank over the provenance graph (passages, the entities they name, relations). It restarts at
the entities that the question names, at the passages most similar to it, and at those with its words. The
less the names lead, the more the others count (`Gate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.lexical import Scored, best, content_words, whole_words
from stratagraph.ingest.names.index import NameIndex
from stratagraph.ingest.names.linking import Linked, link, linked_once
from stratagraph.kernels.ppr import shallow_pagerank
from stratagraph.kernels.topk import kth_largest
from stratagraph.search.ranking import Ranking, RowTable, reciprocal_ranks
from stratagraph.search.themes import theme
from stratagraph.types.protocols import Corpus, Rows, Vectors
from stratagraph.types.question import LONGEST, RANKS, SearchQuestion

RESTART = 0.2
STEPS = 4
"""Steps of the walk. Further ones touch much more of the graph and change little."""
PER_EDGE = 3e-5
"""Mass per edge below which a node passes nothing on: a step walks 33,000 edges at most, however large the
corpus."""
MOST_SEEDS = 1000
"""Nodes that a walk restarts from at most: those of largest weight."""
CONSIDERED = 100
"""Passages by similarity, and by words, from which a walk starts, or which are fused.

With 20 in place of 100, R@5 of the walk on five corpora changes by less than .001 in the mean.
"""
SIMILAR_SHARE = 0.06
"""Restart mass of the passage most similar to the question, where an entity named in it and found in one
passage has 1; the share that the gate lets words count is added."""
SIMILAR_POWER = 8
"""Power of a passage's relative similarity: the hundredth most similar passage is nearly as similar as the
first, and must not start as much of the walk."""
LEXICAL_POWER = 4
"""Power of a passage's BM25 relative to the best one, among seeds."""
BOOST_POWER = 2
"""The same where the walk's mass gains by it."""
LEXICAL_SHARE = 0.1
"""Restart mass of the passage with the best words, without names; a name of one passage has 1."""
LEXICAL_BOOST = 6.0
"""Factor that the mass of that passage gains at the end, in a question without names."""
HALVING_NAMES = 0.1
"""Mass of names, in a question of `USUAL_WORDS`, at which share and boost are halved."""
USUAL_WORDS = 8
"""Names count less in a longer question, by the square of its length over this one."""
HEAVIEST = 512
"""Passages of largest mass that are ordered at first, besides as many as are wanted."""
NEAR_SHARE = 0.25
"""Restart mass of an entity that the question may mean, where one that it names has 1.

So much that a misspelt name still leads the walk, and so little that a name which the corpus does not have
leads it nowhere: what is only alike does not outweigh what is named.
"""

_MEASURES = {"walk": "mass", "bm25": "score", "dense": "score", "hybrid": "reciprocal_ranks"}
_NO_ROWS: Rows = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Gate:
    """How much a question's words count, by the rarity of its names and its number of words.

    Rare names lead a walk to the subject and to the next hop; names that are everywhere (the two people of a
    chat) do not, and then the words must. The same holds for a long question, which says more by its words.

    Parameters
    ----------
    names
        Restart mass of the names in the question: the sum of 1 / (passages that have it).
    words
        Number of its different words without those of grammar.
    """

    names: float
    words: int

    @property
    def share(self) -> float:
        """Restart mass of the passage with the best words."""
        return LEXICAL_SHARE * self._open

    @property
    def boost(self) -> float:
        """Factor that the mass of the passage with the best words gains at the end."""
        return LEXICAL_BOOST * self._open

    @property
    def as_trace(self) -> dict[str, float]:
        """Its inputs and results, for the trace of a hit."""
        values = {"names": self.names, "words": self.words, "share": self.share, "boost": self.boost}
        return {name: round(value, 4) for name, value in values.items()}

    @property
    def _open(self) -> float:
        """From 1, in a question without names, towards 0."""
        names = self.names * (USUAL_WORDS / max(self.words, 1)) ** 2
        return HALVING_NAMES / (HALVING_NAMES + names)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What is known of a question before it is ranked."""

    vector: Vectors
    k: int
    allowed: NDArray[np.bool_] | None
    words: Scored
    similar: Rows
    similarity: NDArray[np.float32]

    def words_of(self, rows: Rows) -> NDArray[np.float32]:
        """BM25 scores of passages, 0 for those without any of the words."""
        scores = np.zeros(len(rows), np.float32)
        if len(self.words.rows):
            places = np.minimum(np.searchsorted(self.words.rows, rows), len(self.words.rows) - 1)
            has = self.words.rows[places] == rows
            scores[has] = self.words.scores[places[has]]
        return scores


class Words(Protocol):
    """Finds passages by the words of a question."""

    @property
    def language(self) -> str:
        """The language whose words of grammar are passed over."""

    def scores(self, question: str, allowed: NDArray[np.bool_] | None = None) -> Scored:
        """See `ingest.lexical.LexicalIndex.scores`."""

    def frequencies(self, asked: Sequence[str], allowed: NDArray[np.bool_] | None = None) -> Rows:
        """See `ingest.lexical.LexicalIndex.frequencies`."""


class Similar(Protocol):
    """Finds passages by similarity."""

    def search(
        self, query: Vectors, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Rows, NDArray[np.float32]]:
        """See `ingest.nearest.Nearest.search`."""


class Ground(Protocol):
    """What a walk stands on: names, words, and edges among passages and entities.

    Of one index (`Provenance`), or of several that are searched as one (`search.joined.JoinedGround`).
    """

    names: NameIndex
    lexical: Words
    frequency: Rows
    """In how many passages each entity is, shape (entities,)."""

    def walked(self, nodes: Rows, weights: NDArray[np.float64]) -> tuple[Rows, NDArray[np.float32]]:
        """Where a walk from these nodes comes, and its mass there; passages count first, then entities."""

    def mentioned(self, entities: Rows, allowed: NDArray[np.bool_]) -> bool:
        """Whether an admitted passage names one of these entities."""


class Provenance:
    """The ground of one index."""

    def __init__(self, graph: Graph, passages: int) -> None:
        self._graph = graph
        self.names = graph.names
        self.lexical: Words = graph.lexical
        self.frequency = graph.frequency
        self.matrix = transition(graph, passages)

    def walked(self, nodes: Rows, weights: NDArray[np.float64]) -> tuple[Rows, NDArray[np.float32]]:
        """See `Ground`."""
        return shallow_pagerank(
            self.matrix, nodes, weights=weights, restart=RESTART, steps=STEPS, per_edge=PER_EDGE
        )

    def mentioned(self, entities: Rows, allowed: NDArray[np.bool_]) -> bool:
        """See `Ground`."""
        return mentions(self._graph, entities, allowed)


def mentions(graph: Graph, entities: Rows, allowed: NDArray[np.bool_]) -> bool:
    """Whether one of the source passages of some entities of a graph is admitted."""
    indptr, indices = graph.sources
    return any(allowed[indices[indptr[row] : indptr[row + 1]]].any() for row in entities.tolist())


def transition(graph: Graph, passages: int) -> csr_array:
    """The transition matrix over the passages and entities of a stored graph."""
    arrays, nodes = graph.stored.arrays, passages + graph.entities
    parts = (arrays["walk.data"], arrays["walk.indices"], arrays["walk.indptr"])
    return csr_array(parts, shape=(nodes, nodes))


class PassageWalk:
    """Ranks the passages of an opened index. Safe to use from several threads."""

    def __init__(self, corpus: Corpus, ground: Ground, nearest: Similar) -> None:
        self._corpus = corpus
        self._ground = ground
        self._nearest = nearest
        self._frequency = ground.frequency
        self._documents = corpus.chunk_documents()

    def rank(
        self,
        question: str,
        vector: Vectors,
        k: int,
        *,
        allowed: NDArray[np.bool_] | None = None,
        entities: Sequence[str] | None = None,
        similar: tuple[Rows, NDArray[np.float32]] | None = None,
        linked: Linked | None = None,
        rank: str = "walk",
        theme: str | None = None,
    ) -> Ranking:
        """The `k` best admitted passages, with their similarity and BM25 in the trace.

        Parameters
        ----------
        question
            In any language. Names and words are looked for in its first `LONGEST` characters.
        vector
            Its unit vector, shape (dimension,).
        k
            How many passages; fewer where fewer are admitted, or share a word with the question (`bm25`).
        allowed
            The chunks that a filter admits, shape (corpus size,); None admits all.
        entities
            The names in the question, if they are known better than by `ingest.names.linking`.
        similar
            The `max(CONSIDERED, k)` most similar admitted passages, if they are known.
        linked
            The entities that the question names, if they are known.
        rank
            `walk`: an entity that the question names restarts with a mass of 1 shared among its passages, a
            similar passage with its similarity relative to the best, one with the question's words with what
            the gate lets them count; passages that no walk reaches follow by similarity. `bm25`, `dense`:
            by words or by similarity alone. `hybrid`: by reciprocal rank fusion of the two.
        theme
            What is searched for by words in place of the question (`theme`).

        Raises
        ------
        ValueError
            If there is no such ranking.
        """
        if rank not in RANKS:
            raise ValueError(f"rank must be one of {', '.join(RANKS)}, not {rank!r}")
        question = question[:LONGEST]
        evidence = _Evidence(
            vector,
            k,
            allowed,
            self._ground.lexical.scores(question if theme is None else theme, allowed),
            *(similar or self._nearest.search(vector, max(CONSIDERED, k), allowed)),
        )
        if rank == "walk":
            linked = linked or link(question, self._ground.names, entities)
            word_count = len(content_words(question, self._ground.lexical.language))
            return self._walked(evidence, linked, word_count)
        scored: tuple[Rows, NDArray[Any]] = (evidence.similar, evidence.similarity)
        if rank != "dense":
            scored = best(*evidence.words, max(CONSIDERED, k))
        if rank == "hybrid":
            scored = reciprocal_ranks([scored[0], evidence.similar])
        return self._described(evidence, *scored, rank, None)

    def linked(self, question: SearchQuestion) -> Linked:
        """The entities that a question names; found once for the walk and a method."""
        return linked_once(question, self._ground.names)

    def known(self, names: Sequence[str], allowed: NDArray[np.bool_] | None = None) -> list[str]:
        """Those of some names that an entity of an admitted passage has, in this spelling.

        What is only alike or contains a name is not asked for: it would tell of passages that are hidden.
        """
        return [
            name
            for name in names
            if len(rows := self._ground.names.equal(name))
            and (allowed is None or self._ground.mentioned(rows, allowed))
        ]

    def unknown(self, question: str, allowed: NDArray[np.bool_] | None = None) -> tuple[tuple[str, ...], int]:
        """The words of a question that no admitted passage has, and how many words were looked for."""
        asked = whole_words(question[:LONGEST])
        frequencies = self._ground.lexical.frequencies(asked, allowed).tolist()
        return tuple(word for word, count in zip(asked, frequencies, strict=True) if not count), len(asked)

    def theme(self, question: SearchQuestion) -> str | None:
        """See `search.themes.theme`."""
        return theme(question, self._ground, self._corpus.size)

    def _walked(self, evidence: _Evidence, linked: Linked, word_count: int) -> Ranking:
        names = 1.0 / np.maximum(self._frequency[linked.named], 1)
        near = NEAR_SHARE * linked.weights / np.maximum(self._frequency[linked.near], 1)
        gate = Gate(float(names.sum() + near.sum()), word_count)
        lexical, words = best(*evidence.words, CONSIDERED)
        similarity = _relative(evidence.similarity) ** SIMILAR_POWER
        nodes, weights = _heaviest(
            [
                (self._corpus.size + linked.named, names),
                (self._corpus.size + linked.near, near),
                (evidence.similar, (SIMILAR_SHARE + gate.share) * similarity),
                (lexical, gate.share * _relative(words) ** LEXICAL_POWER),
            ]
        )
        rows, mass = (
            self._ground.walked(nodes, weights) if len(nodes) else (_NO_ROWS, np.zeros(0, np.float32))
        )
        passages = rows < self._corpus.size
        if evidence.allowed is not None:
            passages[passages] = evidence.allowed[rows[passages]]
        rows, mass = self._best(rows[passages], mass[passages], evidence, gate.boost if len(words) else 0.0)
        return self._described(evidence, rows, mass, "walk", gate)

    def _best(self, rows: Rows, mass: NDArray[np.float32], evidence: _Evidence, boost: float) -> Scored:
        """The `k` best passages reached, with the boost of words and damped repeats of a document.

        Exact: only the heaviest are scored, because the others can gain at most `1 + boost`.
        """
        size = HEAVIEST + evidence.k
        while True:
            order = np.arange(len(mass)) if size >= len(mass) else np.argpartition(-mass, size)
            some, lighter = order[:size], float(mass[order[size:]].max(initial=0.0))
            scores = mass[some]
            if boost:
                words = evidence.words_of(rows[some]) / evidence.words.scores.max()
                scores *= 1 + boost * words**BOOST_POWER
            scores = repeats_damped(self._documents[rows[some]], rows[some], scores)
            scored = best(rows[some], scores, evidence.k)
            if len(some) == len(rows) or scored.scores[-1] > lighter * (1 + boost):
                return scored
            size *= 8

    def _described(
        self, evidence: _Evidence, rows: Rows, scores: NDArray[np.float32], by: str, gate: Gate | None
    ) -> Ranking:
        """The first `k` and why; where a walk reaches fewer, the most similar others follow with score 0."""
        rows, scores = rows[: evidence.k], scores[: evidence.k]
        if gate is not None and len(rows) < evidence.k:
            rest = evidence.similar[~np.isin(evidence.similar, rows)][: evidence.k - len(rows)]
            rows = np.concatenate([rows, rest])
            scores = np.concatenate([scores, np.zeros(len(rest), np.float32)])
        similarity = self._corpus.vectors[rows] @ evidence.vector
        columns = (scores.astype(np.float32), similarity, evidence.words_of(rows))
        decided = {} if gate is None else {"gate": gate.as_trace}
        trace = [
            {"rank": by, _MEASURES[by]: score, "similarity": cosine, "bm25": words, **decided}
            for score, cosine, words in zip(*(each.tolist() for each in columns), strict=True)
        ]
        return Ranking.of(RowTable.CHUNK, rows, scores, trace)


def _heaviest(parts: Sequence[tuple[Rows, NDArray[np.float64]]]) -> tuple[Rows, NDArray[np.float64]]:
    """The seeds of largest weight above 0; of equals the lower nodes."""
    nodes = np.concatenate([each for each, _ in parts])
    weights = np.concatenate([each for _, each in parts])
    if len(nodes) > MOST_SEEDS:  # a name may mean very many entities
        heavy = weights >= kth_largest(weights, MOST_SEEDS)
        nodes, weights = nodes[heavy], weights[heavy]
    order = np.lexsort((nodes, -weights))[:MOST_SEEDS]
    order = order[weights[order] > 0]
    return nodes[order], weights[order]


def _relative(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Scores, best first, relative to the best one; negative ones count as 0."""
    positive = np.maximum(scores.astype(np.float64), 0.0)
    return positive / positive[0] if len(positive) and positive[0] else positive


def repeats_damped(
    documents: NDArray[np.integer], rows: Rows, scores: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Scores of passages: that of the n-th best one of a document is divided by n.

    So one long document does not take all places: recall@5 on five corpora is .834 with it and .816 without.
    Within a document the order stays. Of equal scores the lower row comes first. `documents` holds the
    document of each passage; all arrays have shape (n,).
    """
    order = np.lexsort((rows, -scores, documents))
    ordered = documents[order]
    first = np.searchsorted(ordered, ordered)
    damped = scores.copy()
    damped[order] /= (np.arange(len(order)) - first + 1).astype(np.float32)
    return damped
