from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.cases import cases

from stratagraph.errors import ParseFailed
from stratagraph.ingest.extraction.by_model import MOST_ENTITIES, to_extraction
from stratagraph.ingest.extraction.parsing import parse_extraction
from stratagraph.models.prompts import load_prompt
from stratagraph.types.records import Extraction, RelationMention

WHOLE = {
    "units": [{"text": "Ada mended the bridge in 1871.", "entities": ["Ada", "the bridge"]}],
    "entities": [{"name": "Ada", "type": "person", "description": "An engineer."}],
    "relations": [{"source": "Ada", "target": "Bo", "description": "taught", "strength": "8/10"}],
}


def read(answer: object) -> tuple[Extraction, Counter[str]]:
    notes: Counter[str] = Counter()
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return to_extraction([parse_extraction(text)], notes), notes


def test_every_name_in_use_is_an_entity() -> None:
    found, notes = read(WHOLE)
    assert [entity.name for entity in found.entities] == ["Ada", "Bo", "the bridge"]
    assert found.relations[0].strength == 8.0
    assert notes == {"relation ends added as entities": 1, "entities of units added": 1}


@pytest.mark.parametrize(
    "answer",
    [
        "Here you are:\n```json\n" + json.dumps(WHOLE) + "\n```\nAnything else?",
        json.dumps(WHOLE).replace('"', "'"),
        json.dumps(WHOLE)[:-1] + ",}",
        json.dumps([WHOLE]),
        {**WHOLE, "entities": ["Ada"]},
        {**WHOLE, "relations": [["Ada", "taught", "Bo"]]},
        {**WHOLE, "units": ["Ada mended the bridge."]},
        {**WHOLE, "units": [{"text": "Ada mended it.", "entities": [{"name": "Ada"}]}]},
        {**WHOLE, "entities": [{"name": "Ada", "type": None, "description": ["An engineer.", "Old."]}]},
        {"relations": [["Ada", "taught", "Bo"]]},
        [{"relations": [["Ada", "taught", "Bo"]]}, {"entities": ["Bo"]}],
        {"result": {"Entities": ["Ada", "Bo"], "Triples": [["Ada", "taught", "Bo"]]}},
    ],
)
def test_what_a_careful_reader_understands_is_understood(answer: object) -> None:
    extraction, _ = read(answer)
    assert {"Ada", "Bo"} <= {entity.name for entity in extraction.entities}
    assert [(r.source, r.target) for r in extraction.relations] == [("Ada", "Bo")]


@pytest.mark.parametrize("answer", [["Ada"], [{"name": "Ada"}], {"units": [["Ada taught.", "Ada"]]}])
def test_names_alone_are_an_extraction(answer: object) -> None:
    assert [entity.name for entity in read(answer)[0].entities] == ["Ada"]


def test_what_is_no_name_is_counted() -> None:
    found, notes = read(
        {
            "entities": ["Ada", "...", "word " * 10_000],
            "relations": [{"source": "Ada"}, ["Ada", "is", "?!"], ["Ada", "met", "Ada"]],
        }
    )
    assert [entity.name for entity in found.entities] == ["Ada"]
    assert notes["names that are no names dropped"] == 2
    assert notes["relations without two names dropped"] == 1
    assert notes["relations without two names kept as units"] == 2
    assert [(u.text, u.entities) for u in found.units] == [("Ada is", ("Ada",)), ("Ada met", ("Ada",))]


@pytest.mark.parametrize(
    "relation",
    [
        ["Ada", "taught", "Bo", 8],
        {"subject": "Ada", "predicate": "taught", "object": "Bo", "strength": 8},
        {"head": "Ada", "relation": "taught", "tail": "Bo", "weight": "8"},
        {"from": "Ada", "to": {"name": "Bo"}, "label": "taught", "strength": "8/10"},
        {"entity1": "Ada", "entity2": "Bo", "relationship": "taught", "strength": 8.0},
    ],
)
def test_relations_in_other_words(relation: object) -> None:
    found, notes = read({"relationships": [relation], "entities": [{"entity_name": "Ada"}, {"entity": "Bo"}]})
    assert found.relations == (RelationMention("Ada", "Bo", "taught", 8.0),)
    assert not notes


