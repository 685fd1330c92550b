"""The graph of a corpus, grouped whole from the tables of its chunks (`ingest.graph.tables`) by sorting.

Names and terms are decided over by the corpus, then follow entities, relations and semantic units. The result
depends only on what the chunks state: another order of changes gives the same graph, and a deleted chunk
leaves no trace. Rows of entities are in the order of canonical names, relations in that of their two rows,
units in that of their marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.extraction.candidates import DOUBTFUL_SHARE, most_common
from stratagraph.ingest.graph.lists import GroupedTexts, Lists, first_of_each
from stratagraph.ingest.graph.tables import CERTAIN, DROPPED, PREFIX, THING, TWO_WORDS, Keys, Strings
from stratagraph.ingest.marks import Marks, combined, list_sums
from stratagraph.kernels.ranges import distinct, find, firsts, order
from stratagraph.types.protocols import Rows
from stratagraph.types.records import content_keys

TERM = "term"
"""The type of an entity that was a term."""


@dataclass(frozen=True)
class GroupedEntities:
    """Entities by canonical name: `names` and `shown` are places of strings, `kinds` of `Grouping.kinds`."""

    names: Rows
    shown: Rows
    kinds: Rows
    chunks: Lists
    statements: GroupedTexts


@dataclass(frozen=True)
class GroupedRelations:
    """Relations by the two entities in ascending order; `ends` are in the direction of most statements.

    `texts` and `opposite` are what is said in that direction, and only in the other one; so are the keys of
    types. `weights` are sums of strengths, and `apart` tells whether a description says more than the units.
    """

    ends: Rows
    weights: NDArray[np.float64]
    apart: NDArray[np.bool_]
    chunks: Lists
    texts: GroupedTexts
    opposite: GroupedTexts
    types: Lists
    opposite_types: Lists


@dataclass(frozen=True)
class Units:
    """Semantic units, which are one if their texts and entities are, in the order of their `marks`."""

    texts: Keys
    entities: Lists
    chunks: Lists
    marks: Marks

    def at(self, rows: Rows) -> Units:
        """Some of the units."""
        return Units(self.texts[rows], self.entities.at(rows), self.chunks.at(rows), self.marks[rows])


class Grouping:
    """The graph of some tables (`arrays`).

    `renamed` are canonical names that stand for others, as entity resolution found them, one step after the
    other. `strings` are the texts of the tables' names and types, `kinds` the types of entities, and `notes`
    counts of what was dropped.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], renamed: Sequence[Mapping[str, str]] = ()) -> None:
        self._arrays = arrays
        self.strings = Strings(arrays)
        self._chunks = len(arrays[f"{PREFIX}dropped"])
        self._starts: Rows = self["mentions.starts"][:-1]
        self._relation_chunks = self._owners("relations")
        self._name_of = np.arange(len(self.strings.keys))  # of each string
        others = np.flatnonzero(self["strings.name"] != self.strings.keys)
        self._name_of[others] = self.strings.find(self["strings.name"][others])
        self._spelling = self.strings.find(self["mentions.spelling"])
        self._name = self._name_of[self._spelling]
        self._term = self.strings.find(self["terms.term"])
        self._phrase = self.strings.find(self["phrases.key"])
        if any((each < 0).any() for each in (self._spelling, self._name, self._term, self._phrase)):
            raise ValueError("array 'tables.strings.key' lacks names or terms")
        dropped = self["dropped"].sum(axis=0, dtype=np.int64).tolist()
        self.notes = Counter(dict(zip(DROPPED, dropped, strict=True)))
        self._decide(renamed)
        self.entities = self._entities()
        self.relations = self._relations()
        self.units = self._units()

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[f"{PREFIX}{name}"]

    def _owners(self, table: str) -> Rows:
        """The chunk of each row of a table."""
        return np.repeat(np.arange(self._chunks), np.diff(self[f"{table}.starts"]))

    # Names and terms

    def _decide(self, renamed: Sequence[Mapping[str, str]]) -> None:
        """Decide which names and terms become entities, and which names go under others."""
        frequency = np.bincount(self._term, minlength=len(self.strings.keys))
        # A name is without doubt in one chunk at least, and in one (`DOUBTFUL_SHARE`) for each chunk in which
        # a term of two words begins with it as a lower-case word.
        count = len(self.strings.keys)
        certain = np.bincount(self._name[self["mentions.role"] == CERTAIN], minlength=count)
        two = (self["phrases.form"] & TWO_WORDS) != 0
        first = self.strings.find(self["phrases.head"][two])
        lower = np.bincount(first[first >= 0], frequency[self._phrase[two]][first >= 0], count)
        supported = certain >= np.maximum(1, DOUBTFUL_SHARE * lower)
        target = np.where(supported, np.arange(len(supported)), -1)
        chosen = self._chosen(frequency)
        nameless = self._name_of[chosen] < 0
        self.notes[DROPPED[0]] += int(frequency[chosen[nameless]].sum())
        self._chosen_terms = chosen[~nameless]
        self._times = frequency[self._chosen_terms]
        self._term_target = self._name_of[self._chosen_terms]
        self._target = self._led(target, self._addressed(supported))
        for aliases in renamed:
            keys = [content_keys(each) for each in (aliases.keys(), aliases.values())]
            one, end = (self.strings.find(each) for each in keys)
            known = (one >= 0) & (end >= 0)
            places = dict(zip(one[known].tolist(), end[known].tolist(), strict=True))
            self._target = self._led(self._target, places)
            self._term_target = self._followed(places)[self._term_target]

    def _led(self, target: Rows, aliases: Mapping[int, int]) -> Rows:
        """Where each name leads after a step; -1 for those that are dropped."""
        led = np.where(target >= 0, self._followed(aliases)[target], -1)
        rows = np.flatnonzero(np.logical_or(*self._ends((led != target)[self._name])))
        (one, two), (first, second) = self._ends(target[self._name], rows), self._ends(led[self._name], rows)
        joined = (one != two) & (one >= 0) & (two >= 0) & (first == second)
        said = one, two, self._relation_chunks[rows], self["relations.text"][rows]
        lost = set(zip(*(each[joined].tolist() for each in said), strict=True))
        self.notes["relations of an entity with its alias dropped"] += len(lost)
        return led

    def _addressed(self, supported: NDArray[np.bool_]) -> dict[int, int]:
        """The names that those with a form of address stand for (`candidates.ADDRESSES`)."""
        own = self.strings.find(self["addressed.key"])
        there = own >= 0
        full = own[there]
        rest, short = (self.strings.find(self[f"addressed.{each}"][there]) for each in ("rest", "short"))
        is_name = supported[full]
        full, rest, short = full[is_name], rest[is_name], short[is_name]
        leads = (rest >= 0) & supported[rest]
        targets = dict(zip(full[leads].tolist(), rest[leads].tolist(), strict=True))
        shorts, at, times = np.unique(short, return_index=True, return_counts=True)
        alone = (shorts >= 0) & (times == 1) & supported[shorts]
        return targets | dict(zip(shorts[alone].tolist(), full[at][alone].tolist(), strict=True))

    def _followed(self, aliases: Mapping[int, int]) -> Rows:
        """Where each name leads by chains of aliases."""
        ends = np.arange(len(self.strings.keys))
        if any(end in aliases for end in aliases.values()):
            texts = {place: self.strings.text(place) for place in {*aliases, *aliases.values()}}
            places = {text: place for place, text in texts.items()}
            named = {texts[one]: texts[end] for one, end in aliases.items()}
            aliases = {one: places[resolved(texts[one], named)] for one in aliases}
        ends[list(aliases)] = list(aliases.values())
        return ends

    def _chosen(self, frequency: Rows) -> Rows:
        """The terms that become entities, as strings.

        A term must join at least two chunks and still tell them from others (`most_common`). One that is
        always part of the same longer term gives way to it, and one with a word that names no thing ("four
        minutes", "sent back") is none.
        """
        times = frequency[self._phrase]
        good = (times >= 2) & (times <= most_common(self._chunks)) & ((self["phrases.form"] & THING) != 0)
        gives_way = np.zeros(len(good), np.bool_)
        for part in ("head", "tail"):
            at = find(self["phrases.key"], self[f"phrases.{part}"][good])
            here = (at >= 0) & good[at] & (times[at] == times[good])
            gives_way[at[here]] = True
        chosen: Rows = self._phrase[good & ~gives_way]
        return chosen

    def _ends(self, of_mention: NDArray[Any], rows: Rows | slice = slice(None)) -> Sequence[NDArray[Any]]:
        """What the mentions at both ends of stated relations have, of some rows."""
        first = self._starts[self._relation_chunks[rows]]
        return [of_mention[first + self[f"relations.{end}"][rows]] for end in ("source", "target")]

    # Entities

    def _entities(self) -> GroupedEntities:
        is_entity = np.zeros(len(self.strings.keys), np.bool_)
        is_entity[self._target[self._target >= 0]] = True
        is_entity[self._term_target] = True
        names = np.flatnonzero(is_entity)
        names = names[self.strings.order(names)]
        row = np.full(len(is_entity), -1, np.int64)
        row[names] = np.arange(len(names))
        target = self._target[self._name]
        self._of_mention = np.where(target >= 0, row[target], -1)
        self._of_term = row[self._term_target]
        promoted = np.full(len(is_entity), -1, np.int64)
        promoted[self._chosen_terms] = self._of_term
        of_row = promoted[self._term]
        known, new = self._of_mention >= 0, of_row >= 0
        owners = np.concatenate([self._of_mention[known], of_row[new]])
        chunks = np.concatenate([self._owners("mentions")[known], self._owners("terms")[new]])
        stating = self._owners("statements")
        owner = self._of_mention[self._starts[stating] + self["statements.mention"]]
        kept = np.flatnonzero(owner >= 0)
        kept = kept[order(owner[kept], len(names))]
        return GroupedEntities(
            names,
            self._shown(names, row),
            self._kinds(len(names)),
            Lists.of_distinct(owners, chunks, len(names)),
            GroupedTexts.of(owner[kept], self["statements.text"][kept], stating[kept], len(names)),
        )

    def _shown(self, names: Rows, row: Rows) -> Rows:
        """The most frequent spelling of each name itself, else of its aliases, as strings."""
        times = np.bincount(self._spelling, self["mentions.times"], len(self.strings.keys)).astype(np.int64)
        spelt = np.flatnonzero(times)
        owner = self._target[self._name_of[spelt]]
        spelt, owner = spelt[owner >= 0], row[owner[owner >= 0]]
        owners = np.concatenate([owner, self._of_term])
        strings = np.concatenate([spelt, self._chosen_terms])
        counts = np.concatenate([times[spelt], self._times])
        shown = np.empty(len(names), np.int64)
        shown[owners] = strings
        several = np.bincount(owners, minlength=len(names))[owners] > 1
        owners, strings, counts = owners[several], strings[several], counts[several]
        later = self._name_of[strings] != names[owners]
        # The most frequent string of each owner; of equals the longer, then the first by text.
        pairs = owners * len(self.strings.keys) + strings
        by_pair = np.argsort(pairs)
        start = firsts(pairs[by_pair])
        counts = np.add.reduceat(counts[by_pair], start) if len(start) else counts[:0]
        owners, strings, later = owners[by_pair][start], strings[by_pair][start], later[by_pair][start]
        lengths = self["strings.length"][strings].astype(np.int64)
        columns = owners, later, -counts, -lengths
        by_rank = np.lexsort(columns[::-1])
        strings, owners = strings[by_rank], owners[by_rank]
        start, several = firsts(owners), firsts(*(each[by_rank] for each in columns))
        ends = np.append(several, len(owners))[1:]
        first = np.searchsorted(several, start)
        best = strings[start]
        for at in np.flatnonzero(ends[first] - start > 1).tolist():
            best[at] = min(strings[start[at] : ends[first[at]]].tolist(), key=self.strings.text)
        shown[owners[start]] = best
        return shown

    def _kinds(self, size: int) -> Rows:
        """The most frequent type of each entity, of `kinds`; of equals the longer, then the first by text."""
        owner = self._of_mention[self._starts[self._owners("typed")] + self["typed.mention"]]
        kept = owner >= 0
        keys = distinct(self["typed.kind"])
        texts = [self.strings.text(place) for place in self.strings.find(keys).tolist()]
        self.kinds = sorted({*texts, TERM}, key=lambda text: (-len(text), text))
        rank = {text: at for at, text in enumerate(self.kinds)}
        ranks = np.array([rank[text] for text in texts], np.int64)
        kinds = ranks[find(keys, self["typed.kind"][kept])] if len(keys) else np.zeros(0, np.int64)
        owners = np.concatenate([owner[kept], self._of_term])
        kinds = np.concatenate([kinds, np.full(len(self._of_term), rank[TERM])])
        counts = np.concatenate([self["typed.times"][kept], self._times]).astype(np.int64)
        pairs = owners * len(self.kinds) + kinds
        found, at = np.unique(pairs, return_inverse=True)
        times = np.bincount(at, counts, len(found))
        owners, kinds = found // len(self.kinds), found % len(self.kinds)
        by_rank = np.lexsort((kinds, -times, owners))
        start = firsts(owners[by_rank])
        best = np.full(size, -1, np.int64)
        best[owners[by_rank][start]] = kinds[by_rank][start]
        return best

    # Relations

    def stated(self) -> tuple[Rows, Rows, Keys, Rows]:
        """Of each stated relation the rows of source and target, the key of its text (0: none), the chunk."""
        source, target = self._ends(self._of_mention)
        kept = (source >= 0) & (target >= 0) & (source != target)
        return source[kept], target[kept], self["relations.text"][kept], self._relation_chunks[kept]

    def _relations(self) -> GroupedRelations:
        count, chunks = len(self.entities.names), self._relation_chunks
        source, target = self._ends(self._of_mention)
        kept = np.flatnonzero((source >= 0) & (target >= 0) & (source != target))
        ascends = source[kept] < target[kept]
        # By pair, chunk, source, text and strength: the rows are already by chunk, text and strength.
        kept = kept[order(chunks[kept] * 2 + ~ascends, 2 * self._chunks)]
        lesser, greater = np.minimum(source[kept], target[kept]), np.maximum(source[kept], target[kept])
        by_pair = order(greater, count)
        by_pair = by_pair[order(lesser[by_pair], count)]
        kept, lesser, greater = kept[by_pair], lesser[by_pair], greater[by_pair]
        ascends, chunk, text = source[kept] < target[kept], chunks[kept], self["relations.text"][kept]
        start = firsts(lesser, greater)
        size = len(start)
        owner = np.repeat(np.arange(size), np.diff(np.append(start, len(kept))))
        stated = firsts(owner, chunk, ascends, text)  # the strongest row of each statement
        stating = firsts(owner, chunk)
        strengths = np.maximum(self["relations.strength"][kept[stated]], 0.0)
        weights: NDArray[np.float64] = np.bincount(owner[stated], strengths, size).astype(np.float64)
        forward = np.bincount(owner[stated], ascends[stated], size)
        ascending = 2 * forward >= np.bincount(owner[stated], minlength=size)
        lesser, greater = lesser[start], greater[start]
        ends = np.column_stack([np.where(ascending, lesser, greater), np.where(ascending, greater, lesser)])
        straight = ascends == ascending[owner]
        texts, opposite = (
            GroupedTexts.of(owner[rows], text[rows], chunk[rows], size)
            for rows in (np.flatnonzero((text != 0) & way) for way in (straight, ~straight))
        )
        # What is said in both directions counts as said in the first.
        has_both = np.diff(opposite.texts.starts) > 0
        told = np.flatnonzero(has_both[texts.texts.owners])
        owners = np.concatenate([texts.texts.owners[told], opposite.texts.owners])
        both = first_of_each(owners, np.concatenate([texts.texts.values[told], opposite.texts.values]))
        new = both[both >= len(told)] - len(told)
        opposite = GroupedTexts(
            Lists.of(opposite.texts.owners[new], opposite.texts.values[new], size), opposite.chunks[new]
        )
        return GroupedRelations(
            ends,
            weights,
            np.bincount(owner, self["relations.apart"][kept], size) > 0,
            Lists.of(owner[stating], chunk[stating], size),
            texts,
            opposite,
            *self._relation_types(kept, owner, ~straight, size),
        )

    def _relation_types(
        self, rows: Rows, owner: Rows, is_opposite: NDArray[np.bool_], size: int
    ) -> tuple[Lists, Lists]:
        """The types of relations in each of both directions: that of most chunks first, of equals by text."""
        side = np.full(len(self._relation_chunks), -1, np.int64)
        side[rows] = owner * 2 + is_opposite
        chunk = self._owners("labels")
        sides = side[self["relations.starts"][chunk] + self["labels.relation"]]
        kept = sides >= 0
        keys = distinct(self["labels.kind"])
        ranks = np.empty(len(keys), np.int64)
        by_text = self.strings.order(self.strings.find(keys))
        ranks[by_text] = np.arange(len(keys))
        sides, chunk, kind = sides[kept], chunk[kept], ranks[find(keys, self["labels.kind"][kept])]
        by_chunk = np.lexsort((chunk, kind, sides))
        sides, chunk, kind = (each[by_chunk] for each in (sides, chunk, kind))
        each_chunk = firsts(sides, kind, chunk)
        sides, kind = sides[each_chunk], kind[each_chunk]
        start = firsts(sides, kind)
        times = np.diff(np.append(start, len(sides)))
        sides, kind = sides[start], kind[start]
        by_rank = np.lexsort((kind, -times, sides))
        sides, kinds = sides[by_rank], keys[by_text][kind[by_rank]]
        straight, opposite = (
            Lists.of(sides[way] // 2, kinds[way], size) for way in (sides % 2 == 0, sides % 2 == 1)
        )
        return straight, opposite

    # Units

    def _units(self) -> Units:
        names, count = self.entities.names, len(self["units.text"])
        linked = self._owners("linked")
        entity = self._of_mention[self._starts[linked] + self["linked.mention"]]
        owner = np.repeat(np.arange(count), self["units.names"])
        known = np.flatnonzero(entity >= 0)
        known = known[first_of_each(owner[known], entity[known])]
        named = Lists.of(owner[known], entity[known], count)
        keys = self.strings.keys[names[named.values]]
        marks = combined(self["units.text"], list_sums(named.starts, combined(keys, named.places)))
        distinct_marks = distinct(marks[:, 0])
        number = find(distinct_marks, marks[:, 0])
        first = np.zeros(len(distinct_marks), np.int64)
        first[number[::-1]] = np.arange(count)[::-1]
        chunks = Lists.of_distinct(number, self._owners("units"), len(first))
        return Units(self["units.text"][first], named.at(first), chunks, marks[first])


def resolved(key: str, aliases: Mapping[str, str]) -> str:
    """The end of a chain of aliases; a circle ends at its smallest name."""
    chain = []
    while key in aliases and key not in chain:
        chain.append(key)
        key = aliases[key]
    return min(chain[chain.index(key) :]) if key in chain else key
