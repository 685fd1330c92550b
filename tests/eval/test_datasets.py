"""The layouts that corpora with questions come in, and the noise in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratagraph import build_index
from stratagraph.eval import Dataset, Question, load_dataset
from stratagraph.eval import datasets as wording
from stratagraph.testing import FakeEmbedder
from stratagraph.types.records import Chunk, Document

CORPUS = [
    {"id": "a", "title": "Ada", "text": "Ada kept the light."},
    {"id": "b", "title": "Bell", "text": "The bell rang at noon."},
    {"id": "c", "title": "", "text": "Comets come back."},
]
QUESTIONS = [
    {
        "id": "q1",
        "question": "Who kept the light?",
        "answers": ["Ada"],
        "supporting_ids": ["a"],
        "type": "1hop",
    },
    {"id": "q2", "question": "When?", "answers": ["noon", 12], "supporting_ids": ["b", "c"], "type": "2hop"},
]


def lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


def folder_of(path: Path, corpus: list[dict[str, Any]], questions: list[dict[str, Any]]) -> Path:
    path.mkdir(exist_ok=True)
    lines(path / "corpus.jsonl", corpus)
    lines(path / "questions.jsonl", questions)
    return path


def texts(dataset: Dataset) -> dict[str, str]:
    return {item.id: item.text for item in dataset.documents if isinstance(item, Document)}


def test_the_plain_layout(tmp_path: Path) -> None:
    dataset = load_dataset(folder_of(tmp_path / "islands", CORPUS, QUESTIONS))
    assert dataset.name == "islands"
    assert texts(dataset) == {
        "a": "Ada\nAda kept the light.",
        "b": "Bell\nThe bell rang at noon.",
        "c": "Comets come back.",
    }
    assert dataset.documents[0].metadata == {"title": "Ada"}
    assert dataset.questions[1] == Question("q2", "When?", ("noon", "12"), ("b", "c"), "2hop")
    assert not dataset.notes
    assert load_dataset(tmp_path / "islands", name="other").name == "other"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"id": "a", "title": ["Ada"], "text": "x"}, r"corpus\.jsonl:1: 'title' must be a string"),
        ({"id": "a", "text": ["x"]}, r"corpus\.jsonl:1: 'text' must be a string"),
        ({"id": " ", "text": "x"}, "a document of 'islands' has a blank id"),
        ({"id": "a", "text": "x", "year": float("inf")}, "document 'a': what stands beside its text"),
    ],
)
def test_a_document_that_cannot_be_indexed_is_named(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset(folder_of(tmp_path / "islands", [document], [QUESTIONS[0]]))


def test_the_demo_is_a_dataset() -> None:
    from stratagraph import demo

    dataset = load_dataset("demo")
    assert texts(dataset) == {document.id: document.text for document in demo.documents()}
    assert [each.id for each in dataset.questions] == [each.id for each in demo.questions()]


def test_noise_is_counted_and_named(tmp_path: Path) -> None:
    corpus = [
        *CORPUS,
        {"id": "a", "title": "Ada", "text": "Ada kept the light."},
        {"id": "blank", "title": "Blank", "text": "  "},
    ]
    questions = [
        *QUESTIONS,
        {"id": "q1", "question": "Again?", "supporting_ids": ["b"]},
        {"id": "gone", "question": "Where is it?", "answers": ["x"], "supporting_ids": ["zz", "a"]},
        {"id": "bare", "question": "Anything?", "answers": ["", " "], "supporting_ids": []},
        {"id": "none", "question": "And?", "answers": None, "supporting_ids": None},
        {"id": "mute", "question": " ", "answers": ["x"], "supporting_ids": ["a"]},
    ]
    dataset = load_dataset(folder_of(tmp_path, corpus, questions))
    assert texts(dataset)["a"] == "Ada\nAda kept the light."
    assert "blank" not in texts(dataset)
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


def test_an_id_of_two_texts_is_refused_with_both_places(tmp_path: Path) -> None:
    corpus = [*CORPUS, {"id": "a", "title": "Ada", "text": "Another Ada."}]
    folder = folder_of(tmp_path, corpus, QUESTIONS)
    with pytest.raises(ValueError, match="id 'a' and different texts") as caught:
        load_dataset(folder)
    path = folder / "corpus.jsonl"
    assert f"{path}:1 and {path}:{len(corpus)}" in str(caught.value)


def test_gold_that_is_nowhere_in_the_corpus_is_an_error(tmp_path: Path) -> None:
    questions = [{**question, "supporting_ids": ["x", "y"]} for question in QUESTIONS]
    with pytest.raises(ValueError, match=r"none of the 2 gold documents .*'x', 'y', and documents .*'a'"):
        load_dataset(folder_of(tmp_path, CORPUS, questions))


def test_beir(tmp_path: Path) -> None:
    lines(tmp_path / "corpus.jsonl", [{"_id": each["id"], **each} for each in CORPUS])
    lines(tmp_path / "queries.jsonl", [{"_id": f"q{n}", "text": f"question {n}"} for n in range(4)])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq0\ta\t1\nq0\tb\t0\nq1\tb\t2\nq1\tc\t1\nq3\ta\t0\n"
    )
    (tmp_path / "qrels" / "dev.tsv").write_text("q2\tc\t1\n")
    dataset = load_dataset(tmp_path)
    assert {each.id: each.supporting_ids for each in dataset.questions} == {
        "q0": ("a",),
        "q1": ("b", "c"),
        "q3": (),
    }
    assert dataset.notes[wording.NO_GOLD] == ("q3",)
    assert [each.id for each in load_dataset(tmp_path, split="dev").questions] == ["q2"]
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0 a 1\n")
    with pytest.raises(ValueError, match=r"test\.tsv:2: expected query id"):
        load_dataset(tmp_path)


def hipporag(folder: Path, name: str, corpus: Any, questions: Any) -> None:
    (folder / f"{name}_corpus.json").write_text(json.dumps(corpus), "utf-8")
    (folder / f"{name}.json").write_text(json.dumps(questions), "utf-8")


HIPPO_CORPUS = [
    {"title": "Ada", "text": "Ada kept the light. She sang."},
    {"title": "Ada", "text": "Ada is a town."},
    {"title": "Bell", "text": "The bell rang."},
]
HIPPO_FORMS = {
    "musique": {
        "id": "2hop__1_2",
        "question": "Who?",
        "answer": "Ada",
        "answer_aliases": ["Miss Ada"],
        "paragraphs": [
            {"title": "Ada", "paragraph_text": "Ada is a town.", "is_supporting": True},
            {"title": "Bell", "paragraph_text": "The bell rang.", "is_supporting": False},
        ],
    },
    "hotpotqa": {
        "_id": "x1",
        "type": "bridge",
        "question": "Who?",
        "answer": "Ada",
        "supporting_facts": [["Ada", 0], ["Bell", 0], ["Gone", 1]],
        "context": [["Ada", ["Ada kept the light.", " She sang."]], ["Bell", ["The bell rang."]]],
    },
}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("musique", Question("2hop__1_2", "Who?", ("Ada", "Miss Ada"), ("p00001",), "2hop")),
        ("hotpotqa", Question("x1", "Who?", ("Ada",), ("p00000", "p00002", "Gone:"), "bridge")),
    ],
)
def test_hipporag(tmp_path: Path, form: str, expected: Question) -> None:
    hipporag(tmp_path, form, HIPPO_CORPUS, [HIPPO_FORMS[form]])
    dataset = load_dataset(tmp_path)
    assert dataset.questions == (expected,)
    assert texts(dataset)["p00002"] == "Bell\nThe bell rang."
    assert load_dataset(tmp_path / f"{form}.json").questions == (expected,)


def test_of_several_hipporag_sets_one_must_be_named(tmp_path: Path) -> None:
    for form, question in HIPPO_FORMS.items():
        hipporag(tmp_path, form, HIPPO_CORPUS, [question])
    with pytest.raises(ValueError, match=r"hotpotqa\.json, musique\.json"):
        load_dataset(tmp_path)
    assert load_dataset(tmp_path / "musique.json").name == "musique"


def test_multihop_rag(tmp_path: Path) -> None:
    articles = [
        {"title": "Ada wins", "url": "https://x/1", "body": "Ada won.", "source": "Courant"},
        {"title": "Bell rings", "url": "https://x/2", "body": "It rang."},
    ]
    questions = [
        {
            "query": "Who won?",
            "answer": "Ada",
            "question_type": "inference_query",
            "evidence_list": [
                {"url": "https://x/1", "title": "?"},
                {"title": "Bell rings", "fact": "It rang."},
            ],
        },
        {"query": "Else?", "answer": "Insufficient information.", "question_type": "null_query"},
    ]
    (tmp_path / "corpus.json").write_text(json.dumps(articles))
    (tmp_path / "MultiHopRAG.json").write_text(json.dumps(questions))
    dataset = load_dataset(tmp_path)
    assert dataset.questions[0].supporting_ids == ("https://x/1", "https://x/2")
    assert dataset.questions[0].type == "inference_query"
    assert dataset.documents[0].metadata == {"title": "Ada wins", "source": "Courant"}
    assert dataset.notes == {wording.NO_GOLD: ("q00001",)}


def test_other_folders_are_refused_with_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("nothing")
    with pytest.raises(ValueError, match=r"no layout that is known.*readme\.txt"):
        load_dataset(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_dataset(tmp_path / "nowhere")
    folder = folder_of(tmp_path / "bad", CORPUS, QUESTIONS)
    (folder / "questions.jsonl").write_text('{"id": "q1", "question": "ok"}\n{"id": \n')
    with pytest.raises(ValueError, match=r"questions\.jsonl:2: not JSON"):
        load_dataset(folder)
    (folder / "questions.jsonl").write_text('{"id": "q1", "question": ["no"]}\n')
    with pytest.raises(ValueError, match=r"questions\.jsonl:1: 'question' must be a string"):
        load_dataset(folder)


def test_an_export_is_an_extraction(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, CORPUS, QUESTIONS)
    other = Document("elsewhere", "Nobody asks about Hathe.")
    some = load_dataset(folder).documents[:1]
    with build_index([*some, other], embedder=FakeEmbedder(), progress=False) as index:
        index.export(folder / "index.jsonl")
    dataset = load_dataset(folder, extraction="index.jsonl")
    assert sorted(str(each.text) for each in dataset.documents) == sorted(
        str(each.text) for each in load_dataset(folder).documents
    )
    assert [isinstance(each, Chunk) for each in dataset.documents].count(True) == len(some)
    assert dataset.notes["extraction: passages of documents that are not in the corpus: left out"]
    assert dataset.notes["extraction: documents that are not in the export: read as they are"]


def test_given_extractions_and_question_entities(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, CORPUS, QUESTIONS)
    triples = [{"passage_id": "a", "entities": ["Ada"], "triples": [["Ada", "kept", "light"]]}]
    lines(folder / "openie.jsonl", triples)
    lines(
        folder / "entities.jsonl",
        [{"id": "q1", "entities": ["light", " ", 1901]}, {"id": "other", "entities": []}],
    )
    dataset = load_dataset(folder, extraction="openie.jsonl", query_entities=folder / "entities.jsonl")
    first = dataset.documents[0]
    assert isinstance(first, Chunk)
    names = [entity.name for entity in dataset.extractions[first.ref].entities]
    assert names == ["Ada", "light"]
    assert dataset.question_entities == {"q1": ("light", "1901")}
    lines(folder / "bad.jsonl", [{"id": "q1", "entities": {"light": 1}}])
    with pytest.raises(ValueError, match=r"bad\.jsonl:1: 'entities' must be a string"):
        load_dataset(folder, query_entities="bad.jsonl")
    assert dataset.notes[wording.UNKNOWN_ENTITIES] == ("other",)
    assert load_dataset(folder).extractions == {}, "extractions are used only where they are asked for"


@pytest.mark.parametrize("name", ["musique_train100", "hotpotqa_train100", "2wiki_dev164", "lihua_world"])
def test_real_corpora(shared_data: Path, name: str) -> None:
    dataset = load_dataset(shared_data / name)
    assert len(dataset.documents) > 400
    assert wording.MISSING_GOLD not in dataset.notes
    assert (wording.NO_GOLD in dataset.notes) == (name == "lihua_world")


def test_data_tell_whether_their_answers_are_texts() -> None:
    def asked(*questions: Question) -> bool:
        return Dataset("x", (Document("a", "a"),), questions).wants_texts

    brief, text = Question("1", "?", ("honey",)), Question("2", "?", ("so it was said " * 8, "no"))
    assert not asked(brief)
    assert not asked(Question("0", "?"))
    assert not asked(brief, text)
    assert asked(text, text, brief)
    assert asked(Question("3", "?", ("honey",), parts=(("honey",), ("wax",)))), "ALCE's answers are texts"
    assert not load_dataset("demo").wants_texts


@pytest.mark.parametrize(("key", "shape"), [("answers", {"a": 1}), ("type", True), ("id", float("nan"))])
def test_a_value_of_another_shape_is_named_with_its_line(tmp_path: Path, key: str, shape: Any) -> None:
    questions = [QUESTIONS[0], QUESTIONS[1] | {key: shape}]
    with pytest.raises(ValueError, match=rf"questions\.jsonl:2: '{key}' must be a string"):
        load_dataset(folder_of(tmp_path / "islands", CORPUS, questions))
