"""The entities, relations and units that a change of some chunks touches.

The contribution of a chunk follows from its extraction and from decisions of the whole corpus on names and
terms (`extraction.candidates`). A changed chunk therefore touches the names it has, and also the chunks
with names or terms on which the corpus now decides otherwise. The old contribution of these chunks is
removed, and their new one is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from stratagraph.ingest.extraction.candidates import (
    ADDRESSES,
    DOUBTFUL_SHARE,
    alias_of,
    by_short,
    has_uncased,
    is_thing,
    most_common,
    parts_of,
    short_of,
)
from stratagraph.ingest.extraction.stored import extraction_of
from stratagraph.ingest.graph.merge import (
    EntityFragments,
    Merge,
    canonical_name,
    described_apart,
    merge,
    resolved,
)
from stratagraph.ingest.graph.merge_state import Tables, closed, first_of_two, key_of
from stratagraph.kernels.bm25 import Postings
from stratagraph.types.protocols import Rows, Stored
from stratagraph.types.records import Extraction, content_keys

MOST_SHARE = 0.1
"""Share of touched chunks beyond which a full merge costs no more."""
_FEW = 16  # touched chunks that are never too many
Unit = tuple[str, tuple[str, ...]]
Pair = tuple[str, str]


def is_large(touched: int, chunks: int) -> bool:
    """Whether a change touches so many chunks that a full merge is cheaper."""
    return touched > max(_FEW, MOST_SHARE * chunks)


def _rows(postings: Postings, key: str) -> list[int]:
    place = int(postings.places(key_of(key))[0])
    return [] if place < 0 else postings.rows[postings.at(place)].tolist()


@dataclass
class Side:
    """The extractions of a corpus, before or now, with the corpus' decisions about names and terms."""

    tables: Tables
    stored: Stored
    chunks: int
    _extractions: dict[int, Extraction] = field(default_factory=dict)
    _supported: dict[str, bool] = field(default_factory=dict)
    _chosen: dict[str, bool] = field(default_factory=dict)

    def read(self, rows: Iterable[int]) -> dict[int, Extraction]:
        """The extractions of some chunks."""
        wanted = sorted(set(rows))
        missing = [row for row in wanted if row not in self._extractions]
        for row, node in zip(missing, self.stored.nodes(missing), strict=True):
            self._extractions[row] = extraction_of(node)
        return {row: self._extractions[row] for row in wanted}

    def rows_of_name(self, name: str) -> list[int]:
        """The chunks that use a name."""
        return _rows(self.tables.names, name)

    def rows_of_term(self, term: str) -> list[int]:
        """The chunks that have a term."""
        return _rows(self.tables.terms, term)

    def supported(self, name: str) -> bool:
        """Whether the corpus supports a name (`candidates.settle`)."""
        if name not in self._supported:
            self._support([name])
        return self._supported[name]

    def _support(self, names: Iterable[str]) -> None:
        """Find out which of some names the corpus supports, all at once."""
        new = [name for name in names if name not in self._supported]
        keys = content_keys(new)
        certain, times = self.tables.names.sums(keys), self.tables.lower.sums(keys)
        self._supported |= zip(new, (certain >= np.maximum(1, DOUBTFUL_SHARE * times)).tolist(), strict=True)

    def target(self, name: str) -> str | None:
        """The name that a name goes under; None if it is no name."""
        if not self.supported(name):
            return None
        aliases: dict[str, str] = {}
        end: str | None = name
        while end is not None and end not in aliases:
            if (following := alias_of(end, self.supported, self._in_full)) is not None:
                aliases[end] = following
            end = following
        return resolved(name, aliases)

    def _in_full(self, short: str) -> list[str]:
        """The full names that a form of address with a last name may stand for."""
        return [name for name in self._full.get(short, ()) if self.supported(name)]

    @cached_property
    def _full(self) -> dict[str, list[str]]:
        return by_short(self.tables.addressed)

    def chosen(self, term: str) -> bool:
        """Whether a term becomes an entity (`candidates.select_terms`)."""
        if term not in self._chosen:
            count = self._joins(term)
            self._chosen[term] = count > 0 and not self._gives_way(term, count)
        return self._chosen[term]

    def _gives_way(self, term: str, count: int) -> bool:
        """Whether a longer term that contains this one is in as many chunks."""
        terms = self.tables.terms
        places = terms.places(self.tables.wider.holding(key_of(term)))
        places = places[places >= 0]
        if (terms.starts[places + 1] - terms.starts[places] == count).any():
            return True
        return any(self._joins(longer) == count for longer in self._longer(term))

    def _joins(self, term: str) -> int:
        """The number of chunks of a term, if the term tells them from others; else 0."""
        count = len(self.rows_of_term(term))
        return count if 2 <= count <= most_common(self.chunks) and is_thing(term) else 0

    def _longer(self, term: str) -> list[str]:
        """Terms that contain this one, in one of its chunks; a term of as many chunks is in all of them."""
        (extraction,) = self.read(self.rows_of_term(term)[:1]).values()
        return [longer for longer in extraction.terms if term in parts_of(longer)]

    def ends(self, names: Iterable[str]) -> dict[str, str]:
        """The canonical name under which each name is in the graph; empty if it is not."""
        keys = {name: canonical_name(name) for name in names}
        canonical = {key for key in keys.values() if key}
        self._support(canonical)
        targets = {key: target for key in canonical if (target := self.target(key)) is not None}
        aliases = {key: target for key, target in targets.items() if target != key}
        return {name: resolved(key, aliases) if key in targets else "" for name, key in keys.items()}

    def collected(self, rows: Iterable[int], terms: Set[str]) -> Merge:
        """The contribution of some chunks to the graph, with those of `terms` that become entities."""
        collected = merge(self.read(rows).items())
        self._support(collected.entities)
        targets = {name: self.target(name) for name in collected.entities}
        collected.drop([name for name, target in targets.items() if target is None])
        if aliases := {name: target for name, target in targets.items() if target and target != name}:
            collected.rename(aliases)
        collected.promote_terms(
            sorted(term for term in terms if term in collected.terms and self.chosen(term))
        )
        return collected


