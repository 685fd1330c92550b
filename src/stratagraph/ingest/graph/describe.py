"""Descriptions of entities and relations, condensed where they are long; nodes of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from stratagraph.ingest.extraction.stage import ExtractionConfig
from stratagraph.ingest.graph.layout import Entity, NamedRelation, Unit
from stratagraph.ingest.summarize import MEMBER_TOKENS, extractive_summaries, first_words, fitted, words_for
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import plain_text
from stratagraph.types.built import MadeLate
from stratagraph.types.protocols import Corpus, Stored
from stratagraph.types.records import Node, content_id

PROMPT = load_prompt("stratagraph.ingest", "describe")
LONG_SENTENCES = 4
"""A model condenses sentences of passages that are longer than this many times `description_tokens`."""


@dataclass(frozen=True, slots=True)
class Description:
    """A description of an entity or a relation.

    A condensed one has the digest of its fragments, and tells whether a model condensed it (`by_model`) or
    need not, which is `enough`.
    """

    text: str
    digest: str = ""
    by_model: bool = False
    enough: bool = True

    def extra(self) -> dict[str, Any]:
        """The fields that a node stores beside the text."""
        if not self.digest:
            return {}
        return {"digest": self.digest, "by_model": self.by_model}


class _Described(NamedTuple):
    """An entity or a relation with a long description: the id of its node, its name, fragments, chunks."""

    id: str
    name: str
    fragments: Sequence[str]
    chunks: Sequence[int]


@dataclass(frozen=True)
class Describer:
    """Condenses long descriptions of entities and relations.

    `by_model` tells whether the model condenses entities, and whether it condenses relations. In the short
    forms of extraction an entity has sentences of passages. The best of them describe it, unless there are
    very many (`LONG_SENTENCES`): a model that rewrites every long description writes .6 output tokens for
    each token of the demo corpus.
    """

    corpus: Corpus
    gate: Gate
    config: ExtractionConfig
    previous: Stored | None
    by_model: tuple[bool, bool]

    async def entities(
        self, entities: Sequence[Entity], fragments: Mapping[str, Sequence[str]]
    ) -> dict[str, Description]:
        """A description of every entity, by canonical name, from its fragments."""
        joined = {key: " ".join(texts) for key, texts in fragments.items()}
        long = {key for key, text in joined.items() if self._is_long(text)}
        described = [
            _Described(each.key, each.name, fragments[each.key], each.chunks)
            for each in entities
            if each.key in long
        ]
        short = {key: Description(text) for key, text in joined.items() if key not in long}
        return short | await self._condensed(described, self.by_model[0])

    async def relations(
        self, relations: Sequence[NamedRelation], names: Mapping[str, str]
    ) -> dict[str, Description]:
        """Condensed descriptions of the relations with long ones, by id; `names` are shown names."""
        described = []
        for each in relations:
            if self._is_long(" ".join((*each.fragments, *each.opposite))):
                source, target = names[each.source], names[each.target]
                fragments = [*each.fragments, *(f"{target} - {source}: {text}" for text in each.opposite)]
                name = f"{source} - {target}"
                described.append(_Described(relation_id(each), name, fragments, each.chunks))
        return await self._condensed(described, self.by_model[1])

    def _is_long(self, text: str, times: int = 1) -> bool:
        """Whether a text has more tokens than a description; a text never has more tokens than bytes."""
        limit = times * self.config.description_tokens
        return len(text.encode()) > limit and self.gate.count_tokens(text) > limit

    async def _condensed(self, described: Sequence[_Described], by_model: bool) -> dict[str, Description]:
        limit, times = self.config.description_tokens, 1 if self.config.form == "full" else LONG_SENTENCES
        digests = {each.id: content_id(str(limit), *each.fragments) for each in described}
        very_long = {each.id for each in described if self._is_long(" ".join(each.fragments), times)}
        for_model = very_long if by_model else set()
        done: dict[str, Description] = {}
        if self.previous is not None and digests:  # condensed from the same fragments, at least as well
            for node in self.previous.nodes(list(self.previous.rows(list(digests)).values())):
                was_by_model = bool(node.extra.get("by_model"))
                if node.extra.get("digest") == digests[node.id] and was_by_model >= (node.id in for_model):
                    enough = was_by_model or node.id not in very_long
                    text = node.extra["description"]
                    done[node.id] = Description(text, digests[node.id], was_by_model, enough=enough)
        todo = [each for each in described if each.id not in done]
        to_ask = [each for each in todo if each.id in for_model]
        answers: dict[str, str] = {}
        if to_ask:
            task: Task[str] = Task(
                name="describe",
                prompt=PROMPT,
                parse=plain_text,
                expected_output_tokens=limit // 2,
                placeholder=lambda values: first_words(values["statements"], int(values["words"])),
            )
            items = []
            for each in to_ask:
                shown = fitted(each.fragments, MEMBER_TOKENS, self.gate.count_tokens)
                words = str(words_for(limit * 2 // 3, len(shown)))
                statements = "\n".join(f"- {text}" for text in shown)
                values = {"name": each.name, "statements": statements, "words": words}
                items.append(CallItem(values, each.name, self.corpus.ids(each.chunks)))
            with self.gate.stage("describe", len(to_ask)):
                written = await self.gate.map(task, items)
            answers = {each.id: text for each, text in zip(to_ask, written, strict=True) if text}
        unanswered = [each.fragments for each in todo if each.id not in answers]
        extracts = iter(await extractive_summaries(unanswered, limit, self.gate))
        return done | {
            each.id: Description(
                answers.get(each.id) or next(extracts),
                digests[each.id],
                by_model=each.id in answers,
                enough=each.id in answers or each.id not in very_long,
            )
            for each in todo
        }


@dataclass(frozen=True)
class GraphNodes(MadeLate):
    """The nodes of entities, then of relations, then of units.

    `names` are the shown names of entities, and `descriptions` their descriptions, by canonical names;
    `condensed` are descriptions of relations with long ones, by id.
    """

    entities: Sequence[Entity]
    relations: Sequence[NamedRelation]
    units: Sequence[Unit]
    names: Mapping[str, str]
    descriptions: Mapping[str, Description]
    condensed: Mapping[str, Description]

    def __len__(self) -> int:
        return len(self.entities) + len(self.relations) + len(self.units)

    def made(self, row: int) -> Node:
        """See `records.MadeLate`."""
        if row < len(self.entities):
            entity = self.entities[row]
            description = self.descriptions[entity.key]
            fields = {"name": entity.name, "type": entity.type, "description": description.text}
            text, extra = entity_text(entity, description), fields | description.extra()
            return Node(entity.key, "entity", 0, text, entity.chunks, extra)
        row -= len(self.entities)
        if row < len(self.relations):
            return self._relation(self.relations[row])
        unit = self.units[row - len(self.relations)]
        return Node(unit_id(unit), "unit", 0, unit.text, unit.chunks)

    def _relation(self, relation: NamedRelation) -> Node:
        """The text has the descriptions of both directions, or the condensed description of both."""
        source, target = self.names[relation.source], self.names[relation.target]
        extra = {"source": source, "target": target, "weight": relation.weight}
        types = {"types": list(relation.types), "opposite_types": list(relation.opposite_types)}
        extra |= {key: value for key, value in types.items() if value}
        described, opposite = " ".join(relation.fragments), " ".join(relation.opposite)
        if (condensed := self.condensed.get(relation_id(relation))) is not None:
            extra |= {"description": condensed.text, **condensed.extra()}
            described, opposite = condensed.text, ""
        text = f"{source} - {target}: {described}" if described else f"{source} - {target}"
        if opposite:
            text += f"\n{target} - {source}: {opposite}"
        return Node(relation_id(relation), "relation", 0, text, relation.chunks, extra)

    def ids(self) -> Iterator[str]:
        """See `records.MadeLate`."""
        yield from (entity.key for entity in self.entities)
        yield from map(relation_id, self.relations)
        yield from map(unit_id, self.units)


def entity_text(entity: Entity, description: Description) -> str:
    """The text that is shown and embedded for an entity."""
    return f"{entity.name}: {description.text}" if description.text else entity.name


def relation_id(relation: NamedRelation) -> str:
    """The id of a relation's node."""
    return content_id("relation", *sorted((relation.source, relation.target)))


def unit_id(unit: Unit) -> str:
    """The id of a unit's node."""
    return content_id("unit", unit.text, *unit.entities)
