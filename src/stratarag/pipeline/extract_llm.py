"""What a chat model says of one chunk: semantic units, entities and relations in one call.

The text decomposition of NodeRAG (2.2) and the extraction of ArchRAG and HiRAG ask for overlapping
things; one answer serves them all. What comes back is taken as it is meant: triples as lists, names as
plain strings and the delimiter grammar of older prompts are read too. What cannot be kept is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from stratarag.errors import ParseFailed
from stratarag.models.gateway import Task
from stratarag.models.structured import delimited_records, json_as
from stratarag.pipeline.names import canonical
from stratarag.pipeline.prompts import load_prompt
from stratarag.records import EntityMention, Extraction, RelationMention, SemanticUnit

LONGEST_NAME = 200
"""Characters in a name; what is longer is a sentence that a model put in the wrong place."""
MOST_ENTITIES = 200
"""Entities taken from one chunk; a model that lists more is repeating itself."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class _Entity(BaseModel):
    name: str
    type: str = ""
    description: str = ""

    @model_validator(mode="before")
    @classmethod
    def _from_string(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("type", "description", mode="before")
    @classmethod
    def _text(cls, value: Any) -> str:
        return "" if value is None else _as_text(value)


class _Relation(BaseModel):
    source: str = ""
    target: str = ""
    description: str = ""
    strength: float = 1.0

    @model_validator(mode="before")
    @classmethod
    def _from_triple(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) == 3:
            return {"source": value[0], "description": value[1], "target": value[2]}
        return value

    @field_validator("source", "target", "description", mode="before")
    @classmethod
    def _text(cls, value: Any) -> str:
        return "" if value is None else _as_text(value)

    @field_validator("strength", mode="before")
    @classmethod
    def _number(cls, value: Any) -> float:
        found = _NUMBER.search(str(value))
        return float(found.group()) if found else 1.0


class _Unit(BaseModel):
    text: str
    entities: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _from_string(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value

    @field_validator("entities", mode="before")
    @classmethod
    def _names(cls, value: Any) -> list[str]:
        items = value if isinstance(value, list) else [value]
        return [_as_text(item.get("name", "") if isinstance(item, dict) else item) for item in items if item]


class ExtractionAnswer(BaseModel):
    """The JSON that a model is asked for."""

    entities: list[_Entity]
    relations: list[_Relation] = Field(default_factory=list)
    units: list[_Unit] = Field(default_factory=list)


def _as_text(value: Any) -> str:
    return ", ".join(map(_as_text, value)) if isinstance(value, list | tuple) else str(value)


_json = json_as(ExtractionAnswer)


def parse_extraction(answer: str) -> ExtractionAnswer:
    """The answer as JSON, or as delimited records where it is that.

    Raises
    ------
    ParseFailed
        If it is neither; the reason is that of the JSON reading, which is what was asked for.
    """
    if "<|>" in answer:
        try:
            return _from_records(delimited_records(answer))
        except (ParseFailed, ValidationError):
            pass  # a stray bar in JSON: read below
    return _json(answer)


def _from_records(records: Iterable[tuple[str, ...]]) -> ExtractionAnswer:
    entities, relations = [], []
    for kind, *fields in records:
        if kind == "entity" and fields:
            entities.append(dict(zip(("name", "type", "description"), fields, strict=False)))
        elif kind.startswith("relation") and len(fields) > 1:
            # Between description and strength older prompts have keywords, which nobody asked for here.
            kept = [*fields[:3], fields[-1]] if len(fields) > 3 else fields
            relations.append(dict(zip(("source", "target", "description", "strength"), kept, strict=False)))
    if not entities and not relations:
        raise ParseFailed("no entity or relation among the records")
    return ExtractionAnswer.model_validate({"entities": entities, "relations": relations})


EXTRACT = Task(
    name="extract",
    prompt=load_prompt("stratarag.pipeline", "extract"),
    parse=parse_extraction,
    schema=ExtractionAnswer,
    expected_output_tokens=700,
    placeholder=lambda values: _placeholder(values["passage"]),
)
GLEAN = Task(
    name="glean",
    prompt=load_prompt("stratarag.pipeline", "glean"),
    parse=parse_extraction,
    schema=ExtractionAnswer,
    expected_output_tokens=200,
    placeholder=lambda values: ExtractionAnswer(entities=[]),
)


def _placeholder(passage: str) -> ExtractionAnswer:
    """What an estimate takes a model to say: an entity and a relation for every dozen words."""
    names = list(dict.fromkeys(passage.split()[::12]))
    relations = [{"source": a, "target": b} for a, b in pairwise(names)]
    units = [{"text": name, "entities": [name]} for name in names[::3]]
    return ExtractionAnswer.model_validate(
        {"entities": [{"name": name} for name in names], "relations": relations, "units": units}
    )


def to_extraction(answers: Sequence[ExtractionAnswer], notes: Counter[str]) -> Extraction:
    """One chunk's answers (the first and any gleaned ones) as an extraction that is whole in itself.

    Every name that a relation or a unit uses is an entity of the chunk (NodeRAG's reconstruction of
    relations, without another call). `notes` counts what was added and what could not be kept.
    """
    entities: dict[str, EntityMention] = {}
    for answer in answers:
        for entity in answer.entities:
            _add_entity(
                entities,
                EntityMention(entity.name.strip(), entity.type.strip(), entity.description.strip()),
                notes,
            )
    relations = [
        RelationMention(
            r.source.strip(), r.target.strip(), r.description.strip(), min(max(r.strength, 0.1), 10.0)
        )
        for answer in answers
        for r in answer.relations
        if _has_ends(r, notes)
    ]
    for relation in relations:
        _ensure(entities, (relation.source, relation.target), "relation ends added as entities", notes)
    units = [
        SemanticUnit(unit.text.strip(), _names(unit.entities))
        for answer in answers
        for unit in answer.units
        if unit.text.strip()
    ]
    for unit in units:
        _ensure(entities, unit.entities, "entities of units added", notes)
    return Extraction(tuple(dict.fromkeys(units)), tuple(entities.values()), tuple(dict.fromkeys(relations)))


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in names if _is_name(name)))


def _is_name(name: str) -> bool:
    return len(name) <= LONGEST_NAME and bool(canonical(name))


def _has_ends(relation: _Relation, notes: Counter[str]) -> bool:
    if _is_name(relation.source) and _is_name(relation.target):
        return True
    notes["relations without two names dropped"] += 1
    return False


def _ensure(entities: dict[str, EntityMention], names: Iterable[str], note: str, notes: Counter[str]) -> None:
    for name in names:
        if canonical(name) not in entities:
            notes[note] += 1
            _add_entity(entities, EntityMention(name), notes)


def _add_entity(entities: dict[str, EntityMention], entity: EntityMention, notes: Counter[str]) -> None:
    """Keep an entity under its canonical name; of two with one name, the descriptions are joined."""
    if not _is_name(entity.name):
        notes["names that are no names dropped"] += 1
        return
    key = canonical(entity.name)
    known = entities.get(key)
    if known is None:
        if len(entities) >= MOST_ENTITIES:
            notes["entities beyond the limit of a chunk dropped"] += 1
            return
        entities[key] = entity
    elif entity.description and entity.description not in known.description:
        joined = f"{known.description} {entity.description}".strip()
        entities[key] = EntityMention(known.name, known.type or entity.type, joined)
