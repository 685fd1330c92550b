"""What the compared systems share: the run's passages, their vectors, one graph, and a gate for each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel
from scipy.sparse import csr_array

from stratagraph import _sync
from stratagraph.errors import CallFailed, ModelError
from stratagraph.eval import Indexing, Passage, Ranker
from stratagraph.eval.answering import unestimated
from stratagraph.eval.rankers import AnswerFailed, Workbench
from stratagraph.ingest.extraction.stage import extract_corpus
from stratagraph.ingest.graph.entity_resolution import resolved
from stratagraph.ingest.graph.grouping import Grouping
from stratagraph.ingest.graph.stage import build_graph
from stratagraph.ingest.graph.tables import tabulated
from stratagraph.kernels.topk import top_k
from stratagraph.models.gate import Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as
from stratagraph.types.records import Failure, Node, Usage, chunk_id, content_keys

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
ASK = "ask "
"""Prefix of the stages of calls that a search makes."""


class Triple(NamedTuple):
    """A fact between two entities by their rows, and the rows of the chunks that state it."""

    subject: int
    predicate: str
    object: int
    chunks: tuple[int, ...]


class Graph:
    """Entities, relations and distinct facts of a corpus, as an index merges them, with their chunks.

    `ends` are the rows of the entities of each relation, shape (relations, 2), `weights` their strengths.
    """

    def __init__(self, nodes: Sequence[Node], arrays: Any, triples: Sequence[Triple], chunks: int) -> None:
        self.entities = [node for node in nodes if node.kind == "entity"]
        self.relations = [node for node in nodes if node.kind == "relation"]
        self.names = [str(node.extra["name"]) for node in self.entities]
        self.ends, self.weights = arrays["relations.ends"].values, arrays["relations.weights"].values
        self.triples = triples
        self.mentions = _incidence([node.sources for node in self.entities], chunks)
        self.statements = _incidence([node.sources for node in self.relations], chunks)
        self.stated = _incidence([each.chunks for each in triples], chunks)
        self.frequency = np.maximum(np.diff(self.mentions.indptr), 1)
        self.degrees = np.bincount(self.ends.ravel(), minlength=len(self.entities))
        parts = ((self.names[each.subject], each.predicate, self.names[each.object]) for each in triples)
        self.triple_texts = [" ".join(filter(None, each)) for each in parts]

    @cached_property
    def appearances(self) -> csr_array:
        """Number of triples of a chunk an entity is in, 1 if only mentioned, shape (entities, chunks)."""
        ends = [{each.subject, each.object} for each in self.triples]
        places = [
            (end, at)
            for each, own in zip(self.triples, ends, strict=True)
            for end in own
            for at in each.chunks
        ]
        rows, columns = np.array(places, np.int64).reshape(-1, 2).T
        counts = csr_array((np.ones(len(places)), (rows, columns)), shape=self.mentions.shape)
        return counts.maximum(self.mentions)

    def by_support(self, entities: Iterable[int], support: Callable[[int], csr_array]) -> list[int]:
        """Chunks, entity by entity, those first that most rows of the entity's support have."""
        listed: dict[int, None] = {}
        for row in entities:
            counts = np.asarray(support(row).sum(axis=0)).ravel()
            listed |= dict.fromkeys(sorted(self.entities[row].sources, key=lambda at: (-counts[at], at)))
        return list(listed)


def _incidence(sources: Sequence[Iterable[int]], chunks: int) -> csr_array:
    rows = [np.unique(np.fromiter(each, np.int64)) for each in sources]
    indices = np.concatenate([np.zeros(0, np.int64), *rows])
    return csr_array(
        (np.ones(len(indices)), indices, np.cumsum([0, *map(len, rows)])), (len(sources), chunks)
    )


