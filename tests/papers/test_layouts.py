"""The papers' data in the layouts in which they are published: what is read, and what is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cases import Files, put
from tests.papers import bench_questions

from stratagraph.eval import Dataset

layouts = pytest.importorskip("papers.layouts")
Asked = layouts.Asked

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


def load(folder: Path, files: Files) -> Dataset:
    """The data set in some files, named by the only one, by `x.json`, or by the folder."""
    put(folder, files)
    name = next(iter(files)) if len(files) == 1 else "x.json" if "x.json" in files else ""
    return layouts.read(str(folder / name))


OTHER_HOTPOT = HOTPOT | {"_id": "h2", "context": [["Light", ["Another light."]], ["Ada", ["A keeper."]]]}
LAYOUTS: dict[str, tuple[Files, list[str], tuple[Asked, ...]]] = {
    "HotpotQA and 2Wiki": (
        {"hotpot_dev.json": [HOTPOT, OTHER_HOTPOT]},
        ["Light", "Ada", "Bell", "Light (2)"],
        (
            Asked("h1", "Who kept the light?", ("Ada",), ("Light", "Ada"), "bridge"),
            Asked("h2", "Who kept the light?", ("Ada",), ("Light (2)", "Ada"), "bridge"),
        ),
    ),
    "MuSiQue": (
        {"musique_dev.jsonl": [MUSIQUE]},
        ["Bell", "Bell (2)"],
        (Asked("2hop__1_2", "When did it ring?", ("noon", "12"), ("Bell",), "2hop"),),
    ),
    "UltraDomain: a book is one document": (
        {"cs.jsonl": [ULTRA, {key: ULTRA[key] for key in ("input", "answers", "context")} | {"_id": "3"}]},
        ["b1"],
        (
            Asked("q00000", "What is it about?", ("Light.",), ("b1",), "cs"),
            Asked("3", "What is it about?", ("Light.",), ("b1",)),
        ),
    ),
    "ALCE": (
        {"asqa.json": [ALCE]},
        ["Orrin"],
        (
            Asked(
                "a1", "Which islands?", ("Orrin and Sarn are islands.",), parts=(("Orrin", "Orin"), ("Sarn",))
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
            Asked("q00000", "Who won?", ("Ada",), ("https://x/1", "https://x/2"), "inference"),
            Asked("q00001", "Else?", ("Insufficient.",), (), "null"),
        ),
    ),
    "NarrativeQA": (
        STORIES | {"tmp/d1.content": "Ada kept the light."},
        ["d1"],
        (Asked("q00000", "Who?", ("Ada", "She"), ("d1",)),),
    ),
    "RAG-QA Arena": (
        ARENA | {"corpus.jsonl": [{"id": 7, "text": "So it is."}]},
        ["7"],
        (Asked("science-3", "Why?", ("Because.",), ("7", "8"), "science"),),
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
        (Asked("h1", "Who kept the light?", ("Ada",), ("A (3)",), "bridge"),),
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
        (Asked("2hop__1_2", "When did it ring?", ("noon", "12"), ("untitled (2)",), "2hop"),),
    ),
    "half an emoji": (
        {"x.json": json.dumps([HOTPOT]).replace("Who kept", "Who \\ud83d kept")},
        ["Light", "Ada", "Bell"],
        (Asked("h1", "Who ? kept the light?", ("Ada",), ("Light", "Ada"), "bridge"),),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_documents_and_questions_of_each_layout(tmp_path: Path, layout: str) -> None:
    files, documents, questions = LAYOUTS[layout]
    dataset = load(tmp_path, files)
    assert [item.id for item in dataset.documents] == documents
    assert dataset.questions == questions


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"x.json": [{"q": 1}]}, r"x\.json' is in no layout that is known"),
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
        (
            {"corpus.json": [], "MultiHopRAG.json": [{"query": "?", "evidence_list": ["T"]}]},
            r"MultiHopRAG\.json\[0\]: 'evidence_list' must be a list of objects",
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
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, files: Files, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(tmp_path, files)


def test_graphrag_bench_has_types_sources_and_evidence(tmp_path: Path) -> None:
    path = bench_questions.written(tmp_path)
    dataset = layouts.read(str(path))
    assert dataset.questions == layouts.read(str(tmp_path)).questions, "the folder, where it has one set"
    (document,) = dataset.documents
    assert (document.id, document.text) == ("Islands", bench_questions.CORPUS["context"])
    first, second, *_ = dataset.questions
    assert (first.id, first.type, first.source) == ("Islands-1", "Fact Retrieval", "Islands")
    assert (first.answers, first.supporting_ids) == (("Orrin sells honey to Sarn.",), ()), "one text: no gold"
    assert (first.evidence, second.evidence) == (
        ("Orrin sells honey to Sarn.",),
        "Ada Loom keeps the bees of Orrin",
    )
    with pytest.raises(ValueError, match=r"islands.json' has no corpus 'Lakes'"):
        layouts.read(str(path / "Lakes"))
    bench_questions.written(tmp_path, name="hills")
    with pytest.raises(ValueError, match=r"holds 2 sets .*hills_questions.json, Questions/islands_questions"):
        layouts.read(str(tmp_path))
    (tmp_path / "Questions" / "hills_questions.json").unlink()
    (tmp_path / "Corpus" / "islands.json").unlink()
    with pytest.raises(ValueError, match=r"islands.json', the corpus of .* is not there"):
        layouts.read(str(tmp_path))
