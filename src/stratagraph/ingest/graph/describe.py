"""Descriptions of entities and relations, condensed where they are long; nodes of the graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
    failed to. `enough` means that a model condensed it or need not.
    """

    text: str
    digest: str = ""
    by_model: bool = False
    failed: bool = False
    enough: bool = False

    def extra(self) -> dict[str, Any]:
        """The fields that a node stores beside the text."""
        if not self.digest:
            return {}
        return {"digest": self.digest, "by_model": self.by_model, "failed": self.failed}


class _Described(NamedTuple):
    """An entity or a relation with a long description: the id of its node, its name, fragments, chunks."""

    id: str
    name: str
    fragments: Sequence[str]
    chunks: Sequence[int]


class Describer:
    """Condenses long descriptions of entities and relations.

    `by_model` tells whether the model condenses entities, and whether it condenses relations. In the short
    forms of extraction an entity has sentences of passages. The best of them describe it, unless there are
    very many (`LONG_SENTENCES`): a model that rewrites every long description writes .6 output tokens for
    each token of the demo corpus.
    """

    def __init__(
        self,
        corpus: Corpus,
        gate: Gate,
        config: ExtractionConfig,
        previous: Stored | None,
        by_model: tuple[bool, bool],
    ) -> None:
        self._corpus = corpus
        self._gate = gate
        self._limit = config.description_tokens
        self._model_limit = self._limit * (1 if config.form == "full" else LONG_SENTENCES)
        self._previous = previous
        self._by_model = by_model

    async def entities(
        self, entities: Sequence[Entity], fragments: Mapping[str, Sequence[str]]
    ) -> dict[str, Description]:
        """A description of every entity, by canonical name, from its fragments."""
        joined = {key: " ".join(texts) for key, texts in fragments.items()}
        long = {key for key, text in joined.items() if self._is_long(text, self._limit)}
        described = [
            _Described(each.key, each.name, fragments[each.key], each.chunks)
            for each in entities
            if each.key in long
        ]
        short = {key: Description(text) for key, text in joined.items() if key not in long}
        return short | await self._condensed(described, self._by_model[0])

    async def relations(
        self, relations: Sequence[NamedRelation], names: Callable[[str], str]
    ) -> dict[str, Description]:
        """Condensed descriptions of the relations with long ones, by id; `names` gives shown names."""
        described = []
        for each in relations:
            if self._is_long(" ".join((*each.fragments, *each.opposite)), self._limit):
                source, target = names(each.source), names(each.target)
                opposite = [f"{target} - {source}: {text}" for text in each.opposite]
                fragments = [*each.fragments, *opposite]
                described.append(
                    _Described(relation_id(each), f"{source} - {target}", fragments, each.chunks)
                )
        return await self._condensed(described, self._by_model[1])

    def _is_long(self, text: str, limit: int) -> bool:
        """Whether a text has more tokens than a limit; a text never has more tokens than bytes."""
        return len(text.encode()) > limit and self._gate.count_tokens(text) > limit

    async def _condensed(self, described: Sequence[_Described], by_model: bool) -> dict[str, Description]:
        digests = {each.id: content_id(str(self._limit), *each.fragments) for each in described}
        very_long = {
            each.id for each in described if self._is_long(" ".join(each.fragments), self._model_limit)
        }
        for_model = very_long if by_model else set()
        carried = self._carried(digests, for_model, very_long)
        todo = [each for each in described if each.id not in carried]
        to_ask = [each for each in todo if each.id in for_model]
        answers: dict[str, str] = {}
        if to_ask:
            task: Task[str] = Task(
                name="describe",
                prompt=PROMPT,
                parse=plain_text,
                expected_output_tokens=self._limit // 2,
                placeholder=lambda values: first_words(values["statements"], int(values["words"])),
            )
            with self._gate.stage("describe", len(to_ask)):
                written = await self._gate.map(task, list(map(self._item, to_ask)))
            answers = {each.id: text for each, text in zip(to_ask, written, strict=True) if text}
        unanswered = [each.fragments for each in todo if each.id not in answers]
        extracts = iter(await extractive_summaries(unanswered, self._limit, self._gate))
        return carried | {
            each.id: Description(
                answers.get(each.id) or next(extracts),
                digests[each.id],
                by_model=each.id in answers,
                failed=each.id in for_model and each.id not in answers,
                enough=each.id in answers or each.id not in very_long,
            )
            for each in todo
        }

    def _carried(
        self, digests: Mapping[str, str], for_model: Collection[str], very_long: Collection[str]
    ) -> dict[str, Description]:
        """Descriptions that the previous generation condensed from the same fragments, at least as well."""
        if self._previous is None or not digests:
            return {}
        rows = self._previous.rows(list(digests))
        carried = {}
        for node in self._previous.nodes(list(rows.values())):
            is_same = node.extra.get("digest") == digests[node.id]
            was_by_model = bool(node.extra.get("by_model"))
            if is_same and was_by_model >= (node.id in for_model):
                carried[node.id] = Description(
                    node.extra["description"],
                    digests[node.id],
                    was_by_model,
                    enough=was_by_model or node.id not in very_long,
                )
        return carried

    def _item(self, described: _Described) -> CallItem:
        shown = fitted(described.fragments, MEMBER_TOKENS, self._gate.count_tokens)
        values = {
            "name": described.name,
            "statements": "\n".join(f"- {text}" for text in shown),
            "words": str(words_for(self._limit * 2 // 3, len(shown))),
        }
        return CallItem(values, described.name, self._corpus.ids(described.chunks))


class GraphNodes(MadeLate):
    """The nodes of entities, then of relations, then of units.

    `names` are the shown names of entities, and `descriptions` their descriptions, by canonical names;
    `condensed` are descriptions of relations with long ones, by id.
    """

    def __init__(
        self,
        entities: Sequence[Entity],
        relations: Sequence[NamedRelation],
        units: Sequence[Unit],
        names: Mapping[str, str],
        descriptions: Mapping[str, Description],
        condensed: Mapping[str, Description],
    ) -> None:
        self._entities, self._relations, self._units = entities, relations, units
        self._names = names
        self._descriptions = descriptions
        self._condensed = condensed
        self._starts = (len(entities), len(entities) + len(relations))

    def __len__(self) -> int:
        return self._starts[1] + len(self._units)

    def made(self, row: int) -> Node:
        """See `records.MadeLate`."""
        relations, units = self._starts
        if row < relations:
            return self._entity(self._entities[row])
        if row < units:
            return self._relation(self._relations[row - relations])
        unit = self._units[row - units]
        return Node(unit_id(unit), "unit", 0, unit.text, unit.chunks)

    def _entity(self, entity: Entity) -> Node:
        description = self._descriptions[entity.key]
        fields = {"name": entity.name, "type": entity.type, "description": description.text}
        extra = fields | description.extra()
        return Node(entity.key, "entity", 0, entity_text(entity, description), entity.chunks, extra)

    def _relation(self, relation: NamedRelation) -> Node:
        """The text has the descriptions of both directions, or the condensed description of both."""
        source, target = self._names[relation.source], self._names[relation.target]
        extra = {"source": source, "target": target, "weight": relation.weight}
        types = {"types": list(relation.types), "opposite_types": list(relation.opposite_types)}
        extra |= {key: value for key, value in types.items() if value}
        described, opposite = " ".join(relation.fragments), " ".join(relation.opposite)
        if (condensed := self._condensed.get(relation_id(relation))) is not None:
            extra |= {"description": condensed.text, **condensed.extra()}
            described, opposite = condensed.text, ""
        text = f"{source} - {target}: {described}" if described else f"{source} - {target}"
        if opposite:
            text += f"\n{target} - {source}: {opposite}"
        return Node(relation_id(relation), "relation", 0, text, relation.chunks, extra)

    def ids(self) -> Iterator[str]:
        """See `records.MadeLate`."""
        yield from (entity.key for entity in self._entities)
        yield from map(relation_id, self._relations)
        yield from map(unit_id, self._units)


def entity_text(entity: Entity, description: Description) -> str:
    """The text that is shown and embedded for an entity."""
    return f"{entity.name}: {description.text}" if description.text else entity.name


def relation_id(relation: NamedRelation) -> str:
    """The id of a relation's node."""
    return content_id("relation", *sorted((relation.source, relation.target)))


def unit_id(unit: Unit) -> str:
    """The id of a unit's node."""
    return content_id("unit", unit.text, *unit.entities)
