"""Routes for questions: hits, the graph around them, and answers, whole or as a stream of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

import stratagraph as sg
from stratagraph.server.state import State, state_of
from stratagraph.server.views import Answered, AnsweredWithHits, Asked, Drawing, Found, Guided

ANSWERS = ("/api/ask", "/api/answer", "/api/guided")
"""Paths that may call a model to write an answer."""
DRAWN = 12
"""Hits in the graph."""
router = APIRouter(tags=["questions"])
Server = Annotated[State, Depends(state_of)]


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
        yield _event("error", {"error": type(error).__name__, "message": str(error)})
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
