"""High-level elements and their overview titles: what a community amounts to (paper 001, 2.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, Field

from stratarag.methods.noderag.communities import Community
from stratarag.methods.noderag.config import NodeRAGConfig
from stratarag.methods.noderag.material import Material
from stratarag.models.gate import CallItem, Gate, Task
from stratarag.models.structured import json_as
from stratarag.pipeline.carryover import CarryOver
from stratarag.pipeline.prompts import load_prompt
from stratarag.pipeline.summarize import EXTRACTIVE, FAILED, MEMBER_TOKENS, MODEL, extractive_summary
from stratarag.records import Node, content_id
from stratarag.results import clip

PROMPT = load_prompt("stratarag.methods.noderag", "elements")
STAGE = "high-level elements"
LONGEST_TITLE = 120
"""Characters of an overview title; what is longer is no title."""


class ElementSchema(BaseModel):
    """One insight about a community."""

    title: str = ""
    text: str = Field(min_length=1)


class ElementsSchema(BaseModel):
    """What a model answers about a community."""

    elements: list[ElementSchema] = Field(min_length=1)


class Element(NamedTuple):
    """A high-level element, the node of its title, and the label of the community it is about."""

    node: Node
    overview: Node
    label: int


class _Draft(NamedTuple):
    title: str
    text: str
    by: str


async def write_elements(
    found: Sequence[Community],
    attributes: Sequence[Node],
    reuse: CarryOver,
    material: Material,
    gate: Gate,
    config: NodeRAGConfig,
) -> list[Element]:
    """The high-level elements of each community: those taken over, or made now."""
    known = _taken_over(found, reuse, config)
    todo = [each for each in found if each.digest not in known]
    with gate.stage(STAGE, len(todo)):
        answers: list[ElementsSchema | None] = [None] * len(todo)
        if gate.has_llm and todo:
            items = [_item(each, attributes, material, gate, config) for each in todo]
            answers = await gate.map(_task(config), items)
        for each, answer in zip(todo, answers, strict=True):
            known[each.digest] = await _drafts(each, answer, gate, config)
    return [
        element for each in found for element in _elements(each, known[each.digest], attributes, material)
    ]


def _taken_over(
    found: Sequence[Community], reuse: CarryOver, config: NodeRAGConfig
) -> dict[str, list[_Draft]]:
    """What the previous index has of these very communities."""
    ids = {each.digest: [_id(each.digest, number) for number in range(config.elements)] for each in found}
    nodes = {
        identity: node
        for identity, (node, _) in reuse.take([each for made in ids.values() for each in made]).items()
    }
    return {
        digest: [
            _Draft(node.extra["title"], node.text, node.extra["by"])
            for identity in made
            if (node := nodes.get(identity)) is not None
        ]
        for digest, made in ids.items()
        if made[0] in nodes
    }


def _task(config: NodeRAGConfig) -> Task[ElementsSchema]:
    return Task(
        name="elements",
        prompt=PROMPT,
        parse=json_as(ElementsSchema),
        schema=ElementsSchema,
        expected_output_tokens=2 * config.element_tokens,
        placeholder=lambda values: _placeholder(values, config.element_tokens),
    )


def _placeholder(values: Mapping[str, str], tokens: int) -> ElementsSchema:
    words = values["passages"].split()
    text = " ".join(words[: tokens * 3 // 4]) or "element"
    return ElementsSchema(elements=[ElementSchema(title=values["names"] or "title", text=text)])


def _item(
    each: Community, attributes: Sequence[Node], material: Material, gate: Gate, config: NodeRAGConfig
) -> CallItem:
    share = max(1, MEMBER_TOKENS // len(each.texts))
    values = {
        "passages": "\n".join(f"- {clip(text, share, gate.count_tokens)}" for text in each.texts),
        "names": ", ".join(each.names),
        "elements": str(config.elements),
        "words": str(max(10, config.element_tokens * 3 // 4)),
    }
    sources = material.corpus.ids(_sources(each, attributes, material))
    return CallItem(values, values["names"] or each.members[0], sources)


async def _drafts(
    each: Community, answer: ElementsSchema | None, gate: Gate, config: NodeRAGConfig
) -> list[_Draft]:
    title = ", ".join(each.names)
    written = [] if answer is None else list(_written(answer, title, gate, config))
    if written:
        return written
    text = await asyncio.to_thread(extractive_summary, each.texts, config.element_tokens, gate.count_tokens)
    return [_Draft(title, text or title, FAILED if gate.has_llm else EXTRACTIVE)]


def _written(answer: ElementsSchema, title: str, gate: Gate, config: NodeRAGConfig) -> Iterator[_Draft]:
    """What a model wrote that says something, at most as many as were asked for."""
    spoken = [each for each in answer.elements if each.text.strip()]
    for each in spoken[: config.elements]:
        own = " ".join(each.title.split())[:LONGEST_TITLE]
        text = clip(each.text.strip(), 2 * config.element_tokens, gate.count_tokens)
        yield _Draft(own or title, text, MODEL)


def _elements(
    each: Community, drafts: Sequence[_Draft], attributes: Sequence[Node], material: Material
) -> Iterator[Element]:
    sources = _sources(each, attributes, material)
    for number, draft in enumerate(drafts):
        identity = _id(each.digest, number)
        extra = {"by": draft.by, "title": draft.title, "members": list(each.members)}
        node = Node(identity, "element", 1, draft.text, sources, extra)
        title = Node(
            content_id("noderag", "overview", identity, draft.title),
            "overview",
            1,
            draft.title or draft.text[:LONGEST_TITLE],
            sources,
            {"by": draft.by, "title": draft.title, "members": [identity]},
        )
        yield Element(node, title, each.label)


def _id(digest: str, number: int) -> str:
    return content_id("noderag", "element", digest, str(number))


def _sources(each: Community, attributes: Sequence[Node], material: Material) -> list[int]:
    own = {source for place in each.attributes for source in attributes[place].sources}
    return sorted(own.union(material.sources(each.rows)))
