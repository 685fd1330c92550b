"""One retrieval, answer or stream, through one gate."""

from __future__ import annotations

import asyncio
import operator
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from stratagraph._sync import aside
from stratagraph.errors import CallFailed
from stratagraph.methods import get_way
from stratagraph.models.gate import Gate
from stratagraph.models.rerankers import EXAMPLES, named_reranker, package_and_model
from stratagraph.models.tracing import span
from stratagraph.operations.gates import RecentVectors
from stratagraph.operations.reader import Answering
from stratagraph.operations.search_options import check_search_options, search_options
from stratagraph.operations.subgraph import SubgraphPainter
from stratagraph.search.answer import Draft, cited, generate
from stratagraph.search.answer import stream as stream_answer
from stratagraph.search.conversation import checked_history, standalone
from stratagraph.search.decompose import TracedHits, fused, subquestions
from stratagraph.search.decompose import decompose as name_entities
from stratagraph.search.evidence import GENERAL
from stratagraph.search.extractive import extract_answer
from stratagraph.search.guided import ANSWERED, SHOWN, STEPS, Found, guided
from stratagraph.search.rerank import Reranker, SetReranker, chosen, scored
from stratagraph.text import CountTokens
from stratagraph.types.protocols import Vectors
from stratagraph.types.question import (
    DECOMPOSITIONS,
    GUIDED,
    LENGTHS,
    LONGEST,
    RANKS,
    VIEWS,
    WALK,
    Decompose,
    Guided,
    Length,
    Question,
    Rank,
    Turn,
    View,
    Where,
)
from stratagraph.types.records import Metadata
from stratagraph.types.results import Answer, Citation, Guidance, Hit, Retrieval, Standalone

