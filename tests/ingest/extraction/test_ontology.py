"""Types of entities and relations that a user gives, from the prompt to what an index lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel

TYPES = {"ship": "a vessel", "person": "", "port": "a town with a harbour"}
RELATIONS = {"commands": "person commands ship", "sails to": ""}
TEXT = "The steamship Dunlin left for Ostra under Mara Quill."
LISTS = {"types": ["Steam-Ships|Dunlin", "person|Mara Quill", "harbour town|Ostra"]}
ANSWERS = {
    "sentences": {
        "sentences": ["1|Dunlin|Mara Quill|Ostra"],
        "relations": ["1|commands|Mara Quill|Dunlin", "1|Sails to|Dunlin|Ostra", "1|owns|Mara Quill|Dunlin"],
        **LISTS,
    },
    "full": {
        "units": [{"text": TEXT, "entities": ["Dunlin", "Mara Quill", "Ostra"]}],
        "entities": [
            {"name": name, "type": kind, "description": "It is."}
            for kind, name in (each.split("|") for each in LISTS["types"])
        ],
        "relations": [
            {"source": source, "target": target, "description": TEXT, "strength": 5, "type": kind}
            for kind, source, target in (
                ("commands", "Mara Quill", "Dunlin"),
                ("Sails to", "Dunlin", "Ostra"),
                ("owns", "Mara Quill", "Dunlin"),
            )
        ],
    },
}


class Model(CountingModel):
    def __init__(self, answer: Any) -> None:
        super().__init__(lambda prompt: json.dumps(answer))


def config(form: str = "sentences", **own: Any) -> dict[str, Any]:
    types = {"entity_types": TYPES, "relation_types": RELATIONS}
    return {"extraction": {"mode": "llm", "form": form, **types, **own}}


def build(model: Model, settings: Any, path: Path | None = None, text: str = TEXT) -> sg.Index:
    documents = [sg.Document("log", text)]
    given: dict[str, Any] = {"llm": model, "embedder": FakeEmbedder(), "progress": False}
    return sg.build_index(documents, path=path, config=settings, **given)


def types_of(index: sg.Index) -> dict[tuple[str, str], tuple[str, ...]]:
    found = {}
    for each in index.relations():
        found[each.source, each.target] = each.types
        found[each.target, each.source] = each.opposite_types
    return {ends: types for ends, types in found.items() if types}


@pytest.mark.parametrize("form", ["sentences", "full"])
def test_relations_have_types_and_entities_those_that_were_given(form: str, tmp_path: Path) -> None:
    model = Model(ANSWERS[form])
    with build(model, config(form), tmp_path / "idx") as index:
        assert "ship (a vessel), person, port (a town with a harbour)" in model.prompts[0]
        assert "- commands: person commands ship\n  - sails to\n" in model.prompts[0]
        typed = {("mara quill", "dunlin"): ("commands",), ("dunlin", "ostra"): ("sails to",)}
        assert types_of(index) == typed
        assert {each.name: each.type for each in index.entities() if each.type != "date"} == {
            "Dunlin": "ship",
            "Mara Quill": "person",
            "Ostra": "harbour town",
        }
        notes = index.last_report.notes
        assert notes["entities of the type 'harbour town', which entity_types lacks"] == 1
        assert any("the type 'owns', which relation_types lacks" in note for note in notes)
        index.insert([sg.Document("other", "Nothing.")])
        assert types_of(index) == typed
        index.export(tmp_path / "index.jsonl")
    exported = [json.loads(line) for line in (tmp_path / "index.jsonl").read_text("utf-8").splitlines()]
    assert {tuple(each["types"]) for each in exported if each["record"] == "relation"} >= {("commands",)}
    with build(model, config(form), text="Other words.") as index:
        index.delete("log", missing_ok=True)


def test_without_an_ontology_nothing_of_it_is_in_a_prompt() -> None:
    model = Model(ANSWERS["sentences"])
    with build(model, {"extraction": {"mode": "llm"}}) as index:
        assert "relations" not in model.prompts[0]
        assert types_of(index) == {}


def test_an_estimate_shows_what_types_of_relations_cost() -> None:
    told = [
        sg.estimate([sg.Document("log", TEXT)], llm="openai:m@http://127.0.0.1:9/v1", config=each)
        for each in (config(relation_types=()), config())
    ]
    assert told[0].output_tokens < told[1].output_tokens
    assert told[0].input_tokens < told[1].input_tokens


def test_a_wrong_relation_loses_only_itself() -> None:
    wrong = ["1|commands|Nobody|Dunlin", "9|commands|Mara Quill|Dunlin", "commands", {"a": 1}, None, 3]
    right = "1|commands|Mara Quill|Dunlin"
    for relations, types in (([*wrong, right], {("mara quill", "dunlin"): ("commands",)}), ("commands", {})):
        with build(Model({**ANSWERS["sentences"], "relations": relations}), config()) as index:
            assert types_of(index) == types
            assert {each.name for each in index.entities()} >= {"Dunlin", "Mara Quill", "Ostra"}
            assert len(list(index.relations())) == 2


@pytest.mark.parametrize(
    ("types", "error", "said"),
    [
        ("person", TypeError, "must be a list of names"),
        ([1], TypeError, "each name must be a text, not 1"),
        ({"ship": 3}, TypeError, "each description must be a text, not 3"),
        ([" "], ValueError, "neither letter nor digit"),
        (["a|b"], ValueError, "none of them '|'"),
        (["a\nb"], ValueError, "a line break"),
        (["Ship", "ships"], ValueError, "same type twice"),
        ({"ship": "x" * 10_000}, ValueError, "10,000 characters"),
        ([f"type {number}" for number in range(500)], ValueError, "500 types, and may have 200"),
    ],
)
@pytest.mark.parametrize("setting", ["entity_types", "relation_types"])
def test_wrong_types_are_refused_with_their_values(
    setting: str, types: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said.replace("|", r"\|")):
        build(Model({}), config(**{setting: types}))


def stated(*relations: sg.RelationMention) -> sg.Extraction:
    names = {name: None for each in relations for name in (each.source, each.target)}
    units = (sg.SemanticUnit(". ".join(each.description for each in relations), tuple(names)),)
    return sg.Extraction(units, tuple(sg.EntityMention(name) for name in names), relations)


def test_types_follow_their_chunks_through_names_updates_and_files(tmp_path: Path) -> None:
    """A relation has the types of all names of its ends; which type goes with its document."""
    said = {
        "a": stated(
            sg.RelationMention("Miss Ada Holm", "Dunlin", "Miss Ada Holm steers the Dunlin.", 1.0, "steers")
        ),
        "b": stated(
            sg.RelationMention("Ada Holm", "Dunlin", "Ada Holm owns the Dunlin.", 1.0, "owns"),
            sg.RelationMention("Dunlin", "Ada Holm", "The Dunlin is in Ada Holm's debt.", 1.0, "owes"),
        ),
        "c": stated(sg.RelationMention("Ada Holm", "Dunlin", "Ada Holm bought the Dunlin.", 1.0, "owns")),
    }
    documents = [sg.Document(name, each.units[0].text) for name, each in said.items()]
    given: dict[str, Any] = {"embedder": FakeEmbedder(), "progress": False}
    pair = ("ada holm", "dunlin")
    every = {pair: ("owns", "steers"), pair[::-1]: ("owes",)}
    with sg.build_index(documents, "hirag", path=tmp_path / "idx", extraction=said, **given) as index:
        assert types_of(index) == every
        index.export(tmp_path / "index.jsonl")
    with sg.open_index(tmp_path / "idx", embedder=FakeEmbedder()) as index:
        assert types_of(index) == every
        index.delete("a")
        assert types_of(index) == {pair: ("owns",), pair[::-1]: ("owes",)}
        index.delete("b")
        assert types_of(index) == {pair: ("owns",)}
        index.insert(documents[:1], extraction={"a": said["a"]})
        assert types_of(index) == {pair: ("owns", "steers")}
    again = sg.read_extraction(tmp_path / "index.jsonl")
    with sg.build_index(again.documents, "noderag", extraction=again.extractions, **given) as index:
        assert types_of(index) == every
        hits = index.retrieve("Ada Holm owns the Dunlin", k=20, method="noderag").hits
        (relation,) = [hit for hit in hits if hit.kind == "relation"]
        assert relation.metadata["types"] == ["owns", "steers"]


def test_types_of_relations_need_a_model() -> None:
    with pytest.raises(ValueError, match="mode 'nlp' asks none"):
        build(Model({}), config(mode="nlp"))
    with build(Model({}), config(mode="auto")) as index:  # the walk needs no model's extraction
        notes = index.last_report.notes
    assert notes["chunks whose relations have no types: no model extracts"] == 1


def test_a_prompt_of_ones_own_must_ask_for_types_of_relations() -> None:
    prompt = "Names of these, please: {{sentences}} {{relation_types}}"
    given = {**config(), "prompts": {"ingest/sentences": prompt}}
    build(Model(ANSWERS["sentences"]), given).close()
    given["prompts"]["ingest/sentences"] = prompt.replace("{{relation_types}}", "")
    with pytest.raises(ValueError, match="no place for the relation_types"):
        build(Model({}), given)
