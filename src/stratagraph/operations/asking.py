"""One retrieval, answer or stream, through one gate."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, cast

import numpy as np

from stratagraph._sync import aside
from stratagraph.errors import CallFailed
from stratagraph.methods import get_way
from stratagraph.models.gate import Gate
from stratagraph.models.rerankers import named_reranker
from stratagraph.models.tracing import span
from stratagraph.operations.arguments import (
    DEFAULT_K,
    AnswerArguments,
    SearchArguments,
    check_question,
    check_search_options,
    check_used,
    search_options,
)
from stratagraph.operations.gates import RecentVectors
from stratagraph.operations.reader import Answering
from stratagraph.operations.subgraph import SubgraphPainter
from stratagraph.search.answer import Draft, Written, excerpts, generate, stream
from stratagraph.search.guided import ANSWERED, SHOWN, STEPS, Found, guided
from stratagraph.search.questions import decompose, standalone
from stratagraph.search.rerank import Reranker, SetReranker, chosen, scored
from stratagraph.search.versions import marked
from stratagraph.text.packing import Theme
from stratagraph.types.protocols import Vectors
from stratagraph.types.question import LONGEST, WALK, SearchQuestion, narrowed
from stratagraph.types.records import Metadata
from stratagraph.types.results import Answer, Finish, Guidance, Hit, Retrieval, Standalone

TracedHits = tuple[tuple[Hit, ...], tuple[Metadata, ...]]
_NO_VECTOR: Vectors = np.zeros(0, np.float32)
CANDIDATES = 4
"""Candidates that a reranker sees for each hit that is wanted."""


@dataclass(frozen=True, slots=True)
class Asking:
    """An operation on one generation; its gate has one ledger and one budget."""

    reader: Answering
    gate: Gate
    recent_vectors: RecentVectors

    async def retrieve(
        self, text: str, arguments: SearchArguments, *, overview_k: int | None = None
    ) -> Retrieval:
        """Embed the question once and search; an overview has `overview_k` hits, if that is given."""
        check_question(text)
        began, before = time.perf_counter(), self.gate.ledger.total
        undated = 0
        if arguments.as_of is not None or arguments.recency is not None:
            arguments, undated = await aside(self._in_time, arguments)
        with span("stratagraph retrieve", {"stratagraph.k": arguments.k}) as recorded:
            method = self._method(arguments)
            options = check_search_options(method, arguments.options or {})
            with self.gate.stage("retrieve"):
                known = partial(self.reader.known, where=arguments.where)
                alone = await standalone(text, arguments.history or (), self.gate, known)
                text = alone.question if alone else text
                entities = None
                if arguments.decompose:
                    self._needs_model(
                        "decompose asks a chat model for the names in the question", "decompose"
                    )
                    entities = await decompose(text, self.gate)
                recency = None if arguments.recency is None else float(arguments.recency)
                what = text[:LONGEST], _NO_VECTOR, arguments.k or DEFAULT_K, method, options
                how = arguments.where, entities, arguments.fill, arguments.rank, recency
                question = await self._embedded(SearchQuestion(*what, *how))
            guidance = None
            if arguments.guided:
                hits, trace, guidance = await self._guided(question, arguments, overview_k)
            else:
                hits, trace = await self._searched(question, arguments.rerank)
            hits = _descending(hits)
            if arguments.min_score is not None:
                hits, trace = await self._similar(question.vector, arguments.min_score, hits, trace)
                guidance = None if guidance is None else guidance.among(hits)
            hits = marked(hits)
            unknown, words = await aside(self.reader.unknown, question)
            filtered = arguments.where is not None
            common: dict[str, Any] = {} if alone is None else {"standalone": asdict(alone)}
            if unknown:
                common["unknown"] = {"question": text, "words": unknown, "of": words, "filtered": filtered}
            trace = tuple({**each, **common} for each in trace)
            recorded.set({"stratagraph.method": method, "stratagraph.hits": len(hits)})
        usage = replace(self.gate.ledger.total - before, seconds=time.perf_counter() - began)
        painter = SubgraphPainter(self.reader.snapshot, partial(self.reader.allowed_parts, question))
        found = text, method, hits, trace, usage, question.vector, options, self.gate.count_tokens, painter
        told = self.gate.cost, guidance, alone, unknown, words, filtered, undated
        return Retrieval(*found, *told, await self._theme(question, hits, guidance))

    async def _theme(
        self, question: SearchQuestion, hits: Sequence[Hit], guidance: Guidance | None
    ) -> Theme | None:
        """By what a context of the hits is packed for a theme or an overview; None: by words."""
        overview = guidance is not None and guidance.kind == "overview"
        if question.method == WALK or not (overview or question.theme is not None):
            return None
        statements = await aside(self.reader.statements, question.method, hits)
        steps = guidance.steps if guidance is not None and overview else ()
        asked = [question.text, *(query for step in steps for query in step.queries)]
        aims = [question.vector, *[await self._vector(query[:LONGEST]) for query in asked[1:]]]
        return Theme(asked, np.stack(aims), statements) if statements else None

    def _in_time(self, arguments: SearchArguments) -> tuple[SearchArguments, int]:
        """The arguments with `as_of` as a filter, and how many undated documents that hides."""
        if arguments.recency is not None:
            self.reader.dated("recency")
        if arguments.as_of is None:
            return arguments, 0
        until = self.reader.until(arguments.as_of)
        undated = self.reader.undated(arguments.where)
        return replace(arguments, where=narrowed(arguments.where, until)), undated

    async def _similar(
        self, vector: Vectors, least: float, hits: tuple[Hit, ...], traces: tuple[Metadata, ...]
    ) -> TracedHits:
        """The hits whose cosine with the question, of stored vectors for passages, is at least `least`."""
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
        similar = [place for place, cosine in enumerate(cosines) if cosine >= least]
        traces = tuple({**traces[place], "cosine": cosines[place]} for place in similar)
        return tuple(hits[place] for place in similar), traces

    def _needs_model(self, why: str, option: str) -> None:
        if not self.gate.has_llm:
            raise ValueError(f"{why}, and there is none: open the index with llm=..., or leave {option} out")

    async def _guided(
        self, question: SearchQuestion, arguments: SearchArguments, overview_k: int | None
    ) -> tuple[tuple[Hit, ...], tuple[Metadata, ...], Guidance]:
        """The `k` best hits of a guided search, their traces, and what the model decided."""
        assert arguments.guided
        self._needs_model("guided retrieval asks a chat model which hits are needed together", "guided")
        # Copies of a text take one of the places that the model sees, so more passages are searched: those
        # of the walk are the same for any k. A reranker is not asked about more.
        more = 2 * SHOWN if question.method == WALK and not arguments.rerank else SHOWN
        wide = replace(question, k=max(question.k, more))

        async def searched(question: SearchQuestion) -> Found:
            hits, traces = await self._searched(question, arguments.rerank)
            return list(zip(hits, traces, strict=True))

        async def search(queries: Sequence[str], overview: bool) -> Sequence[Found]:
            questions = [replace(wide, text=query[:LONGEST], entities=None, k=SHOWN) for query in queries]
            questions = await asyncio.gather(*map(self._embedded, questions))
            if overview:
                questions = [replace(each, theme=each.theme or each.text) for each in questions]
            return await asyncio.gather(*map(searched, questions))

        first = await searched(wide)
        most = arguments.guided_steps or STEPS
        with self.gate.stage("guide"):
            best, guidance = await guided(question.text, first, search, self.gate, arguments.guided, most)
        k = overview_k or question.k if guidance.kind == "overview" else question.k
        hits = tuple(hit for hit, _ in best[:k])
        return hits, tuple(trace for _, trace in best[:k]), guidance.among(hits)

    async def _searched(
        self, question: SearchQuestion, reranker: Reranker | SetReranker | str | None
    ) -> TracedHits:
        """Hits and traces of a question; a reranker reorders more candidates than are wanted, or chooses."""
        if reranker is None:
            return await aside(self.reader.search, question)
        hits, traces = await aside(self.reader.search, replace(question, k=CANDIDATES * question.k))
        texts = [hit.text for hit in hits]
        if isinstance(reranker, SetReranker):
            first = await chosen(reranker, question.text, texts, question.k)
            traces = tuple({**trace, "chosen": at in first} for at, trace in enumerate(traces))
            order = [*first, *(at for at in range(len(hits)) if at not in first)]
        else:
            model: Reranker
            if isinstance(reranker, str):
                model = await asyncio.to_thread(named_reranker, reranker)
            else:
                model = reranker
            scores = await asyncio.to_thread(scored, model, question.text, texts)
            hits = tuple(replace(hit, score=score) for hit, score in zip(hits, scores.tolist(), strict=True))
            order = np.argsort(-scores, kind="stable").tolist()
        best = order[: question.k]
        return tuple(hits[at] for at in best), tuple({**traces[at], "reranked_from": at + 1} for at in best)

    async def _embedded(self, question: SearchQuestion) -> SearchQuestion:
        """The question with its vector, and without hub words if it asks for a theme."""
        theme = await aside(self.reader.theme, question)
        return replace(question, theme=theme, vector=await self._vector(theme or question.text))

    async def _vector(self, text: str) -> Vectors:
        """The vector of a question's beginning; a model would take minutes for a megabyte."""
        if not self.reader.snapshot.size:  # there is nothing to compare it with
            return np.zeros(self.reader.snapshot.vectors.shape[1], np.float32)
        vector = self.recent_vectors.get(text)
        if vector is None:
            vector = await self.gate.embed_query(text)
            self.recent_vectors.put(text, vector)
        return vector

    def warm(self) -> None:
        """Search once with each method, so that all is loaded and compiled."""
        vector = np.zeros(self.reader.snapshot.vectors.shape[1], np.float32)
        vector[:1] = 1.0
        for method in (WALK, *self.reader.methods):
            options = check_search_options(method, {})
            self.reader.search(SearchQuestion("What is there?", vector, DEFAULT_K, method, options))

    async def answer(
        self, question: str | Retrieval, arguments: SearchArguments, *, how: AnswerArguments
    ) -> Answer:
        """Answer from a retrieval, or retrieve for a question first.

        If the model fails, a warning says so, and the answer consists of excerpts of the hits.
        """
        with span("stratagraph answer", {"stratagraph.k": arguments.k}) as recorded:
            retrieval = await self._retrieved(question, arguments, how)
            recorded.set({"stratagraph.method": retrieval.method, "stratagraph.hits": len(retrieval)})
            with self.gate.stage("answer"):
                written, finish = None, None
                if self.gate.has_llm and retrieval.hits:
                    try:
                        written = await generate(retrieval, await self._draft(retrieval, how), self.gate)
                    except CallFailed as error:
                        finish = _failed(error)
                if written is None:
                    written = excerpts(retrieval, how.length, finish)
        return self._answered(written, retrieval)

    def _answered(self, written: Written, retrieval: Retrieval) -> Answer:
        return Answer(
            written.text,
            written.citations,
            retrieval,
            extractive=written.extractive,
            usage=self.gate.ledger.total,
            cost=self.gate.cost,
            finish=written.finish,
        )

    async def stream(
        self, question: str | Retrieval, arguments: SearchArguments, *, how: AnswerArguments
    ) -> AsyncGenerator[str | Retrieval | Answer, None]:
        """Yields the `Retrieval`, the answer in pieces, and last the `Answer`; see `answer`."""
        with span("stratagraph stream", {"stratagraph.k": arguments.k}, nested=False) as recorded:
            retrieval = await self._retrieved(question, arguments, how)
            recorded.set({"stratagraph.method": retrieval.method, "stratagraph.hits": len(retrieval)})
            yield retrieval
            written, finish = None, None
            if self.gate.has_llm and retrieval.hits:
                try:
                    async with aclosing(stream(await self._draft(retrieval, how), self.gate)) as pieces:
                        async for piece in pieces:
                            if isinstance(piece, Written):
                                written = piece
                            else:
                                yield piece
                except CallFailed as error:
                    finish = _failed(error)
            if written is None:
                written = excerpts(retrieval, how.length, finish)
                yield written.text
            yield self._answered(written, retrieval)

    async def _retrieved(
        self, question: str | Retrieval, arguments: SearchArguments, how: AnswerArguments
    ) -> Retrieval:
        """The given retrieval, or a new one for a question."""
        if isinstance(question, Retrieval):
            return await self._checked(question, arguments)
        overview_k = ANSWERED if arguments.k is None else None
        k = arguments.k or get_way(self._method(arguments)).answer_k
        guided = self.gate.has_llm if arguments.guided is None else arguments.guided
        arguments = replace(arguments, k=k, guided=guided)
        retrieval = (await self.retrieve(question, arguments, overview_k=overview_k)).chosen()
        if how.on_retrieved is not None:
            await how.on_retrieved(retrieval)
        return retrieval

    def _method(self, arguments: SearchArguments) -> str:
        """The method to search by; `TypeError` or `ValueError` for an argument that it ignores."""
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

    async def _checked(self, retrieval: Retrieval, arguments: SearchArguments) -> Retrieval:
        """The given retrieval with the options of this answer and a question that stands alone."""
        default, arguments = SearchArguments(), replace(arguments, guided=arguments.guided or None)
        named = "k view where decompose fill rank rerank min_score guided as_of recency"
        for name in named.split():
            if getattr(arguments, name) != getattr(default, name):
                raise TypeError(
                    f"{name!r} says how to search, and this answer is made from a given retrieval; "
                    "pass it to retrieve, or pass the question to answer"
                )
        query = retrieval.query
        check_question(query)
        if any(hit.date for hit in retrieval.hits):  # `before` rests on the other hits
            retrieval = retrieval.with_hits(marked([replace(hit, before="") for hit in retrieval.hits]))
        if retrieval.standalone is None:

            def known(names: Sequence[str]) -> list[str]:  # whatever filter the hits were found with
                return [name for name in names if any(name in hit.text for hit in retrieval.hits)]

            alone = _recorded(retrieval)
            alone = alone or await standalone(query, arguments.history or (), self.gate, known)
            if alone is not None:
                retrieval = replace(retrieval, query=alone.question, vector=None, standalone=alone)
        if not retrieval.words:
            retrieval = _with_recorded_words(retrieval)
        method = self.reader.method_name(arguments.method or retrieval.method)
        if arguments.options or retrieval.options is None or method != retrieval.method:
            options = check_search_options(method, arguments.options or {})
            retrieval = replace(retrieval, method=method, options=options)
        vector = retrieval.vector
        if vector is None:
            vector = self.recent_vectors.get(retrieval.query[:LONGEST])
        return replace(retrieval, vector=vector, count_tokens=self.gate.count_tokens)

    async def _draft(self, retrieval: Retrieval, how: AnswerArguments) -> Draft:
        way = get_way(retrieval.method)
        draft = await way.compose(retrieval, self.gate, max_tokens=how.max_tokens, options=retrieval.options)
        return draft.as_long_as(how.length or "brief")


