"""What requests and answers look like: the schemas of the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

import stratagraph as sg

NAMED = 8  # ids of sources and documents that a hit names


class Asked(BaseModel):
    """A question, and how to search; what is not given is what the index does by default."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(min_length=1, max_length=20_000)
    k: int | None = Field(None, ge=1, le=200, description="Number of hits.")
    view: Literal["nodes", "chunks"] | None = None
    method: str | None = None
    where: dict[str, Any] | None = Field(None, description="A filter on metadata.")
    rank: Literal["walk", "bm25", "dense", "hybrid"] = "walk"
    options: dict[str, Any] = Field({}, description="Search options of the method.")

    def search(self) -> dict[str, Any]:
        """Arguments for `retrieve`."""
        given = {"k": self.k, "view": self.view, "method": self.method, "where": self.where}
        return {key: value for key, value in given.items() if value is not None} | {
            "rank": self.rank,
            **self.options,
        }


class GivenDocument(BaseModel):
    """A document to add, or to put in the place of the one with its id."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=1000)
    text: str
    metadata: dict[str, Any] = {}


class HitView(BaseModel):
    """A hit; `why` tells in words why it is there, `trace` in the method's own terms."""

    number: int
    id: str
    kind: str
    level: int
    title: str
    text: str
    score: float
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
        return cls(
            number=number,
            id=hit.id,
            kind=hit.kind,
            level=hit.level,
            title=title or (hit.documents[0] if hit.kind == "chunk" and hit.documents else ""),
            text=hit.text,
            score=hit.score,
            why=list(reasons(trace)),
            trace=dict(trace),
            sources=list(hit.sources[:NAMED]),
            source_count=len(hit.sources),
            documents=list(hit.documents[:NAMED]),
            document_count=len(hit.documents),
            metadata=dict(hit.metadata),
        )


class Found(BaseModel):
    """What a search found; `seconds` is the search's own time, `cost` is null where a price is not known."""

    question: str
    method: str
    view: str
    generation: int
    hits: list[HitView]
    seconds: float
    usage: sg.Usage
    cost: float | None

    @classmethod
    def of(cls, found: sg.Retrieval, generation: int) -> Found:
        """The view of a retrieval."""
        traces = [*found.trace, *({} for _ in found.hits[len(found.trace) :])]
        return cls(
            question=found.query,
            method=found.method,
            view=found.view,
            generation=generation,
            hits=[
                HitView.of(number, hit, trace)
                for number, (hit, trace) in enumerate(zip(found.hits, traces, strict=True), 1)
            ],
            seconds=found.usage.seconds,
            usage=found.usage,
            cost=found.cost,
        )


class Answered(BaseModel):
    """An answer; `[2]` in its text is the second hit. `extractive`: no model wrote it."""

    text: str
    citations: list[int]
    extractive: bool
    usage: sg.Usage
    cost: float | None

    @classmethod
    def of(cls, answer: sg.Answer) -> Answered:
        """The view of an answer."""
        return cls(
            text=answer.text,
            citations=[citation.number for citation in answer.citations],
            extractive=answer.extractive,
            usage=answer.usage,
            cost=answer.cost,
        )


class AnsweredWithHits(BaseModel):
    """An answer and the hits that it cites."""

    answer: Answered
    found: Found


class Drawing(BaseModel):
    """The graph around a question: what was found, what joins it, and the paths."""

    notes: list[str]
    nodes: list[dict[str, Any]]
    links: list[dict[str, Any]]


class Passage(BaseModel):
    """A passage in its document; what it repeats of its neighbour is cut off."""

    id: str
    text: str
    cited: bool
    metadata: dict[str, Any]


class Reading(BaseModel):
    """Part of a document, around a passage or from an offset (in passages)."""

    document: str
    metadata: dict[str, Any]
    passages: list[Passage]
    offset: int
    total: int


def reasons(trace: Mapping[str, Any]) -> Iterator[str]:
    """Why a hit is there, in sentences; of what the method tells, what a reader can use."""
    if trace.get("part"):
        yield f"{trace['part']} knowledge"
    for path in _paths(trace):
        yield "path: " + " → ".join(path)
    if trace.get("entry"):
        yield f"entry point by {trace['entry']}"
    if isinstance(trace.get("mass"), float):
        yield f"reached by the walk from the question ({trace['mass']:.2g})"
    if isinstance(trace.get("similarity"), float):
        yield f"similar to the question ({trace['similarity']:.2f})"
    if isinstance(trace.get("bm25"), float) and trace["bm25"] > 0:
        yield f"has its words ({trace['bm25']:.1f})"
    if "reranked_from" in trace:
        yield f"reranked from place {trace['reranked_from']}"
    if trace.get("repeats"):
        yield f"stands for {len(trace['repeats'])} more that say the same"


def _paths(trace: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for key in ("path", "paths"):
        value = trace.get(key)
        if isinstance(value, list | tuple) and value:
            for path in [value] if isinstance(value[0], str) else value:
                if all(isinstance(each, str) for each in path):
                    yield path
