"""Real embedders against the server: event loops that come and go, and a server that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain_openai")
pytest.importorskip("langchain_ollama")
pytest.importorskip("llama_index.embeddings.openai")

import stratagraph as sg
from stratagraph.errors import EmbedderError
from stratagraph.models.named import as_embedder
from stratagraph.testing import FakeEmbedder
from tests.clients.server import ModelServer


def langchain_openai(server: ModelServer) -> Any:
    from langchain_openai import OpenAIEmbeddings

    return OpenAIEmbeddings(
        model="e", base_url=server.openai, api_key="k", check_embedding_ctx_length=False, max_retries=7
    )


def langchain_ollama(server: ModelServer) -> Any:
    from langchain_ollama import OllamaEmbeddings

    return OllamaEmbeddings(model="e", base_url=server.ollama)


def llama_openai(server: ModelServer) -> Any:
    from llama_index.embeddings.openai import OpenAIEmbedding

    return OpenAIEmbedding(api_base=server.openai, api_key="k", max_retries=7)


EMBEDDERS: dict[str, Callable[[ModelServer], Any]] = {
    "LangChain OpenAI": langchain_openai,
    "LangChain Ollama": langchain_ollama,
    "LlamaIndex OpenAI": llama_openai,
    "openai by name": lambda server: as_embedder(f"openai:e@{server.openai}"),
    "ollama by name": lambda server: as_embedder(f"ollama:e@{server.ollama}"),
}
LIMITS = {"limits": {"timeout": 3.0, "retries": 0, "grace": 0.1}}


@pytest.mark.parametrize("name", EMBEDDERS)
def test_questions_of_loops_that_have_ended_keep_none_waiting(name: str) -> None:
    """Connections of an ended loop used to hold up the next question for up to 14 s."""
    with ModelServer() as server:
        embedder = EMBEDDERS[name](server)
        with sg.build_index(["Ada met Jo."], embedder=embedder, config=LIMITS, progress=False) as index:
            server.reset()

            async def eight(first: int) -> None:
                await asyncio.gather(*(index.aretrieve(f"Who met {first + n}?") for n in range(8)))

            for first in (0, 10, 20):
                asyncio.run(eight(first))
                assert index.retrieve(f"Who met {first + 9}?").hits
            assert sum(server.embedded) == len(server.embedded) == 27


@pytest.mark.parametrize("name", EMBEDDERS)
def test_an_embedder_that_fails_is_asked_no_more_than_once_and_its_retries(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def broken(texts: list[str]) -> list[list[float]]:
        nonlocal asked
        asked += 1
        raise ConnectionAbortedError

    with ModelServer() as server:
        monkeypatch.setattr(server, "embed", broken)
        config = {"limits": {"retries": 1}}
        with pytest.raises(EmbedderError, match="the embedder failed after 2 attempts"):
            sg.build_index(["Ada met Jo."], embedder=EMBEDDERS[name](server), config=config, progress=False)
        assert asked == 2


@pytest.mark.parametrize("status", [400, 500, 0])
@pytest.mark.parametrize("name", EMBEDDERS)
def test_a_text_that_is_refused_or_gets_nan_is_listed_and_the_rest_is_built(name: str, status: int) -> None:
    bad = "This text is not a number." if status == 0 else "This text is far too long."

    def documents(name: str, count: int) -> list[sg.Document]:
        return [sg.Document(f"{name}{n}", f"The {name} number {n} sails.") for n in range(count)]

    def faulty(report: sg.BuildReport) -> set[str]:
        return {document for failure in report.failures for document in failure.documents}

    with ModelServer() as server:
        server.embed_fault = lambda texts: status if any(bad in text for text in texts) else 0
        embedder = EMBEDDERS[name](server)
        given = [sg.Document("bad", bad), *documents("ferry", 9)]
        with sg.build_index(given, embedder=embedder, config=LIMITS, progress=False) as index:
            assert faulty(index.last_report) == {"bad"}
            found = index.retrieve("Which number sails?", 9, rank="dense")
            assert {each for hit in found for each in hit.documents} == {f"ferry{n}" for n in range(9)}
            more = [*documents("barge", 5), sg.Document("worse", f"{bad} Again.")]
            assert faulty(asyncio.run(index.ainsert(more))) == {"worse"}
            assert index.verify() == []
        with sg.build_index(given, embedder=FakeEmbedder(8), config=LIMITS, progress=False) as index:
            assert faulty(index.reembed(embedder)) == {"bad"}
