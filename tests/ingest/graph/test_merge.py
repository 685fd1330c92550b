from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stratagraph.ingest.graph.merge import LONGEST_NAME, Merged, finish, merge
from stratagraph.ingest.names.index import canonical
from stratagraph.types.records import EntityMention, Extraction, RelationMention, SemanticUnit

NAMES = ("Ada", "ada", "The Ada", "Bo Li", "BO LI", "Ostra", "ostra.", "...", "R&D", "Café", "z" * 201)
names = st.sampled_from(NAMES)
texts = st.sampled_from(["", "sails", "sails the ferry", "is old"])
mentions = st.builds(EntityMention, names, st.sampled_from(["", "person", "place"]), texts, st.booleans())
relations = st.builds(
    RelationMention, names, names, texts, st.floats(0.5, 9), st.sampled_from(["", "met", "owns"])
)
units = st.builds(
    lambda text, of: SemanticUnit(text, tuple(of)), st.sampled_from(["x", "y"]), st.lists(names, max_size=3)
)
extractions = st.builds(
    lambda u, e, r, t: Extraction(tuple(u), tuple(e), tuple(r), tuple(t)),
    st.lists(units, max_size=2),
    st.lists(mentions, max_size=4),
    st.lists(relations, max_size=3),
    st.lists(st.sampled_from(["salt tithe", "glass"]), max_size=2, unique=True),
)
corpora = st.lists(extractions, max_size=6).map(lambda items: list(enumerate(items)))


@given(corpora, st.randoms())
def test_order_does_not_matter(corpus: list[tuple[int, Extraction]], chance: random.Random) -> None:
    shuffled = list(corpus)
    chance.shuffle(shuffled)
    assert finish(merge(shuffled)) == finish(merge(corpus))


@given(corpora)
def test_emptying_what_was_collected_gives_the_same_graph(corpus: list[tuple[int, Extraction]]) -> None:
    collected = merge(corpus)
    assert finish(collected, emptied=True) == finish(merge(corpus))
    assert not collected.relations
    assert not collected.units


def marked(chunk: int, found: Extraction) -> Extraction:
    """The extraction with every text, type and some spellings its chunk's own."""
    mark = f" #{chunk}"
    return Extraction(
        tuple(replace(unit, text=unit.text + mark) for unit in found.units),
        tuple(
            replace(
                entity,
                name=entity.name + "!" * (chunk + 1),
                type=entity.type and entity.type + mark,
                description=entity.description and entity.description + mark,
            )
            for entity in found.entities
        ),
        tuple(replace(relation, description=relation.description + mark) for relation in found.relations),
        found.terms,
    )


def said_of(key: str, corpus: list[tuple[int, Extraction]]) -> dict[str, Any]:
    """What a corpus says of one entity, read off the extractions one by one."""
    spellings, types, texts, chunks = Counter[str](), Counter[str](), [], set()
    for chunk, found in corpus:
        ends = [name for each in found.relations for name in (each.source, each.target)]
        ends += [name for unit in found.units for name in unit.entities]
        spoken = [name for name in [*ends, *(e.name for e in found.entities)] if canonical(name) == key]
        spellings.update(spoken)
        chunks |= {chunk} if spoken else set()
        own = [entity for entity in found.entities if canonical(entity.name) == key]
        types.update(entity.type for entity in own if entity.type)
        texts += sorted({entity.description for entity in own if entity.description})
    return {
        "name": min(spellings, key=lambda name: (-spellings[name], -len(name), name)),
        "type": min(types, key=lambda name: (-types[name], -len(name), name), default=""),
        "fragments": tuple(dict.fromkeys(texts)),
        "chunks": tuple(sorted(chunks)),
    }


def said_of_pair(pair: set[str], corpus: list[tuple[int, Extraction]]) -> dict[str, Any]:
    """What a corpus says of two entities: a chunk's text counts once each way, at its strongest."""
    strengths: dict[tuple[int, str, str, str], float] = {}
    for chunk, found in corpus:
        for each in found.relations:
            ends = canonical(each.source), canonical(each.target)
            if set(ends) == pair:
                place = (chunk, *ends, each.description)
                strengths[place] = max(each.strength, strengths.get(place, 0.0))
    first, second = sorted(pair)
    forward = 2 * sum(1 for place in strengths if place[1] == first) >= len(strengths)
    source, target = (first, second) if forward else (second, first)
    said = {
        end: list(dict.fromkeys(place[-1] for place in sorted(strengths) if place[-1] and place[1] == end))
        for end in pair
    }
    typed = {
        (chunk, canonical(each.source), each.type)
        for chunk, found in corpus
        for each in found.relations
        if each.type and {canonical(each.source), canonical(each.target)} == pair
    }
    counts = {end: Counter(kind for _, one, kind in typed if one == end) for end in pair}
    types = {end: tuple(sorted(own, key=lambda kind: (-own[kind], kind))) for end, own in counts.items()}
    return {
        "source": source,
        "target": target,
        "fragments": tuple(said[source]),
        "opposite": tuple(text for text in said[target] if text not in said[source]),
        "types": types[source],
        "opposite_types": types[target],
        "weight": sum(strengths[place] for place in sorted(strengths)),
        "chunks": tuple(sorted({place[0] for place in strengths})),
    }


