"""The prompt of an answer by adaptive filtering: scored points of each level, merged (Eq. 3 and 4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WrapValidator

from stratagraph.ingest.summarize import even_limit
from stratagraph.methods.archrag.config import ArchRAGOptions, Merge
from stratagraph.methods.reports import numbers_in
from stratagraph.models.gate import CallItem, Gate, Prompt, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as, readable
from stratagraph.search.answer import Draft
from stratagraph.search.answer import compose as compose_directly
from stratagraph.text import CountTokens
from stratagraph.text.packing import Piece, joined
from stratagraph.types.results import Citation, Hit, Retrieval

FILTER_PROMPT = load_prompt("stratagraph.methods.archrag", "filter")
MERGE_PROMPTS: Mapping[Merge, Prompt] = {
    "grounded": load_prompt("stratagraph.methods.archrag", "merge"),
    "paper": load_prompt("stratagraph.methods.archrag", "merge_paper"),
}
_NUMBER = 6  # tokens of a hit's number and line break
_LEAST_TEXT = 40  # tokens of a level; the last ones are not shown where they have fewer


class PointSchema(BaseModel):
    """A point of an analysis: what is said, how much it matters (0 to 100), and by which texts."""

    model_config = ConfigDict(str_strip_whitespace=True)

    description: str = Field(min_length=1, description="One fact or finding, in a sentence")
    score: float = Field(default=0.0, description="From 0 to 100, how much it helps to answer the question")
    sources: Annotated[list[int], BeforeValidator(numbers_in)] = Field(
        default_factory=list, description="Numbers of the texts that say it"
    )


class AnalysisSchema(BaseModel):
    """The analysis of one level; without points if nothing there is relevant to the question."""

    points: Annotated[list[PointSchema], WrapValidator(readable)]


_POINTS = [PointSchema(description="fact " * 25, score=50, sources=[1])] * 10
"""What estimates expect of a level."""

FILTER = Task(
    name=FILTER_PROMPT.name,
    prompt=FILTER_PROMPT,
    parse=json_as(AnalysisSchema),
    placeholder=lambda values: AnalysisSchema(points=_POINTS),
    schema=AnalysisSchema,
    expected_output_tokens=500,
)


@dataclass(frozen=True, slots=True)
class Point:
    """A point with the places of the hits that support it."""

    text: str
    score: float
    places: tuple[int, ...]


async def compose(retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: ArchRAGOptions) -> Draft:
    """The last prompt of an answer.

    One call per level shows the model the level's hits; it answers with scored points and the numbers of the
    hits that support each (Eq. 3). The texts in these calls have `max_tokens` together. The points of all
    levels, best first, go into the last prompt, as many as fit into half of `max_tokens` (Eq. 4). Points
    without a score, or without a supporting hit, are left out. If no point is left, if the model cannot write
    them, and in mode `direct`, the last prompt contains the hits themselves; but with the paper's prompt
    (`ArchRAGOptions.merge`) it then contains no point, and the model answers from what it knows.
    """
    if options.mode == "direct":
        return await compose_directly(retrieval, gate, max_tokens=max_tokens, options=options)
    points = await _analysed(retrieval, gate, max_tokens)
    ranked = sorted(points, key=lambda point: (-point.score, point.places))
    lines, cited = _lines(ranked, max(1, max_tokens // 2), gate.count_tokens)
    if not lines and options.merge == "grounded":
        return await compose_directly(retrieval, gate, max_tokens=max_tokens, options=options)
    values = {"points": "\n".join(lines), "question": retrieval.query}
    citations = tuple(Citation.of(place + 1, retrieval.hits[place]) for place in sorted(cited))
    return Draft(MERGE_PROMPTS[options.merge], values, citations)


async def _analysed(retrieval: Retrieval, gate: Gate, max_tokens: int) -> list[Point]:
    """The points of all levels, each level's hits in one call."""
    groups = _groups(retrieval)
    room = max(1, max_tokens // _LEAST_TEXT)
    groups = sorted(sorted(groups, key=min)[:room], key=lambda places: _group(retrieval.hits[places[0]]))
    count = gate.count_tokens
    costs = [sum(_NUMBER + count(retrieval.hits[place].text) for place in places) for places in groups]
    limit = even_limit(costs, max_tokens)  # levels share what others leave unused
    packed = [_packed(retrieval, places, limit) for places in groups]
    shown = [[piece.place for piece in pieces] for pieces in packed]
    items = [_item(retrieval, pieces) for pieces in packed]
    with gate.stage("filter", len(items)):
        answers = await gate.map(FILTER, items, required=False)
    points = []
    for places, answer in zip(shown, answers, strict=True):
        for point in () if answer is None else answer.points:
            named = {number - 1 for number in point.sources} & set(places)
            if point.score > 0 and named:
                points.append(Point(point.description, min(point.score, 100.0), tuple(sorted(named))))
    return points


def _groups(retrieval: Retrieval) -> list[list[int]]:
    """The places of the hits of each level, in their order."""
    order = sorted(range(len(retrieval.hits)), key=lambda place: (_group(retrieval.hits[place]), place))
    return [list(places) for _, places in groupby(order, key=lambda place: _group(retrieval.hits[place]))]


def _group(hit: Hit) -> tuple[bool, int]:
    """Passages are analysed apart from entities, though both have level 0."""
    return hit.kind == "chunk", hit.level


def _packed(retrieval: Retrieval, places: Collection[int], tokens: int) -> list[Piece]:
    """What is shown of the hits of a level."""
    texts = [hit.text if place in places else "" for place, hit in enumerate(retrieval.hits)]
    return retrieval.pieces(texts, tokens)


def _item(retrieval: Retrieval, pieces: Sequence[Piece]) -> CallItem:
    hits = [retrieval.hits[piece.place] for piece in pieces]
    sources = sorted({source for hit in hits for source in hit.sources})
    name = f"level {hits[0].level} of {retrieval.query}" if hits else retrieval.query
    values = {"texts": joined(pieces), "question": retrieval.query}
    return CallItem(values, name, sources)


def _lines(points: Sequence[Point], tokens: int, count_tokens: CountTokens) -> tuple[list[str], set[int]]:
    """Points as lines with their citations, as many as fit, and the places that they cite."""
    lines: list[str] = []
    cited: set[int] = set()
    for point in points:
        numbers = "".join(f"[{place + 1}]" for place in point.places)
        line = f"- (score {point.score:.0f}) {point.text} {numbers}"
        cost = count_tokens(line) + 1
        if cost <= tokens:
            tokens -= cost
            lines.append(line)
            cited.update(point.places)
    return lines, cited
