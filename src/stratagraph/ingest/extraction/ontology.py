"""The types of entities and relations that a user gives: checked, shown to a model, found in its answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from stratagraph.types.records import Extraction

TYPES = ("person", "organization", "place", "event", "work", "product", "concept", "date")
MOST_TYPES = 200
LONGEST_TYPE = 60
LONGEST_DESCRIPTION = 1_000
"""Characters; all types with their descriptions stand in every prompt of an extraction."""
_SHOWN = 40  # characters of a type that a note names
_FULL = """\
The "type" of a relation is one of the types below, such that "source, type, target" is true in this order; it
is "" if none fits. A pair of which two types are true has a relation for each.

Types of relations:

{types}

"""
_SENTENCES = """\
There is a third list, "relations": what a passage says of two of the listed things, if it is of a type below.
An entry has the number of the sentence that states it, the type, the source and the target, with "|" between
them, such that "source, type, target" is true in this order. Their names are those of the other lists.
The same relation is listed once in a passage, one of no type below not at all. If "sold to" were a type
below, the answer of the example would also have "relations":["2|sold to|Runa Vik|Holm company"].

Types of relations:

{types}

"""
_SEPARATORS = re.compile(r"[\W_]+")
_PLURAL = re.compile(r"(?<=..)ies\Z|(?<=...)(?<![su])s\Z")
# Where the head of a phrase ends, as in "ship of war" or "company (railway)".
_HEAD = re.compile(r"\s*[(,/;:]|\s+(?:of|for|in|at|from)\s", re.IGNORECASE)


def checked_types(value: Any, setting: str) -> Mapping[str, str] | tuple[str, ...]:
    """The types without blanks around them: a mapping from names to descriptions, or names alone.

    `TypeError` or `ValueError` if they are no names and descriptions, or too many or too long for a prompt;
    the message has the values.
    """
    described = isinstance(value, Mapping)
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(
            f"{setting} must be a list of names, as in ['person', 'place'], or map names to descriptions, "
            f"as in {{'person': 'a human being'}}, not {_cut(value)}"
        )
    pairs = list(value.items()) if isinstance(value, Mapping) else [(name, "") for name in value]
    if len(pairs) > MOST_TYPES:
        raise ValueError(
            f"{setting} has {len(pairs):,} types, and may have {MOST_TYPES}: each prompt has all"
        )
    types: dict[str, str] = {}
    by_folded: dict[str, str] = {}
    for name, description in pairs:
        if not isinstance(name, str) or not isinstance(description, str):
            strange, what = (name, "name") if not isinstance(name, str) else (description, "description")
            raise TypeError(f"{setting}: each {what} must be a text, not {_cut(strange)}")
        plain = name.strip()
        if not _words(plain):
            raise ValueError(f"{setting}: {name!r} is no name: it has neither letter nor digit")
        if len(plain) > LONGEST_TYPE or any(each in "|:," or not each.isprintable() for each in plain):
            raise ValueError(
                f"{setting}: {_cut(name)} cannot be a name: names have at most {LONGEST_TYPE} characters, "
                "none of them '|', ':', ',' or a line break"
            )
        if len(description) > LONGEST_DESCRIPTION:
            raise ValueError(
                f"{setting}: the description of {plain!r} has {len(description):,} characters, and may have "
                f"{LONGEST_DESCRIPTION:,}"
            )
        if (other := by_folded.setdefault(_words(plain), plain)) != plain or plain in types:
            raise ValueError(f"{setting}: {other!r} and {plain!r} are the same type twice; keep one of them")
        types[plain] = " ".join(description.split())
    return types if described else tuple(types)


def _cut(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}..."


def _words(text: str) -> str:
    """A type without capitals and punctuation, its words in the singular."""
    words = _SEPARATORS.sub(" ", text.casefold()).split()
    return " ".join(_PLURAL.sub(lambda end: "y" if end[0] == "ies" else "", word) for word in words)


class Ontology:
    """Types of entities and of relations, as `checked_types` returned them, with or without descriptions.

    With the types of entities that we offer by default, a model's own types are left as they are.
    """

    def __init__(self, entities: Iterable[str], relations: Iterable[str]) -> None:
        self.entities, self.relations = (
            dict(each) if isinstance(each, Mapping) else dict.fromkeys(each, "")
            for each in (entities, relations)
        )
        own = {} if tuple(self.entities) == TYPES else self.entities
        self._entities = {_words(name): name for name in own}
        self._relations = {_words(name): name for name in self.relations}

    @property
    def identity(self) -> tuple[str, ...]:
        """What an extraction depends on."""
        types = [list(self.entities.items()), list(self.relations.items())]
        described = self.relations or any(self.entities.values())
        return (*self.entities, *([json.dumps(types)] if described else []))

    def values(self, form: str) -> dict[str, str]:
        """Values for the prompt of a form; without types of relations it says nothing of them."""
        shown = ", ".join(
            f"{name} ({description})" if description else name
            for name, description in self.entities.items()
            if form == "full" or name != "date"
        )
        rules = answer = ""
        if self.relations:
            types = "\n".join(
                f"  - {name}: {description}" if description else f"  - {name}"
                for name, description in self.relations.items()
            )
            rules = (_FULL if form == "full" else _SENTENCES).format(types=types)
            answer = ', "type": "..."' if form == "full" else ',"relations":["1|...|...|..."]'
        return {"types": shown, "relation_types": rules, "relation_form": answer}

    def applied(self, extraction: Extraction, notes: Counter[str]) -> Extraction:
        """An extraction with types mapped to the given ones; `notes` counts those that cannot be mapped.

        An entity of another type keeps it, a relation of another type has none.
        """
        entities = []
        for entity in extraction.entities:
            kind = self.entity_type(entity.type)
            if kind is None:
                notes[f"entities of the type {entity.type[:_SHOWN]!r}, which entity_types lacks"] += 1
            entities.append(entity if kind is None else replace(entity, type=kind))
        relations = []
        for relation in extraction.relations:
            kind = self._relations.get(_words(relation.type), "")
            if relation.type and not kind and self.relations:
                note = f"relations of the type {relation.type[:_SHOWN]!r}, which relation_types lacks"
                notes[f"{note}, kept without a type"] += 1
            relations.append(replace(relation, type=kind))
        return replace(extraction, entities=tuple(entities), relations=tuple(dict.fromkeys(relations)))

    def entity_type(self, kind: str) -> str | None:
        """The given type that a type of an answer stands for; None if there is none.

        Case and plural do not matter, and of a phrase its head counts: "shipping companies" are of the type
        "company", an "event planner" is no event.
        """
        if not kind or not self._entities or kind == "date":  # dates are told by our own rule
            return kind
        for candidate in (kind, _HEAD.split(kind, maxsplit=1)[0]):
            words = _words(candidate).split()
            for start in range(len(words)):
                if (name := self._entities.get(" ".join(words[start:]))) is not None:
                    return name
        return None
