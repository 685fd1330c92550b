"""Reading the units, entities and relations that a model wrote.

Each element is read for itself, in several forms; unreadable ones are counted. An answer fails only if it is
no JSON of a usable shape, or if less than half of it can be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from stratagraph.errors import ParseFailed
from stratagraph.ingest.lexical import stemmer_of
from stratagraph.ingest.names.spelling import iso_date, words
from stratagraph.models.structured import read_json
from stratagraph.text.stopwords import FUNCTION, MONTHS_AND_WEEKDAYS
from stratagraph.types.records import EntityMention, RelationMention, SemanticUnit

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LISTS = {
    "units": ("units", "unit", "semanticunits", "facts"),
    "entities": ("entities", "entity", "names", "nodes"),
    "relations": ("relations", "relation", "relationships", "triples", "edges"),
}
_NAME = ("name", "entity_name", "entity")
_TEXT = ("text", "unit", "sentence", "fact", "description")
_ENDS = (
    ("source", "target"),
    ("subject", "object"),
    ("head", "tail"),
    ("from", "to"),
    ("entity1", "entity2"),
    ("source_entity", "target_entity"),
)
_LABEL = ("description", "predicate", "relation", "relationship", "label", "type")

T = TypeVar("T")


class Strict(BaseModel):
    """A JSON object that has no further keys."""

    model_config = ConfigDict(extra="forbid")


class _Unit(Strict):
    text: str = Field(description="One event or fact, as a sentence that can be understood alone")
    entities: list[str] = Field(description="Names of all entities in it")


class _Entity(Strict):
    name: str = Field(description="The fullest form in the passage; of a date its numbers, as in 2024-09")
    type: str
    description: str = Field(description="What the passage says of it")


class _Relation(Strict):
    source: str = Field(description="Name of an entity: the one that does, has or is something")
    target: str = Field(description="Name of an entity: the one that it is done to")
    description: str = Field(description="A full sentence with both names, from source to target")
    strength: float = Field(description="1 to 10")


class _TypedRelation(_Relation):
    type: str = Field(description="One of the types of relations, or empty")


class ExtractionSchema(Strict):
    """The JSON that a model is asked for."""

    units: list[_Unit]
    entities: list[_Entity]
    relations: list[_Relation]


class TypedExtractionSchema(Strict):
    """The JSON with types of relations."""

    units: list[_Unit]
    entities: list[_Entity]
    relations: list[_TypedRelation]


@dataclass(frozen=True)
class ExtractionAnswer:
    """The elements that could be read: names may be blank, ends missing.

    `unread` counts the other elements, by the list they stood in, `foreign` the names that were dropped since
    they are not of the passage.
    """

    units: tuple[SemanticUnit, ...] = ()
    entities: tuple[EntityMention, ...] = ()
    relations: tuple[RelationMention, ...] = ()
    unread: Mapping[str, int] = field(default_factory=dict)
    foreign: int = 0

    def as_json(self) -> dict[str, Any]:
        """The answer as `ExtractionSchema` asks for it."""
        return {
            "units": [{"text": each.text, "entities": list(each.entities)} for each in self.units],
            "entities": [
                {"name": each.name, "type": each.type, "description": each.description}
                for each in self.entities
            ],
            "relations": [
                {
                    "source": each.source,
                    "target": each.target,
                    "description": each.description,
                    "strength": each.strength,
                    **({"type": each.type} if each.type else {}),
                }
                for each in self.relations
            ],
        }


class Vocabulary:
    """The stemmed words of passages and their titles, by which names of other texts are recognised.

    A model may name what only the example in its prompt has, or another passage of the same prompt.
    """

    def __init__(self, *texts: str) -> None:
        self._stem = stemmer_of(texts)
        self._stems = {self._stem(word) for text in texts for word in words(text)}

    def has(self, name: str) -> bool:
        """Whether a name is a date, or one of its words, those of grammar aside, stands in the texts."""
        written = [word for word in words(name) if not word.isdigit() and word not in MONTHS_AND_WEEKDAYS]
        own = [word for word in written if word not in FUNCTION] or written
        return not own or any(self._stem(word) in self._stems for word in own)

    def own(self, answer: ExtractionAnswer) -> ExtractionAnswer:
        """An answer without the names that stand nowhere in the texts, and what is said of them alone."""
        dates = {each.name for each in answer.entities if each.type.casefold() == "date"}
        ends = [end for each in answer.relations for end in (each.source, each.target)]
        names = {each.name for each in answer.entities}.union(ends, *(each.entities for each in answer.units))
        foreign = {name for name in names - dates if not self.has(name)}
        if not foreign:
            return answer
        return ExtractionAnswer(
            tuple(
                replace(unit, entities=tuple(name for name in unit.entities if name not in foreign))
                for unit in answer.units
                if foreign.isdisjoint(unit.entities)
                or any(name not in foreign | dates for name in unit.entities)
            ),
            tuple(each for each in answer.entities if each.name not in foreign),
            tuple(each for each in answer.relations if foreign.isdisjoint((each.source, each.target))),
            answer.unread,
            len(foreign),
        )


def read_name(value: Any) -> str | None:
    """The name that a value stands for: a string, a number, or an object with a name; else None.

    Dates become ISO dates (`iso_date`), so that those of passages and questions are equal.
    """
    if isinstance(value, dict):
        value = _first(value, _NAME)
    if isinstance(value, str):
        return iso_date(value) or value.strip()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _first(value: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The first value that is neither None nor empty."""
    return next((value[key] for key in keys if value.get(key) not in (None, "")), None)


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, map(_as_text, value)))
    return "" if value is None else str(value).strip()


