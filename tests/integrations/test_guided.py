"""Guided searches give the same hits through both frameworks, the API, and the tools of agents."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")
pytest.importorskip("fastapi")
pytest.importorskip("mcp")

from fastapi.testclient import TestClient

import stratagraph as sg
from langchain_stratagraph import PPRRetriever
from llama_index_stratagraph import WalkIndex
from stratagraph.mcp import create_server
from stratagraph.server import Settings, create_app
from stratagraph.testing import FakeEmbedder, ScriptedChatModel

QUESTION = "What was burned first when the lamp on Crake failed in February 1895?"
NEEDED = "amberbell-catalogue-1880"
TITLE = "Corrie's Nursery: The Amberbell Pear"


def reply(prompt: Any) -> str:
    """Chooses a passage that is not the first, and cites the only one that an answer is shown."""
    texts = re.search(r"<texts[^>]*>\n(.*)\n</texts", prompt.user, re.DOTALL)
    if texts is None:
        return "Her mattress. [1]"
    shown = re.split(r"\n\n(?=\[\d+\] )", texts[1])
    return json.dumps({"kind": "facts", "needed": [n for n, text in enumerate(shown, 1) if TITLE in text]})


@pytest.fixture
def index(demo_folder: Path) -> Iterator[sg.Index]:
    with sg.open_index(demo_folder, embedder=FakeEmbedder(), llm=ScriptedChatModel(reply)) as opened:
        yield opened


@pytest.fixture
def expected(index: sg.Index) -> list[str]:
    plain = [hit.documents[0] for hit in index.retrieve(QUESTION, 20)]
    assert NEEDED in plain[1:]
    return [NEEDED, *(name for name in plain if name != NEEDED)][:4]


def test_langchain(index: sg.Index, expected: list[str]) -> None:
    retriever = PPRRetriever(index=index, k=4)
    field = PPRRetriever(index=index, k=4, guided=True)
    for found in (retriever.invoke(QUESTION, guided=True), field.invoke(QUESTION)):
        assert [json.loads(each.metadata["stratagraph_documents"])[0] for each in found] == expected
    assert json.loads(retriever.invoke(QUESTION)[0].metadata["stratagraph_documents"]) != [NEEDED]
    one = PPRRetriever(index=index, k=4, guided=True, guided_steps=1)
    assert [each.id for each in one.invoke(QUESTION)] == [each.id for each in field.invoke(QUESTION)]
    assert len(one.invoke(QUESTION, guided=False)) == 4
    assert one.request()["guided_steps"] == 1
    assert "guided_steps" not in one.request(guided=False)
    overview = retriever.invoke(QUESTION, guided="overview")
    assert json.loads(overview[0].metadata["stratagraph_documents"]) != [NEEDED]
    answered = retriever.as_answer_runnable(return_sources=True).invoke(QUESTION)
    assert [json.loads(each.metadata["stratagraph_documents"]) for each in answered["sources"]] == [[NEEDED]]
    plain = retriever.as_answer_runnable(return_sources=True).invoke(QUESTION, guided=False)
    assert len(plain["sources"]) > 1


def test_llama_index(demo_folder: Path, expected: list[str]) -> None:
    index = WalkIndex.load(demo_folder, llm=ScriptedChatModel(reply), embed_model=FakeEmbedder())
    found = index.as_retriever(similarity_top_k=4, guided=True).retrieve(QUESTION)
    assert [json.loads(each.metadata["stratagraph_documents"])[0] for each in found] == expected
    answered = index.as_query_engine().query(QUESTION)
    assert [json.loads(each.metadata["stratagraph_documents"]) for each in answered.source_nodes] == [
        [NEEDED]
    ]
    plain = index.as_query_engine(guided=False).query(QUESTION)
    assert len(plain.source_nodes) > 1


def test_the_api_counts_a_guided_search_as_an_answer(demo_folder: Path, expected: list[str]) -> None:
    def opened(progress: Any) -> sg.Index:
        return sg.open_index(demo_folder, ScriptedChatModel(reply), FakeEmbedder(), progress=progress)

    app = create_app(demo_folder, opened, Settings(answers=10))
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        found = client.post("/api/guided", json={"question": QUESTION, "k": 4}).json()
        assert [hit["documents"][0] for hit in found["hits"]] == expected
        assert found["guidance"]["kind"] == "choice"
        answered = client.post("/api/answer", json={"question": QUESTION}).json()
        assert [hit["documents"] for hit in answered["found"]["hits"]] == [[NEEDED]]
        forced = client.post("/api/guided", json={"question": QUESTION, "guided": "overview"}).json()
        assert forced["guidance"]["kind"] == "none"  # the model wrote no query
        steps = client.post("/api/guided", json={"question": QUESTION, "guided_steps": 6})
        assert steps.status_code == 422
        streamed = client.post("/api/ask", json={"question": QUESTION, "guided": False}).text
        assert '"guidance":null' in streamed
        assert client.post("/api/guided", json={"question": QUESTION}).status_code == 429
        assert client.post("/api/search", json={"question": QUESTION}).status_code == 200


def test_an_agent_is_told_of_the_limit(demo_folder: Path, expected: list[str], mcp_client: Any) -> None:
    server = create_server(
        demo_folder, lambda: sg.open_index(demo_folder, ScriptedChatModel(reply), FakeEmbedder()), answers=2.0
    )

    async def calls() -> tuple[Any, Any]:
        async with mcp_client(server) as client:
            arguments = {"question": QUESTION, "k": 4, "guided": True}
            return await client.call_tool("search", arguments), await client.call_tool("search", arguments)

    first, second = asyncio.run(calls())
    hits = json.loads(first.content[0].text)["hits"]
    assert [hit["documents"][0] for hit in hits] == expected
    assert second.is_error
    assert "answers a minute" in second.content[0].text


def test_an_agent_says_how_the_search_is_guided(demo_folder: Path, mcp_client: Any) -> None:
    def overview(prompt: Any) -> str:
        if "<texts" not in prompt.user:
            return "Much. [1]"
        return json.dumps({"kind": "facts", "needed": [1], "queries": ["honey", "the blight"]})

    server = create_server(
        demo_folder,
        lambda: sg.open_index(demo_folder, ScriptedChatModel(overview), FakeEmbedder()),
        answers=60,
    )

    async def calls() -> list[Any]:
        async with mcp_client(server) as client:
            return [
                await client.call_tool(name, {"question": "What is told of bees?", **arguments})
                for name, arguments in [
                    ("search", {"guided": "overview"}),
                    ("answer", {"guided": "choice", "guided_steps": 1}),
                    ("answer", {"guided": False}),
                    ("search", {"guided_steps": 2}),
                    ("answer", {"guided": "overview", "guided_steps": 1}),
                ]
            ]

    found, one, plain, wrong, alone = asyncio.run(calls())
    why = [reason for hit in json.loads(found.content[0].text)["hits"] for reason in hit["why"]]
    assert {"found for: honey", "found for: the blight"} <= {*why}
    assert json.loads(one.content[0].text)["text"] == json.loads(plain.content[0].text)["text"] == "Much. [1]"
    assert "guided_steps is for guided=True" in wrong.content[0].text
    assert "guided_steps must be at least 2, not 1" in alone.content[0].text
