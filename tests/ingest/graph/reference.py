"""The graph of some extractions, as the product groups it, and by dictionaries, name by name and slowly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from stratagraph.ingest.extraction.candidates import ADDRESSES, is_thing, most_common, parts_of
from stratagraph.ingest.graph.grouping import Grouping
from stratagraph.ingest.graph.layout import Entity, GraphLayout, NamedRelation, Unit
from stratagraph.ingest.graph.tables import Flat
from stratagraph.ingest.names.spelling import canonical_name
from stratagraph.types.records import Extraction

Records = tuple[list[Entity], list[NamedRelation], list[Unit]]


def grouped(
    corpus: Sequence[Extraction], renamed: Sequence[Mapping[str, str]] = ()
) -> tuple[Records, dict[str, int]]:
    """Entities and relations in the order of rows, units in that of texts, and the notes."""
    flat = Flat(corpus)
    graph = Grouping(flat.arrays(), renamed)
    extracted: Any = SimpleNamespace(keys=np.arange(len(corpus), dtype=np.uint64))
    entities, relations, units = GraphLayout(graph, extracted, flat.texts(), None).records()
    return (entities, relations, sorted(units)), +graph.notes


def names_of(corpus: Sequence[Extraction]) -> set[str]:
    """The names by which entities are shown."""
    (entities, _, _), _ = grouped(corpus)
    return {entity.name for entity in entities}


def expected(corpus: Sequence[Extraction], renamed: Sequence[Mapping[str, str]] = ()) -> Records:
    """What `grouped` should give, from the rules alone."""
    target = _targets(corpus)
    chosen = _chosen(corpus)
    promoted = {term: canonical_name(term) for term in chosen if canonical_name(term)}
    for aliases in renamed:
        target = {name: end and _end(end, aliases) for name, end in target.items()}
        promoted = {term: _end(name, aliases) for term, name in promoted.items()}

    def end(name: str) -> str:
        return target.get(canonical_name(name), "")

    spelt, kinds = defaultdict[str, Counter[str]](Counter), defaultdict[str, Counter[str]](Counter)
    chunks, said = defaultdict[str, set[int]](set), defaultdict[str, set[tuple[int, str]]](set)
    stated = defaultdict[tuple[str, str], list[tuple[int, str, Any]]](list)
    units = defaultdict[tuple[str, tuple[str, ...]], set[int]](set)
    for chunk, found in enumerate(corpus):
        for name in _mentions(found):
            if end(name):
                spelt[end(name)][name] += 1
                chunks[end(name)].add(chunk)
        for each in found.entities:
            if end(each.name):
                kinds[end(each.name)].update([each.type] * bool(each.type))
                said[end(each.name)].update({(chunk, each.description)} if each.description else ())
        for relation in found.relations:
            source, other = end(relation.source), end(relation.target)
            if source and other and source != other:
                stated[min(source, other), max(source, other)].append((chunk, source, relation))
        for unit in found.units:
            named = dict.fromkeys(end(name) for name in unit.entities if end(name))
            units[unit.text, tuple(named)].add(chunk)
        for term in set(found.terms) & promoted.keys():
            spelt[promoted[term]][term] += 1
            kinds[promoted[term]]["term"] += 1
            chunks[promoted[term]].add(chunk)
    entities = []
    for key in sorted(chunks):
        own = {name: times for name, times in spelt[key].items() if canonical_name(name) == key}
        texts = tuple(dict.fromkeys(text for _, text in sorted(said[key])))
        shown, kind = _most_frequent(own or spelt[key]), _most_frequent(kinds[key])
        entities.append(Entity(key, shown, kind, texts, tuple(sorted(chunks[key]))))
    return (
        entities,
        [_relation(pair, stated[pair]) for pair in sorted(stated)],
        [Unit(*unit, tuple(sorted(rows))) for unit, rows in sorted(units.items())],
    )


def _mentions(found: Extraction) -> list[str]:
    related = [name for each in found.relations for name in (each.source, each.target)]
    return (
        [each.name for each in found.entities] + related + [n for unit in found.units for n in unit.entities]
    )


def _targets(corpus: Sequence[Extraction]) -> dict[str, str]:
    """Where each name that the corpus supports leads."""
    certain, lower = Counter[str](), Counter[str]()
    for found in corpus:
        sure = {canonical_name(each.name) for each in found.entities if not each.doubtful}
        doubtful = {canonical_name(each.name) for each in found.entities if each.doubtful} - sure
        certain.update(set(map(canonical_name, _mentions(found))) - doubtful)
        lower.update(term.split(" ")[0] for term in set(found.terms) if term.count(" ") == 1)
    names = {name for name, times in certain.items() if name and times >= max(1, lower[name])}
    aliases: dict[str, str] = {}
    for name in names:
        front, _, rest = name.partition(" ")
        in_full = [
            other
            for other in names
            if other.startswith(f"{front} ")
            and other.count(" ") > 1
            and f"{front} {other.rpartition(' ')[2]}" == name
        ]
        if front in ADDRESSES and " " in rest and rest in names:
            aliases[name] = rest
        elif front in ADDRESSES and rest and " " not in rest and len(in_full) == 1:
            aliases[name] = in_full[0]
    return {name: _end(name, aliases) for name in names}


def _end(name: str, aliases: Mapping[str, str]) -> str:
    """The end of a chain; a circle ends at its smallest name."""
    seen: list[str] = []
    while name in aliases and name not in seen:
        seen.append(name)
        name = aliases[name]
    return min(seen[seen.index(name) :]) if name in seen else name


def _chosen(corpus: Sequence[Extraction]) -> set[str]:
    times = Counter(term for found in corpus for term in set(found.terms))
    good = {
        term for term, count in times.items() if 2 <= count <= most_common(len(corpus)) and is_thing(term)
    }
    return good - {part for term in good for part in parts_of(term) if times[part] == times[term]}


def _most_frequent(counts: Mapping[str, int]) -> str:
    return min(counts, key=lambda text: (-counts[text], -len(text), text), default="")


def _relation(pair: tuple[str, str], stated: Sequence[tuple[int, str, Any]]) -> NamedRelation:
    strengths: dict[tuple[int, str, str], float] = {}
    for chunk, source, each in stated:
        place = chunk, source, each.description
        strengths[place] = max(each.strength, strengths.get(place, 0.0))
    forward = 2 * sum(source == pair[0] for _, source, _ in strengths) >= len(strengths)
    ends = pair if forward else pair[::-1]
    ordered = sorted(strengths)
    told = [list(dict.fromkeys(text for _, one, text in ordered if text and one == end)) for end in ends]
    typed = {(chunk, source, each.type) for chunk, source, each in stated if each.type}
    counts = [Counter(kind for _, source, kind in typed if source == end) for end in ends]
    types = (tuple(sorted(each, key=lambda kind, own=each: (-own[kind], kind))) for each in counts)  # type: ignore[misc]
    weight = float(sum(strengths[place] for place in ordered))
    chunks = tuple(sorted({chunk for chunk, _, _ in stated}))
    opposite = tuple(text for text in told[1] if text not in told[0])
    return NamedRelation(*ends, tuple(told[0]), opposite, weight, chunks, *types)