DEFAULT_K = 10
CANDIDATES = 4
"""Hits for each one that is wanted which a reranker is shown."""
OnRetrieved = Callable[[Retrieval], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """The checked arguments of a search, without the question; see `Index.retrieve`.

    If `k` is None, a search takes `DEFAULT_K` and an answer the default of `Way.answer_k`. `view="chunks"` is
    another word for `method="walk"`. If `guided` is None, an answer of the walk is guided where there is a
    model.
    """

    k: int | None = None
    view: View | None = None
    where: Where | None = None
    method: str | None = None
    decompose: Decompose = False
    fill: bool = True
    rank: Rank = "walk"
    rerank: Reranker | SetReranker | str | None = None
    min_score: float | None = None
    guided: Guided | None = None
    guided_steps: int | None = None
    history: Sequence[Turn] | None = None
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.k is not None:
            object.__setattr__(self, "k", positive("k", self.k))
        if self.view is not None and self.view not in VIEWS:
            raise ValueError(f'view must be "chunks" or None, not {self.view!r}')
        if not any(self.decompose is each or self.decompose == each for each in DECOMPOSITIONS):
            raise ValueError(f'decompose must be False, True, "names" or "questions", not {self.decompose!r}')
        if not isinstance(self.fill, bool):
            raise TypeError(f"fill must be True or False, not {self.fill!r}")
        if self.rank not in RANKS:
            raise ValueError(f"rank must be one of {', '.join(RANKS)}, not {self.rank!r}")
        if self.min_score is not None:
            if isinstance(self.min_score, bool) or not isinstance(self.min_score, SupportsFloat):
                raise TypeError(f"min_score must be a cosine, from -1 to 1, not {self.min_score!r}")
            if not -1 <= float(self.min_score) <= 1:
                raise ValueError(f"min_score must be a cosine, from -1 to 1, not {self.min_score}")
        if self.guided is not None and not any(self.guided is each or self.guided == each for each in GUIDED):
            raise ValueError(f'guided must be False, True, "choice" or "overview", not {self.guided!r}')
        if self.guided_steps is not None:
            positive("guided_steps", self.guided_steps)
            if self.guided is False:
                raise ValueError("guided_steps is for guided=True, and the search is not guided")
        if self.history is not None:
            object.__setattr__(self, "history", checked_history(self.history))
        if isinstance(self.rerank, str):
            package_and_model(self.rerank)
        elif self.rerank is not None and not isinstance(self.rerank, Reranker | SetReranker):
            raise TypeError(
                f"rerank must have rerank(question, texts) or choose(question, texts, k), or be a name such "
                f"as {EXAMPLES}, and is {self.rerank!r}"
            )


@dataclass(frozen=True, slots=True)
class AnswerArguments:
    """The checked arguments of `Index.answer` that do not concern the search."""

    max_tokens: int
    length: Length | None = None
    on_retrieved: OnRetrieved | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_tokens", positive("max_tokens", self.max_tokens))
        if self.length is not None and self.length not in LENGTHS:
            raise ValueError(f"length must be one of {', '.join(LENGTHS)}, or None, not {self.length!r}")


@dataclass(frozen=True, slots=True)
class Asking:
    """An operation on one generation; its gate has one ledger and one budget."""

    reader: Answering
    gate: Gate
    count_tokens: CountTokens
    recent_vectors: RecentVectors

    async def retrieve(self, text: str, arguments: SearchArguments) -> Retrieval:
        """Embed the question once and search."""
        with span("stratagraph retrieve", {"stratagraph.k": arguments.k}) as recorded:
            retrieval = await self._retrieval(text, arguments)
            recorded.set({"stratagraph.method": retrieval.method, "stratagraph.hits": len(retrieval)})
        return retrieval

    async def _retrieval(self, text: str, arguments: SearchArguments) -> Retrieval:
        check_question(text)
        began = time.perf_counter()
        before = self.gate.ledger.total
        method = self._method(arguments)
        options = check_search_options(method, arguments.options or {})
        with self.gate.stage("retrieve"):
            alone = await standalone(text, arguments.history or (), self.gate, self.reader.knows)
            text = alone.question if alone else text
            entities, texts = await self._decomposed(text, arguments.decompose)
            vectors = await self._vectors(texts)
        question = _question(text, vectors[0], method, options, arguments, entities)
        steps = [
            replace(question, text=step[:LONGEST], vector=vector)
            for step, vector in zip(texts[1:], vectors[1:], strict=True)
        ]
        guidance = None
        if arguments.guided:
            hits, trace, guidance = await self._guided(question, steps, arguments)
        else:
            hits, trace = await self._searched(question, steps, arguments.rerank)
        if arguments.min_score is not None:
            hits, trace = await self._similar(question.vector, arguments.min_score, hits, trace)
            guidance = None if guidance is None else guidance.among(hits)
        if alone is not None:
            trace = tuple({**each, "standalone": asdict(alone)} for each in trace)
        spent = self.gate.ledger.total - before
        return Retrieval(
            text,
            method,
            hits,
            trace,
            replace(spent, seconds=time.perf_counter() - began),
            question.vector,
            options,
            self.count_tokens,
            SubgraphPainter(self.reader.snapshot, partial(self.reader.allowed_parts, question)),
            self.gate.cost,
            guidance,
            alone,
        )

    async def _similar(
        self, vector: Vectors, least: float, hits: tuple[Hit, ...], traces: tuple[Metadata, ...]
    ) -> TracedHits:
        """The hits whose cosine with the question is at least `least`; the trace holds the cosine.

        Of a passage it is that of its stored vector; the texts of other hits are embedded.
        """
        snapshot = self.reader.snapshot
        passages = [place for place, hit in enumerate(hits) if hit.kind == "chunk"]
        others = [place for place, hit in enumerate(hits) if hit.kind != "chunk"]
        rows = snapshot.row_of([hits[place].id for place in passages])
        vectors = np.zeros((len(hits), len(vector)), np.float32)
        if passages:
            stored = np.array([rows[hits[place].id] for place in passages], np.int64)
            vectors[passages] = await asyncio.to_thread(lambda: snapshot.vectors[stored])
        if others:
            vectors[others] = await self.gate.embed("retrieve", [hits[place].text for place in others])
        cosines = (vectors @ vector).tolist()
        kept = [place for place, cosine in enumerate(cosines) if cosine >= least]
        told = tuple({**traces[place], "cosine": cosines[place]} for place in kept)
        return tuple(hits[place] for place in kept), told

    async def _guided(
        self, question: Question, steps: Sequence[Question], arguments: SearchArguments
    ) -> tuple[tuple[Hit, ...], tuple[Metadata, ...], Guidance]:
        """The `k` best hits of a guided search, their traces, and what the model decided."""
        assert arguments.guided
        if not self.gate.has_llm:
            raise ValueError(
                "guided retrieval asks a chat model which hits are needed together, and there is none: open "
                "the index with llm=..., or leave guided out"
            )
        wide = replace(question, k=max(question.k, SHOWN))

        async def searched(asked: Question, steps: Sequence[Question] = ()) -> Found:
            hits, traces = await self._searched(asked, steps, arguments.rerank)
            return list(zip(hits, traces, strict=True))

        async def search(queries: Sequence[str]) -> Sequence[Found]:
            vectors = await self._vectors(queries)
            asked = [
                replace(wide, text=query[:LONGEST], vector=vector, k=SHOWN)
                for query, vector in zip(queries, vectors, strict=True)
            ]
            return await asyncio.gather(*map(searched, asked))

        first = await searched(wide, [replace(step, k=wide.k) for step in steps])
        with self.gate.stage("guide"):
            chosen, guidance = await guided(
                question.text,
                first,
                search,
                self.gate,
                arguments.guided,
                arguments.guided_steps or STEPS,
            )
        best = chosen[: question.k]
        hits = tuple(hit for hit, _ in best)
        return hits, tuple(trace for _, trace in best), guidance.among(hits)

    async def _decomposed(
        self, text: str, decompose: Decompose
    ) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """Names in the question if a model found them, and the questions to search for."""
        if decompose == "questions":
            return None, await subquestions(text, self.gate)
        return (await name_entities(text, self.gate) if decompose else None), (text,)

    def _found(self, question: Question, steps: Sequence[Question], **changed: Any) -> TracedHits:
        """The hits of a question, fused with those of its subquestions."""
        asked = [replace(each, **changed) for each in (question, *steps)]
        results = [self.reader.search(each) for each in asked]
        return fused(results, [each.text for each in asked], asked[0].k) if steps else results[0]

    async def _searched(
        self,
        question: Question,
        steps: Sequence[Question],
        reranker: Reranker | SetReranker | str | None,
    ) -> TracedHits:
        """Hits and traces; a reranker reorders more candidates than are wanted, or chooses among them."""
        if reranker is None:
            return await aside(self._found, question, steps)
        hits, traces = await asyncio.to_thread(self._found, question, steps, k=CANDIDATES * question.k)
        texts = [hit.text for hit in hits]
        if isinstance(reranker, SetReranker):
            first = await chosen(reranker, question.text, texts, question.k)
            order = [*first, *(at for at in range(len(hits)) if at not in first)]
        else:
            scores = await asyncio.to_thread(_scored, reranker, question.text, texts)
            hits = tuple(replace(hit, score=score) for hit, score in zip(hits, scores.tolist(), strict=True))
            order = np.argsort(-scores, kind="stable").tolist()
        best = order[: question.k]
        return tuple(hits[at] for at in best), tuple({**traces[at], "reranked_from": at + 1} for at in best)

    async def _vectors(self, texts: Sequence[str]) -> Sequence[Vectors]:
        if len(texts) == 1:  # without a task of its own
            return [await self._vector(texts[0])]
        return await asyncio.gather(*map(self._vector, texts))

    async def _vector(self, text: str) -> Vectors:
        """The vector of a question's beginning; a model would take minutes for a megabyte."""
        text = text[:LONGEST]
        vector = self.recent_vectors.get(text)
        if vector is None:
            here = self.gate.embeds_here
            vector = await (aside(self.gate.query_here, text) if here else self.gate.embed_query(text))
            self.recent_vectors.put(text, vector)
        return vector

    def warm(self) -> None:
        """Search once with each method, so that all is loaded and compiled."""
        vector = np.zeros(self.reader.snapshot.vectors.shape[1], np.float32)
        vector[0] = 1.0
        for method in (WALK, *self.reader.methods):
            options = check_search_options(method, {})
            self.reader.search(Question("What is there?", vector, DEFAULT_K, method, options))

    async def answer(
        self, question: str | Retrieval, arguments: SearchArguments, *, how: AnswerArguments
    ) -> Answer:
        """Answer from a retrieval, or retrieve for a question first."""
        with span("stratagraph answer", {"stratagraph.k": arguments.k}) as recorded:
            retrieval = await self._retrieved(question, arguments, how)
            recorded.set({"stratagraph.method": retrieval.method, "stratagraph.hits": len(retrieval)})
            with self.gate.stage("answer"):
                if self.gate.has_llm and retrieval.hits:
                    text, citations, extractive = await self._written(retrieval, how)
                else:
                    text, citations = await self._extracted(retrieval, how)
                    extractive = True
        return self._answered(text, citations, retrieval, extractive=extractive)

    def _answered(
        self, text: str, citations: tuple[Citation, ...], retrieval: Retrieval, *, extractive: bool
    ) -> Answer:
        usage, cost = self.gate.ledger.total, self.gate.cost
        return Answer(text, citations, retrieval, extractive=extractive, usage=usage, cost=cost)

    async def _written(
        self, retrieval: Retrieval, how: AnswerArguments
    ) -> tuple[str, tuple[Citation, ...], bool]:
        """The model's answer and False; if it fails, a warning, sentences of the hits and True."""
        try:
            draft = await self._draft(retrieval, how)
            text, citations = await generate(retrieval, draft, self.gate)
        except CallFailed as error:
            warnings.warn(
                f"the model could not answer ({error}); the answer consists of sentences of the sources",
                RuntimeWarning,
                stacklevel=2,
            )
            return *await self._extracted(retrieval, how), True
        return text, citations, False

    async def _extracted(
        self, retrieval: Retrieval, how: AnswerArguments
    ) -> tuple[str, tuple[Citation, ...]]:
        """Sentences of the hits, or that nothing answers the question."""
        question = retrieval.query[:LONGEST]
        vector = retrieval.vector if retrieval.vector is not None else await self._vector(question)
        alike = None
        sources = list(dict.fromkeys(source for hit in retrieval.hits for source in hit.sources))
        if sources and not self.gate.words_only:
            background = self.reader.background
            if background is None:
                general = await asyncio.gather(*map(self.gate.embed_query, GENERAL))
                background = await asyncio.to_thread(self.reader.measure_background, np.stack(general))
            likeness = await asyncio.to_thread(self.reader.likeness, question, vector, sources)
            alike = None if likeness is None else background.is_alike(*likeness)
        return await extract_answer(retrieval, vector, self.gate, alike=alike, length=how.length)

    async def stream(
        self, question: str | Retrieval, arguments: SearchArguments, *, how: AnswerArguments
    ) -> AsyncGenerator[str | Retrieval | Answer, None]:
        """What was found, the answer in pieces as the model writes it, or in one; last, the `Answer`."""
        with span("stratagraph stream", {"stratagraph.k": arguments.k}, nested=False) as recorded:
            retrieval = await self._retrieved(question, arguments, how)
            recorded.set({"stratagraph.method": retrieval.method, "stratagraph.hits": len(retrieval)})
            yield retrieval
            async with aclosing(self._streamed(retrieval, how)) as pieces:
                async for piece in pieces:
                    yield piece

    async def _streamed(
        self, retrieval: Retrieval, how: AnswerArguments
    ) -> AsyncGenerator[str | Answer, None]:
        if not self.gate.has_llm or not retrieval.hits:
            text, citations = await self._extracted(retrieval, how)
            yield text
            yield self._answered(text, citations, retrieval, extractive=True)
            return
        draft = await self._draft(retrieval, how)
        pieces: list[str] = []
        async with aclosing(stream_answer(draft, self.gate)) as written:
            async for piece in written:
                pieces.append(piece)
                yield piece
        text = "".join(pieces)
        citations = cited(text, draft.citations)
        yield self._answered(text, citations, retrieval, extractive=False)

    async def _retrieved(
        self, question: str | Retrieval, arguments: SearchArguments, how: AnswerArguments
    ) -> Retrieval:
        """The given retrieval, or a new one for a question."""
        if isinstance(question, Retrieval):
            return await self._checked(question, arguments)
        method = self._method(arguments)
        guided = arguments.guided
        if guided is None:
            guided = method == WALK and self.gate.has_llm
        usual = get_way(method).answer_k
        k = arguments.k or (max(ANSWERED, usual) if guided else usual)
        retrieval = (await self.retrieve(question, replace(arguments, k=k, guided=guided))).chosen()
        if arguments.k is None and retrieval.guidance is not None and retrieval.guidance.kind == "none":
            retrieval = retrieval.with_hits(retrieval.hits[:usual])
        if how.on_retrieved is not None:
            await how.on_retrieved(retrieval)
        return retrieval

    def _method(self, arguments: SearchArguments) -> str:
        """The way of searching that is meant; `TypeError` or `ValueError` for an argument that it ignores."""
        named = self.reader.method_name(arguments.method)
        method = WALK if arguments.view == "chunks" else named
        for option in search_options(named) if method != named else ():
            if option.name in (arguments.options or {}):
                raise TypeError(
                    f"{option.name!r} is an option of {named}, and view='chunks' searches by the walk: leave "
                    "one of the two out"
                )
        check_used(method, arguments)
        return method

    async def _checked(self, given: Retrieval, arguments: SearchArguments) -> Retrieval:
        """A given retrieval, with the options of this answer, and its question so that it stands alone."""
        if unsuited := _searching(arguments):
            raise TypeError(
                f"{unsuited[0]!r} says how to search, and this answer is made from a given retrieval; "
                "pass it to retrieve, or pass the question to answer"
            )
        check_question(given.query)
        if given.standalone is None:
            history = arguments.history or ()
            alone = _recorded(given) or await standalone(given.query, history, self.gate, self.reader.knows)
            if alone is not None:
                given = replace(given, query=alone.question, vector=None, standalone=alone)
        method = self.reader.method_name(arguments.method or given.method)
        if arguments.options or given.options is None or method != given.method:
            options = check_search_options(method, arguments.options or {})
            given = replace(given, method=method, options=options)
        vector = self.recent_vectors.get(given.query[:LONGEST]) if given.vector is None else given.vector
        return replace(given, vector=vector, count_tokens=self.count_tokens)

    async def _draft(self, retrieval: Retrieval, how: AnswerArguments) -> Draft:
        way = get_way(retrieval.method)
        draft = await way.compose(retrieval, self.gate, max_tokens=how.max_tokens, options=retrieval.options)
        return draft.as_long_as(how.length or "brief")


def _question(
    text: str,
    vector: Vectors,
    method: str,
    options: Any,
    arguments: SearchArguments,
    entities: tuple[str, ...] | None,
) -> Question:
    k, where = arguments.k or DEFAULT_K, arguments.where
    return Question(
        text[:LONGEST], vector, k, method, options, where, entities, arguments.fill, arguments.rank
    )


def _scored(reranker: Reranker | str, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """The scores of a reranker; one that is named is loaded."""
    model: Reranker = named_reranker(reranker) if isinstance(reranker, str) else reranker
    return scored(model, question, texts)


def _recorded(given: Retrieval) -> Standalone | None:
    """How the question came to stand alone, as the traces of hits tell that went through a framework."""
    for trace in given.trace:
        told = trace.get("standalone")
        if isinstance(told, Mapping) and told.get("asked") == given.query:
            return Standalone(*(str(told.get(name, "")) for name in ("question", "asked", "by", "failed")))
    return None


def check_question(text: object) -> None:
    """Raise `TypeError` or `ValueError` if this is no string, or blank."""
    if not isinstance(text, str):
        hint = "; for several questions there is retrieve_many" if isinstance(text, list | tuple) else ""
        raise TypeError(f"the question must be a string, not {type(text).__name__}{hint}")
    if not text.strip():
        raise ValueError(f"the question is blank: {text!r}; give the words to search for")


def check_used(method: str, arguments: SearchArguments) -> None:
    """Raise `ValueError` for an argument that this way of searching ignores."""
    if method != WALK and arguments.rank != "walk":
        raise ValueError(
            f"rank={arguments.rank!r} orders passages, and {method} ranks its own nodes: pass "
            'view="chunks" for passages alone'
        )
    if method == WALK and not arguments.fill:
        raise ValueError("fill=False leaves passages out, and the walk finds nothing else: name a method")


def positive(name: str, value: int) -> int:
    """The value as an int of at least 1; otherwise `TypeError` or `ValueError`, naming the argument."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__} {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    return operator.index(value)


def _searching(arguments: SearchArguments) -> list[str]:
    """Names of the given arguments that apply to a search only."""
    given = {"k": arguments.k, "view": arguments.view, "where": arguments.where}
    named = [name for name, value in given.items() if value is not None]
    switches = {
        "decompose": bool(arguments.decompose),
        "fill": not arguments.fill,
        "rank": arguments.rank != "walk",
        "rerank": arguments.rerank is not None,
        "min_score": arguments.min_score is not None,
        "guided": bool(arguments.guided),
    }
    return [*named, *(name for name, given in switches.items() if given)]
