"""Data sets as they are published: what is read of them, and what is named where it cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratagraph.eval.datasets import MISSING_GOLD, Dataset, Question, load_dataset
from stratagraph.eval.metrics import string_scores

HOTPOT = {
    "_id": "h1",
    "question": "Who kept the light?",
    "answer": "Ada",
    "type": "bridge",
    "supporting_facts": [["Light", 0], ["Light", 1], ["Ada", 0]],
    "context": [["Light", ["Ada kept it.", " It shone."]], ["Ada", ["A keeper."]], ["Bell", ["It rang."]]],
}
MUSIQUE = {
    "id": "2hop__1_2",
    "question": "When did it ring?",
    "answer": "noon",
    "answer_aliases": ["12"],
    "paragraphs": [
        {"idx": 0, "title": "Bell", "paragraph_text": "It rang at noon.", "is_supporting": True},
        {"idx": 1, "title": "Bell", "paragraph_text": "Another bell.", "is_supporting": False},
    ],
}
ULTRA = {
    "input": "What is it about?",
    "answers": ["Light."],
    "context": "A book.",
    "context_id": "b1",
    "label": "cs",
}
ALCE = {
    "sample_id": "a1",
    "question": "Which islands?",
    "answer": "Orrin and Sarn are islands.",
    "qa_pairs": [{"short_answers": ["Orrin", "Orin"]}, {"short_answers": ["Sarn"]}],
    "docs": [{"title": "Orrin", "text": "An island.", "id": "7"}],
}


def written(path: Path, records: list[Any]) -> Path:
    lines = "\n".join(map(json.dumps, records))
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps(records), "utf-8")
    return path


def ids(dataset: Dataset) -> list[str]:
    return [document.id for document in dataset.documents]  # type: ignore[union-attr]


def test_hotpotqa_and_2wiki(tmp_path: Path) -> None:
    other = HOTPOT | {"_id": "h2", "context": [["Light", ["Another light."]], ["Ada", ["A keeper."]]]}
    dataset = load_dataset(written(tmp_path / "hotpot_dev.json", [HOTPOT, other]))
    assert ids(dataset) == ["Light", "Ada", "Bell", "Light (2)"]
    assert dataset.questions[0] == Question("h1", "Who kept the light?", ("Ada",), ("Light", "Ada"), "bridge")
    assert dataset.questions[1].supporting_ids == ("Light (2)", "Ada")


def test_musique(tmp_path: Path) -> None:
    dataset = load_dataset(written(tmp_path / "musique_dev.jsonl", [MUSIQUE]))
    assert ids(dataset) == ["Bell", "Bell (2)"]
    assert dataset.questions == (
        Question("2hop__1_2", "When did it ring?", ("noon", "12"), ("Bell",), "2hop"),
    )


def test_ultradomain(tmp_path: Path) -> None:
    dataset = load_dataset(written(tmp_path / "cs.jsonl", [ULTRA, ULTRA | {"input": "Why?"}]))
    assert ids(dataset) == ["b1"]
    assert [question.supporting_ids for question in dataset.questions] == [("b1",), ("b1",)]
    assert dataset.questions[0].type == "cs"


def test_alce_has_answers_in_parts(tmp_path: Path) -> None:
    dataset = load_dataset(written(tmp_path / "asqa.json", [ALCE]))
    assert dataset.questions[0].parts == (("Orrin", "Orin"), ("Sarn",))
    assert string_scores("It is Orin.", dataset.questions[0].parts) == {
        "strrec": 0.5,
        "strem": 0,
        "strhit": 1,
    }
    assert string_scores("Sarn, Orrin.", dataset.questions[0].parts) == {"strrec": 1, "strem": 1, "strhit": 1}
    assert string_scores("Sedge", dataset.questions[0].parts) == {"strrec": 0, "strem": 0, "strhit": 0}


def test_narrativeqa(tmp_path: Path) -> None:
    (tmp_path / "documents.csv").write_text(
        "document_id,set,wiki_title\nd1,test,Tale\nd2,train,Other\n", "utf-8"
    )
    (tmp_path / "qaps.csv").write_text(
        "document_id,set,question,answer1,answer2\nd1,test,Who?,Ada,She\nd2,train,Why?,Bees,Honey\n", "utf-8"
    )
    with pytest.raises(ValueError, match=r"no story of the split 'test'.*tmp/<document_id>\.content"):
        load_dataset(tmp_path)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "d1.content").write_text("Ada kept the light.", "utf-8")
    dataset = load_dataset(tmp_path)
    assert ids(dataset) == ["d1"]
    assert dataset.questions == (Question("q00000", "Who?", ("Ada", "She"), ("d1",)),)
    (tmp_path / "qaps.csv").write_text("document_id,set,question\nd1,test,Who?\n", "utf-8")
    with pytest.raises(ValueError, match=r"qaps\.csv: has no column answer1, answer2"):
        load_dataset(tmp_path)


def test_rag_qa_arena(tmp_path: Path) -> None:
    asked = {"qid": 3, "question": "Why?", "faithful_answer": "Because.", "gold_doc_ids": [7, 8]}
    written(tmp_path / "annotations_science_with_citation.jsonl", [asked])
    with pytest.raises(ValueError, match=r"RAG-QA Arena but no corpus\.jsonl"):
        load_dataset(tmp_path)
    written(tmp_path / "corpus.jsonl", [{"id": 7, "text": "So it is."}])
    dataset = load_dataset(tmp_path)
    assert dataset.questions == (Question("science-3", "Why?", ("Because.",), ("7", "8"), "science"),)
    assert dataset.notes[MISSING_GOLD] == ("8",)


@pytest.mark.parametrize(
    ("name", "records", "message"),
    [
        ("x.json", [{"q": 1}], r"x\.json' is in no layout that is known.*x_corpus\.json"),
        ("x.json", [], "holds no record"),
        ("x.json", [HOTPOT | {"context": "text"}], r"x\.json\[0\]: 'context' must be a list of pairs"),
        ("x.json", [HOTPOT, 7], r"x\.json\[1\]: an object was expected, not 7"),
        ("x.jsonl", [MUSIQUE | {"paragraphs": None}], r"x\.jsonl:1: 'paragraphs' must be a list of objects"),
        ("x.jsonl", [ULTRA | {"input": None}], r"x\.jsonl:1: 'input' must be a string, not None"),
        ("x.json", [HOTPOT | {"answer": {"text": "Ada"}}], r"x\.json\[0\]: 'answer' must be a string"),
        (
            "x.jsonl",
            [MUSIQUE | {"paragraphs": [{"title": "B", "paragraph_text": "x", "is_supporting": "False"}]}],
            r"x\.jsonl:1: 'is_supporting' must be true or false, not 'False'",
        ),
        ("x.jsonl", [ULTRA | {"answers": [["Light."]]}], r"x\.jsonl:1: 'answers' must be a string"),
        ("x.json", [ALCE | {"qa_pairs": [{"answers": ["Orrin"]}]}], r"x\.json\[0\]: 'short_answers' of each"),
        ("x.json", [HOTPOT | {"context": [["a", 5]]}], r"x\.json\[0\]: a paragraph must be a string"),
        ("x.json", [ALCE | {"qa_pairs": [], "answers": 5}], r"x\.json\[0\]: 'answers' must be a list"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, records: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset(written(tmp_path / name, records))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"x.json": "[" * 100_000}, r"x\.json: not readable: nested too deeply"),
        ({"x.json": b"\xff\xfe"}, r"x\.json: not UTF-8 at byte 1"),
        ({"x_corpus.json": "[1]", "x.json": "[]"}, r"x_corpus\.json.* must be a list of objects"),
        (
            {"x_corpus.json": "[]", "x.json": '[{"question": "?", "supporting_facts": [5]}]'},
            r"x\.json\[0\]: 'supporting_facts' must be a list of pairs",
        ),
        (
            {"corpus.json": "[]", "MultiHopRAG.json": '[{"query": "?", "evidence_list": ["T"]}]'},
            r"MultiHopRAG\.json\[0\]: 'evidence_list' must be a list of objects",
        ),
        (
            {"documents.csv": "document_id,set\n../x,test\n", "qaps.csv": "", "x.content": "secret"},
            r"documents\.csv: '\.\./x' is no name of a story",
        ),
        ({"documents.csv": b"document_id,set\n\xff,test\n", "qaps.csv": ""}, r"documents\.csv: not UTF-8"),
        (
            {
                "documents.csv": "document_id,set\nd,test\n",
                "d.content": "A story.",
                "qaps.csv": "document_id,set,question,answer1,answer2\nd,test\n",
            },
            r"qaps\.csv:2: a row of fewer columns than 5",
        ),
    ],
)
def test_what_cannot_be_read_of_a_folder_is_named(
    tmp_path: Path, files: dict[str, str | bytes], message: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    given = tmp_path / "x.json"
    with pytest.raises(ValueError, match=message):
        load_dataset(given if given.exists() else tmp_path)


def test_half_an_emoji_is_replaced_in_every_layout(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps([HOTPOT]).replace("Who kept", "Who \\ud83d kept"), "utf-8")
    assert load_dataset(path).questions[0].question == "Who ? kept the light?"


def test_a_book_is_one_document_and_another_text_under_its_id_is_refused(tmp_path: Path) -> None:
    nameless = {key: value for key, value in ULTRA.items() if key != "context_id"}
    dataset = load_dataset(written(tmp_path / "cs.jsonl", [ULTRA, nameless | {"_id": "3"}]))
    assert ids(dataset) == ["b1"]
    assert dataset.questions[1].supporting_ids == ("b1",)
    other = written(tmp_path / "other.jsonl", [ULTRA, ULTRA | {"_id": "2", "context": "Another."}])
    with pytest.raises(ValueError, match=r"id 'b1' and different texts: .*other.jsonl:1 and .*other.jsonl:2"):
        load_dataset(other)


def test_a_title_that_looks_numbered_keeps_its_paragraph(tmp_path: Path) -> None:
    context = [["Ada", ["One."]], ["Ada", ["Two."]], ["Ada (2)", ["Three."]], ["Ada", ["Four."]]]
    path = written(tmp_path / "x.json", [HOTPOT | {"context": context, "supporting_facts": [["Ada", 0]]}])
    assert ids(load_dataset(path)) == ["Ada", "Ada (2)", "Ada (2) (2)", "Ada (3)"]


def test_a_data_set_of_which_nothing_is_left_says_why(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "d", "text": " "}', "utf-8")
    (tmp_path / "questions.jsonl").write_text('{"id": "q", "question": "?"}', "utf-8")
    with pytest.raises(ValueError, match="0 documents and 1 questions; documents without text: left out: 1"):
        load_dataset(tmp_path)


def test_paragraphs_without_titles_are_told_apart(tmp_path: Path) -> None:
    paragraphs = [{"paragraph_text": text, "is_supporting": text == "Two."} for text in ("One.", "Two.")]
    dataset = load_dataset(written(tmp_path / "x.jsonl", [MUSIQUE | {"paragraphs": paragraphs}]))
    assert ids(dataset) == ["untitled", "untitled (2)"]
    assert dataset.questions[0].supporting_ids == ("untitled (2)",)


def test_evidence_without_an_address_is_no_article_without_a_title(tmp_path: Path) -> None:
    written(tmp_path / "corpus.json", [{"body": "Nameless."}, {"title": "T", "body": "Told."}])
    asked = {"query": "What?", "answer": "x", "evidence_list": [{"title": "T"}]}
    written(tmp_path / "MultiHopRAG.json", [asked])
    assert load_dataset(tmp_path).questions[0].supporting_ids == ("T",)