class Corpus:
    """The passages of a run, their unit vectors, and the graph, which is extracted once for all systems."""

    def __init__(self) -> None:
        self._graph: Graph | Exception | None = None

    def open(self, bench: Workbench) -> None:
        """Take over what the run has; once."""
        if not hasattr(self, "bench"):
            self.bench = bench
            self.chunks, self.embedder, self.count_tokens = bench.chunks, bench.embedder, bench.count_tokens
            self.passages = [Passage(each.text, (each.document_id,)) for each in self.chunks]
            self.vectors = self.embedder.documents([each.searched_text for each in self.chunks])

    def documents_of(self, chunks: Sequence[str]) -> tuple[str, ...]:
        """The documents of passages, which are named by their ids or rows."""
        known = {str(row): chunk for row, chunk in enumerate(self.chunks)}
        known |= {chunk.id: chunk for chunk in _Passages(self).chunks(range(len(self.chunks)))}
        return tuple(dict.fromkeys(known[each].document_id for each in chunks if each in known))

    def graph(self, gate: Any) -> Graph:
        """The graph. If it cannot be extracted, that fails for all: the model is not asked again."""
        if self._graph is None:
            try:
                self._graph = _sync.run(self._extracted(gate))
            except Exception as error:
                self._graph = error
        if isinstance(self._graph, Exception):
            raise self._graph
        return self._graph

    async def _extracted(self, gate: Any) -> Graph:
        settings, given = self.bench.config.extraction, self.bench.dataset.extractions or None
        corpus: Any = _Passages(self)
        asked: dict[str, Any] = {"config": settings, "previous": None}
        asked["use_llm"] = gate.has_llm and settings.mode != "nlp"
        extracted: Any = _Held((await extract_corpus(corpus, gate, given=given, **asked)).made)
        built = await build_graph(corpus, extracted, gate, **asked)
        tables, texts = tabulated(extracted, corpus.size)
        graph = Grouping(tables)
        if settings.resolve:
            graph = await resolved(corpus, extracted, tables, graph, gate, use_llm=asked["use_llm"])
        source, target, said, stating = (each.tolist() for each in graph.stated())
        facts: dict[tuple[int, str, int], set[int]] = {}  # equal facts of several chunks are one
        for subject, key, other, chunk in zip(source, said, target, stating, strict=True):
            facts.setdefault((subject, texts[key], other), set()).add(chunk)
        triples = [Triple(*fact, tuple(sorted(stating))) for fact, stating in sorted(facts.items())]
        return Graph(built.made, built.arrays, triples, corpus.size)


class _Passages:
    """The passages as the stages of a build read them, with the ids that they have in an index."""

    def __init__(self, corpus: Corpus) -> None:
        seen: Counter[str] = Counter()
        self.vectors, self.size, self._chunks = corpus.vectors, len(corpus.chunks), []
        for chunk in corpus.chunks:  # a text repeated in its document has a new id each time
            first = chunk_id(chunk, 0)
            self._chunks.append(replace(chunk, id=chunk_id(chunk, seen[first])))
            seen[first] += 1
        documents = sorted({each.document_id for each in self._chunks})
        places = {identity: place for place, identity in enumerate(documents)}
        self._documents = np.array([places[each.document_id] for each in self._chunks], np.int32)

    def chunk_documents(self) -> np.ndarray:
        return self._documents

    def ids(self, rows: Sequence[int]) -> list[str]:
        return [self._chunks[row].id for row in rows]

    def texts(self, rows: Sequence[int]) -> list[str]:
        return [self._chunks[row].text for row in rows]

    def chunks(self, rows: Sequence[int]) -> list[Any]:
        return [self._chunks[row] for row in rows]