def _read_entity(value: Any) -> EntityMention | None:
    name = read_name(value)
    if name is None:
        # An empty name is no name, which is counted as such; without one it is no entity.
        return EntityMention("") if isinstance(value, dict) and "" in map(value.get, _NAME) else None
    if not isinstance(value, dict):
        return EntityMention(name)
    return EntityMention(name, _as_text(value.get("type")), _as_text(value.get("description")))


def _read_relation(value: Any) -> RelationMention | None:
    """A triple, alone or with a strength, or an object; an end that is missing is blank."""
    kind = ""
    if isinstance(value, list) and len(value) in (3, 4):
        (source, label, target), strength = value[:3], value[3:]
    elif isinstance(value, dict):
        ends = max(_ENDS, key=lambda keys: sum(value.get(key) not in (None, "") for key in keys))
        source, target = map(value.get, ends)
        label, strength = _first(value, _LABEL), [_first(value, ("strength", "weight"))]
        kind = _as_text(value.get("type"))
    else:
        return None
    if any(isinstance(end, list) for end in (source, target)):
        return None  # which of several is meant is not known
    names = [read_name(end) or "" for end in (source, target)]
    if not any(names):
        return None
    number = _NUMBER.search(str(strength[0] if strength else None))
    weight = min(max(float(number.group()), 0.1), 10.0) if number else 1.0
    return RelationMention(names[0], names[1], _as_text(label), weight, kind)


def _read_unit(value: Any) -> SemanticUnit | None:
    """A sentence, an object, or a list of a sentence and names. What is no name becomes blank."""
    names: Any = []
    if isinstance(value, list) and value:
        value, *names = value
    elif isinstance(value, dict):
        names = _first(value, _LISTS["entities"])
        value = next((value[key] for key in _TEXT if key in value), None)
    if not isinstance(value, str):
        return None
    return SemanticUnit(value.strip(), tuple(read_name(name) or "" for name in flat(names)))


def flat(value: Any) -> list[Any]:
    """The members of a list and of the lists in it; another value is one member, None is no member."""
    if isinstance(value, list | tuple):
        return [member for each in value for member in (flat(each) if isinstance(each, list) else [each])]
    return [] if value is None else [value]


def _read_answer(value: Any, repaired: bool) -> ExtractionAnswer | None:
    """An answer from a JSON value, or None if it has another shape."""
    sections = _sections(value)
    if sections is None:
        return None
    unread: Counter[str] = Counter()

    def read(kind: str, read_element: Callable[[Any], T | None]) -> tuple[T, ...]:
        values = sections.get(kind, [])
        elements = [element for each in values if (element := read_element(each)) is not None]
        if missing := len(values) - len(elements):
            unread[kind] += missing
        return tuple(elements)

    answer = ExtractionAnswer(
        read("units", _read_unit), read("entities", _read_entity), read("relations", _read_relation), unread
    )
    if 2 * unread.total() > sum(map(len, sections.values())):
        which = ", ".join(f"{count} of {len(sections[kind])} {kind}" for kind, count in unread.items())
        raise ParseFailed(f"the JSON does not fit: {which} cannot be read; give each as an object as asked")
    return answer


def _sections(value: Any) -> dict[str, list[Any]] | None:
    """The elements of an answer by kind: from an object with lists, one around it, or a list."""
    if isinstance(value, dict):
        lists: dict[str, list[Any]] = {}
        for key, each in value.items():
            plain = "".join(filter(str.isalnum, str(key).casefold()))
            kind = next((kind for kind, keys in _LISTS.items() if plain in keys), None)
            if kind is not None and each is not None:
                lists.setdefault(kind, []).extend(each if isinstance(each, list) else [each])
        if not lists and len(value) == 1:
            inner = next(iter(value.values()))
            return _sections(inner) if isinstance(inner, dict) else None
        return lists or None
    if not isinstance(value, list) or not any(isinstance(each, str | dict) for each in value):
        return None
    others = [each for each in value if isinstance(each, dict) and not isinstance(_first(each, _NAME), str)]
    wholes = [_sections(each) for each in others]  # objects with a name are entities
    if not any(wholes):
        return {"entities": value}
    merged: dict[str, list[Any]] = {}
    for whole in filter(None, wholes):
        for kind, elements in whole.items():
            merged.setdefault(kind, []).extend(elements)
    return merged


def parse_extraction(answer: str) -> ExtractionAnswer:
    """The answer from JSON.

    `ParseFailed` if it has another shape, or less than half of its elements can be read.
    """
    return read_json(answer, _read_answer)
