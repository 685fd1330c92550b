"""The corpus' graph for baselines, from the extraction that the package's methods index.

It is made by the stages of a build: from given extractions, else the model's (cached where an index was built
before), else the rules'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph import _sync
from stratagraph.config import Config
from stratagraph.ingest.extraction.candidates import settle
from stratagraph.ingest.extraction.stage import extract_corpus
from stratagraph.ingest.extraction.stored import extractions
from stratagraph.ingest.graph.entity_resolution import default_rule
from stratagraph.ingest.graph.merge import merge
from stratagraph.ingest.graph.stage import build_graph, resolved
from stratagraph.models.gate import Gate
from stratagraph.types.built import Built
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.records import Chunk, Extraction, Node, content_id


@dataclass(frozen=True, slots=True)
class Triple:
    """A fact between two entities by their rows, and the rows of the chunks that state it."""

    subject: int
    predicate: str
    object: int
    chunks: tuple[int, ...]


class SharedGraph:
    """Entities, relations and triples of a corpus, with their chunks.

    Attributes
    ----------
    entities, relations
        Nodes as an index has them, sorted by canonical name and by pair: `text`, `sources` (rows of chunks),
        `extra["name"]`.
    ends
        Rows of the entities of each relation, shape (relations, 2).
    weights
        Sum of the strengths of each relation, shape (relations,).
    triples
        The distinct facts, sorted.
    """

    def __init__(
        self, nodes: Sequence[Node], ends: Rows, weights: Vectors, triples: Sequence[Triple], size: int
    ) -> None:
        self.entities = [node for node in nodes if node.kind == "entity"]
        self.relations = [node for node in nodes if node.kind == "relation"]
        self.ends = ends
        self.weights = weights
        self.triples = triples
        self._chunks = size

    @cached_property
    def names(self) -> list[str]:
        """Names of the entities, as texts write them."""
        return [str(node.extra["name"]) for node in self.entities]

    @cached_property
    def mentions(self) -> csr_array:
        """1 where a chunk mentions an entity, shape (entities, chunks)."""
        return self._incidence([node.sources for node in self.entities])

    @cached_property
    def appearances(self) -> csr_array:
        """Number of triples of a chunk an entity is in, 1 if only mentioned, shape (entities, chunks)."""
        places = [
            (end, chunk)
            for each in self.triples
            for end in {each.subject, each.object}
            for chunk in each.chunks
        ]
        rows, columns = np.array(places, np.int64).reshape(-1, 2).T
        counts = csr_array((np.ones(len(places)), (rows, columns)), shape=self.mentions.shape)
        return counts.maximum(self.mentions)

    @cached_property
    def statements(self) -> csr_array:
        """1 where a chunk states a relation, shape (relations, chunks)."""
        return self._incidence([node.sources for node in self.relations])

    @cached_property
    def stated(self) -> csr_array:
        """1 where a chunk states a triple, shape (triples, chunks)."""
        return self._incidence([each.chunks for each in self.triples])

    @cached_property
    def frequency(self) -> Rows:
        """Number of chunks of each entity, at least 1, shape (entities,)."""
        counts: Rows = np.diff(self.mentions.indptr).astype(np.int64)
        return np.maximum(counts, 1)

    @cached_property
    def degrees(self) -> Rows:
        """Number of relations of each entity, shape (entities,)."""
        return np.bincount(self.ends.ravel(), minlength=len(self.entities))

    @cached_property
    def triple_texts(self) -> list[str]:
        """Subject, predicate and object of each triple as one text."""
        return [
            " ".join(
                part for part in (self.names[each.subject], each.predicate, self.names[each.object]) if part
            )
            for each in self.triples
        ]

    def _incidence(self, sources: Sequence[Iterable[int]]) -> csr_array:
        rows = [np.unique(np.fromiter(each, np.int64)) for each in sources]
        indptr = np.cumsum([0, *map(len, rows)])
        indices = np.concatenate([np.zeros(0, np.int64), *rows])
        return csr_array((np.ones(len(indices)), indices, indptr), shape=(len(sources), self._chunks))


async def ashared_graph(
    chunks: Sequence[Chunk],
    vectors: Vectors,
    gate: Gate,
    config: Config,
    given: Mapping[str, Extraction],
) -> SharedGraph:
    """Extract and merge the passages of a run as `build_index` does. Errors are those of the gate."""
    corpus = _Corpus(chunks, vectors)
    settings = config.extraction
    use_llm = gate.has_llm and settings.mode != "nlp"
    extracted: Any = _Held(
        await extract_corpus(
            corpus, gate, config=settings, previous=None, use_llm=use_llm, given=given or None
        )
    )
    built = await build_graph(corpus, extracted, gate, config=settings, previous=None, use_llm=use_llm)
    merged = merge(extractions(extracted, corpus.size))
    settle(merged, corpus.size)
    if settings.resolve:
        merged = await resolved(corpus, extracted, merged, gate, rule=default_rule, use_llm=use_llm)
    rows = {node.id: row for row, node in enumerate(built.made) if node.kind == "entity"}
    facts: dict[tuple[int, str, int], set[int]] = {}  # equal facts of several chunks are one
    for relation in merged.relations.values():
        for chunk, subject, target, predicate in relation.texts:
            facts.setdefault((rows[subject], predicate, rows[target]), set()).add(chunk)
    return SharedGraph(
        built.made,
        built.arrays["relations.ends"],
        built.arrays["relations.weights"],
        [Triple(*fact, tuple(sorted(stating))) for fact, stating in sorted(facts.items())],
        corpus.size,
    )


shared_graph = _sync.blocking(ashared_graph)


def ids_of(chunks: Iterable[Chunk]) -> list[str]:
    """The ids of passages in an index: a text that a document has again gets another id each time."""
    seen: Counter[tuple[str, str]] = Counter()
    ids = []
    for chunk in chunks:
        place = chunk.document_id, chunk.text
        ids.append(content_id(*place, str(seen[place])))
        seen[place] += 1
    return ids


class _Corpus:
    def __init__(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        self._chunks = chunks
        self.vectors = vectors
        self._ids = ids_of(chunks)
        documents = sorted({each.document_id for each in chunks})
        places = {identity: place for place, identity in enumerate(documents)}
        self._documents = np.array([places[each.document_id] for each in chunks], np.int32)

    @property
    def size(self) -> int:
        return len(self._chunks)

    def chunk_documents(self) -> NDArray[np.int32]:
        return self._documents

    def ids(self, rows: Sequence[int]) -> list[str]:
        return [self._ids[row] for row in rows]

    def texts(self, rows: Sequence[int]) -> list[str]:
        return [self._chunks[row].text for row in rows]

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        return [replace(self._chunks[row], id=self._ids[row]) for row in rows]


class _Held:
    """A stage's output as a stored part; only its nodes are read when nothing was built before."""

    def __init__(self, built: Built) -> None:
        self._nodes = built.made

    def nodes(self, rows: Sequence[int]) -> list[Node]:
        return [self._nodes[row] for row in rows]
