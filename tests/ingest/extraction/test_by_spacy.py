"""Extraction by a spaCy pipeline: a blank one with rules, so that no model is needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import stratagraph as sg
from stratagraph.errors import MissingExtra
from stratagraph.ingest.extraction.by_spacy import extract_all, load
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, written_summary

TEXT = (
    "The Silver Heron was built by mara quill. She met Dr. Quill's brother in Tolmouth. First came the rain."
)


@pytest.fixture
def pipeline(tmp_path: Path) -> str:
    """Knows a ship, a person and ordinals by rule, a town as a proper noun, and what "She" is."""
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    patterns = [
        ("VESSEL", "The Silver Heron"),
        ("PERSON", "mara quill"),
        ("PERSON", "Quill"),
        ("ORDINAL", "First"),
    ]
    nlp.add_pipe("entity_ruler").add_patterns([{"label": label, "pattern": each} for label, each in patterns])
    ruler = nlp.add_pipe("attribute_ruler")
    ruler.add([[{"TEXT": "Tolmouth"}]], {"POS": "PROPN"})
    ruler.add([[{"TEXT": "She"}]], {"POS": "PRON", "MORPH": "Person=3"})
    nlp.to_disk(tmp_path / "rules")
    return str(tmp_path / "rules")


def one(text: str, pipeline: str, title: str = "") -> sg.Extraction:
    return extract_all([(text, title)], pipeline)[0]


def test_entities_are_the_pipelines_and_proper_nouns_and_the_rest_is_as_without_it(pipeline: str) -> None:
    found = one(TEXT, pipeline)
    assert {entity.name: entity.type for entity in found.entities} == {
        "The Silver Heron": "vessel",
        "mara quill": "person",
        "Quill": "person",
        "Tolmouth": "",
    }
    assert found.entities[0].description == "The Silver Heron was built by mara quill."
    assert {(relation.source, relation.target) for relation in found.relations} == {
        ("The Silver Heron", "mara quill"),
        ("mara quill", "Tolmouth"),  # "Quill" is the person whose full name went before
        ("The Silver Heron", "Tolmouth"),  # "She" goes on about the subject before
    }
    assert "".join(unit.text for unit in found.units).replace(" ", "") == TEXT.replace(" ", "")


def test_a_title_is_the_subject_of_sentences_that_go_on_about_it(pipeline: str) -> None:
    found = one("Ada Lind (sailor)\nShe lived in Tolmouth.", pipeline, "Ada Lind (sailor)")
    assert [entity.name for entity in found.entities] == ["Ada Lind", "Ada Lind (sailor)", "Tolmouth"]
    assert [(r.source, r.target) for r in found.relations] == [("Ada Lind", "Tolmouth")]
    assert [unit.text for unit in found.units] == ["She lived in Tolmouth."]


@pytest.mark.parametrize("text", ["", " \n ", "...", "北京大学", "'s", "Tolmouth " * 3000])
def test_any_text_is_read(pipeline: str, text: str) -> None:
    assert all(entity.name.strip() for entity in one(text, pipeline).entities)


def test_a_text_too_long_for_the_pipeline_is_read_by_rules(
    pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load(pipeline), "max_length", 60)
    short, long, last = extract_all([("In Tolmouth.", ""), (TEXT, ""), ("Back in Tolmouth.", "")], pipeline)
    assert [entity.name for entity in short.entities + last.entities] == ["Tolmouth", "Tolmouth"]
    assert "Silver Heron" in {entity.name for entity in long.entities}


def test_a_pipeline_is_loaded_once_and_named_if_it_is_not_there(pipeline: str) -> None:
    assert load(pipeline) is load(pipeline)
    with pytest.raises(ValueError, match="no spaCy pipeline 'xx_nowhere_sm'"):
        load("xx_nowhere_sm")


def test_without_spacy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtra, match=r"stratagraph\[nlp\]"):
        load("not loaded before")


def test_an_index_is_built_and_opened_with_it(pipeline: str, tmp_path: Path) -> None:
    config = {"extraction": {"spacy": pipeline}}
    path = tmp_path / "index"
    sg.build_index([sg.Document("a", TEXT)], path=path, config=config, embedder=FakeEmbedder()).close()
    with sg.open_index(path, embedder=FakeEmbedder(), spacy=pipeline) as index:
        index.insert([sg.Document("b", "Here sails The Silver Heron.")])
        ships = [entity for entity in index.entities() if entity.type == "vessel"]
        assert [set(ship.documents) for ship in ships] == [{"a", "b"}]


def test_where_a_model_fails_the_pipeline_reads_and_what_is_missing_is_said_first(pipeline: str) -> None:
    model = CountingModel(lambda prompt: written_summary(prompt) if "<passages>" in prompt else "no")

    def build(spacy: str) -> sg.Index:
        config = {"extraction": {"mode": "llm", "spacy": spacy}, "max_failures": 1.0}
        document = sg.Document("a", "it is the mara quill of old.")
        return sg.build_index([document], llm=model, embedder=FakeEmbedder(), config=config)

    with pytest.raises(ValueError, match="nowhere"):
        build("nowhere")
    assert model.prompts == []
    assert [entity.name for entity in build(pipeline).entities()] == ["mara quill"]
    assert model.prompts
