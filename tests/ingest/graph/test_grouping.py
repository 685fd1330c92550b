"""Grouping flat tables gives the graph that the rules describe, whatever came before."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.ingest.graph.reference import expected, grouped

from stratagraph.ingest.names.spelling import LONGEST_NAME
from stratagraph.types.records import EntityMention, Extraction, RelationMention, SemanticUnit

LAST = [
    "Dunmore",
    "Lady Dunmore",
    "Miss Dunmore",
    "Lady",
    "Smith-Jones",
    "Élan",
    "Reed",
    "reed",
    "C++",
    "大学",
]
NAMES = """Miss Dunmore|Miss Lettice Dunmore|Miss Ann Dunmore|Lettice Dunmore|Lady Miss Dunmore
Miss Lady Dunmore|Lady Dunmore|miss|Miss|Aunt|Aunt Mary|Uncle Tom Reed|Uncle Reed|Tom Reed|TOM REED
Tom reed|the Reed|Well-Known Author|well known author|...||A Milne|O'Brien|OBrien|United States|U.S.
u.s|北京大学|東京|Relief|relief|Boat|relief boat|Relief Boat|boat crew|Boat crew""".replace("\n", "|").split(
    "|"
)
TERMS = """relief boat|old relief boat|relief boat crew|old relief boat crew|well-known author
well known author|aunt mary|miss dunmore|tom reed|lady dunmore|北京大学|京大学|北京大|大学|reed bed
boat crew|mary ann|four minutes|sent back|us army|...|lady reed""".replace("\n", "|").split("|")
SAID = ["He came.", "She left.", "", "It rose.", "A b.", "Zed ends.", "É."]
ENDS = ["", " More.", " And then it ended there.", " And then it began. And on.", "\0"]


class Corpora:
    """Made-up extractions of few names, so that every rule is needed often."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.doubt = chance.choice([0.1, 0.4, 0.9])
        parts = ["Miss", "Lady", "Widow", "Countess", ""], ["Ann", "Eve", "Lady", ""], LAST
        made = [" ".join(filter(None, map(chance.choice, parts))) for _ in range(6)]
        self.names = chance.sample([*NAMES, "x" * (LONGEST_NAME + 1), *made], chance.randrange(4, 20))

    def is_doubtful(self) -> bool:
        return self.chance.random() < self.doubt

    def extraction(self) -> Extraction:
        chance = self.chance

        def name() -> str:
            return chance.choice(self.names)

        def said(*choices: list[Any]) -> list[Any]:
            return [chance.choice(SAID), *map(chance.choice, choices)]

        def some(most: int, make: Callable[[], Any]) -> tuple[Any, ...]:
            return tuple(make() for _ in range(chance.randrange(most)))

        kinds, types = ["", "person", "place", "org", "term", "gent"], ["", "knows", "owns", "of"]
        return Extraction(
            some(4, lambda: SemanticUnit("".join(said(ENDS)), some(4, name))),
            some(
                5, lambda: EntityMention(name(), chance.choice(kinds), *said(), chance.random() < self.doubt)
            ),
            some(6, lambda: RelationMention(name(), name(), *said([1.0, 0.1, 0.3, 2.5, 0.0], types))),
            some(6, lambda: chance.choice(TERMS)),
        )

    def some(self) -> list[Extraction]:
        return [self.extraction() for _ in range(self.chance.randrange(1, 40))]


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_tables_give_the_graph_of_the_rules(first: int) -> None:
    for seed in range(first, first + 50):
        corpora = Corpora(seed)
        corpus, chance = corpora.some(), corpora.chance
        assert grouped(corpus)[0] == expected(corpus), f"corpus {seed}"
        keys = [entity.key for entity in grouped(corpus)[0][0]]
        steps = [
            {chance.choice(keys): chance.choice(keys) for _ in range(chance.randrange(1, 6))} if keys else {}
            for _ in range(chance.randrange(1, 3))
        ]
        steps = [{alias: end for alias, end in step.items() if alias != end} for step in steps]
        assert grouped(corpus, steps)[0] == expected(corpus, steps), f"corpus {seed} with {steps}"


def test_a_name_may_have_200_characters_and_no_more() -> None:
    found = Extraction(
        units=(SemanticUnit("x", ("a" * LONGEST_NAME, "b" * (LONGEST_NAME + 1))),),
        entities=(EntityMention("c" * (LONGEST_NAME + 1), "person", "a passage taken for a name"),),
        relations=(RelationMention("Ada", "d" * (LONGEST_NAME + 1)), RelationMention("Ada", "ada")),
    )
    (entities, relations, units), notes = grouped([found, found])
    assert [entity.key for entity in entities] == ["a" * LONGEST_NAME, "ada"]
    assert relations == []
    assert [unit.entities for unit in units] == [("a" * LONGEST_NAME,)]
    assert notes == {
        "names that are no names dropped": 6,
        "relations of an entity with itself dropped": 2,
        "relations without two names dropped": 2,
    }


def test_renaming_moves_everything_and_ends_in_circles() -> None:
    corpus = [
        Extraction(relations=(RelationMention("UN", "Ada", "hired"),)),
        Extraction(
            entities=(EntityMention("United Nations", "organization", "a body"),),
            relations=(RelationMention("UN", "United Nations", "is"),),
        ),
    ]
    (entities, relations, _), notes = grouped(corpus, [{"un": "united nations", "united nations": "un"}])
    assert [(entity.key, entity.name, entity.chunks) for entity in entities] == [
        ("ada", "Ada", (0,)),
        ("un", "UN", (0, 1)),
    ]
    assert [(each.source, each.target, each.chunks) for each in relations] == [("un", "ada", (0,))]
    assert notes == {"relations of an entity with its alias dropped": 1}
