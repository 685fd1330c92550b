"""`Retrieval.unknown`: the words of a question that no passage has which the filter admits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import stratagraph as sg
from stratagraph.cli.main import main
from stratagraph.testing import FakeEmbedder, ScriptedChatModel

DOCUMENTS = [
    sg.Document("a", "Quinn Slack baked a cake for the mayor of Bremen.", {"tenant": "a"}),
    sg.Document("b", "The bread of Zorblat Corp is sold in Bremen.", {"tenant": "b"}),
    sg.Document("c", "The ferries to Ostra leave at noon.", {"tenant": "b"}),
]


@pytest.fixture(scope="module")
def index() -> Iterator[sg.Index]:
    with sg.build_index(DOCUMENTS, embedder=FakeEmbedder(), progress=False) as index:
        yield index


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sg.Index]:
    path = tmp_path_factory.mktemp("shards") / "s"
    with sg.build_shards(DOCUMENTS, path=path, by="tenant", embedder=FakeEmbedder(), progress=False) as index:
        yield index


@pytest.mark.parametrize(
    ("question", "where", "unknown"),
    [
        ("How do I bake sourdough bread?", None, ("sourdough",)),  # "bake" is the stem of "baked"
        ("When does the ferry to Ostra leave?", None, ()),
        ("How do I bake sourdough bread?", {"tenant": "a"}, ("sourdough", "bread")),
        ("How do I bake sourdough bread?", {"tenant": "b"}, ("bake", "sourdough")),
        ("Who is in Bremen?", lambda metadata: metadata["tenant"] == "b", ()),
        ("Who is in Bremen?", {"tenant": "none"}, ("bremen",)),
        ("Wer backte den Kuchen in Bremen?", None, ("backte", "kuchen")),
        ("Qui a construit le pont ?", None, ("construit", "pont")),
        ("¿Quién construyó el puente?", None, ("construyó", "puente")),
        ("Why doesn't it?", None, ()),
        ("パンの作り方は", None, ()),
        ("빵을 어떻게 굽나요", None, ()),
        ("?!", None, ()),
    ],
)
def test_words_that_no_admitted_passage_has(
    index: sg.Index, shards: sg.Index, question: str, where: Any, unknown: tuple[str, ...]
) -> None:
    for searched in (index, shards):
        found = searched.retrieve(question, where=where)
        assert found.unknown == unknown
        assert found.filtered == (where is not None)


def test_they_stand_first_where_a_third_or_more_are_unknown(index: sg.Index) -> None:
    text = index.answer("How do I bake sourdough bread?").text
    assert text.startswith("No passage of the index has: sourdough\n\n")
    text = index.answer("Is the bread of Zorblat Corp sold in Bremen cheaply?").text
    assert text.endswith("\n\nNo passage of the index has: cheaply")
    text = index.answer("Is bread sold in Bremen?", where={"tenant": "a"}).text
    assert text.startswith("No passage that the filter admits has: bread, sold\n\n")
    assert "No passage" not in index.answer("Is bread sold in Bremen?").text
    assert "".join(index.stream("How do I bake sourdough bread?")).startswith("No passage of the index has")


def test_an_answer_of_a_model_is_its_own_and_names_them_beside(index: sg.Index) -> None:
    model = ScriptedChatModel(lambda prompt: "Nobody knows. [1]")
    with sg.open_index(index.path, embedder=FakeEmbedder(), llm=model) as opened:
        answer = opened.answer("How do I bake sourdough bread?", guided=False)
    assert answer.text == "Nobody knows. [1]"
    assert answer.retrieval.unknown == ("sourdough",)
    assert answer.retrieval.note == "No passage of the index has: sourdough"


def test_the_command_line_names_them(tmp_path: Path) -> None:
    sg.build_index(DOCUMENTS, path=tmp_path / "idx", embedder="hashing", progress=False).close()
    asked = ["query", str(tmp_path / "idx"), "How do I bake sourdough?", "--embedder", "hashing"]
    for options in (["--no-answer"], []):
        shown = CliRunner().invoke(main, [*asked, *options]).output
        assert shown.count("No passage of the index has: sourdough") == 1
    filtered = [*asked, "--no-answer", "--where", '{"tenant": "b"}']
    assert (
        "No passage that the filter admits has: bake, sourdough" in CliRunner().invoke(main, filtered).output
    )


def test_the_api_and_the_tools_name_them(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from stratagraph.server import Settings, create_app

    sg.build_index(DOCUMENTS, path=tmp_path / "idx", embedder="hashing", progress=False).close()
    path = tmp_path / "idx"
    app = create_app(path, lambda progress: sg.open_index(path, embedder="hashing"), Settings())
    with TestClient(app, base_url="http://127.0.0.1") as client:
        asked = {"question": "How do I bake sourdough?", "where": {"tenant": "b"}}
        found = client.post("/api/search", json=asked).json()
        assert found["unknown"] == ["bake", "sourdough"]
        assert found["note"] == "No passage that the filter admits has: bake, sourdough"
        assert client.post("/api/answer", json=asked).json()["answer"]["text"].startswith(found["note"])


def test_both_frameworks_name_them(index: sg.Index) -> None:
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    from langchain_stratagraph import PPRRetriever
    from llama_index_stratagraph import WalkIndex

    question, note = "How do I bake sourdough bread?", "No passage of the index has: sourdough"
    retriever = PPRRetriever(index=index, return_trace=True)
    document = retriever.invoke(question)[0]
    assert document.metadata["stratagraph"]["trace"]["unknown"]["words"] == ["sourdough"]
    answering = retriever.as_answer_runnable()
    assert answering.invoke(question).startswith(note)
    assert answering.invoke({"question": question, "documents": [document]}).startswith(note)
    assert answering.invoke({"question": "Who else?", "documents": [document]}).count(note) == 0
    opened = WalkIndex.load(index.path, embed_model=FakeEmbedder(), llm=False)
    assert str(opened.as_query_engine().query(question)).startswith(note)
    opened.close()
