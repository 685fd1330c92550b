"""Corpora with questions: what is read, what is noise, what is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cases import Files, put

from stratagraph import build_index, demo
from stratagraph.eval import Dataset, Question, load_dataset
from stratagraph.eval import datasets as wording
from stratagraph.testing import FakeEmbedder
from stratagraph.types.records import Chunk, Document

ADA = {"id": "a", "title": "Ada", "text": "Ada kept the light."}
CORPUS = [
    ADA,
    {"id": "b", "title": "Bell", "text": "The bell rang at noon."},
    {"id": "c", "title": "", "text": "Comets come back."},
]
ASKED = {"id": "q1", "question": "Who kept the light?", "answers": ["Ada"], "supporting_ids": ["a"]}
QUESTIONS = [
    ASKED | {"type": "1hop"},
    {"id": "q2", "question": "When?", "answers": ["noon", 12], "supporting_ids": ["b", "c"], "type": "2hop"},
]
PLAIN: Files = {"corpus.jsonl": CORPUS, "questions.jsonl": QUESTIONS}


def load(folder: Path, files: Files) -> Dataset:
    return load_dataset(put(folder, files))


def ids(dataset: Dataset) -> list[str]:
    return [item.id for item in dataset.documents]  # type: ignore[union-attr]


def texts(dataset: Dataset) -> dict[str, str]:
    return {item.id: item.text for item in dataset.documents if isinstance(item, Document)}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"corpus.jsonl": [{"id": "a", "title": ["Ada"], "text": "x"}]},
            r"corpus\.jsonl:1: 'title' must be a",
        ),
        ({"corpus.jsonl": [{"id": "a", "text": ["x"]}]}, r"corpus\.jsonl:1: 'text' must be a string"),
        ({"corpus.jsonl": [{"id": " ", "text": "x"}]}, "a document of '.*' has a blank id"),
        (
            {"corpus.jsonl": [{"id": "a", "text": "x", "year": float("inf")}]},
            "document 'a': what stands beside",
        ),
        (
            {"corpus.jsonl": [{"id": "a", "text": " "}]},
            "0 documents and 2 .*; documents without text: left out",
        ),
        (
            {"corpus.jsonl": [*CORPUS, ADA | {"text": "Another."}]},
            r"id 'a' .* texts: .*jsonl:1 and .*jsonl:4",
        ),
        ({"questions.jsonl": '{"id": "q1", "question": "ok"}\n{"id": \n'}, r"questions\.jsonl:2: not JSON"),
        (
            {"questions.jsonl": [ASKED | {"question": ["no"]}]},
            r"questions\.jsonl:1: 'question' must be a string",
        ),
        (
            {"questions.jsonl": [ASKED, ASKED | {"answers": {"a": 1}}]},
            r"questions\.jsonl:2: 'answers' must be",
        ),
        ({"questions.jsonl": [ASKED | {"type": True}]}, r"questions\.jsonl:1: 'type' must be a string"),
        ({"questions.jsonl": [ASKED | {"id": float("nan")}]}, r"questions\.jsonl:1: 'id' must be a string"),
        (
            {"questions.jsonl": [ASKED | {"supporting_ids": ["x", "y"]}]},
            r"none of the 2 gold documents .*'x', 'y', and documents .*'a'",
        ),
    ],
)
def test_what_cannot_be_read_of_the_plain_layout_is_named(tmp_path: Path, files: Files, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(tmp_path, {**PLAIN, **files})


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_dataset(tmp_path / "nowhere")
    (tmp_path / "corpus.jsonl").touch()
    with pytest.raises(ValueError, match=r"needs .* and questions.jsonl .*; it holds corpus.jsonl"):
        load_dataset(tmp_path)


def test_a_title_begins_the_text_and_further_fields_are_metadata(tmp_path: Path) -> None:
    dataset = load_dataset(put(tmp_path / "islands", PLAIN))
    assert dataset.name == "islands"
    assert not dataset.notes
    assert texts(dataset) == {
        "a": "Ada\nAda kept the light.",
        "b": "Bell\nThe bell rang at noon.",
        "c": "Comets come back.",
    }
    assert dataset.documents[0].metadata == {"title": "Ada"}


def test_the_demo_is_a_dataset() -> None:
    dataset = load_dataset("demo")
    assert texts(dataset) == {document.id: document.text for document in demo.documents()}
    assert [each.id for each in dataset.questions] == [each.id for each in demo.questions()]


def test_noise_is_counted_and_named(tmp_path: Path) -> None:
    corpus = [*CORPUS, ADA, {"id": "blank", "title": "Blank", "text": "  "}]
    questions = [
        *QUESTIONS,
        {"id": "q1", "question": "Again?", "supporting_ids": ["b"]},
        {"id": "gone", "question": "Where is it?", "answers": ["x"], "supporting_ids": ["zz", "a"]},
        {"id": "bare", "question": "Anything?", "answers": ["", " "], "supporting_ids": []},
        {"id": "none", "question": "And?", "answers": None, "supporting_ids": None},
        {"id": "mute", "question": " ", "answers": ["x"], "supporting_ids": ["a"]},
    ]
    dataset = load(tmp_path, {"corpus.jsonl": corpus, "questions.jsonl": questions})
    assert ids(dataset) == ["a", "b", "c"]
    assert [each.id for each in dataset.questions] == ["q1", "q2", "gone", "bare", "none"]
    assert dataset.questions[2].supporting_ids == ("zz", "a"), "a gold document that is missing still counts"
    assert dataset.notes == {
        wording.REPEATED_DOCUMENT: ("a",),
        wording.BLANK_DOCUMENT: ("blank",),
        wording.REPEATED_QUESTION: ("q1",),
        wording.BLANK_QUESTION: ("mute",),
        wording.MISSING_GOLD: ("zz",),
        wording.NO_GOLD: ("bare", "none"),
        wording.NO_ANSWER: ("bare", "none"),
    }


def test_an_export_is_an_extraction(tmp_path: Path) -> None:
    folder = put(tmp_path, PLAIN)
    other = Document("elsewhere", "Nobody asks about Hathe.")
    some = load_dataset(folder).documents[:1]
    with build_index([*some, other], embedder=FakeEmbedder(), progress=False) as index:
        index.export(folder / "index.jsonl")
    dataset = load_dataset(folder, extraction="index.jsonl")
    assert sorted(str(each.text) for each in dataset.documents) == sorted(
        texts(load_dataset(folder)).values()
    )
    assert [isinstance(each, Chunk) for each in dataset.documents].count(True) == len(some)
    assert dataset.notes["extraction: passages of documents that are not in the corpus: left out"]
    assert dataset.notes["extraction: documents that are not in the export: read as they are"]


def test_given_extractions(tmp_path: Path) -> None:
    files = {
        "openie.jsonl": [{"passage_id": "a", "entities": ["Ada"], "triples": [["Ada", "kept", "light"]]}]
    }
    folder = put(tmp_path, {**PLAIN, **files})
    dataset = load_dataset(folder, extraction="openie.jsonl")
    first = dataset.documents[0]
    assert isinstance(first, Chunk)
    assert [entity.name for entity in dataset.extractions[first.ref].entities] == ["Ada", "light"]
    assert load_dataset(folder).extractions == {}, "extractions are used only where they are asked for"


@pytest.mark.parametrize("name", ["musique_train100", "hotpotqa_train100", "2wiki_dev164", "lihua_world"])
def test_real_corpora(shared_data: Path, name: str) -> None:
    dataset = load_dataset(shared_data / name)
    assert len(dataset.documents) > 400
    assert wording.MISSING_GOLD not in dataset.notes
    assert (wording.NO_GOLD in dataset.notes) == (name == "lihua_world")


def test_data_tell_whether_their_answers_are_texts() -> None:
    def wants_texts(*questions: Question) -> bool:
        return Dataset("x", (Document("a", "a"),), questions).wants_texts

    brief, text = Question("1", "?", ("honey",)), Question("2", "?", ("so it was said " * 8, "no"))
    assert not wants_texts(brief)
    assert not wants_texts(Question("0", "?"))
    assert not wants_texts(brief, text)
    assert wants_texts(text, text, brief)
    assert not load_dataset("demo").wants_texts
