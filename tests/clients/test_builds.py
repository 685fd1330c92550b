"""Whole builds and answers with real clients, through the adapters and by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_openai")
pytest.importorskip("llama_index.llms.openai")

import stratagraph as sg
from stratagraph.errors import ModelError, TooManyFailures
from stratagraph.models.named import as_chat_model
from stratagraph.testing import FakeEmbedder
from tests.clients.clients import CLIENTS
from tests.clients.server import ModelServer
from tests.clients.writer import written

TEXTS = [
    f"{name} of {town} met Charles Babbage in 18{year}. They spoke of the Analytical Engine in {town}."
    for name, town, year in (
        ("Ada", "London", 33),
        ("Mary", "Bath", 34),
        ("Luigi", "Turin", 40),
        ("Jo", "Ely", 41),
    )
]
SMALL = {  # the model writes texts of so few documents too
    "lshtree": {"min_level": 2, "min_cluster": 2, "max_cluster": 3},
    "archrag": {"summary_tokens": 10},
}
DOCUMENTS = [sg.Document(f"doc-{number}", text) for number, text in enumerate(TEXTS)]


@pytest.mark.parametrize(
    ("name", "method"),
    [("ChatOpenAI", "archrag"), ("LlamaIndex OpenAI", "lshtree"), ("ollama by name", "archrag")],
)
def test_a_build_where_every_third_answer_is_bad(name: str, method: str, tmp_path: Path) -> None:
    faults = ("fenced", "truncated", "500")
    with ModelServer(lambda number: faults[number // 3 % 3] if number % 3 == 2 else "ok") as server:

        def build() -> sg.Index:
            llm, embedder = CLIENTS[name](server), FakeEmbedder()
            return sg.build_index(DOCUMENTS, method, tmp_path / "i", llm, embedder, SMALL, progress=False)

        with build() as index:
            report = index.last_report
            assert report is not None
            assert not report.failures
            assert report.usage.calls >= 2
            assert report.usage.input_tokens == pytest.approx(server.input_tokens, rel=0.05)
            assert index.answer("Who met Babbage in Turin?").text
        spent = server.requests
        build().close()
        assert server.requests <= spent + 1  # cut-off answers alone are asked for again


def test_an_answer_degrades_where_the_model_writes_no_points(tmp_path: Path) -> None:
    def write(prompt: str) -> str:
        return "I find them all rather good." if "<texts" in prompt else written(prompt)

    with ModelServer(write=write) as server:
        llm = CLIENTS["ChatOpenAI"](server)
        with sg.build_index(
            DOCUMENTS, method="archrag", llm=llm, embedder=FakeEmbedder(), path=tmp_path / "i", progress=False
        ) as index:
            assert "It is said" in index.answer("Who met Babbage in Turin?").text


def test_what_failed_is_named_by_its_document(tmp_path: Path) -> None:
    """On the command line, in what ends a build, and in an answer's log: nobody knows the ids of chunks."""
    from click.testing import CliRunner

    from stratagraph.cli.main import main

    def refusing(prompt: str) -> str:
        return "" if "Turin" in prompt else written(prompt)

    for number, text in enumerate(TEXTS):
        (tmp_path / f"{number}.txt").write_text(text, "utf-8")
    with ModelServer(write=refusing) as server:
        common = ["--method", "archrag", "--llm", f"openai:m@{server.openai}", "--embedder", "hashing"]
        said = CliRunner().invoke(main, ["build", str(tmp_path), "-o", str(tmp_path / "i"), *common])
        assert said.exit_code == 0
        assert "failed: extract: 2.txt: " in said.output
    with ModelServer("content_filter") as server:
        llm = as_chat_model(f"openai:other@{server.openai}")
        with pytest.raises(TooManyFailures, match=r"extract: doc-\d, doc-\d, doc-\d: "):
            sg.build_index(DOCUMENTS, "archrag", llm=llm, embedder="hashing", progress=False)


def test_an_answer_without_its_model_says_which_documents_it_did_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ModelServer() as server:
        llm = as_chat_model(f"openai:m@{server.openai}")
        with sg.build_index(
            DOCUMENTS, "archrag", tmp_path / "i", llm=llm, embedder=FakeEmbedder(), progress=False
        ) as index:
            server.mode = "context"
            with pytest.warns(RuntimeWarning, match="a smaller max_tokens of the answer"):
                assert index.answer("Who met Babbage in Turin?").extractive
    assert "filter: a unit failed (doc-0, doc-1, " in caplog.text


def test_a_model_that_was_not_needed_is_said_not_to_have_been_asked() -> None:
    """Otherwise a wrong address is found out by the first question only."""
    with ModelServer() as server:
        llm = as_chat_model(f"openai:m@{server.openai}")
        for method, asked in (("lshtree", False), ("archrag", True)):
            with sg.build_index(DOCUMENTS, method, llm=llm, embedder=FakeEmbedder(), progress=False) as index:
                assert index.last_report is not None
                notes = index.last_report.notes
                assert notes.get("passages, too few for a summary; the model was not asked", 0) == (
                    0 if asked else 4
                )
                assert bool(server.requests) is asked


def test_an_address_without_its_path_is_told_of() -> None:
    with ModelServer() as server:
        for address, said in ((server.ollama, True), (server.openai, False)):
            server.mode = "404"
            with pytest.raises(ModelError, match="refuses every call") as caught:
                sg.build_index(DOCUMENTS, "archrag", llm=f"openai:m@{address}", progress=False)
            assert ("mostly ends in /v1" in str(caught.value)) is said


def test_a_server_that_is_gone_costs_an_answer_little_more_than_one_call_costs(tmp_path: Path) -> None:
    with ModelServer() as server:
        llm = as_chat_model(f"openai:m@{server.openai}")
        config = {"limits": {"retries": 2}}
        models: Any = {"llm": llm, "embedder": FakeEmbedder(), "config": config, "progress": False}
        with sg.build_index(DOCUMENTS, "archrag", tmp_path / "i", **models) as index:
            server.reset()
            server.mode = "503"
            with pytest.warns(RuntimeWarning, match="the model could not answer"):
                assert index.answer("Who met Babbage in Turin?").extractive
            # Calls side by side may meet one short disturbance: one is repeated before it is the server.
            assert server.requests <= 2 * (1 + 2)


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_an_embedder_that_is_not_there_is_named_at_once(provider: str) -> None:
    with pytest.raises(ModelError, match=f"{provider[0]}-e.*no server answers there.*Start it"):
        sg.build_index(DOCUMENTS, embedder=f"{provider}:{provider[0]}-e@http://127.0.0.1:9", progress=False)
