"""What the index holds, a page at a time: levels, nodes, documents, passages in their documents."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel

import stratagraph as sg
from stratagraph.server.state import Cost, State, state_of
from stratagraph.viz.page import cut

router = APIRouter(tags=["contents"])
Server = Annotated[State, Depends(state_of)]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0)]
SHOWN = 400  # characters of a text in a list


class Overview(BaseModel):
    """The index as a whole. `name` is that of its folder; `problem` is empty if the folder is sound."""

    version: str
    name: str
    generation: int
    documents: int
    passages: int
    methods: list[str]
    embedder: str
    bytes: int
    answers_by_model: bool
    read_only: bool
    problem: str | None


class PassageText(BaseModel):
    """A passage in its document, without the text that it shares with its neighbour."""

    id: str
    text: str
    cited: bool
    metadata: dict[str, Any]


class Reading(BaseModel):
    """Part of a document: passages from an offset."""

    document: str
    metadata: dict[str, Any]
    passages: list[PassageText]
    offset: int
    total: int


@router.get("/index")
async def overview(server: Server) -> Overview:
    """What the index is."""
    index = await server.library.current()
    stats = await index.astats()
    return Overview(
        version=sg.__version__,
        name=server.library.name,
        generation=stats["generation"],
        documents=stats["documents"],
        passages=stats["chunks"],
        methods=list(index.methods),
        embedder=str(stats["embedder"]),
        bytes=stats["bytes"],
        answers_by_model=index.has_llm,
        read_only=server.settings.read_only,
        problem=server.library.problem,
    )


@router.get("/stats")
async def stats(server: Server) -> dict[str, Any]:
    """The result of `Index.stats`, without the path."""
    found = await (await server.library.current()).astats()
    return {name: value for name, value in found.items() if name != "path"}


@router.get("/levels")
async def levels(server: Server, method: str | None = None) -> list[sg.Level]:
    """How many nodes of each kind a method has on each level, from the top down."""
    index = await server.library.current()
    return list(await asyncio.to_thread(index.levels, method))


@router.get("/browse")
async def browse(
    server: Server,
    table: str | None = None,
    level: int | None = None,
    kind: str | None = None,
    within: str | None = None,
    text: Annotated[str, Query(max_length=500)] = "",
    offset: Offset = 0,
    limit: Limit = 50,
    whole: bool = False,
) -> sg.Listing:
    """A page of the documents, passages, entities, or a method's nodes; see `Index.browse`.

    Texts are cut unless `whole`.
    """
    index = await server.library.current()
    listing = await asyncio.to_thread(
        index.browse, table, level=level, kind=kind, within=within, text=text, offset=offset, limit=limit
    )
    if whole:
        return listing
    return replace(listing, items=tuple(replace(each, text=cut(each.text, SHOWN)) for each in listing.items))


@router.get("/passage")
async def passage(server: Server, id: str, limit: Limit = 7) -> Reading:
    """A passage in its document, with those around it."""
    index = await server.library.current()
    return await asyncio.to_thread(reading_around, index, id, limit)


@router.get("/document")
async def document(server: Server, id: str, offset: Offset = 0, limit: Limit = 20) -> Reading:
    """A document's passages, from an offset."""
    index = await server.library.current()
    return await asyncio.to_thread(reading, index, id, None, offset, limit)


@router.get("/costs")
async def costs(server: Server) -> list[Cost]:
    """What questions and changes cost since the server was started."""
    return server.costs.all()


@router.get("/options")
async def options(server: Server, method: str) -> list[dict[str, Any]]:
    """The search options of a method."""
    return [
        {"name": each.name, "default": each.default, "description": each.description}
        for each in sg.search_options(method)
    ]


def reading_around(index: sg.Index, passage: str, limit: int) -> Reading:
    """A passage in its document, among `limit` passages."""
    chunks = index.find_chunks(passage)
    if not chunks:
        raise KeyError(f"there is no passage {passage!r} in the index")
    return reading(index, chunks[0].document_id, chunks[0].id, 0, limit)


def reading(index: sg.Index, document: str, cited: str | None, offset: int, limit: int) -> Reading:
    """Passages of a document, from an offset, or around the cited one."""
    page = index.browse("passages", within=document, around=cited, offset=offset, limit=limit)
    chunks = {chunk.id: chunk for chunk in index.find_chunks([each.id for each in page.items])}
    ordered = [chunks[each.id] for each in page.items]
    texts = without_overlaps(ordered, next((at for at, each in enumerate(ordered) if each.id == cited), 0))
    return Reading(
        document=document,
        metadata=dict(ordered[0].metadata) if ordered else {},
        passages=[
            PassageText(id=each.id, text=text, cited=each.id == cited, metadata=dict(each.metadata))
            for each, text in zip(ordered, texts, strict=True)
        ],
        offset=page.offset,
        total=page.total,
    )


def without_overlaps(chunks: list[sg.Chunk], whole: int) -> list[str]:
    """Consecutive texts without overlaps; the one at `whole` is not cut."""
    texts = [chunk.text for chunk in chunks]
    for at, (one, other) in enumerate(pairwise(chunks)):
        overlap = max(0, one.end - other.start) if other.start >= 0 else 0
        if overlap and at < whole:
            texts[at] = texts[at][: max(0, len(texts[at]) - overlap)]
        elif overlap or at + 1 != whole:
            texts[at + 1] = texts[at + 1][other.repeated + overlap :]
    return texts