@dataclass(frozen=True)
class Change:
    """What a change touches.

    Attributes
    ----------
    before, now
        The two corpora.
    removed, arrived
        Rows of the chunks whose contribution is removed from the previous graph, and of those whose is added.
    terms
        The terms of changed chunks.
    """

    before: Side
    now: Side
    removed: Sequence[int]
    arrived: Sequence[int]
    terms: Set[str]

    @classmethod
    def of(
        cls, before: Side, now: Side, removed: Sequence[int], arrived: Sequence[int], rows: Rows
    ) -> Change | None:
        """The change of a corpus; None if a full merge is cheaper.

        Parameters
        ----------
        removed, arrived
            Rows of the changed chunks, before and now.
        rows
            The present row of each previous chunk, or -1.
        """
        changed = [*before.read(removed).values(), *now.read(arrived).values()]
        if not all(map(closed, changed)):
            return None
        terms = {term for each in changed for term in each.terms} | set(_terms_across_limit(before, now))
        terms |= {part for term in filter(has_uncased, list(terms)) for part in parts_of(term) if part}
        raw = [merge(before.read(removed).items()), merge(now.read(arrived).items())]
        names = {name for each in raw for name in each.entities} | set(filter(None, map(first_of_two, terms)))
        changed_names = set(_names_with_other_target(before, now, names))
        flipped = {row for name in changed_names for row in now.rows_of_name(name)}
        for term in terms:
            if before.rows_of_term(term) and before.chosen(term) != now.chosen(term):
                flipped.update(now.rows_of_term(term))
        flipped -= set(arrived)
        if is_large(len(flipped) + len(arrived) + len(removed), now.chunks):
            return None
        previous_rows = np.full(now.chunks, -1, np.int64)
        previous_rows[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
        flipped_before = previous_rows[sorted(flipped)].tolist()
        return cls(before, now, sorted({*removed, *flipped_before}), sorted({*arrived, *flipped}), terms)

    @cached_property
    def subtracted(self) -> Merge:
        """The old contribution of the touched chunks."""
        return self.before.collected(self.removed, self.terms)

    @cached_property
    def added(self) -> Merge:
        """The new contribution of the touched chunks."""
        return self.now.collected(self.arrived, self.terms)

    @property
    def entities(self) -> list[str]:
        """The touched entities, by canonical names, sorted."""
        return sorted({*self.subtracted.entities, *self.added.entities})

    @property
    def pairs(self) -> list[Pair]:
        """The touched relations, sorted."""
        return sorted({*self.subtracted.relations, *self.added.relations})

    @property
    def units(self) -> list[Unit]:
        """The touched units, sorted."""
        return sorted({*self.subtracted.units, *self.added.units})

    @property
    def notes(self) -> Counter[str]:
        """The differences of counts."""
        counts = Counter(self.added.notes)
        counts.subtract(self.subtracted.notes)
        return counts

    def entity(self, name: str, counted: tuple[Counter[str], Counter[str], bool] | None) -> EntityFragments:
        """An entity's updated spellings and types; chunks and descriptions as in `added`."""
        entity = EntityFragments()
        names, types = (Counter[str](), Counter[str]()) if counted is None else counted[:2]
        if name in self.added.entities:
            entity.update(self.added.entities[name])
            names, types = names + Counter(entity.names), types + Counter(entity.types)
        if name in self.subtracted.entities:
            taken = self.subtracted.entities[name]
            names, types = names - Counter(taken.names), types - Counter(taken.types)
        entity.names, entity.types = dict(names), dict(types)
        return entity

    def whole(self, rows: Iterable[int], entities: Collection[str], pairs: Collection[Pair]) -> Merge:
        """The present descriptions of some entities and relations of some pairs in some chunks."""
        extractions = self.now.read({*rows, *self.arrived})
        ends = self.now.ends({name for each in extractions.values() for name in _named(each)})
        whole = Merge()
        for chunk, each in extractions.items():
            for entity in each.entities:
                if entity.description and (key := ends[entity.name]) in entities:
                    whole.entities.setdefault(key, EntityFragments()).texts[chunk, entity.description] = None
            for relation in each.relations:
                one, two = ends[relation.source], ends[relation.target]
                if ((one, two) if one < two else (two, one)) in pairs:
                    whole.add_relation(chunk, one, two, relation, described_apart(relation, each))
        return whole


def _named(extraction: Extraction) -> Iterator[str]:
    """The names in an extraction that it describes or relates."""
    yield from (entity.name for entity in extraction.entities if entity.description)
    for relation in extraction.relations:
        yield from (relation.source, relation.target)


def _terms_across_limit(before: Side, now: Side) -> Iterator[str]:
    """Terms of too many chunks before or now, but not both."""
    least, most = sorted((most_common(before.chunks), most_common(now.chunks)))
    for side in (before, now):
        counts = np.diff(side.tables.terms.starts)
        for place in np.flatnonzero((counts > least) & (counts <= most)).tolist():
            row = int(side.tables.terms.rows[side.tables.terms.at(place)][0])
            (extraction,) = side.read([row]).values()
            key = int(side.tables.terms.keys[place])
            yield from (term for term in extraction.terms if int(key_of(term)[0]) == key)


def _names_with_other_target(before: Side, now: Side, names: Collection[str]) -> Iterator[str]:
    """Those of some names, and of their forms of address, whose target changed."""
    todo, related = set(names), set(names)
    while todo:
        short = {short_of(name) for name in todo}
        todo = short | {f"{front} {name}" for name in todo if " " in name for front in ADDRESSES}
        todo -= related
        todo = {name for name in todo if before.rows_of_name(name) or now.rows_of_name(name)}
        related |= todo
    for name in related:
        if before.rows_of_name(name) and before.target(name) != now.target(name):
            yield name
