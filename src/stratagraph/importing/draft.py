"""What an import returns, the extraction of a passage while it is collected, and graphs without texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from stratagraph.ingest.names.index import canonical
from stratagraph.ingest.names.spelling import LONGEST_NAME
from stratagraph.types.records import (
    Chunk,
    Document,
    EntityMention,
    Extraction,
    RelationMention,
    SemanticUnit,
    StreamedDocument,
    content_id,
)

_DESCRIPTIONS = ("description", "entity_description", "relationship_description")
_STRENGTHS = ("weight", "strength", "relationship_strength")

key_of = lru_cache(maxsize=2**17)(canonical)  # a name comes once per relation and passage


@dataclass(frozen=True, slots=True)
class CommunityReport:
    """A community of entities that another system found, with its report.

    `level` and `rating` are the system's (GraphRAG: level 0 is the coarsest, ratings are 0 to 10). `parent`
    is the id of the enclosing community, empty at the top. `text` is the full report.
    """

    id: str
    title: str
    summary: str
    text: str = ""
    rating: float | None = None
    level: int = 0
    parent: str = ""
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """Passages and what another system extracted from them.

    Parameters
    ----------
    documents
        Documents to index; empty if the import had no texts. A passage with an extraction is a `Chunk`, since
        the extraction holds for the whole passage.
    extractions
        By passage: the chunk's `ref` if it has one, else its document id. A passage without findings has an
        empty extraction.
    notes
        What was repaired or left out, with counts.
    reports
        Community reports, if the source has them.
    """

    documents: Sequence[Document | StreamedDocument | Chunk]
    extractions: Mapping[str, Extraction]
    notes: Mapping[str, int] = field(default_factory=dict)
    reports: tuple[CommunityReport, ...] = ()


class PassageDraft:
    """The extraction of a passage. Whatever a relation or fact names becomes an entity of the passage."""

    def __init__(self, notes: Counter[str]) -> None:
        self._notes = notes
        self._names: set[str] = set()
        self._entities: dict[EntityMention, None] = {}
        self._relations: dict[RelationMention, None] = {}
        self._units: dict[SemanticUnit, None] = {}

    def __contains__(self, name: str) -> bool:
        return key_of(name) in self._names

    def entity(self, mention: EntityMention) -> None:
        """Add a mention, unless it adds nothing to a known name."""
        if not is_name(mention.name):
            self._notes["entities whose name is too long, or no word: left out"] += 1
            return
        key = key_of(mention.name)
        if key in self._names and not mention.type and not mention.description:
            return
        self._names.add(key)
        self._entities[mention] = None

    def fact(self, text: str, names: Iterable[str]) -> None:
        """Add a semantic unit about those names that are entities here."""
        if text:
            self._units[SemanticUnit(text, tuple(dict.fromkeys(n for n in names if n in self)))] = None

    def relation(self, relation: RelationMention, statement: str = "", *, added: str = "") -> None:
        """Add a relation, its ends, and its statement as a fact.

        What is no relation between two entities (an end that is a sentence, or equal ends) becomes only a
        fact. `added` is the note that counts ends which were no entities here, if any.
        """
        ends = [name for name in (relation.source, relation.target) if is_name(name)]
        for name in ends:
            if name not in self:
                if added:
                    self._notes[added] += 1
                self.entity(EntityMention(name))
        if len(ends) < 2:
            self._notes["relations with an end too long for a name, or no word: kept as facts"] += 1
        elif key_of(relation.source) == key_of(relation.target):
            self._notes["relations of an entity to itself: kept as facts"] += 1
        elif relation in self._relations:
            self._notes["relations stated twice in a passage: taken once"] += 1
        else:
            self._relations[relation] = None
        self.fact(statement or relation.description, ends)

    def extraction(self) -> Extraction:
        """The extraction, in the order of additions."""
        return Extraction(tuple(self._units), tuple(self._entities), tuple(self._relations))


def is_name(name: str) -> bool:
    """Whether a string can name an entity: it has a letter or digit and is no paragraph."""
    return len(name) <= LONGEST_NAME and bool(key_of(name))


def clean_name(value: object) -> str:
    """A name on one line; empty for values other than text and numbers."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(str(value).split())


def statement(source: str, predicate: str, target: str) -> str:
    """A triple as a phrase; a predicate that names both ends is a sentence already."""
    words = f" {key_of(predicate)} "
    if all(f" {key_of(end)} " in words for end in (source, target)):
        return predicate
    return " ".join(part for part in (source, predicate, target) if part)


def strength_of(value: object, shared_by: int = 1) -> float:
    """A relation's weight divided among the passages it was summed over, clipped to [0.1, 10]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 1.0
    return min(max(value / shared_by, 0.1), 10.0)


def finish(drafts: Mapping[str, PassageDraft], notes: Counter[str]) -> dict[str, Extraction]:
    """The extractions of all passages; counts empty ones."""
    extractions = {key: draft.extraction() for key, draft in drafts.items()}
    if empty := sum(extraction == Extraction() for extraction in extractions.values()):
        notes["passages without anything: kept with an empty extraction"] = empty
    return extractions


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
        draft: PassageDraft | None,
        ends: Sequence[EntityMention],
        label: object,
        properties: Mapping[str, Any],
        *,
        has_ends: bool,
    ) -> None:
        """Add an edge to the draft of its source text, or to the graph's own statements without one."""
        if not has_ends:
            self._notes["relations naming an entity that is not there: kept, both ends as entities"] += 1
        source, target = (end.name for end in ends)
        words = clean_name(label).replace("_", " ")  # "WORKS_AT" describes the edge as "works at"
        sentence = statement(source, words.lower() if words.isupper() else words, target)
        strength = strength_of(next((properties[key] for key in _STRENGTHS if key in properties), 1.0))
        relation = RelationMention(source, target, _description(properties) or sentence, strength)
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

    def passages(self) -> tuple[dict[str, Chunk], dict[str, PassageDraft]]:
        """A chunk and a draft for each entity with statements."""
        chunks: dict[str, Chunk] = {}
        drafts: dict[str, PassageDraft] = {}
        described = {mention.name for mention in self._entities.values() if mention.description}
        for owner in dict.fromkeys([*self._relations, *described]):
            draft, lines = PassageDraft(self._notes), []
            mention = self._entities.get(key_of(owner))
            if mention is not None and mention.name == owner and mention.description:
                draft.entity(mention)
                kind = f" ({mention.type})" if mention.type else ""
                lines.append(f"{mention.name}{kind}: {mention.description}")
            for relation in self._relations.get(owner, ()):
                for end in (relation.source, relation.target):
                    if (other := self._entities.get(key_of(end))) and end not in draft:
                        draft.entity(EntityMention(end, other.type))
                draft.relation(relation)
                lines.append(relation.description)
            key = f"graph:{owner if is_name(owner) else content_id(owner)}"
            text = "\n".join(lines)
            chunks[key] = Chunk(text, key, 0, 0, len(text), {"origin": "graph"}, ref=key)
            drafts[key] = draft
        relations = [relation for owned in self._relations.values() for relation in owned]
        used = {key_of(end) for relation in relations for end in (relation.source, relation.target)}
        for key, mention in self._entities.items():
            if mention.description:
                self._notes["entities without a source text: kept in a passage of the graph's own"] += 1
            elif key not in used:
                self._notes["entities without source text, description or relation: left out"] += 1
        return chunks, drafts