class _Held:
    """Nodes of a stage in the place of a stored part."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self.keys = content_keys(node.id for node in nodes)

    def nodes(self, rows: Sequence[int]) -> list[Node]:
        return [self._nodes[row] for row in rows]


class Baseline(Ranker):
    """A compared system, made ready by `ready`. With `passages` it ranks passages alone, without nodes."""

    needs_model = False

    def __init__(self, name: str, corpus: Corpus, *, passages: bool = False) -> None:
        self.name, self.corpus, self.passages = name, corpus, passages
        self.description = (type(self).__doc__ or "").partition("\n")[0]
        self._answers: dict[tuple[str, str], Any] = {}

    def prepare(self, bench: Workbench) -> Indexing:
        """Get ready, by a gate that counts this system's calls alone."""
        self.bench, self.gate = bench, bench.gate.apart()
        self.failures, self.gate.documents_of = self.gate.failures, self.corpus.documents_of
        if self.needs_model and not self.gate.has_llm:
            raise ModelError(f"{self.name} needs a language model: give --llm NAME")
        self.corpus.open(bench)
        began, worked = time.perf_counter(), time.process_time()
        self.ready()
        spent = time.perf_counter() - began, time.process_time() - worked
        return Indexing(*spent, dict(self.gate.ledger.stages))

    def ready(self) -> None:
        """Build what a search needs."""

    @property
    def graph(self) -> Graph:
        """The run's graph."""
        return self.corpus.graph(self.gate)

    @property
    def asking(self) -> Usage:  # type: ignore[override]
        """Calls and tokens of the searches."""
        stages = self.gate.ledger.stages.items() if hasattr(self, "gate") else ()
        return sum((usage for stage, usage in stages if stage.startswith(ASK)), Usage())

    def ask(self, what: str, task: Task[T], question: str, **values: str) -> T | None:
        """The model's answer about a question, asked once; None without a model or if the call failed."""
        stage = f"{ASK}{what}"
        if self.gate.has_llm and (stage, question) not in self._answers:
            try:
                with self.gate.stage(stage):
                    asked = self.gate.call(task, {"question": question, **values}, item=question)
                    self._answers[stage, question] = _sync.run(asked)
            except CallFailed as error:
                self._answers[stage, question] = None
                self.gate.failures.append(Failure(stage, question, str(error)))
        return self._answers.get((stage, question))

    def nearest(self, question: str, k: int) -> list[int]:
        """The passages nearest to a question."""
        return top_k(self.corpus.vectors, self.corpus.embedder.question(question), k)[0].tolist()

    def shown(self, rows: Iterable[int]) -> list[Passage]:
        """Passages by row."""
        return [self.corpus.passages[row] for row in rows]

    def passage(self, text: str, sources: Iterable[int]) -> Passage:
        """A text with the documents of its chunks."""
        return Passage(text, tuple(dict.fromkeys(self.corpus.chunks[row].document_id for row in sources)))

    def best(self, scores: np.ndarray, k: int) -> list[Passage]:
        """The `k` passages with the highest scores above 0; equal ones in the order of the corpus."""
        order = np.argsort(-scores, kind="stable")[:k]
        return self.shown(order[scores[order] > 0].tolist())

    def shared_out(self, streams: Sequence[tuple[float, Sequence[Passage]]], k: int) -> list[Passage]:
        """The first `k` of several rankings, each with its share of the tokens of any prefix.

        The next item comes from the ranking with the fewest tokens for its share; one that ends leaves its
        share to the others.
        """
        waiting = [[0.0, place, share, list(ranking)[::-1]] for place, (share, ranking) in enumerate(streams)]
        chosen: list[Passage] = []
        while len(chosen) < k and (waiting := [each for each in waiting if each[3]]):
            first = min(waiting, key=lambda each: each[:2])
            chosen.append(first[3].pop())
            first[0] += self.corpus.count_tokens(chosen[-1].text) / first[2]
        return chosen

    async def booked(self, asked: Callable[[Any], Any]) -> tuple[str, Usage]:
        """What `asked` answers with a gate of its own, and the usage, which an `AnswerFailed` has too."""
        own = self.gate.apart()
        try:
            with own.stage(f"answer {self.name}"):
                return await asked(own), own.ledger.total
        except CallFailed as error:
            raise AnswerFailed(str(error), own.ledger.total) from error
        finally:
            self.gate.failures.extend(own.failures)


def json_task(name: str, form: type[M], tokens: int) -> Task[M]:
    """The task of a prompt in `prompts/`, whose answer is an object of about so many tokens."""
    prompt = load_prompt("papers", name)
    return Task(
        f"papers/{name}", prompt, json_as(form), unestimated, schema=form, expected_output_tokens=tokens
    )


def text_task(name: str, tokens: int, parse: Callable[[str], str]) -> Task[str]:
    """The task of a prompt in `prompts/`, whose answer is a text of about so many tokens."""
    prompt = load_prompt("papers", name)
    return Task(f"papers/{name}", prompt, parse, unestimated, expected_output_tokens=tokens)