def _descending(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits with scores that never rise with rank, since others sort by them: at least that of the next.

    The order may be one that a model chose, or join rankings whose scores have different scales.
    """
    least = accumulate((hit.score for hit in reversed(hits)), max)
    return tuple(
        hit if hit.score == score else replace(hit, score=score)
        for hit, score in zip(hits, reversed([*least]), strict=True)
    )


def _failed(error: CallFailed) -> Finish | None:
    """Warn that the model wrote nothing that can be used; returns how it ended."""
    warnings.warn(
        f"the model could not answer ({error}); excerpts of the hits are shown", RuntimeWarning, stacklevel=3
    )
    return cast(Finish | None, error.finish)


def _recorded(retrieval: Retrieval) -> Standalone | None:
    """The `Standalone` recorded in the traces of hits that passed through a framework."""
    for trace in retrieval.trace:
        alone = trace.get("standalone")
        if isinstance(alone, Mapping) and alone.get("asked") == retrieval.query:
            return Standalone(*(str(alone.get(name, "")) for name in ("question", "asked", "by", "failed")))
    return None


def _with_recorded_words(retrieval: Retrieval) -> Retrieval:
    """The retrieval with the unknown words recorded in the traces of hits that passed through a framework."""
    for trace in retrieval.trace:
        words = trace.get("unknown")
        if isinstance(words, Mapping) and words.get("question") == retrieval.query:
            unknown = tuple(map(str, words.get("words", ())))
            filtered = bool(words.get("filtered"))
            return replace(retrieval, unknown=unknown, words=int(words.get("of", 0)), filtered=filtered)
    return retrieval
