"""From what chunks say to one graph of the corpus: names unified, fragments kept, provenance exact.

Each entity and relation keeps the fragment of each chunk, and its description follows from the fragments. So
the result depends only on the set of (chunk, extraction) pairs: another order, merging in parts, or leaving
a chunk out gives the same graph as if it had always been so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from stratagraph.ingest.names.index import canonical
from stratagraph.types.records import Extraction, RelationMention

K = TypeVar("K")
LONGEST_NAME = 200
"""Characters of the longest name; a longer one is a passage in the wrong place."""


@dataclass(slots=True)
class EntityFragments:
    """What chunks say of one entity, held in little memory.

    Attributes
    ----------
    names, types
        How often each spelling and type occurs.
    texts
        An ordered set of (chunk, description) pairs.
    mentions
        The chunks that name it, encoded by `mention`; one may occur twice.
    """

    names: dict[str, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    texts: dict[tuple[int, str], None] = field(default_factory=dict)
    mentions: list[int] = field(default_factory=list)

    def update(self, other: EntityFragments) -> None:
        """Add fragments of other chunks, or of another name."""
        _add(self.names, other.names)
        _add(self.types, other.types)
        self.texts.update(other.texts)
        self.mentions += other.mentions

    @property
    def chunks(self) -> set[int]:
        """The chunks that name it."""
        return {each >> 1 for each in self.mentions}

    @property
    def certain(self) -> set[int]:
        """The chunks that leave no doubt that it is a name (`EntityMention.doubtful`)."""
        return {each >> 1 for each in self.mentions if each & 1}


def mention(chunk: int, certain: bool) -> int:
    """A chunk that names an entity, and whether it leaves no doubt, as one number."""
    return 2 * chunk + certain


def _add(counts: dict[str, int], others: Mapping[str, int]) -> None:
    for name, count in others.items():
        counts[name] = counts.get(name, 0) + count


@dataclass(slots=True)
class RelationFragments:
    """What chunks say of one pair, as (chunk, source, target, description, strength).

    A list takes a third of the memory of a dictionary and a set; most pairs have one fragment.
    `described` tells whether a description says more than the units of its chunk (`described_apart`).
    `typed` has the types that chunks state, as (chunk, source, type).
    """

    said: list[tuple[int, str, str, str, float]] = field(default_factory=list)
    described: bool = False
    typed: tuple[tuple[int, str, str], ...] = ()

    def add(
        self,
        chunk: int,
        source: str,
        target: str,
        text: str,
        strength: float,
        kind: str = "",
        *,
        described: bool = False,
    ) -> None:
        """Add a fragment and its type; of two equal ones the larger strength holds."""
        self.said.append((chunk, source, target, text, strength))
        self.described |= described
        if kind:
            self.typed += ((chunk, source, kind),)

    @property
    def texts(self) -> dict[tuple[int, str, str, str], float]:
        """The strength of each fragment (chunk, source, target, description)."""
        strengths: dict[tuple[int, str, str, str], float] = {}
        for *each, strength in self.said:
            fragment = cast(tuple[int, str, str, str], tuple(each))
            strengths[fragment] = max(strength, strengths.get(fragment, 0.0))
        return strengths

    @property
    def chunks(self) -> set[int]:
        """The chunks that say something."""
        return {chunk for chunk, *_ in self.said}


class Merge:
    """Collects extractions, chunk by chunk, under canonical names.

    Chunks are numbers that sort as the corpus does. Adding is commutative.
    """

    def __init__(self) -> None:
        self.entities: dict[str, EntityFragments] = {}
        self.relations: dict[tuple[str, str], RelationFragments] = {}
        self.units: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        self.terms: dict[str, list[int]] = {}
        self.notes: Counter[str] = Counter()
        self._canonical: dict[str, str] = {}
        self._spoken: set[str] = set()  # by the chunk that is being added
        self._mention = 0  # of that chunk

    def add(self, chunk: int, extraction: Extraction) -> None:
        """Add what one chunk says; what `canonical_name` drops is counted in `notes`."""
        self._mention = mention(chunk, certain=False)
        doubtful = {self._key(entity.name) for entity in extraction.entities if entity.doubtful}
        doubtful -= {self._key(entity.name) for entity in extraction.entities if not entity.doubtful}
        for entity in extraction.entities:
            self._entity(chunk, entity.name, entity.type, entity.description)
        for relation in extraction.relations:
            self._relation(chunk, relation, described_apart(relation, extraction))
        for unit in extraction.units:
            keys = tuple(dict.fromkeys(key for name in unit.entities if (key := self._key(name))))
            for name in unit.entities:
                self._entity(chunk, name, "", "")
            _append(self.units, (unit.text, keys), chunk)
        for term in extraction.terms:
            _append(self.terms, term, chunk)
        certain = mention(chunk, certain=True)
        for key in self._spoken - doubtful:
            self.entities[key].mentions[-1] = certain
        self._spoken.clear()

    def promote_terms(self, chosen: Collection[str]) -> None:
        """Make entities of the candidate terms that the corpus supports."""
        for term in chosen:
            for chunk in self.terms.get(term, ()):
                self._mention = mention(chunk, certain=False)
                self._entity(chunk, term, "term", "")
        self._spoken.clear()

    def drop(self, keys: Collection[str]) -> None:
        """Remove entities, by canonical names; units keep their texts without the link."""
        for key in keys:
            self.entities.pop(key, None)
        entities = self.entities
        for pair in [pair for pair in self.relations if pair[0] not in entities or pair[1] not in entities]:
            del self.relations[pair]
        for unit in [unit for unit in self.units if any(key not in entities for key in unit[1])]:
            self._named_anew(unit, tuple(key for key in unit[1] if key in entities))

    def rename(self, aliases: Mapping[str, str]) -> None:
        """Merge entities into others, by canonical names, as if the chunks had used those names.

        The spellings to show stay those of the chunks. An alias may lead to another; a circle ends at its
        smallest name.
        """
        ends = {key: resolved(key, aliases) for key in aliases if key in self.entities}
        target = {key: end for key, end in ends.items() if end != key}
        for key, end in target.items():
            self.entities.setdefault(end, EntityFragments()).update(self.entities.pop(key))
        for pair in [pair for pair in self.relations if pair[0] in target or pair[1] in target]:
            relation = self.relations.pop(pair)
            first, second = sorted(target.get(key, key) for key in pair)
            if first == second:
                self.notes["relations of an entity with its alias dropped"] += len(relation.texts)
                continue
            joined = self.relations.setdefault((first, second), RelationFragments())
            for (chunk, source, end, text), strength in relation.texts.items():
                joined.add(chunk, target.get(source, source), target.get(end, end), text, strength)
            joined.described |= relation.described
            joined.typed += tuple((chunk, target.get(one, one), kind) for chunk, one, kind in relation.typed)
        for unit in [unit for unit in self.units if not target.keys().isdisjoint(unit[1])]:
            self._named_anew(unit, tuple(dict.fromkeys(target.get(key, key) for key in unit[1])))

    def _named_anew(self, unit: tuple[str, tuple[str, ...]], keys: tuple[str, ...]) -> None:
        chunks, renamed = self.units.pop(unit), (unit[0], keys)
        self.units[renamed] = _united(self.units.get(renamed), chunks)

    def _key(self, name: str) -> str:
        key = self._canonical.get(name)
        if key is None:
            key = self._canonical[name] = canonical_name(name)
        return key

    def _entity(self, chunk: int, name: str, kind: str, description: str) -> str:
        key = self._key(name)
        if not key:
            self.notes["names that are no names dropped"] += 1
            return key
        fragments = self.entities.get(key)
        if fragments is None:  # a list that is made of one mention has no spare room
            fragments = self.entities[key] = EntityFragments(mentions=[self._mention])
        elif fragments.mentions[-1] >> 1 != chunk:
            fragments.mentions.append(self._mention)
        self._spoken.add(key)
        fragments.names[name] = fragments.names.get(name, 0) + 1
        if kind:
            fragments.types[kind] = fragments.types.get(kind, 0) + 1
        if description:
            fragments.texts[chunk, description] = None
        return key

    def _relation(self, chunk: int, each: RelationMention, described: bool) -> None:
        one, two = self._entity(chunk, each.source, "", ""), self._entity(chunk, each.target, "", "")
        if not one or not two:
            self.notes["relations without two names dropped"] += 1
            return
        if one == two:
            self.notes["relations of an entity with itself dropped"] += 1
            return
        pair = (one, two) if one < two else (two, one)
        relation = self.relations.get(pair)
        if relation is None:  # a list that is made of one fragment has no spare room
            fragment = (chunk, one, two, each.description, each.strength)
            typed = ((chunk, one, each.type),) if each.type else ()
            self.relations[pair] = RelationFragments([fragment], described, typed)
        else:
            relation.add(chunk, one, two, each.description, each.strength, each.type, described=described)


def described_apart(relation: RelationMention, extraction: Extraction) -> bool:
    """Whether a relation has a description that is not part of a unit of the same chunk.

    A model describes relations in words of its own; rules repeat the sentence, which is a unit.
    """
    description = relation.description
    return bool(description) and not any(description in unit.text for unit in extraction.units)


def _append(lists: dict[K, list[int]], key: K, chunk: int) -> None:
    """Add a chunk to those of a key, once while it is the last; a list of one has no spare room."""
    if (rows := lists.get(key)) is None:
        lists[key] = [chunk]
    elif rows[-1] != chunk:
        rows.append(chunk)


def _united(earlier: Sequence[int] | None, chunks: Sequence[int]) -> list[int]:
    return list(chunks) if earlier is None else list(dict.fromkeys([*earlier, *chunks]))


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

    The direction is that of most fragments; `opposite` holds those of the other direction (ERRATA N10), so
    that who founded and who was founded are told apart. `weight` is the sum of all strengths. `described` is
    that of `RelationFragments`. Types are as in `GraphRelation`.
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
    """The collected graph; with `emptied`, its relations and units are moved instead of copied."""
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
    return Entity(
        key, shown(key, fragments.names), _most(fragments.types), texts, tuple(sorted(fragments.chunks))
    )


def shown(key: str, names: Mapping[str, int]) -> str:
    """The most frequent spelling of the name itself, else of its aliases (`Merge.rename`)."""
    own = {name: count for name, count in names.items() if canonical(name) == key}
    return _most(own or names)


def _most(counts: Mapping[str, int]) -> str:
    """The most frequent one; of equals the longer, then the first in order; "" if there is none."""
    return min(counts, key=lambda name: (-counts[name], -len(name), name), default="")


def finished_relation(pair: tuple[str, str], fragments: RelationFragments) -> Relation:
    """The relation that was collected for a pair of canonical names."""
    if len(fragments.said) == 1:  # as of most pairs
        chunk, first, _, text, strength = fragments.said[0]
        source, target = pair if first == pair[0] else pair[::-1]
        own_text, weight = (text,) if text else (), max(float(strength), 0.0)
        types = _types(fragments, first) if fragments.typed else ()
        return Relation(source, target, own_text, (), weight, (chunk,), fragments.described, types)
    strengths = fragments.texts
    ordered: Sequence[tuple[int, str, str, str]] = sorted(strengths)
    forward = sum(1 for _, source, _, _ in ordered if source == pair[0])
    source, target = pair if 2 * forward >= len(ordered) else pair[::-1]
    texts = dict.fromkeys(text for _, first, _, text in ordered if text and first == source)
    others = dict.fromkeys(text for _, first, _, text in ordered if text and first != source)
    opposite = tuple(text for text in others if text not in texts)
    weight = sum(strengths[fragment] for fragment in ordered)
    chunks = tuple(sorted(fragments.chunks))
    types, others_types = (_types(fragments, end) for end in (source, target))
    return Relation(
        source,
        target,
        tuple(texts),
        opposite,
        float(weight),
        chunks,
        fragments.described,
        types,
        others_types,
    )


def _types(fragments: RelationFragments, source: str) -> tuple[str, ...]:
    """The types of a relation that goes out from one of its ends; first those that most chunks state."""
    counts = Counter(kind for _, one, kind in set(fragments.typed) if one == source)
    return tuple(sorted(counts, key=lambda kind: (-counts[kind], kind)))
