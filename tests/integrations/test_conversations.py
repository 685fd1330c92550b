"""Conversations through both frameworks, the API, and the tools of agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")
pytest.importorskip("fastapi")
pytest.importorskip("mcp")

from fastapi.testclient import TestClient
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.memory import ChatMemoryBuffer

import stratagraph as sg
from langchain_stratagraph import PPRRetriever
from llama_index_stratagraph import WalkIndex
from stratagraph.mcp import create_server
from stratagraph.server import Settings, create_app
from stratagraph.testing import FakeEmbedder, ScriptedChatModel

ASKED = "Of what has she died?"
STANDS_ALONE = "Of what has Corrie Lund died?"
TEXTS = [
    "Corrie Lund bred a pear and sold it to the Dunlin Nursery.",
    "Corrie Lund died of a fever in 1884.",
    "Tomas Weir died in a storm in 1901.",
    "The ferry to Ostra leaves at noon.",
]
PAIRS = [("user", "Who bred the pear?"), ("assistant", "Corrie Lund. [1]")]
TURNS = [{"role": role, "text": text} for role, text in PAIRS]
MESSAGES = [SystemMessage("Be kind."), HumanMessage("Who bred the pear?"), AIMessage("Corrie Lund. [1]")]
CHAT = [
    ChatMessage(role="system", content="Be kind."),
    ChatMessage(role="user", content="Who bred the pear?"),
    ChatMessage(role="assistant", content="Corrie Lund. [1]"),
]


class Model(ScriptedChatModel):
    """Rewrites questions and answers with the first passage; `prompts` are those it was asked."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        super().__init__(self.said)

    def said(self, prompt: Any) -> str:
        self.prompts.append(prompt.user)
        if "<conversation" in prompt.user:
            return json.dumps({"question": STANDS_ALONE})
        return json.dumps({"needed": [1]}) if "<texts>" in prompt.user else "A fever. [1]"

    @property
    def last_question(self) -> str:
        return self.prompts[-1].partition("<question>\n")[2].partition("\n</question>")[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sg.build_index(TEXTS, path=tmp_path / "idx", embedder=FakeEmbedder(), progress=False).close()
    return tmp_path / "idx"


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def index(folder: Path, model: Model) -> Iterator[sg.Index]:
    with sg.open_index(folder, embedder=FakeEmbedder(), llm=model) as opened:
        yield opened


@pytest.mark.parametrize("history", [PAIRS, MESSAGES, [("human", PAIRS[0][1]), ("ai", PAIRS[1][1])]])
def test_langchain_takes_its_messages(index: sg.Index, model: Model, history: Any) -> None:
    retriever = PPRRetriever(index=index, k=2, return_trace=True)
    for found in (
        retriever.invoke(ASKED, history=history),
        asyncio.run(retriever.ainvoke(ASKED, history=history)),
    ):
        told = found[0].metadata["stratagraph"]["trace"]["standalone"]
        assert (told["asked"], told["question"], told["by"]) == (ASKED, STANDS_ALONE, "model")
        assert [each.id for each in found] == [each.id for each in retriever.invoke(STANDS_ALONE)]
    assert "Be kind" not in model.prompts[0]
    answered = retriever.as_answer_runnable()
    assert answered.invoke(ASKED, history=history) == "A fever. [1]"
    assert answered.invoke({"question": ASKED, "history": history}) == "A fever. [1]"
    assert "".join(answered.stream({"question": ASKED, "history": history})) == "A fever. [1]"
    assert model.last_question == STANDS_ALONE
    documents = retriever.invoke(ASKED, history=history)[::-1]
    answered.invoke({"question": ASKED, "documents": documents})
    assert model.last_question == STANDS_ALONE
    with pytest.raises(ValueError, match="must be user or assistant, not 'robot'"):
        retriever.invoke(ASKED, history=[("robot", "Who?")])


@pytest.mark.parametrize("history", [PAIRS, CHAT, ChatMemoryBuffer.from_defaults(chat_history=[*CHAT])])
def test_llama_index_takes_its_messages_and_memories(folder: Path, model: Model, history: Any) -> None:
    index = WalkIndex.load(folder, llm=model, embed_model=FakeEmbedder())
    retriever = index.as_retriever(similarity_top_k=2, history=history, return_trace=True)
    for found in (retriever.retrieve(ASKED), asyncio.run(retriever.aretrieve(ASKED))):
        told = found[0].node.metadata["stratagraph"]["trace"]["standalone"]
        assert (told["asked"], told["question"]) == (ASKED, STANDS_ALONE)
        expected = index.as_retriever(similarity_top_k=2).retrieve(STANDS_ALONE)
        assert [each.node_id for each in found] == [each.node_id for each in expected]
    assert "Be kind" not in model.prompts[0]
    assert str(index.as_query_engine(history=history).query(ASKED)) == "A fever. [1]"
    assert model.last_question == STANDS_ALONE


def test_a_memory_is_read_at_each_question(folder: Path, model: Model) -> None:
    index = WalkIndex.load(folder, llm=model, embed_model=FakeEmbedder())
    memory = ChatMemoryBuffer.from_defaults()
    engine = index.as_query_engine(history=memory)
    engine.query("Who bred the pear?")
    assert model.last_question == "Who bred the pear?"
    memory.put_messages(CHAT)
    engine.query(ASKED)
    assert model.last_question == STANDS_ALONE


def test_a_chat_engine_searches_with_its_memory(folder: Path, model: Model) -> None:
    index = WalkIndex.load(folder, llm=model, embed_model=FakeEmbedder())
    memory = ChatMemoryBuffer.from_defaults(chat_history=[*CHAT])
    engine = index.as_chat_engine(
        chat_mode="context", llm=MockLLM(), memory=memory, history=memory, return_trace=True
    )
    for found in (engine.chat(ASKED), asyncio.run(engine.achat(ASKED))):
        told = found.source_nodes[0].node.metadata["stratagraph"]["trace"]["standalone"]
        assert told["question"] == STANDS_ALONE


def test_the_api_takes_turns(folder: Path, model: Model) -> None:
    def opened(progress: Any) -> sg.Index:
        return sg.open_index(folder, model, FakeEmbedder(), progress=progress)

    app = create_app(folder, opened, Settings())
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        asked = {"question": ASKED, "history": TURNS}
        for found in (
            client.post("/api/guided", json=asked).json(),
            client.post("/api/answer", json=asked).json()["found"],
        ):
            assert found["question"] == STANDS_ALONE
            assert found["standalone"] == {
                "question": STANDS_ALONE,
                "asked": ASKED,
                "by": "model",
                "failed": "",
            }
        assert f'"question":"{STANDS_ALONE}"' in client.post("/api/ask", json=asked).text
        assert client.post("/api/answer", json={"question": ASKED}).json()["found"]["standalone"] is None
        for wrong in ([{"role": "robot", "text": "Who?"}], ["Who?"], TURNS * 51, "Who?"):
            reply = client.post("/api/answer", json={"question": ASKED, "history": wrong})
            assert reply.status_code == 422
        assert client.post("/api/search", json=asked).status_code == 422  # a search calls no model


def test_an_agent_tells_what_was_said(folder: Path, model: Model, mcp_client: Any) -> None:
    server = create_server(
        folder, lambda: sg.open_index(folder, embedder=FakeEmbedder(), llm=model), answers=4.0
    )

    async def calls() -> list[Any]:
        async with mcp_client(server) as client:
            arguments = {"question": ASKED, "history": TURNS}
            return [await client.call_tool(name, arguments) for name in ("search", "answer", "search")]

    found, answered, refused = asyncio.run(calls())
    assert json.loads(found.content[0].text)["question"] == STANDS_ALONE
    assert json.loads(answered.content[0].text)["question"] == STANDS_ALONE
    assert json.loads(answered.content[0].text)["text"] == "A fever. [1]"
    assert refused.is_error  # it counts as an answer
