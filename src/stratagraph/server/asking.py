"""Questions: what requests and answers look like, and the routes of hits, graphs and answers.

An answer comes whole or as a stream of events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

import stratagraph as sg
from stratagraph.server.state import State, public, state_of, without_places
from stratagraph.text.packing import asked_words
from stratagraph.types.results import Finish
from stratagraph.viz.question import paths

ANSWERS = ("/api/ask", "/api/answer", "/api/guided")
"""Paths that may call a model to write an answer."""
DRAWN = 12
"""Hits in the graph."""
router = APIRouter(tags=["questions"])
Server = Annotated[State, Depends(state_of)]
NAMED = 8
"""Ids of sources and documents that a hit lists."""
STEPS = 5
"""Searches of a guided question at most, since each may be a call of the model."""


_Number = Annotated[int, Field(ge=-1000, le=1000)] | Annotated[float, Field(ge=-1000, le=1000)]
_Value = bool | _Number | Annotated[str, Field(max_length=100)] | None
Option = (
    _Value
    | Annotated[list[_Value], Field(max_length=50)]
    | Annotated[dict[str, _Value], Field(max_length=50)]
)
"""The value of a search option. Numbers are bounded, since some options are numbers of steps."""
_FILTER_VALUES = 1000


def _checked_filter(where: dict[str, Any]) -> dict[str, Any]:
    """A filter with a bounded number of values, so that it is cheap to apply."""
    values, waiting = 0, [where]
    while waiting:
        value: Any = waiting.pop()
        values += 1
        if values > _FILTER_VALUES:
            raise ValueError(f"a filter may have at most {_FILTER_VALUES} values")
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return where


Where = Annotated[dict[str, Any], AfterValidator(_checked_filter)]


class Asked(BaseModel):
    """A question and how to search. Fields that are left out take the index's defaults."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(min_length=1, max_length=20_000)
    k: int | None = Field(None, ge=1, le=200, description="Number of hits.")
    view: Literal["chunks"] | None = Field(None, description="chunks searches by the walk.")
    method: str | None = Field(None, max_length=100)
    where: Where | None = Field(None, description="A filter on metadata.")
    fill: bool = Field(True, description="False leaves out passages of the walk: the method's own ranking.")
    rank: Literal["walk", "bm25", "dense", "hybrid"] = "walk"
    as_of: Annotated[str, Field(max_length=40)] | int | None = Field(
        None, description="Only what was there by this date, such as 2024-06-30 or 2024."
    )
    recency: float | None = Field(
        None, gt=0, description="Prefer newer hits: one that is so many days older needs twice the score."
    )
    options: dict[str, Option] = Field({}, description="Search options of the method; see /api/options.")

    def arguments(self, index: sg.Index) -> dict[str, Any]:
        """Arguments for `retrieve`. `options` holds options of the method only, never other arguments.

        Raises
        ------
        ValueError
            If an option is not one of the method's.
        """
        method = self.method or next(iter(index.methods), "walk")
        names = {option.name for option in sg.search_options(method)}
        if unknown := sorted(self.options.keys() - names):
            raise ValueError(
                f"{method} has no option {unknown[0]!r}; its options are {', '.join(sorted(names)) or 'none'}"
            )
        own = {"question", "options", "history"}
        given = {name: value for name, value in self if name not in own and value is not None}
        return given | self.options


