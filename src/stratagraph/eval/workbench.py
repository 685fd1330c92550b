"""Rankers, and what the rankers of a run share: passages, one embedder, one graph, one model."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph import _sync
from stratagraph.config import Config
from stratagraph.errors import ModelError
from stratagraph.eval.datasets import Dataset
from stratagraph.ingest.chunk import split
from stratagraph.ingest.extraction.candidates import settle
from stratagraph.ingest.extraction.stage import extract_corpus
from stratagraph.ingest.extraction.stored import extractions
from stratagraph.ingest.graph.entity_resolution import default_rule
from stratagraph.ingest.graph.merge import merge
from stratagraph.ingest.graph.stage import build_graph, resolved
from stratagraph.models.budget import Limits
from stratagraph.models.gate import Gate, ModelGate
from stratagraph.models.identity import embedder_name
from stratagraph.models.local import default_embedder
from stratagraph.store.files import Directory
from stratagraph.store.journal import Journal
from stratagraph.text import CountTokens
from stratagraph.types.built import Built
from stratagraph.types.protocols import Rows, Spans, VectorJournal, Vectors
from stratagraph.types.records import Chunk, Extraction, Node, chunk_id


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrieved text and its documents: one for a passage, several for a summary."""

    text: str
    documents: tuple[str, ...]


class Ranker(Protocol):
    """A retrieval system: a name, a line of description, and a ranking."""

    @property
    def name(self) -> str:
        """Unique within a run."""
        ...

    @property
    def description(self) -> str:
        """One line on what it does."""
        ...

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        ...


_TIMED = 20  # questions that are embedded one by one, to see what a question takes
_STAGE = "embed"
VECTORS = "vectors.sqlite"


class SharedEmbedder:
    """Wraps an embedder and remembers its vectors. An index built with it equals one of the wrapped embedder.

    Latencies measured through it do not contain the embedding of remembered questions. `embedder` is as
    `build_index` takes it; `journal` keeps vectors of passages and summaries from run to run.

    Attributes
    ----------
    wrapped
        The embedder.
    seconds, embedded
        Seconds that `learn` took for the passages, and how many of them were not in the journal.
    question_ms
        Median milliseconds to embed a question.
    """

    def __init__(
        self, embedder: Any, journal: VectorJournal | None = None, limits: Limits | None = None
    ) -> None:
        self.seconds = 0.0
        self.embedded = 0
        self.question_ms = 0.0
        self.wrapped = default_embedder() if embedder is None else embedder
        self._gate = ModelGate(None, self.wrapped, vectors=journal, limits=limits)
        self._documents: dict[str, Vectors] = {}
        self._questions: dict[str, Vectors] = {}
        if self._gate.offers_spans:  # asked for by that name, where it is offered

            async def aembed_spans(texts: list[str], spans: list[Spans]) -> tuple[Vectors, Vectors]:
                vectors, parts = await self._gate.embed_spans(_STAGE, texts, spans)
                return vectors, np.concatenate(parts)

            self.aembed_spans = aembed_spans

    @property
    def name(self) -> str:
        """Fingerprint of the wrapped embedder."""
        return embedder_name(self.wrapped, self._gate.dimension)

    async def aembed_documents(self, texts: list[str]) -> Vectors:
        """Unit vectors of passages, shape (len(texts), dimension)."""
        new = list(dict.fromkeys(text for text in texts if text not in self._documents))
        if new:
            vectors = await self._gate.embed(_STAGE, new)
            self._documents.update(zip(new, vectors, strict=True))
        return np.stack([self._documents[text] for text in texts])

    async def aembed_query(self, text: str) -> Vectors:
        """The unit vector of a question."""
        if text not in self._questions:
            self._questions[text] = await self._gate.embed_query(text)
        return self._questions[text]

    def documents(self, texts: Sequence[str]) -> Vectors:
        """See `aembed_documents`."""
        return _sync.run(self.aembed_documents(list(texts)))

    def question(self, text: str) -> Vectors:
        """The unit vector of a question."""
        vector = self._questions.get(text)
        return _sync.run(self.aembed_query(text)) if vector is None else vector

    def learn(self, passages: Sequence[str], questions: Sequence[str]) -> None:
        """Embed a corpus and its questions.

        Questions come first: a nameless embedder is identified by its dimension, by which the journal finds
        vectors.
        """
        distinct = list(dict.fromkeys(questions))
        spent = []
        for text in distinct[:_TIMED]:
            began = time.perf_counter()
            self.question(text)
            spent.append(1000 * (time.perf_counter() - began))
        self.question_ms = statistics.median(spent) if spent else 0.0
        _sync.run(self._ask(distinct[_TIMED:]))
        began = time.perf_counter()
        self.documents(passages)
        self.seconds = time.perf_counter() - began
        self.embedded = self._gate.ledger.stages[_STAGE].embedded_texts

    async def _ask(self, questions: Sequence[str]) -> None:
        await asyncio.gather(*(self.aembed_query(question) for question in questions))


