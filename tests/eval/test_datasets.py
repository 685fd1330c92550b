"""Data sets in the layouts in which they are published: what is read, what is noise, what is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stratagraph import build_index, demo
from stratagraph.eval import Dataset, Question, load_dataset
from stratagraph.eval import datasets as wording
from stratagraph.testing import FakeEmbedder
from stratagraph.types.records import Chunk, Document

Files = Mapping[str, Any]
"""Contents by path: bytes, text, lines of JSON (a list under a name `.jsonl`), or JSON."""

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
HIPPO_CORPUS = [
    {"title": "Light", "text": "Ada kept it. It shone."},
    {"title": "Bell", "text": "Another bell."},
    {"title": "Bell", "text": "It rang at noon."},
]
BEIR: Files = {
    "corpus.jsonl": [{"_id": each["id"], **each} for each in CORPUS],
    "queries.jsonl": [{"_id": f"q{n}", "text": f"question {n}"} for n in range(4)],
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq0\ta\t1\nq0\tb\t0\nq1\tb\t2\nq1\tc\t1\nq3\ta\t0\n",
    "qrels/dev.tsv": "q2\tc\t1\n",
}
ARTICLES = [
    {"title": "Ada wins", "url": "https://x/1", "body": "Ada won.", "source": "Courant"},
    {"title": "Bell rings", "url": "https://x/2", "body": "It rang."},
    {"body": "Nameless."},
]
EVIDENCE = [{"url": "https://x/1", "title": "?"}, {"title": "Bell rings", "fact": "It rang."}]
STORIES: Files = {
    "documents.csv": "document_id,set,wiki_title\nd1,test,Tale\nd2,train,Other\n",
    "qaps.csv": "document_id,set,question,answer1,answer2\nd1,test,Who?,Ada,She\nd2,train,Why?,Bees,Honey\n",
}
ARENA: Files = {
    "annotations_science_with_citation.jsonl": [
        {"qid": 3, "question": "Why?", "faithful_answer": "Because.", "gold_doc_ids": [7, 8]}
    ]
}


def put(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list) and path.suffix == ".jsonl":
            content = "\n".join(map(json.dumps, content))
        elif not isinstance(content, str | bytes):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def load(folder: Path, files: Files) -> Dataset:
    """The data set in some files, named by the only one, by `x.json`, or by the folder."""
    put(folder, files)
    name = next(iter(files)) if len(files) == 1 else "x.json" if "x.json" in files else ""
    return load_dataset(folder / name)


def ids(dataset: Dataset) -> list[str]:
    return [item.id for item in dataset.documents]  # type: ignore[union-attr]


def texts(dataset: Dataset) -> dict[str, str]:
    return {item.id: item.text for item in dataset.documents if isinstance(item, Document)}


OTHER_HOTPOT = HOTPOT | {"_id": "h2", "context": [["Light", ["Another light."]], ["Ada", ["A keeper."]]]}
LAYOUTS: dict[str, tuple[Files, list[str], tuple[Question, ...]]] = {
    "the plain one": (
        PLAIN,
        ["a", "b", "c"],
        (
            Question("q1", "Who kept the light?", ("Ada",), ("a",), "1hop"),
            Question("q2", "When?", ("noon", "12"), ("b", "c"), "2hop"),
        ),
    ),
    "BEIR": (
        BEIR,
        ["a", "b", "c"],
        (
            Question("q0", "question 0", (), ("a",)),
            Question("q1", "question 1", (), ("b", "c")),
            Question("q3", "question 3"),
        ),
    ),
    "HippoRAG, MuSiQue": (
        {"m_corpus.json": HIPPO_CORPUS, "m.json": [MUSIQUE]},
        ["p00000", "p00001", "p00002"],
        (Question("2hop__1_2", "When did it ring?", ("noon", "12"), ("p00002",), "2hop"),),
    ),
    "HippoRAG, HotpotQA": (
        {"h_corpus.json": HIPPO_CORPUS, "h.json": [HOTPOT]},
        ["p00000", "p00001", "p00002"],
        (Question("h1", "Who kept the light?", ("Ada",), ("p00000", "Ada: A keeper."), "bridge"),),
    ),
    "HotpotQA and 2Wiki": (
        {"hotpot_dev.json": [HOTPOT, OTHER_HOTPOT]},
        ["Light", "Ada", "Bell", "Light (2)"],
        (
            Question("h1", "Who kept the light?", ("Ada",), ("Light", "Ada"), "bridge"),
            Question("h2", "Who kept the light?", ("Ada",), ("Light (2)", "Ada"), "bridge"),
        ),
    ),
    "MuSiQue": (
        {"musique_dev.jsonl": [MUSIQUE]},
        ["Bell", "Bell (2)"],
        (Question("2hop__1_2", "When did it ring?", ("noon", "12"), ("Bell",), "2hop"),),
    ),
    "UltraDomain: a book is one document": (
        {"cs.jsonl": [ULTRA, {key: ULTRA[key] for key in ("input", "answers", "context")} | {"_id": "3"}]},
        ["b1"],
        (
            Question("q00000", "What is it about?", ("Light.",), ("b1",), "cs"),
            Question("3", "What is it about?", ("Light.",), ("b1",)),
        ),
    ),
    "ALCE": (
        {"asqa.json": [ALCE]},
        ["Orrin"],
        (
            Question(
                "a1",
                "Which islands?",
                ("Orrin and Sarn are islands.",),
                parts=(("Orrin", "Orin"), ("Sarn",)),
            ),
        ),
    ),
    "MultiHop-RAG": (
        {
            "corpus.json": ARTICLES,
            "MultiHopRAG.json": [
                {
                    "query": "Who won?",
                    "answer": "Ada",
                    "question_type": "inference",
                    "evidence_list": EVIDENCE,
                },
                {"query": "Else?", "answer": "Insufficient.", "question_type": "null"},
            ],
        },
        ["https://x/1", "https://x/2", "2"],
        (
            Question("q00000", "Who won?", ("Ada",), ("https://x/1", "https://x/2"), "inference"),
            Question("q00001", "Else?", ("Insufficient.",), (), "null"),
        ),
    ),
    "NarrativeQA": (
        STORIES | {"tmp/d1.content": "Ada kept the light."},
        ["d1"],
        (Question("q00000", "Who?", ("Ada", "She"), ("d1",)),),
    ),
    "RAG-QA Arena": (
        ARENA | {"corpus.jsonl": [{"id": 7, "text": "So it is."}]},
        ["7"],
        (Question("science-3", "Why?", ("Because.",), ("7", "8"), "science"),),
    ),
    "titles that look numbered": (
        {
            "x.json": [
                HOTPOT
                | {
                    "context": [["A", ["1."]], ["A", ["2."]], ["A (2)", ["3."]], ["A", ["4."]]],
                    "supporting_facts": [["A", 0]],
                }
            ]
        },
        ["A", "A (2)", "A (2) (2)", "A (3)"],
        (Question("h1", "Who kept the light?", ("Ada",), ("A (3)",), "bridge"),),
    ),
    "paragraphs without titles": (
        {
            "x.jsonl": [
                MUSIQUE
                | {
                    "paragraphs": [
                        {"paragraph_text": text, "is_supporting": text == "Two."} for text in ("One.", "Two.")
                    ]
                }
            ]
        },
        ["untitled", "untitled (2)"],
        (Question("2hop__1_2", "When did it ring?", ("noon", "12"), ("untitled (2)",), "2hop"),),
    ),
    "half an emoji": (
        {"x.json": json.dumps([HOTPOT]).replace("Who kept", "Who \\ud83d kept")},
        ["Light", "Ada", "Bell"],
        (Question("h1", "Who ? kept the light?", ("Ada",), ("Light", "Ada"), "bridge"),),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_documents_and_questions_of_each_layout(tmp_path: Path, layout: str) -> None:
    files, documents, questions = LAYOUTS[layout]
    dataset = load(tmp_path, files)
    assert ids(dataset) == documents
    assert dataset.questions == questions


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


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"x.json": [{"q": 1}]}, r"x\.json' is in no layout that is known.*x_corpus\.json"),
        ({"x.json": []}, "holds no record"),
        ({"x.json": "[" * 100_000}, r"x\.json: not readable: nested too deeply"),
        ({"x.json": b"\xff\xfe"}, r"x\.json: not UTF-8 at byte 1"),
        ({"x.json": [HOTPOT, 7]}, r"x\.json\[1\]: an object was expected, not 7"),
        ({"x.json": [HOTPOT | {"context": "text"}]}, r"x\.json\[0\]: 'context' must be a list of pairs"),
        ({"x.json": [HOTPOT | {"context": [["a", 5]]}]}, r"x\.json\[0\]: a paragraph must be a string"),
        ({"x.json": [HOTPOT | {"answer": {"text": "Ada"}}]}, r"x\.json\[0\]: 'answer' must be a string"),
        (
            {"x.jsonl": [MUSIQUE | {"paragraphs": None}]},
            r"x\.jsonl:1: 'paragraphs' must be a list of objects",
        ),
        (
            {"x.jsonl": [MUSIQUE | {"paragraphs": [{"paragraph_text": "x", "is_supporting": "False"}]}]},
            r"x\.jsonl:1: 'is_supporting' must be true or false, not 'False'",
        ),
        ({"x.jsonl": [ULTRA | {"input": None}]}, r"x\.jsonl:1: 'input' must be a string, not None"),
        ({"x.jsonl": [ULTRA | {"answers": [["Light."]]}]}, r"x\.jsonl:1: 'answers' must be a string"),
        (
            {"x.jsonl": [ULTRA, ULTRA | {"_id": "2", "context": "Another."}]},
            r"id 'b1' and different texts: .*x.jsonl:1 and .*x.jsonl:2",
        ),
        (
            {"x.json": [ALCE | {"qa_pairs": [{"answers": ["Orrin"]}]}]},
            r"x\.json\[0\]: 'short_answers' of each",
        ),
        ({"x.json": [ALCE | {"qa_pairs": [], "answers": 5}]}, r"x\.json\[0\]: 'answers' must be a list"),
        ({"x_corpus.json": [1], "x.json": []}, r"x_corpus\.json.* must be a list of objects"),
        (
            {"x_corpus.json": [], "x.json": [{"question": "?", "supporting_facts": [5]}]},
            r"x\.json\[0\]: 'supporting_facts' must be a list of pairs",
        ),
        (
            {"corpus.json": [], "MultiHopRAG.json": [{"query": "?", "evidence_list": ["T"]}]},
            r"MultiHopRAG\.json\[0\]: 'evidence_list' must be a list of objects",
        ),
        (
            {**BEIR, "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq0 a 1\n"},
            r"test\.tsv:2: expected query id",
        ),
        (STORIES, r"no story of the split 'test'.*tmp/<document_id>\.content"),
        (
            STORIES | {"d1.content": "A story.", "qaps.csv": "document_id,set,question\nd1,test,Who?\n"},
            r"qaps\.csv: has no column answer1, answer2",
        ),
        (
            STORIES
            | {"d1.content": "A story.", "qaps.csv": "document_id,set,question,answer1,answer2\nd1,test\n"},
            r"qaps\.csv:2: a row of fewer columns than 5",
        ),
        (
            {"documents.csv": "document_id,set\n../x,test\n", "qaps.csv": "", "x.content": "secret"},
            r"documents\.csv: '\.\./x' is no name of a story",
        ),
        ({"documents.csv": b"document_id,set\n\xff,test\n", "qaps.csv": ""}, r"documents\.csv: not UTF-8"),
        (ARENA | {"readme.txt": ""}, r"RAG-QA Arena but no corpus\.jsonl"),
        ({"readme.txt": "nothing", "other": ""}, r"no layout that is known.*other, readme\.txt"),
        (
            {f"{name}{part}.json": [] for name in ("m", "h") for part in ("", "_corpus")},
            r"several datasets; give the path of one: h\.json, m\.json",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, files: Files, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(tmp_path, files)


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_dataset(tmp_path / "nowhere")


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
    assert load_dataset(tmp_path / "islands", name="other").name == "other"
    articles = load(tmp_path, LAYOUTS["MultiHop-RAG"][0])
    assert articles.documents[0].metadata == {"title": "Ada wins", "source": "Courant"}


def test_another_split_and_one_of_several_sets_can_be_named(tmp_path: Path) -> None:
    assert [each.id for each in load_dataset(put(tmp_path, BEIR), split="dev").questions] == ["q2"]
    for layout in ("HippoRAG, MuSiQue", "HippoRAG, HotpotQA"):
        put(tmp_path / "sets", LAYOUTS[layout][0])
    assert load_dataset(tmp_path / "sets" / "m.json").name == "m"


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


def test_given_extractions_and_question_entities(tmp_path: Path) -> None:
    files = {
        "openie.jsonl": [{"passage_id": "a", "entities": ["Ada"], "triples": [["Ada", "kept", "light"]]}],
        "entities.jsonl": [{"id": "q1", "entities": ["light", " ", 1901]}, {"id": "other", "entities": []}],
        "bad.jsonl": [{"id": "q1", "entities": {"light": 1}}],
    }
    folder = put(tmp_path, {**PLAIN, **files})
    dataset = load_dataset(folder, extraction="openie.jsonl", query_entities=folder / "entities.jsonl")
    first = dataset.documents[0]
    assert isinstance(first, Chunk)
    assert [entity.name for entity in dataset.extractions[first.ref].entities] == ["Ada", "light"]
    assert dataset.question_entities == {"q1": ("light", "1901")}
    assert dataset.notes[wording.UNKNOWN_ENTITIES] == ("other",)
    assert load_dataset(folder).extractions == {}, "extractions are used only where they are asked for"
    with pytest.raises(ValueError, match=r"bad\.jsonl:1: 'entities' must be a string"):
        load_dataset(folder, query_entities="bad.jsonl")


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
    assert wants_texts(Question("3", "?", ("honey",), parts=(("honey",), ("wax",)))), "ALCE's are texts"
    assert not load_dataset("demo").wants_texts
