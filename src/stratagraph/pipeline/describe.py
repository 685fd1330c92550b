"""Descriptions of merged entities and relations, condensed where they are long; nodes of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.structured import plain_text
from stratagraph.pipeline.extraction.stage import ExtractionConfig
from stratagraph.pipeline.merge import Entity, Merged, Relation, Unit
from stratagraph.pipeline.prompts import load_prompt
from stratagraph.pipeline.summarize import extractive_summaries, extractive_summary
from stratagraph.protocols import Corpus, Rows, Stored
from stratagraph.records import MadeLate, Node, content_id
from stratagraph.results import clip

PROMPT = load_prompt("stratagraph.pipeline", "describe")
STATEMENT_TOKENS = 8000
MOST_UNITS = 200
"""Units that stand in for the description of an entity that has none."""


@dataclass(frozen=True, slots=True)
class Description:
    """A description; a condensed one has the digest of its fragments and tells who condensed it."""

    text: str
    digest: str = ""
    by_model: bool = False
    failed: bool = False

    def extra(self) -> dict[str, Any]:
        """What a node keeps of it beside the text."""
        if not self.digest:
            return {}
        return {"digest": self.digest, "by_model": self.by_model, "failed": self.failed}


class Describer:
    """Makes the descriptions of entities from their fragments."""

    def __init__(self, corpus: Corpus, gate: Gate, config: ExtractionConfig, use_llm: bool) -> None:
        self._corpus = corpus
        self._gate = gate
        self._limit = config.description_tokens
        self._use_llm = use_llm

    async def all(
        self,
        entities: Sequence[Entity],
        fragments: Mapping[str, Sequence[str]],
        previous: Stored | None,
    ) -> dict[str, Description]:
        """A description of every entity, by canonical name, from its fragments."""
        joined = {key: " ".join(texts) for key, texts in fragments.items()}
        long = {key for key, text in joined.items() if self._is_long(text)}
        digests = {key: content_id(str(self._limit), *fragments[key]) for key in sorted(long)}
        kept = self._taken_over(previous, digests)
        todo = [entity for entity in entities if entity.key in long and entity.key not in kept]
        made = await self._condensed(todo, fragments, digests)
        short = {key: Description(text) for key, text in joined.items() if key not in long}
        return short | kept | made

    def directed(self, relation: Relation) -> tuple[str, str]:
        """The descriptions of a relation and of its opposite direction, which may be empty."""
        return self._bounded(relation.fragments), self._bounded(relation.opposite)

    def _bounded(self, fragments: Sequence[str]) -> str:
        """Fragments joined, or their most central sentences if they are long."""
        joined = " ".join(fragments)
        if not self._is_long(joined):
            return joined
        return extractive_summary(fragments, self._limit, self._gate.count_tokens)

    def _is_long(self, text: str) -> bool:
        """Whether a text has more tokens than the limit; a text never has more tokens than bytes."""
        return len(text.encode()) > self._limit and self._gate.count_tokens(text) > self._limit

    def _taken_over(self, previous: Stored | None, digests: Mapping[str, str]) -> dict[str, Description]:
        """What the previous generation condensed from the same fragments, at least as well as now."""
        if previous is None or not digests:
            return {}
        rows = previous.rows(list(digests))
        kept = {}
        for node in previous.nodes(list(rows.values())):
            same = node.extra.get("digest") == digests[node.id]
            by_model = bool(node.extra.get("by_model"))
            if same and by_model >= self._use_llm:
                kept[node.id] = Description(node.extra["description"], digests[node.id], by_model)
        return kept

    async def _condensed(
        self, todo: Sequence[Entity], fragments: Mapping[str, Sequence[str]], digests: Mapping[str, str]
    ) -> dict[str, Description]:
        answers: list[str | None] = [None] * len(todo)
        if self._use_llm and todo:
            task: Task[str] = Task(
                name="describe",
                prompt=PROMPT,
                parse=plain_text,
                expected_output_tokens=self._limit // 2,
                placeholder=lambda values: clip(
                    values["statements"], self._limit // 2, self._gate.count_tokens
                ),
            )
            with self._gate.stage("describe", len(todo)):
                answered = await self._gate.map(task, [self._item(e, fragments) for e in todo])
            answers = list(answered)
        unanswered = [fragments[e.key] for e, answer in zip(todo, answers, strict=True) if not answer]
        extracts = iter(await extractive_summaries(unanswered, self._limit, self._gate))
        return {
            entity.key: Description(
                answer or next(extracts),
                digests[entity.key],
                by_model=answer is not None,
                failed=self._use_llm and answer is None,
            )
            for entity, answer in zip(todo, answers, strict=True)
        }

    def _item(self, entity: Entity, fragments: Mapping[str, Sequence[str]]) -> CallItem:
        statements = "\n".join(f"- {fragment}" for fragment in fragments[entity.key])
        values = {
            "name": entity.name,
            "statements": clip(statements, STATEMENT_TOKENS, self._gate.count_tokens),
            "words": str(self._limit // 2),
        }
        return CallItem(values, entity.name, self._corpus.ids(entity.chunks))


def fragments_of(merged: Merged) -> dict[str, tuple[str, ...]]:
    """What describes each entity: its descriptions, or the units that name it where it has none."""
    units: dict[str, list[str]] = {entity.key: [] for entity in merged.entities if not entity.fragments}
    for unit in merged.units:
        for key in unit.entities:
            if key in units and len(units[key]) < MOST_UNITS:
                units[key].append(unit.text)
    return {entity.key: entity.fragments or tuple(units[entity.key]) for entity in merged.entities}


class MergedNodes(MadeLate):
    """The nodes of a merged graph: entities, then relations, then units."""

    def __init__(
        self,
        merged: Merged,
        rows: Mapping[str, int],
        describer: Describer,
        descriptions: Mapping[str, Description],
    ) -> None:
        self._merged = merged
        self._rows = rows
        self._describer = describer
        self._descriptions = descriptions
        self._starts = (len(merged.entities), len(merged.entities) + len(merged.relations))

    def __len__(self) -> int:
        return self._starts[1] + len(self._merged.units)

    def made(self, row: int) -> Node:
        """See `records.MadeLate`."""
        merged, (relations, units) = self._merged, self._starts
        if row < relations:
            entity = merged.entities[row]
            return entity_node(entity, self._descriptions[entity.key])
        if row < units:
            relation = merged.relations[row - relations]
            ends = (relation.source, relation.target)
            names = {key: merged.entities[self._rows[key]].name for key in ends}
            return relation_node(relation, names, self._describer.directed(relation))
        return unit_node(merged.units[row - units])

    def ids(self) -> Iterator[str]:
        """See `records.MadeLate`."""
        yield from (entity.key for entity in self._merged.entities)
        yield from map(relation_id, self._merged.relations)
        yield from map(unit_id, self._merged.units)

    def sources(self) -> tuple[Rows, Rows]:
        """The chunk rows of node i are `indices[indptr[i]:indptr[i + 1]]`."""
        counts = (len(each.chunks) for each in self._all())
        indptr = np.zeros(len(self) + 1, np.int64)
        np.cumsum(np.fromiter(counts, np.int64, len(self)), out=indptr[1:])
        rows = chain.from_iterable(each.chunks for each in self._all())
        return indptr, np.fromiter(rows, np.int64, int(indptr[-1]))

    def _all(self) -> Iterator[Entity | Relation | Unit]:
        yield from self._merged.entities
        yield from self._merged.relations
        yield from self._merged.units


def entity_text(entity: Entity, description: Description) -> str:
    """The text that is shown and embedded for an entity."""
    return f"{entity.name}: {description.text}" if description.text else entity.name


def relation_id(relation: Relation) -> str:
    """The id of a relation's node."""
    return content_id("relation", *sorted((relation.source, relation.target)))


def unit_id(unit: Unit) -> str:
    """The id of a unit's node."""
    return content_id("unit", unit.text, *unit.entities)


def entity_node(entity: Entity, description: Description) -> Node:
    """The node of an entity."""
    extra = {
        "name": entity.name,
        "type": entity.type,
        "description": description.text,
        **description.extra(),
    }
    return Node(entity.key, "entity", 0, entity_text(entity, description), entity.chunks, extra)


def relation_node(relation: Relation, names: Mapping[str, str], directed: tuple[str, str]) -> Node:
    """The node of a relation; `names` are the shown names of its ends, by canonical name."""
    source, target = names[relation.source], names[relation.target]
    described, opposite = directed
    text = f"{source} - {target}: {described}" if described else f"{source} - {target}"
    if opposite:
        text += f"\n{target} - {source}: {opposite}"
    extra = {"source": source, "target": target, "weight": relation.weight}
    return Node(relation_id(relation), "relation", 0, text, relation.chunks, extra)


def unit_node(unit: Unit) -> Node:
    """The node of a semantic unit."""
    return Node(unit_id(unit), "unit", 0, unit.text, unit.chunks)
