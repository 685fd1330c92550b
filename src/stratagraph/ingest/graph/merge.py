"""Merges the extractions of chunks into one graph.

Entities are merged by canonical name, relations by pair, and units by text and names. Each entity and each
relation keeps what every chunk contributes, and its description is derived from that. So the result depends
only on the set of (chunk, extraction) pairs: another order of chunks gives the same graph, and a removed
chunk leaves no trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from stratagraph.ingest.names.index import canonical
from stratagraph.types.records import Extraction, RelationMention

LONGEST_NAME = 200
"""Characters of the longest name; a longer text is taken for a passage and dropped."""


@dataclass(slots=True)
class EntityFragments:
    """What the chunks contribute to one entity.

    Attributes
    ----------
    names, types
        How often each spelling and each type occurs.
    texts
        An ordered set of (chunk, description) pairs.
    chunks
        The chunks that name the entity. The value is False if all mentions in the chunk are doubtful
        (`EntityMention.doubtful`).
    """

    names: dict[str, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    texts: dict[tuple[int, str], None] = field(default_factory=dict)
    chunks: dict[int, bool] = field(default_factory=dict)

    def update(self, other: EntityFragments) -> None:
        """Add the fragments of other chunks or of another name."""
        for name, count in other.names.items():
            self.names[name] = self.names.get(name, 0) + count
        for kind, count in other.types.items():
            self.types[kind] = self.types.get(kind, 0) + count
        self.texts.update(other.texts)
        for chunk, certain in other.chunks.items():
            self.chunks[chunk] = certain or self.chunks.get(chunk, False)


@dataclass(slots=True)
class RelationFragments:
    """What the chunks contribute to the relation of one pair of entities.

    Attributes
    ----------
    fragments
        What chunks say, each as (chunk, source, description, strength, type). The target of a fragment is the
        other entity of the pair.
    described
        Whether a chunk describes the relation in words that its units do not have (`described_apart`).
    """

    fragments: list[tuple[int, str, str, float, str]] = field(default_factory=list)
    described: bool = False

    @property
    def strengths(self) -> dict[tuple[int, str, str], float]:
        """The strength of each distinct (chunk, source, description): the largest one that is stated."""
        strengths: dict[tuple[int, str, str], float] = {}
        for chunk, source, text, strength, _ in self.fragments:
            key = chunk, source, text
            strengths[key] = max(strength, strengths.get(key, 0.0))
        return strengths

    @property
    def chunks(self) -> set[int]:
        """The chunks that state the relation."""
        return {chunk for chunk, *_ in self.fragments}


class Merge:
    """Collects extractions, chunk by chunk, under canonical names.

    Chunks are row numbers, in the order of the corpus. They may be added in any order.
    """

    def __init__(self) -> None:
        self.entities: dict[str, EntityFragments] = {}
        self.relations: dict[tuple[str, str], RelationFragments] = {}
        self.units: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        self.terms: dict[str, list[int]] = {}
        self.notes: Counter[str] = Counter()
        self._canonical: dict[str, str] = {}

    def add(self, chunk: int, extraction: Extraction) -> None:
        """Add the extraction of one chunk; `notes` counts what is dropped."""
        doubtful = {self._key(entity.name) for entity in extraction.entities if entity.doubtful}
        doubtful -= {self._key(entity.name) for entity in extraction.entities if not entity.doubtful}
        for entity in extraction.entities:
            key = self._mention(chunk, entity.name, doubtful)
            if key and entity.type:
                types = self.entities[key].types
                types[entity.type] = types.get(entity.type, 0) + 1
            if key and entity.description:
                self.entities[key].texts[chunk, entity.description] = None
        for relation in extraction.relations:
            source = self._mention(chunk, relation.source, doubtful)
            target = self._mention(chunk, relation.target, doubtful)
            if not source or not target:
                self.notes["relations without two names dropped"] += 1
            elif source == target:
                self.notes["relations of an entity with itself dropped"] += 1
            else:
                self.add_relation(chunk, source, target, relation, described_apart(relation, extraction))
        for unit in extraction.units:
            keys = dict.fromkeys(self._mention(chunk, name, doubtful) for name in unit.entities)
            keys.pop("", None)
            self.units.setdefault((unit.text, tuple(keys)), []).append(chunk)
        for term in dict.fromkeys(extraction.terms):
            self.terms.setdefault(term, []).append(chunk)

    def add_relation(
        self, chunk: int, source: str, target: str, relation: RelationMention, described: bool
    ) -> None:
        """Add a relation between two canonical names; `described` as in `RelationFragments`."""
        pair = (source, target) if source < target else (target, source)
        collected = self.relations.setdefault(pair, RelationFragments())
        collected.fragments.append((chunk, source, relation.description, relation.strength, relation.type))
        collected.described |= described

    def promote_terms(self, terms: Iterable[str]) -> None:
        """Make candidate terms entities."""
        for term in terms:
            for chunk in self.terms.get(term, ()):
                if key := self._mention(chunk, term, {self._key(term)}):
                    types = self.entities[key].types
                    types["term"] = types.get("term", 0) + 1

    def drop(self, keys: Iterable[str]) -> None:
        """Remove entities, by canonical names, and their relations; units keep their texts."""
        for key in keys:
            self.entities.pop(key, None)
        entities = self.entities
        for pair in [pair for pair in self.relations if pair[0] not in entities or pair[1] not in entities]:
            del self.relations[pair]
        for unit in [unit for unit in self.units if any(key not in entities for key in unit[1])]:
            self._relink(unit, tuple(key for key in unit[1] if key in entities))

    def rename(self, aliases: Mapping[str, str]) -> None:
        """Merge entities into others, by canonical names, as if the chunks had used those names.

        The spelling to show is still chosen among those in the chunks. An alias may lead to another; a circle
        ends at its smallest name.
        """
        ends = {key: resolved(key, aliases) for key in aliases if key in self.entities}
        target = {key: end for key, end in ends.items() if end != key}
        for key, end in target.items():
            self.entities.setdefault(end, EntityFragments()).update(self.entities.pop(key))
        for pair in [pair for pair in self.relations if pair[0] in target or pair[1] in target]:
            relation = self.relations.pop(pair)
            first, second = sorted(target.get(key, key) for key in pair)
            if first == second:
                self.notes["relations of an entity with its alias dropped"] += len(relation.strengths)
                continue
            joined = self.relations.setdefault((first, second), RelationFragments())
            joined.fragments += [
                (chunk, target.get(source, source), text, strength, kind)
                for chunk, source, text, strength, kind in relation.fragments
            ]
            joined.described |= relation.described
        for unit in [unit for unit in self.units if not target.keys().isdisjoint(unit[1])]:
            self._relink(unit, tuple(dict.fromkeys(target.get(key, key) for key in unit[1])))

    def _relink(self, unit: tuple[str, tuple[str, ...]], keys: tuple[str, ...]) -> None:
        """Link a unit to other entities."""
        chunks = self.units.pop(unit)
        self.units.setdefault((unit[0], keys), []).extend(chunks)

    def _key(self, name: str) -> str:
        key = self._canonical.get(name)
        if key is None:
            key = self._canonical[name] = canonical_name(name)
        return key

    def _mention(self, chunk: int, name: str, doubtful: Collection[str]) -> str:
        """Count a mention and return its canonical name; "" if it is none."""
        key = self._key(name)
        if not key:
            self.notes["names that are no names dropped"] += 1
            return key
        fragments = self.entities.get(key)
        if fragments is None:
            fragments = self.entities[key] = EntityFragments()
        fragments.names[name] = fragments.names.get(name, 0) + 1
        fragments.chunks.setdefault(chunk, key not in doubtful)
        return key


def described_apart(relation: RelationMention, extraction: Extraction) -> bool:
    """Whether a relation has a description that is not part of a unit of the same chunk.

    A model describes relations in words of its own; rules repeat the sentence, which is a unit.
    """
    description = relation.description
    return bool(description) and not any(description in unit.text for unit in extraction.units)


def canonical_name(name: str) -> str:
    """The canonical name under which a name is collected; empty without letter or digit, or if too long."""
    return canonical(name) if len(name) <= LONGEST_NAME else ""


def resolved(key: str, aliases: Mapping[str, str]) -> str:
    """The end of a chain of aliases; a circle ends at its smallest name."""
    chain = []
    while key in aliases and key not in chain:
        chain.append(key)
        key = aliases[key]
    return min(chain[chain.index(key) :]) if key in chain else key


@dataclass(frozen=True, slots=True)
class Entity:
    """A merged entity. `fragments` are its distinct descriptions in the order of the corpus."""

    key: str
    name: str
    type: str
    fragments: tuple[str, ...]
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """A merged relation between two entities, by canonical names.

    The direction is that of most fragments. `opposite` holds the descriptions in the other direction
    (ERRATA N10), so that "A founded B" stays apart from "B founded A". `weight` is the sum of all strengths.
    `described` is as in `RelationFragments`, and types are as in `GraphRelation`.
    """

    source: str
    target: str
    fragments: tuple[str, ...]
    opposite: tuple[str, ...]
    weight: float
    chunks: tuple[int, ...]
    described: bool
    types: tuple[str, ...] = ()
    opposite_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """A semantic unit and the canonical names of its entities."""

    text: str
    entities: tuple[str, ...]
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """The graph of a corpus, sorted by name, pair and text."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    units: tuple[Unit, ...]
    notes: Mapping[str, int]


