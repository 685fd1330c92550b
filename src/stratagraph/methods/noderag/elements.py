"""High-level elements, the insights of a community, and their overview titles (paper 001, 2.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidatorFunctionWrapHandler, field_validator

from stratagraph.ingest.carryover import CarryOver
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
from stratagraph.methods.noderag.communities import Community
from stratagraph.methods.noderag.config import NodeRAGConfig
from stratagraph.methods.noderag.inputs import Builder
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as, readable
from stratagraph.types.records import Node, content_id

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

    elements: list[ElementSchema] = Field(min_length=1)

    @field_validator("elements", mode="wrap")
    @classmethod
    def _readable(cls, given: Any, read: ValidatorFunctionWrapHandler) -> Any:
        """Drops the elements without a text, if there are others."""
        return readable(given, read)


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
    """The high-level elements of each community: those taken over, or written now."""
    gate, config = builder.gate, builder.config
    insights = _known_insights(communities, builder.carry, config)
    if gate.has_llm:
        for each in communities:
            if text := told_within(each.texts, config.element_tokens, gate.count_tokens):
                insights.setdefault(each.digest, [_Insight(", ".join(each.names), text, "")])
    missing = [each for each in communities if each.digest not in insights]
    with gate.stage(STAGE, len(missing)):
        items = (_item(each, builder) for each in missing)
        texts = [each.texts for each in missing]
        answers = await answered(_task(config), items, texts, config.element_tokens, gate)
        for each, answer in zip(missing, answers, strict=True):
            insights[each.digest] = _insights(each, answer, gate, config)
    return [element for each in communities for element in _elements(each, insights[each.digest])]


def _known_insights(
    communities: Sequence[Community], carry: CarryOver, config: NodeRAGConfig
) -> dict[str, list[_Insight]]:
    """What the previous index has of the same communities, by their digests."""
    ids = {
        each.digest: [_id(each.digest, number) for number in range(config.elements)] for each in communities
    }
    nodes = carry.nodes([identity for own in ids.values() for identity in own])
    return {
        digest: [
            _Insight(node.extra["title"], node.text, node.extra.get("by", ""))
            for node in map(nodes.get, own)
            if node is not None
        ]
        for digest, own in ids.items()
        if own[0] in nodes
    }


def _task(config: NodeRAGConfig) -> Task[ElementsSchema]:
    return Task(
        name="elements",
        prompt=PROMPT,
        parse=json_as(ElementsSchema),
        schema=ElementsSchema,
        expected_output_tokens=2 * config.element_tokens,
        placeholder=_placeholder,
    )


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
    title = ", ".join(each.names)
    if isinstance(answer, Summary):
        return [_Insight(title, answer.text or title, answer.by)]
    words = words_for(config.element_tokens, len(each.texts))
    return [
        _Insight(
            " ".join(element.title.split())[:LONGEST_TITLE] or title,
            bounded(element.text, words, gate.count_tokens),
            MODEL,
        )
        for element in answer.elements[: config.elements]
    ]


def _elements(each: Community, insights: Sequence[_Insight]) -> Iterator[Element]:
    for number, insight in enumerate(insights):
        identity = _id(each.digest, number)
        told = {"title": insight.title} | ({"by": insight.by} if insight.by else {})
        extra = {**told, "members": list(each.members)}
        node = Node(identity, "element", 1, insight.text, each.sources, extra)
        title = Node(
            content_id("noderag", "overview", identity, insight.title),
            "overview",
            1,
            insight.title or insight.text[:LONGEST_TITLE],
            each.sources,
            {**told, "members": [identity]},
        )
        yield Element(node, title, each)


def _id(digest: str, number: int) -> str:
    return content_id("noderag", "element", digest, str(number))
