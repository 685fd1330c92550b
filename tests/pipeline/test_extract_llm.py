from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from stratarag.errors import ParseFailed
from stratarag.pipeline.extract_llm import MOST_ENTITIES, parse_extraction, to_extraction
from stratarag.records import Extraction

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
        '("entity"<|>"Ada"<|>"person"<|>"An engineer.")##("relationship"<|>"Ada"<|>"Bo"<|>"taught"<|>8)',
    ],
)
def test_what_a_careful_reader_understands_is_understood(answer: object) -> None:
    found, _ = read(answer)
    assert {"Ada", "Bo"} <= {entity.name for entity in found.entities}
    assert [(r.source, r.target) for r in found.relations] == [("Ada", "Bo")]


@pytest.mark.parametrize(
    "answer", ["", "I saw nothing remarkable.", "<entities><e>Ada</e></entities>", "42", "[]"]
)
def test_what_is_no_extraction_fails(answer: str) -> None:
    with pytest.raises(ParseFailed):
        parse_extraction(answer)


def test_nothing_to_extract_is_a_good_answer() -> None:
    found, notes = read({"units": [], "entities": [], "relations": []})
    assert found == Extraction()
    assert not notes


def test_what_is_no_name_is_counted() -> None:
    found, notes = read(
        {
            "entities": ["Ada", "...", "word " * 10_000],
            "relations": [{"source": "Ada"}, ["Ada", "is", "?!"], ["Ada", "met", "Ada"]],
        }
    )
    assert [entity.name for entity in found.entities] == ["Ada"]
    assert notes["names that are no names dropped"] == 2
    assert notes["relations without two names dropped"] == 2


def test_a_model_that_lists_without_end_is_bounded() -> None:
    found, notes = read({"entities": [f"Thing {number}" for number in range(500)]})
    assert len(found.entities) == MOST_ENTITIES
    assert notes["entities beyond the limit of a chunk dropped"] == 500 - MOST_ENTITIES


def test_one_entity_of_two_descriptions() -> None:
    found, _ = read(
        {"entities": [{"name": "Ada", "description": "Old."}, {"name": "ada", "description": "Wise."}]}
    )
    assert [(e.name, e.description) for e in found.entities] == [("Ada", "Old. Wise.")]


def test_real_completions(shared_data: Path) -> None:
    """Extractions of gpt-4o in the older delimiter grammar: all that hold a record can be read."""
    path = shared_data / "nano_graphrag_raw_llm_outputs" / "outputs.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    answers = [row["output"] for row in rows if row["kind"] == "entity_extraction"]
    usable = [answer for answer in answers if '"entity"' in answer or '"relationship"' in answer]
    assert len(usable) > 200
    for answer in usable:
        found, _ = read(answer)
        assert found.entities
