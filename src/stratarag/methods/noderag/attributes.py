"""Attributes: what the semantic units and relations around an important entity say of it (paper 001, 2.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stratarag.methods.noderag.config import NodeRAGConfig
from stratarag.methods.noderag.material import Material
from stratarag.models.gate import CallItem, Gate
from stratarag.pipeline.prompts import load_prompt
from stratarag.pipeline.summarize import (
    EXTRACTIVE,
    FAILED,
    MEMBER_TOKENS,
    MODEL,
    extractive_summary,
    summary_task,
)
from stratarag.protocols import Rows
from stratarag.records import Node, content_id
from stratarag.results import clip

PROMPT = load_prompt("stratarag.methods.noderag", "attribute")
STAGE = "attributes"


@dataclass(frozen=True, slots=True)
class Plan:
    """An attribute to be: its id, its entity, and the graph rows and texts it is made of."""

    id: str
    entity: int
    name: str
    rows: Sequence[int]
    texts: Sequence[str]


def plan_attributes(material: Material, entities: Rows, stated: Rows, config: NodeRAGConfig) -> list[Plan]:
    """What the attribute of each entity is made of.

    Parameters
    ----------
    entities
        Rows of the important entities.
    stated
        Pairs of a relation and a unit that names both its ends: such a relation's unit speaks for it.
    """
    names = material.names(entities.tolist())
    chosen = _Statements(material, stated)
    rows_of = {entity: chosen.of(entity, config.statements) for entity in entities.tolist()}
    texts = dict.fromkeys(row for rows in rows_of.values() for row in rows)
    found = dict(zip(texts, material.texts(texts), strict=True))
    return [
        _plan(material, entity, names[entity], rows, [found[row] for row in rows], config)
        for entity, rows in rows_of.items()
    ]


def _plan(
    material: Material,
    entity: int,
    name: str,
    rows: Sequence[int],
    texts: Sequence[str],
    config: NodeRAGConfig,
) -> Plan:
    made_of = [material.ids[row] for row in rows]
    settings = ("noderag", "attribute", str(config.attribute_tokens))
    identity = content_id(*settings, material.ids[entity], name, *made_of, *texts)
    return Plan(identity, entity, name, rows, texts)


class _Statements:
    """The units and relations around entities."""

    def __init__(self, material: Material, stated: Rows) -> None:
        graph = material.graph
        self._keys = material.keys
        owner = np.repeat(np.arange(graph.units), np.diff(graph.unit_entities[0]))
        spoken = np.zeros(graph.relations, np.bool_)
        spoken[stated[:, 0]] = True
        silent = np.flatnonzero(~spoken)
        about = [graph.unit_entities[1], graph.ends[silent, 0], graph.ends[silent, 1]]
        rows = [material.first_unit + owner, graph.entities + silent, graph.entities + silent]
        entity, row = np.concatenate(about), np.concatenate(rows)
        order = np.lexsort((row, entity))
        self._rows = row[order]
        self._starts = np.searchsorted(entity[order], np.arange(graph.entities + 1))

    def of(self, entity: int, limit: int) -> list[int]:
        """At most `limit` rows; of more, a sample by key, which does not depend on the others."""
        rows = np.unique(self._rows[self._starts[entity] : self._starts[entity + 1]])
        if len(rows) > limit:
            rows = np.sort(rows[np.argsort(self._keys[rows], kind="stable")[:limit]])
        chosen: list[int] = rows.tolist()
        return chosen


async def write_attributes(
    plans: Sequence[Plan], known: Mapping[str, Node], material: Material, gate: Gate, config: NodeRAGConfig
) -> list[Node]:
    """The attribute of each plan: the `known` one, or one that is made now."""
    todo = [plan for plan in plans if plan.id not in known]
    written: dict[str, Node] = {}
    with gate.stage(STAGE, len(todo)):
        answers: list[str | None] = [None] * len(todo)
        if gate.has_llm and todo:
            task = summary_task(PROMPT, config.attribute_tokens)
            answers = await gate.map(task, [_item(plan, material, gate, config) for plan in todo])
        for plan, answer in zip(todo, answers, strict=True):
            text, by = await _text(plan, answer, gate, config)
            written[plan.id] = _node(plan, text, by, material)
    return [_current(plan, known, material) if plan.id in known else written[plan.id] for plan in plans]


async def _text(plan: Plan, answer: str | None, gate: Gate, config: NodeRAGConfig) -> tuple[str, str]:
    if answer is not None:
        return clip(answer, 2 * config.attribute_tokens, gate.count_tokens), MODEL
    text = await asyncio.to_thread(extractive_summary, plan.texts, config.attribute_tokens, gate.count_tokens)
    return text or plan.name, FAILED if gate.has_llm else EXTRACTIVE


def _item(plan: Plan, material: Material, gate: Gate, config: NodeRAGConfig) -> CallItem:
    share = max(1, MEMBER_TOKENS // max(1, len(plan.texts)))
    statements = "\n".join(f"- {clip(text, share, gate.count_tokens)}" for text in plan.texts)
    words = str(max(10, config.attribute_tokens * 3 // 4))
    values = {"name": plan.name, "passages": statements, "words": words}
    return CallItem(values, plan.name, material.chunk_ids(plan.rows))


def _node(plan: Plan, text: str, by: str, material: Material) -> Node:
    extra = {
        "by": by,
        "title": plan.name,
        "entity": material.ids[plan.entity],
        "members": [material.ids[row] for row in plan.rows],
    }
    return Node(plan.id, "attribute", 0, text, material.sources(plan.rows), extra)


def _current(plan: Plan, known: Mapping[str, Node], material: Material) -> Node:
    """A node that is taken over: its text is as it was, its rows are of this corpus."""
    return _node(plan, known[plan.id].text, known[plan.id].extra["by"], material)
