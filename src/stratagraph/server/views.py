"""Schemas of the API: what requests and answers look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

import stratagraph as sg

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
                f"{method} has no option {unknown[0]!r}; its options are {', '.join(sorted(names))}"
            )
        given = {"k": self.k, "view": self.view, "method": self.method, "where": self.where}
        arguments = {name: value for name, value in given.items() if value is not None}
        return {**arguments, "fill": self.fill, "rank": self.rank, **self.options}


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
        "overview; by default for answers of the walk.",
    )
    guided_steps: int | None = Field(
        None, ge=1, le=STEPS, description="Searches of a guided question; 2 by default."
    )

    def arguments(self, index: sg.Index) -> dict[str, Any]:
        """As of `Asked`."""
        guiding = {"guided": self.guided, "guided_steps": self.guided_steps}
        given = {name: value for name, value in guiding.items() if value is not None}
        return {**super().arguments(index), **given, "history": pairs(self.history)}


class GivenDocument(BaseModel):
    """A document to add; it replaces a document with the same id."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=1000)
    text: str
    metadata: dict[str, Any] = {}


class HitView(BaseModel):
    """A hit. `why` explains in words why it was found, `trace` in the method's own terms."""

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
    """The hits of a search, and how a model guided it.

    `question` is the one that was searched for; `standalone` tells how it was made of one of a conversation.
    `seconds` is the search's own time; `cost` is null if a price is unknown.
    """

    question: str
    method: str
    generation: int
    hits: list[HitView]
    guidance: sg.Guidance | None
    standalone: sg.Standalone | None
    seconds: float
    usage: sg.Usage
    cost: float | None

    @classmethod
    def of(cls, retrieval: sg.Retrieval, generation: int) -> Found:
        """The view of a retrieval."""
        traces = [*retrieval.trace, *({} for _ in retrieval.hits[len(retrieval.trace) :])]
        return cls(
            question=retrieval.query,
            method=retrieval.method,
            generation=generation,
            hits=[
                HitView.of(number, hit, trace)
                for number, (hit, trace) in enumerate(zip(retrieval.hits, traces, strict=True), 1)
            ],
            guidance=retrieval.guidance,
            standalone=retrieval.standalone,
            seconds=retrieval.usage.seconds,
            usage=retrieval.usage,
            cost=retrieval.cost,
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
    """The graph around a question: hits, what connects them, and paths."""

    notes: list[str]
    nodes: list[dict[str, Any]]
    links: list[dict[str, Any]]


class Passage(BaseModel):
    """A passage in its document, without the text that it shares with its neighbour."""

    id: str
    text: str
    cited: bool
    metadata: dict[str, Any]


class Reading(BaseModel):
    """Part of a document: passages from an offset."""

    document: str
    metadata: dict[str, Any]
    passages: list[Passage]
    offset: int
    total: int


def reasons(trace: Mapping[str, Any]) -> Iterator[str]:
    """Why a hit was found, in phrases for a reader."""
    if trace.get("query"):
        yield f"found for: {trace['query']}"
    if trace.get("part"):
        yield f"{trace['part']} knowledge"
    for path in _paths(trace):
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
