"""Graph objects of any framework: their fields, and statements without a source text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from stratagraph.importing.draft import Draft, clean_name, is_name, key_of, statement, strength_of
from stratagraph.types.records import Chunk, EntityMention, RelationMention, content_id

_DESCRIPTIONS = ("description", "entity_description", "relationship_description")
_STRENGTHS = ("weight", "strength", "relationship_strength")


def field_of(item: object, name: str) -> Any:
    """A field of an object or of a dictionary; None if it has none."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def properties_of(item: object, name: str = "properties") -> Mapping[str, Any]:
    """Properties of a node or relation; empty if missing."""
    properties = field_of(item, name)
    return properties if isinstance(properties, Mapping) else {}


def mention_of(name: object, kind: object, properties: Mapping[str, Any], *, untyped: str) -> EntityMention:
    """A node as a mention; `untyped` is the framework's label of a node without one."""
    label = clean_name(kind)
    return EntityMention(clean_name(name), "" if label == untyped else label, _description(properties))


def _relation_of(source: str, label: object, target: str, properties: Mapping[str, Any]) -> RelationMention:
    """An edge as a relation; without a description its label describes it ("WORKS_AT": "works at")."""
    words = clean_name(label).replace("_", " ")
    said = statement(source, words.lower() if words.isupper() else words, target)
    strength = next((properties[key] for key in _STRENGTHS if key in properties), 1.0)
    return RelationMention(source, target, _description(properties) or said, strength_of(strength))


def _description(properties: Mapping[str, Any]) -> str:
    texts = (properties.get(key) for key in _DESCRIPTIONS)
    return next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")


class Loose:
    """Statements of a graph without a source text.

    Each entity's statements become a passage of their own, with the document id `graph:<name>`, so that no
    text is cited for them.
    """

    def __init__(self, notes: Counter[str]) -> None:
        self._notes = notes
        self._entities: dict[str, EntityMention] = {}
        self._relations: dict[str, list[RelationMention]] = defaultdict(list)

    def entity(self, mention: EntityMention) -> None:
        """Add an entity that no text mentions."""
        key = key_of(mention.name)
        if key not in self._entities or not self._entities[key].description:
            self._entities[key] = mention

    def edge(
        self,
        draft: Draft | None,
        ends: Sequence[EntityMention],
        label: object,
        properties: Mapping[str, Any],
        *,
        known: bool,
    ) -> None:
        """Add an edge to the draft of its source text, or to the graph's own statements without one."""
        if not known:
            self._notes["relations naming an entity that is not there: kept, both ends as entities"] += 1
        source, target = ends
        relation = _relation_of(source.name, label, target.name, properties)
        if draft is None:
            note = "relations without a source text: kept in a passage of the graph's own statements"
            self._notes[note] += 1
            self._relations[relation.source].append(relation)
            for end in ends:
                self.entity(end)
            return
        for end in ends:
            if end.name and end.name not in draft:
                draft.entity(end)
        draft.relation(relation)

    def passages(self) -> tuple[dict[str, Chunk], dict[str, Draft]]:
        """A chunk and a draft for each entity with statements."""
        chunks: dict[str, Chunk] = {}
        drafts: dict[str, Draft] = {}
        described = {mention.name for mention in self._entities.values() if mention.description}
        for owner in dict.fromkeys([*self._relations, *described]):
            draft, lines = self._statements(owner)
            key = f"graph:{owner if is_name(owner) else content_id(owner)}"
            text = "\n".join(lines)
            chunks[key] = Chunk(text, key, 0, 0, len(text), {"origin": "graph"}, ref=key)
            drafts[key] = draft
        self._count()
        return chunks, drafts

    def _statements(self, owner: str) -> tuple[Draft, list[str]]:
        draft, lines = Draft(self._notes), []
        mention = self._entities.get(key_of(owner))
        if mention is not None and mention.name == owner and mention.description:
            draft.entity(mention)
            kind = f" ({mention.type})" if mention.type else ""
            lines.append(f"{mention.name}{kind}: {mention.description}")
        for relation in self._relations.get(owner, ()):
            for end in (relation.source, relation.target):
                if (known := self._entities.get(key_of(end))) and end not in draft:
                    draft.entity(EntityMention(end, known.type))
            draft.relation(relation)
            lines.append(relation.description)
        return draft, lines

    def _count(self) -> None:
        used = {
            key_of(end) for owned in self._relations.values() for r in owned for end in (r.source, r.target)
        }
        for key, mention in self._entities.items():
            if mention.description:
                self._notes["entities without a source text: kept in a passage of the graph's own"] += 1
            elif key not in used:
                self._notes["entities without source text, description or relation: left out"] += 1