def merge(extractions: Iterable[tuple[int, Extraction]]) -> Merge:
    """Collect the extractions of chunks."""
    collected = Merge()
    for chunk, extraction in extractions:
        collected.add(chunk, extraction)
    return collected


def finish(collected: Merge, *, emptied: bool = False) -> Merged:
    """The collected graph. With `emptied`, its relations and units are moved, which needs less memory."""
    take = collected.relations.pop if emptied else collected.relations.__getitem__
    take_unit = collected.units.pop if emptied else collected.units.__getitem__
    return Merged(
        entities=tuple(finished_entity(key, collected.entities[key]) for key in sorted(collected.entities)),
        relations=tuple(finished_relation(pair, take(pair)) for pair in sorted(collected.relations)),
        units=tuple(Unit(*unit, tuple(sorted(set(take_unit(unit))))) for unit in sorted(collected.units)),
        notes=dict(sorted(collected.notes.items())),
    )


def finished_entity(key: str, fragments: EntityFragments) -> Entity:
    """The entity that was collected under a canonical name."""
    texts = tuple(dict.fromkeys(text for _, text in sorted(fragments.texts)))
    kind = _most_frequent(fragments.types)
    return Entity(key, shown(key, fragments.names), kind, texts, tuple(sorted(fragments.chunks)))


