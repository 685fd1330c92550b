"""What an import returns, and the extraction of a passage while it is collected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from stratagraph.ingest.graph.merge import LONGEST_NAME
from stratagraph.ingest.names.index import canonical
from stratagraph.types.records import (
    Chunk,
    Document,
    EntityMention,
    Extraction,
    RelationMention,
    SemanticUnit,
    StreamedDocument,
)

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


class Draft:
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


def finish(drafts: Mapping[str, Draft], notes: Counter[str]) -> dict[str, Extraction]:
    """The extractions of all passages; counts empty ones."""
    extractions = {key: draft.extraction() for key, draft in drafts.items()}
    if empty := sum(extraction == Extraction() for extraction in extractions.values()):
        notes["passages without anything: kept with an empty extraction"] = empty
    return extractions