@contextmanager
def shared_embedder(
    folder: str | Path | None, embedder: Any = None, limits: Limits | None = None
) -> Iterator[SharedEmbedder]:
    """A shared embedder whose vectors last in a folder, if one is given; the same for all runs with it."""
    if folder is None:
        yield SharedEmbedder(embedder, None, limits)
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    with closing(Journal(Directory.open(Path(folder)), VECTORS)) as vectors:
        yield SharedEmbedder(embedder, vectors, limits)


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
    for (first, second), relation in merged.relations.items():
        for chunk, subject, predicate in relation.strengths:
            target = second if subject == first else first
            facts.setdefault((rows[subject], predicate, rows[target]), set()).add(chunk)
    return SharedGraph(
        built.made,
        built.arrays["relations.ends"].values,
        built.arrays["relations.weights"].values,
        [Triple(*fact, tuple(sorted(stating))) for fact, stating in sorted(facts.items())],
        corpus.size,
    )


shared_graph = _sync.blocking(ashared_graph)


def ids_of(chunks: Iterable[Chunk]) -> list[str]:
    """The ids that passages have in an index. A text repeated in its document has a new id each time."""
    seen: Counter[str] = Counter()
    ids = []
    for chunk in chunks:
        first = chunk_id(chunk, 0)
        ids.append(chunk_id(chunk, seen[first]))
        seen[first] += 1
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


class Workbench:
    """What the rankers of a run share: one split of the corpus, one embedder, one model.

    Attributes
    ----------
    chunks
        Passages in the order of an index: by document id, then by place in the document.
    gate, judge_gates
        Gates of the model that answers and of those that judge.
    view
        `chunks` ranks passages, `nodes` whatever the ranker has, `default` what suits the method.
    waited
        Seconds that the ranker's own model calls took, by question.
    """

    def __init__(
        self,
        dataset: Dataset,
        embedder: SharedEmbedder,
        config: Config,
        gate: Gate,
        count_tokens: CountTokens,
        view: str = "default",
        judge_gates: Sequence[Gate] = (),
    ) -> None:
        self.dataset = dataset
        self.embedder = embedder
        self.config = config
        self.gate = gate
        self.judge_gates = tuple(judge_gates) or (gate,)
        self.count_tokens = count_tokens
        self.view = view
        parts = [
            chunk
            for item in dataset.documents
            for chunk in ([item] if isinstance(item, Chunk) else split(item, config.chunking, count_tokens))
        ]
        self.chunks = sorted(parts, key=lambda chunk: (chunk.document_id, chunk.ordinal))
        self.waited: dict[str, float] = {}
        self._graphs: list[SharedGraph | Exception] = []  # shared with the benches of all rows

    def apart(self, view: str) -> Workbench:
        """A copy for one ranker, with its view and a gate that counts its calls and failures."""
        other = copy(self)
        other.view = view
        other.waited = {}
        other.gate = self.gate.apart()
        other.gate.documents_of = lambda chunks: tuple(
            dict.fromkeys(self._documents[chunk] for chunk in chunks if chunk in self._documents)
        )
        return other

    @cached_property
    def _documents(self) -> dict[str, str]:
        """The document of a passage by its id, and by its row, which baselines name it by."""
        owners = [chunk.document_id for chunk in self.chunks]
        by_id = dict(zip(ids_of(self.chunks), owners, strict=True))
        return by_id | {str(row): owner for row, owner in enumerate(owners)}

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """The passages as baselines return them, by row."""
        return tuple(Passage(chunk.text, (chunk.document_id,)) for chunk in self.chunks)

    @cached_property
    def vectors(self) -> Vectors:
        """Unit vectors of the passages, shape (passages, dimension)."""
        return self.embedder.documents([chunk.searched_text for chunk in self.chunks])

    @property
    def graph(self) -> SharedGraph:
        """The graph of the passages, extracted once by the first ranker that needs it.

        If that fails, it fails for all: the model is not asked again.
        """
        if not self._graphs:
            extractions = self.dataset.extractions
            try:
                self._graphs.append(
                    shared_graph(self.chunks, self.vectors, self.gate, self.config, extractions)
                )
            except Exception as error:
                self._graphs.append(error)
        graph = self._graphs[0]
        if isinstance(graph, Exception):
            raise graph
        return graph

    @property
    def question_entities(self) -> Mapping[str, tuple[str, ...]]:
        """Given entities by the text of the question."""
        entities = self.dataset.question_entities
        return {each.question: entities[each.id] for each in self.dataset.questions if each.id in entities}


def needs_model(bench: Workbench, what: str) -> None:
    """Raise `ModelError` if there is no language model."""
    if not bench.gate.has_llm:
        raise ModelError(f"{what} needs a language model: give --llm NAME (in Python llm=...)")