def shown(key: str, names: Mapping[str, int]) -> str:
    """The most frequent spelling of the name itself, else of its aliases (`Merge.rename`)."""
    own = {name: count for name, count in names.items() if canonical(name) == key}
    return _most_frequent(own or names)


def _most_frequent(counts: Mapping[str, int]) -> str:
    """The most frequent string; of equals the longer, then the first in order; "" if there is none."""
    return min(counts, key=lambda name: (-counts[name], -len(name), name), default="")


def finished_relation(pair: tuple[str, str], collected: RelationFragments) -> Relation:
    """The relation that was collected for a pair of canonical names."""
    strengths = collected.strengths
    ordered = sorted(strengths)
    forward = sum(source == pair[0] for _, source, _ in ordered)
    source, target = pair if 2 * forward >= len(ordered) else pair[::-1]
    texts = dict.fromkeys(text for _, first, text in ordered if text and first == source)
    opposite = dict.fromkeys(text for _, first, text in ordered if text and first != source)
    types = {(chunk, first, kind) for chunk, first, *_, kind in collected.fragments if kind}
    # The type that most chunks state comes first.
    counts = [Counter(kind for _, first, kind in types if first == end) for end in (source, target)]
    forward_types, opposite_types = (
        tuple(sorted(each, key=lambda kind: (-each[kind], kind))) for each in counts
    )
    return Relation(
        source,
        target,
        tuple(texts),
        tuple(text for text in opposite if text not in texts),
        float(sum(strengths[fragment] for fragment in ordered)),
        tuple(sorted(collected.chunks)),
        collected.described,
        forward_types,
        opposite_types,
    )