def test_one_odd_element_costs_only_itself() -> None:
    found, notes = read(
        {
            "entities": ["Ada", None, {"type": "person"}, "Bo", "Cy"],
            "relations": [["Ada", "taught", "Bo"], ["Ada", "taught", ["Bo", "Cy"]], "Ada taught Bo"],
            "units": [["Ada taught Bo.", "Ada", ["Bo"]], {"entities": ["Ada"]}, "Bo slept."],
        }
    )
    assert [entity.name for entity in found.entities] == ["Ada", "Bo", "Cy"]
    assert found.units[0].entities == ("Ada", "Bo")
    assert notes == {
        "entities that could not be read dropped": 2,
        "relations that could not be read dropped": 2,
        "units that could not be read dropped": 1,
    }


@pytest.mark.parametrize(
    "answer",
    [
        {"entities": [None, 7.5, {}, {}]},
        {"entities": ["Ada"], "relations": [1, 2]},
        [None, None, "Ada"],
        [1],
        {"answer": "Ada"},
        *("", "I saw nothing remarkable.", "<entities><e>Ada</e></entities>", "42", "[]"),
    ],
)
def test_an_answer_that_is_mostly_unreadable_fails(answer: object) -> None:
    with pytest.raises(ParseFailed):
        read(answer)


def test_names_in_one_string() -> None:
    unit = {"text": "They met.", "entities": "Ada, Bo"}
    assert read({"units": [unit], "entities": ["Ada", "Bo"]})[0].units[0].entities == ("Ada", "Bo")
    assert read({"units": [unit], "entities": ["Ada"]})[0].units[0].entities == ("Ada, Bo",)
    assert read({"units": [unit], "entities": ["Ada", "Bo", "Ada, Bo"]})[0].units[0].entities == ("Ada, Bo",)


def test_nothing_of_an_entity_beyond_the_limit_is_kept() -> None:
    names = [f"Thing {number}" for number in range(MOST_ENTITIES + 1)]
    units = [{"text": "Both are.", "entities": [names[0], names[-1]]}]
    relations = [[names[0], "is like", names[-1]], [names[0], "is like", names[1]]]
    found, notes = read({"entities": [*names, names[-1]], "relations": relations, "units": units})
    assert len(found.entities) == MOST_ENTITIES
    assert [relation.target for relation in found.relations] == [names[1]]
    assert found.units[0].entities == (names[0],)
    assert notes == {
        "entities beyond the limit of a chunk dropped": 1,
        "relations of entities beyond the limit of a chunk dropped": 1,
        "names of units beyond the limit of a chunk dropped": 1,
    }


@pytest.mark.parametrize(
    ("relation", "unit"),
    cases(__file__, "a relation with one end is a unit"),
)
def test_a_relation_with_one_end_is_a_unit(relation: dict[str, str], unit: str | None) -> None:
    found, notes = read({"entities": ["Ada", "Bo", "Bo Lind", "Cy"], "relations": [relation]})
    assert not found.relations
    assert [(u.text, u.entities) for u in found.units] == ([(unit, ("Ada",))] if unit else [])
    assert notes.total() == 1


def test_blank_units_and_names_are_counted() -> None:
    _, notes = read(
        {"units": [" ", {"text": "Ada slept.", "entities": ["Ada", "?", None]}], "entities": ["Ada"]}
    )
    assert notes == {"units without text dropped": 1, "names of units that are no names dropped": 2}


def test_a_part_of_a_word_is_no_repetition() -> None:
    texts = ["An artist", "art", "artist"]
    found, _ = read({"entities": [{"name": "Ada", "description": text} for text in texts]})
    assert found.entities[0].description == "An artist art"


def test_names_stand_inside_data_delimiters() -> None:
    for name, field in (("describe", "name"), ("glean", "known")):
        before, _, after = load_prompt("stratagraph.ingest", name).template.partition("{{" + field + "}}")
        assert before.endswith(">\n")
        assert after.startswith("\n</")