@given(corpora, st.sets(st.integers(0, 5)), st.booleans())
def test_what_only_removed_chunks_said_is_gone_and_all_else_is_exact(
    corpus: list[tuple[int, Extraction]], gone: set[int], mark: bool
) -> None:
    whole = [(chunk, marked(chunk, found) if mark else found) for chunk, found in corpus]
    left = [(chunk, found) for chunk, found in whole if chunk not in gone]
    rest = finish(merge(left))
    for entity in rest.entities:
        assert {field: getattr(entity, field) for field in said_of(entity.key, left)} == said_of(
            entity.key, left
        )
    for relation in rest.relations:
        expected = said_of_pair({relation.source, relation.target}, left)
        assert {field: getattr(relation, field) for field in expected} == expected
    before = finish(merge(whole))
    assert {e.key for e in rest.entities} == {e.key for e in before.entities if set(e.chunks) - gone}
    assert [(unit.text, unit.entities, unit.chunks) for unit in rest.units] == [
        (unit.text, unit.entities, tuple(chunk for chunk in unit.chunks if chunk not in gone))
        for unit in before.units
        if set(unit.chunks) - gone
    ]
    assert mark is False or not any(f"#{chunk}" in repr(rest) for chunk in gone)


def unnamed(found: Merged) -> tuple[Any, ...]:
    return tuple(replace(entity, name="") for entity in found.entities), found.relations, found.units


def renamed(found: Extraction, target: dict[str, str]) -> Extraction:
    def name(old: str) -> str:
        return target.get(canonical(old), old)

    return Extraction(
        tuple(replace(unit, entities=tuple(map(name, unit.entities))) for unit in found.units),
        tuple(replace(entity, name=name(entity.name)) for entity in found.entities),
        tuple(replace(r, source=name(r.source), target=name(r.target)) for r in found.relations),
        found.terms,
    )


keys = st.sampled_from(sorted({canonical(name) for name in NAMES[:-1]} - {""}))


@given(corpora, st.dictionaries(keys, st.one_of(keys, st.just("new")), max_size=3))
def test_renaming_is_as_if_the_chunks_had_said_so(
    corpus: list[tuple[int, Extraction]], target: dict[str, str]
) -> None:
    flat = {alias: kept for alias, kept in target.items() if kept not in target}
    collected = merge(corpus)
    collected.rename(flat)
    expected = merge([(chunk, renamed(found, flat)) for chunk, found in corpus])
    assert unnamed(finish(collected)) == unnamed(finish(expected))


def test_one_mention_beyond_doubt_is_enough() -> None:
    doubtful = Extraction(
        units=(SemanticUnit("Boil it", ("Boil",)),), entities=(EntityMention("Boil", doubtful=True),)
    )
    assert merge([(0, doubtful), (1, doubtful)]).entities["boil"].chunks == {0: False, 1: False}
    sure = Extraction(entities=(EntityMention("boil"),))
    assert merge([(0, doubtful), (1, sure)]).entities["boil"].chunks == {0: False, 1: True}
    related = Extraction(relations=(RelationMention("Boil", "Ada"),))
    assert merge([(0, related)]).entities["boil"].chunks == {0: True}


def test_what_is_dropped_leaves_its_units_and_nothing_else() -> None:
    said = Extraction(
        units=(SemanticUnit("Ada met Bo", ("Ada", "Bo")),),
        relations=(RelationMention("Ada", "Bo"), RelationMention("Bo", "Cy")),
    )
    collected = merge([(0, said)])
    collected.drop(["ada"])
    graph = finish(collected)
    assert [entity.key for entity in graph.entities] == ["bo", "cy"]
    assert [(each.source, each.target) for each in graph.relations] == [("bo", "cy")]
    assert [(unit.text, unit.entities) for unit in graph.units] == [("Ada met Bo", ("bo",))]


def test_a_name_may_have_200_characters_and_no_more() -> None:
    found = Extraction(
        units=(SemanticUnit("x", ("a" * LONGEST_NAME, "b" * (LONGEST_NAME + 1))),),
        entities=(EntityMention("c" * (LONGEST_NAME + 1), "person", "a passage taken for a name"),),
        relations=(RelationMention("Ada", "d" * (LONGEST_NAME + 1)), RelationMention("Ada", "ada")),
    )
    part = merge([(0, found)])
    assert [entity.key for entity in finish(part).entities] == ["a" * LONGEST_NAME, "ada"]
    assert finish(part).units[0].entities == ("a" * LONGEST_NAME,)
    assert finish(merge([(0, found), (1, found)])).notes == {
        "names that are no names dropped": 6,
        "relations of an entity with itself dropped": 2,
        "relations without two names dropped": 2,
    }


def test_renaming_moves_everything_and_ends_in_circles() -> None:
    collected = merge(
        [
            (0, Extraction(relations=(RelationMention("UN", "Ada", "hired"),))),
            (1, Extraction(entities=(EntityMention("United Nations", "organization", "a body"),))),
        ]
    )
    collected.rename({"un": "united nations", "united nations": "un"})
    found = finish(collected)
    assert [entity.key for entity in found.entities] == ["ada", "un"]
    assert found.entities[1].chunks == (0, 1)
    assert found.relations[0].chunks == (0,)