class Turn(BaseModel):
    """A turn of a conversation."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["user", "assistant"]
    text: str = Field(max_length=20_000)


History = Annotated[
    list[Turn],
    Field(
        max_length=100,
        description="The turns before the question, the oldest first; blank ones are left out.",
    ),
]


def pairs(history: Sequence[Turn]) -> list[tuple[str, str]]:
    """Turns as arguments of `retrieve`."""
    return [(turn.role, turn.text) for turn in history]


class Guided(Asked):
    """A question that the model may see: of a conversation, or whose search it guides."""

    history: History = []

    guided: bool | Literal["choice", "overview"] | None = Field(
        None,
        description="Whether the model chooses hits that are needed together, or spreads the search for an "
        "overview; by default for answers, if there is a model.",
    )
    guided_steps: int | None = Field(
        None, ge=1, le=STEPS, description="Searches of a guided question; 2 by default."
    )

    def arguments(self, index: sg.Index) -> dict[str, Any]:
        """As of `Asked`."""
        return {**super().arguments(index), "history": pairs(self.history)}


class HitView(BaseModel):
    """A hit. `why` explains in words why it was found, `trace` in the method's own terms.

    `before`: what an older hit states with another value.
    """

    number: int
    id: str
    kind: str
    level: int
    title: str
    source: str
    text: str
    score: float
    date: str
    before: str
    why: list[str]
    trace: dict[str, Any]
    sources: list[str]
    source_count: int
    documents: list[str]
    document_count: int
    metadata: dict[str, Any]

    @classmethod
    def of(cls, number: int, hit: sg.Hit, trace: Mapping[str, Any]) -> HitView:
        """A hit at its place, from 1."""
        titles = (hit.metadata.get(key) for key in ("title", "name"))
        title = next((each for each in titles if isinstance(each, str) and each.strip()), "")
        same = ("id", "kind", "level", "source", "text", "score", "date", "before")
        return cls(
            number=number,
            title=title or (hit.documents[0] if hit.kind == "chunk" and hit.documents else ""),
            why=list(reasons(trace)),
            trace=dict(trace),
            sources=list(hit.sources[:NAMED]),
            source_count=len(hit.sources),
            documents=list(hit.documents[:NAMED]),
            document_count=len(hit.documents),
            metadata=dict(hit.metadata),
            **{name: getattr(hit, name) for name in same},
        )


def hit_views(retrieval: sg.Retrieval) -> list[HitView]:
    """The hits of a retrieval, numbered from 1."""
    pairs = zip(retrieval.hits, retrieval.trace, strict=True)
    return [HitView.of(number, hit, trace) for number, (hit, trace) in enumerate(pairs, 1)]


class Found(BaseModel):
    """The hits of a search, and how a model guided it.

    `question` is the one that was searched for; `standalone` tells how it was made of one of a conversation.
    `unknown` are its words that no passage has which the filter admits, and `note` is a line that says so.
    `seconds` is the search's own time; `cost` is null if a price is unknown.
    """

    question: str
    method: str
    generation: int
    hits: list[HitView]
    guidance: sg.Guidance | None
    standalone: sg.Standalone | None
    unknown: list[str]
    note: str
    seconds: float
    usage: sg.Usage
    cost: float | None

    @classmethod
    def of(cls, retrieval: sg.Retrieval, generation: int) -> Found:
        """The view of a retrieval."""
        made: dict[str, Any] = {
            name: value and replace(value, failed=without_places(value.failed))
            for name, value in (("guidance", retrieval.guidance), ("standalone", retrieval.standalone))
        }
        return cls(
            question=retrieval.query,
            method=retrieval.method,
            generation=generation,
            hits=hit_views(retrieval),
            unknown=list(retrieval.unknown),
            note=retrieval.note,
            seconds=retrieval.usage.seconds,
            usage=retrieval.usage,
            cost=retrieval.cost,
            **made,
        )


class Answered(BaseModel):
    """An answer; `[2]` in its text is the second hit.

    `extractive`: no model wrote it; the text are excerpts, and `marked` the beginnings of words of the
    question to mark in them. `finish` is how the
    model's answer ended; null without a model, or if its client does not tell.
    """

    text: str
    citations: list[int]
    extractive: bool
    marked: list[str]
    finish: Finish | None
    usage: sg.Usage
    cost: float | None

    @classmethod
    def of(cls, answer: sg.Answer) -> Answered:
        """The view of an answer."""
        return cls(
            text=answer.text,
            citations=[citation.number for citation in answer.citations],
            extractive=answer.extractive,
            marked=asked_words(answer.retrieval.query) if answer.extractive else [],
            finish=answer.finish,
            usage=answer.usage,
            cost=answer.cost,
        )


class AnsweredWithHits(BaseModel):
    """An answer and the hits that it cites."""

    answer: Answered
    found: Found


class Drawing(BaseModel):
    """The graph around a question: hits, what connects them, and paths."""

    notes: list[str]
    nodes: list[dict[str, Any]]
    links: list[dict[str, Any]]


def reasons(trace: Mapping[str, Any]) -> Iterator[str]:
    """Why a hit was found, in phrases for a reader."""
    if trace.get("query"):
        yield f"found for: {trace['query']}"
    if trace.get("part"):
        yield f"{trace['part']} knowledge"
    for path in paths(trace):
        step = f"step {trace['step']} of the " if "step" in trace else ""
        yield f"{step}path: " + " → ".join(path)
    if trace.get("entry"):
        yield f"entry point by {trace['entry']}"
    if isinstance(trace.get("mass"), float):
        yield f"reached by the walk from the question ({trace['mass']:.2g})"
    if isinstance(trace.get("similarity"), float):
        yield f"similar to the question ({trace['similarity']:.2f})"
    if isinstance(trace.get("bm25"), float) and trace["bm25"] > 0:
        yield f"has its words ({trace['bm25']:.1f})"
    if isinstance(trace.get("recency"), float) and trace["recency"] < 1:
        yield f"older than the newest hit, so its score counts {trace['recency']:.2g}"
    if "reranked_from" in trace:
        yield f"reranked from place {trace['reranked_from']}"
    if trace.get("repeats"):
        yield f"stands for {len(trace['repeats'])} more that say the same"


@router.post("/search")
async def search(asked: Asked, server: Server) -> Found:
    """Search. Returns hits, best first, each with the reason it was found."""
    index = await server.library.current()
    return Found.of(await _retrieved(index, asked, server), index.generation)


@router.post("/guided")
async def guided(asked: Guided, server: Server) -> Found:
    """Search, guided by the model; counts as an answer."""
    if asked.guided is False:
        raise ValueError("/api/guided always guides, and guided is false: leave it out, or ask /api/search")
    index = await server.library.current()
    guiding = asked.model_copy(update={"guided": asked.guided or True})
    return Found.of(await _retrieved(index, guiding, server), index.generation)


@router.post("/graph")
async def graph(asked: Asked, server: Server) -> Drawing:
    """The graph around a question: its names, the hits, and the relations and paths among them."""
    index = await server.library.current()
    return await asyncio.to_thread(_drawn, await _retrieved(index, asked, server))


@router.post("/answer")
async def answer(asked: Guided, server: Server) -> AnsweredWithHits:
    """Answer a question, with citations."""
    index = await server.library.current()
    answered = await index.aanswer(asked.question, **asked.arguments(index))
    server.costs.add("answer", answered.usage, answered.cost)
    return AnsweredWithHits(
        answer=Answered.of(answered), found=Found.of(answered.retrieval, index.generation)
    )


@router.post(
    "/ask",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events, as they come."}},
)
async def ask(asked: Guided, server: Server) -> StreamingResponse:
    """Answer a question as server-sent events.

    `hits` (as `/api/search`), `piece` (text of the answer), `answer` (as `answer` of `/api/answer`), `graph`
    (as `/api/graph`); or `error` if no model could answer: hits and graph are sent in that case too.
    """
    index = await server.library.current()
    stream = index.astream(asked.question, **asked.arguments(index))
    return StreamingResponse(
        _events(index, stream, await stream.searched(), server), media_type="text/event-stream"
    )


async def _events(
    index: sg.Index, stream: sg.AnswerStream, retrieval: sg.Retrieval, server: State
) -> AsyncIterator[str]:
    yield _event("hits", Found.of(retrieval, index.generation))
    drawing = asyncio.create_task(asyncio.to_thread(_drawn, retrieval))
    try:
        async with aclosing(stream):
            async for piece in stream:
                yield _event("piece", {"text": piece})
        if stream.answer is not None:
            server.costs.add("answer", stream.answer.usage, stream.answer.cost)
            yield _event("answer", Answered.of(stream.answer))
    except sg.errors.StratagraphError as error:
        yield _event(
            "error", {"error": type(error).__name__, "message": public(error, server.library.places)}
        )
    yield _event("graph", await drawing)


def _event(name: str, value: BaseModel | dict[str, Any]) -> str:
    data = value.model_dump_json() if isinstance(value, BaseModel) else json.dumps(value)
    return f"event: {name}\ndata: {data}\n\n"


async def _retrieved(index: sg.Index, asked: Asked, server: State) -> sg.Retrieval:
    retrieval = await index.aretrieve(asked.question, **asked.arguments(index))
    server.costs.add("search", retrieval.usage, retrieval.cost)
    return retrieval


def _drawn(retrieval: sg.Retrieval) -> Drawing:
    """The graph of the best hits; with more, connections cannot be seen."""
    best = replace(retrieval, hits=retrieval.hits[:DRAWN], trace=retrieval.trace[:DRAWN])
    picture = best.show()
    return Drawing(notes=list(picture.notes), **picture.data)
