"""Communities, and their high-level elements with overview titles (paper 001, 2.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, WrapValidator

from stratagraph.ingest.carryover import Labels, needs_reclustering, previous_labels
from stratagraph.ingest.names.spelling import telling
from stratagraph.ingest.summarize import (
    MODEL,
    Summary,
    answered,
    bounded,
    first_words,
    fitted,
    told_once,
    told_within,
    words_for,
)
from stratagraph.kernels.leiden import leiden
from stratagraph.methods.drift import Drift, communities_measured
from stratagraph.methods.groups import NodeTable, united
from stratagraph.methods.noderag.attributes import Builder, BuildInputs
from stratagraph.methods.noderag.config import NodeRAGConfig
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as, readable
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Node, content_id

PARTITION = "communities"
"""The name of the partition whose drift is counted."""
_NAMES = 3


def detect_communities(builder: Builder, ends: Rows, rows_before: Rows, drift: Drift) -> Labels:
    """The community of each entity, relation, unit and attribute, shape (nodes,).

    Nodes of the previous index stay in their communities, and new ones join the community where they gain
    most modularity. If the communities have drifted, all nodes may move (`methods.drift`); if too much is
    new, the partition is fresh. `ends` are the edges, shape (edges, 2), and `rows_before` the previous row of
    each node, or -1.
    """
    config, previous = builder.config, builder.grouped
    detect = partial(
        leiden,
        ends,
        None,
        len(rows_before),
        resolution=config.resolution,
        max_size=config.max_community,
        seed=config.seed,
    )
    measure = partial(communities_measured, ends, None)
    initial = np.full(len(rows_before), -1, np.int64)
    if previous is not None:
        initial = previous_labels(rows_before, previous.arrays["communities.labels"])

    def moved(movable: bool) -> Labels:
        return detect(initial=initial, movable=np.full(len(rows_before), movable))

    ways = [] if needs_reclustering(initial >= 0) else [partial(moved, False), partial(moved, True)]
    return drift.choose(PARTITION, len(rows_before), ways, detect, measure)


def graph_drift(inputs: BuildInputs) -> Drift:
    """Counts the rows of the graph that were added or removed since communities were last compared."""
    previous, seen = inputs.builder.grouped, inputs.graph.before
    if previous is None or seen is None:
        return Drift(inputs.size)
    return Drift.between(previous.arrays, seen.size, seen.rows_before)


class Community(NamedTuple):
    """A community before its high-level elements."""

    digest: str  # a hash of all that the elements are made of
    label: int
    rows: Sequence[int]  # graph rows of its units, then of its described relations (M1), or all without units
    attributes: Sequence[int]  # places of its attributes among all attributes
    names: Sequence[str]  # of the entities that its rows mention most
    texts: Sequence[str]  # of its attributes, then of its rows
    members: Sequence[str]  # their ids
    sources: Sequence[int]  # the chunk rows behind them, ascending


def changed_communities(
    inputs: BuildInputs, labels: Rows, rewrite: NDArray[np.bool_], attributes: NodeTable
) -> list[Community]:
    """The communities that need new elements (`rewrite`), by label.

    `labels` are those of the rows of the graph, then of the attributes.
    """
    entities, described = inputs.graph.entities, inputs.graph.described
    first, total = inputs.first_unit, inputs.size
    rows: dict[int, list[int]] = {}  # units first
    for row in (first + np.flatnonzero(rewrite[labels[first:total]])).tolist():
        rows.setdefault(int(labels[row]), []).append(row)
    with_units = frozenset(rows)
    for row in (entities + np.flatnonzero(rewrite[labels[entities:first]])).tolist():
        label = int(labels[row])
        if label not in with_units or described[row - entities]:
            rows.setdefault(label, []).append(row)
    places: dict[int, list[int]] = {}
    for place in np.flatnonzero(rewrite[labels[total:]]).tolist():
        places.setdefault(int(labels[total + place]), []).append(place)
    large = sorted({*rows, *places})
    named = {label: _most_named(rows.get(label, ()), inputs) for label in large}
    names = inputs.names([row for members in named.values() for row in members])
    flat = [row for label in large for row in rows.get(label, ())]
    texts, ids = inputs.texts(flat), inputs.ids(flat)
    chosen = [place for label in large for place in places.get(label, ())]
    nodes = dict(zip(chosen, attributes.read(chosen), strict=True))
    settings = ("noderag", "community", *inputs.builder.config.text_settings)
    communities = []
    for label in large:
        own, of_label = rows.get(label, []), [nodes[place] for place in places.get(label, ())]
        said = [*(node.text for node in of_label), *(texts[row] for row in own)]
        members = [*(node.id for node in of_label), *(ids[row] for row in own)]
        called = telling((names[row] for row in named[label]), _NAMES)
        digest = content_id(*settings, *called, "", *members, "", *said)
        sources = united([inputs.sources(own), *(node.sources for node in of_label)])
        communities.append(
            Community(digest, label, own, places.get(label, []), called, said, members, sources)
        )
    return communities


def _most_named(rows: Sequence[int], inputs: BuildInputs) -> list[int]:
    """Entities that most of these units name, or that most of these relations join."""
    graph, counts = inputs.graph, Counter[int]()
    indptr, indices = graph.unit_entities
    for row in rows:
        unit = row - inputs.first_unit
        near = graph.ends[row - graph.entities] if unit < 0 else indices[indptr[unit] : indptr[unit + 1]]
        counts.update(near.tolist())
    return [row for row, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: 2 * _NAMES]]


PROMPT = load_prompt("stratagraph.methods.noderag", "elements")
STAGE = "high-level elements"
LONGEST_TITLE = 120
"""Characters of an overview title; longer ones are cut."""


class ElementSchema(BaseModel):
    """One insight about a community."""

    model_config = ConfigDict(str_strip_whitespace=True)

    title: str = Field(default="", description="A few words that someone would search for")
    text: str = Field(min_length=1, description="What there is to know, understandable by itself")


class ElementsSchema(BaseModel):
    """What a model answers about a community."""

    elements: Annotated[list[ElementSchema], Field(min_length=1), WrapValidator(readable)]


class Element(NamedTuple):
    """A high-level element, the node of its title, and the community it is about."""

    node: Node
    overview: Node
    about: Community


class _Insight(NamedTuple):
    """A title and a text; `by` is empty if it needed no writing."""

    title: str
    text: str
    by: str


async def write_elements(communities: Sequence[Community], builder: Builder) -> list[Element]:
    """The high-level elements of each community: those of the previous index, or written now."""
    gate, config = builder.gate, builder.config
    insights: dict[str, list[_Insight]] = {}
    ids = {each.digest: [_id(each.digest, n) for n in range(config.elements)] for each in communities}
    nodes = builder.carry.nodes([identity for own in ids.values() for identity in own])
    for digest, own in ids.items():
        known = [nodes[identity] for identity in own if identity in nodes]
        if own[0] in nodes:
            insights[digest] = [
                _Insight(node.extra["title"], node.text, node.extra.get("by", "")) for node in known
            ]
    for each in communities if gate.has_llm else ():
        if text := told_within(each.texts, config.element_tokens, gate.count_tokens):
            insights.setdefault(each.digest, [_Insight(", ".join(each.names), text, "")])
    missing = [each for each in communities if each.digest not in insights]
    task = Task(
        name="elements",
        prompt=PROMPT,
        parse=json_as(ElementsSchema),
        schema=ElementsSchema,
        expected_output_tokens=2 * config.element_tokens,
        placeholder=_placeholder,
    )
    with gate.stage(STAGE, len(missing)):
        items = (_item(each, builder) for each in missing)
        texts = [each.texts for each in missing]
        answers = await answered(task, items, texts, config.element_tokens, gate)
        for each, answer in zip(missing, answers, strict=True):
            insights[each.digest] = _insights(each, answer, gate, config)
    return [element for each in communities for element in _elements(each, insights[each.digest])]


def _placeholder(values: Mapping[str, str]) -> ElementsSchema:
    text = first_words(values["passages"], int(values["words"])) or "element"
    return ElementsSchema(elements=[ElementSchema(title=values["names"] or "title", text=text)])


def _item(each: Community, builder: Builder) -> CallItem:
    config, texts = builder.config, list(filter(None, told_once(each.texts)))
    shown = fitted(texts, config.context_tokens, builder.gate.count_tokens)
    values = {
        "passages": "\n".join(f"- {text}" for text in shown),
        "names": ", ".join(each.names),
        "elements": str(config.elements),
        "words": str(words_for(config.element_tokens, len(shown))),
    }
    return CallItem(values, values["names"] or each.members[0], builder.corpus.ids(each.sources))


def _insights(
    each: Community, answer: ElementsSchema | Summary, gate: Gate, config: NodeRAGConfig
) -> list[_Insight]:
    """The model's elements, at most as many as were asked for, or the extractive one."""
    name = ", ".join(each.names)
    if isinstance(answer, Summary):
        return [_Insight(name, answer.text or name, answer.by)]
    words, insights = words_for(config.element_tokens, len(each.texts)), []
    for element in answer.elements[: config.elements]:
        title = " ".join(element.title.split())[:LONGEST_TITLE] or name
        insights.append(_Insight(title, bounded(element.text, words, gate.count_tokens), MODEL))
    return insights


def _elements(each: Community, insights: Sequence[_Insight]) -> Iterator[Element]:
    for number, insight in enumerate(insights):
        identity, name = _id(each.digest, number), insight.title or insight.text[:LONGEST_TITLE]
        written = {"title": insight.title} | ({"by": insight.by} if insight.by else {})
        extra = {**written, "members": list(each.members)}
        node = Node(identity, "element", 1, insight.text, each.sources, extra)
        extra = {**written, "members": [identity]}
        key = content_id("noderag", "overview", identity, insight.title)
        yield Element(node, Node(key, "overview", 1, name, each.sources, extra), each)


def _id(digest: str, number: int) -> str:
    return content_id("noderag", "element", digest, str(number))
