"""Answers of a model that extracts: what is read of them, what is counted, and what fails."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from tests.cases import cases

from stratagraph.errors import ParseFailed
from stratagraph.ingest.extraction.by_model import MOST_ENTITIES, to_extraction
from stratagraph.ingest.extraction.parsing import parse_extraction
from stratagraph.models.prompts import load_prompt
from stratagraph.types.records import Extraction


def read(answer: object) -> tuple[Extraction, Counter[str]]:
    notes: Counter[str] = Counter()
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return to_extraction([parse_extraction(text)], notes), notes


@pytest.mark.parametrize(("answer", "entities", "units", "relations", "notes"), cases(__file__, "answers"))
def test_an_answer_says_what_the_golden_file_has(
    answer: object, entities: list[Any], units: list[Any], relations: list[Any], notes: dict[str, int]
) -> None:
    found, counted = read(answer)
    assert [[each.name, each.type, each.description] for each in found.entities] == entities
    assert [[unit.text, *unit.entities] for unit in found.units] == units
    assert [[r.source, r.target, r.description, r.strength] for r in found.relations] == relations
    assert counted == notes


@pytest.mark.parametrize("answer", cases(__file__, "unreadable"))
def test_an_answer_that_is_mostly_unreadable_fails(answer: object) -> None:
    with pytest.raises(ParseFailed):
        read(answer)


def test_a_name_that_goes_on_for_ever_is_none() -> None:
    found, notes = read({"entities": ["Ada", "word " * 10_000]})
    assert [entity.name for entity in found.entities] == ["Ada"]
    assert notes == {"names that are no names dropped": 1}


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


def test_names_stand_inside_data_delimiters() -> None:
    for name, field in (("describe", "name"), ("glean", "known")):
        before, _, after = load_prompt("stratagraph.ingest", name).template.partition("{{" + field + "}}")
        assert before.endswith(">\n")
        assert after.startswith("\n</")
