"""The rules as system message and the data as user message, through every real client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langchain_openai")
pytest.importorskip("langchain_ollama")
pytest.importorskip("llama_index.llms.openai_like")
pytest.importorskip("llama_index.llms.ollama")

from stratagraph import _sync
from stratagraph.models.gate import ModelGate
from stratagraph.models.structured import plain_text
from stratagraph.models.task import Prompt, Task
from tests.clients.clients import CLIENTS
from tests.clients.server import ModelServer

PROMPT = Prompt("p", 'Be {brief}.\n\n{{role "user"}}\n<text>\n{{text}}\n</text>\n')
TASK = Task("t", PROMPT, plain_text, lambda values: "")
TEXT = {"text": "Ada {system} wrote."}
RULES, DATA = "Be {brief}.", "<text>\nAda {system} wrote.\n</text>"


def sent(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Role and text of each message of a request; of a completion its prompt."""
    if "prompt" in body:
        return [("text", body["prompt"].strip())]
    return [(each["role"], each["content"].strip()) for each in body["messages"]]


async def streamed(gate: ModelGate) -> str:
    *pieces, whole = [piece async for piece in gate.stream(PROMPT, TEXT, stage="answer")]
    assert "".join(pieces) == whole
    return whole


@pytest.mark.parametrize("name", CLIENTS)
def test_two_messages(name: str) -> None:
    with ModelServer(write=lambda prompt: "fine") as server:
        _sync.run(ModelGate(CLIENTS[name](server), None).call(TASK, TEXT, item="one"))
        asyncio.run(ModelGate(CLIENTS[name](server), None).call(TASK, TEXT, item="one"))
        _sync.run(streamed(ModelGate(CLIENTS[name](server), None)))
        asyncio.run(streamed(ModelGate(CLIENTS[name](server), None)))
        expected = [("system", RULES), ("user", DATA)]
        if name == "OpenAILike text":
            expected = [("text", f"{RULES}\n\n{DATA}")]
        assert [sent(body) for body in server.bodies] == [expected] * 4


@pytest.mark.parametrize("name", [name for name in CLIENTS if name != "OpenAILike text"])
def test_a_model_without_system_messages_is_told_all_as_the_user(name: str) -> None:
    with ModelServer(write=lambda prompt: "fine", system=False) as server:
        gate = ModelGate(CLIENTS[name](server), None)
        for text in ("one", "two"):
            assert _sync.run(gate.call(TASK, {"text": text}, item=text)) == "fine"
        assert [len(sent(body)) for body in server.bodies] == [2, 1, 1]
        assert sent(server.bodies[1]) == [("user", f"{RULES}\n\n<text>\none\n</text>")]
        another = ModelGate(CLIENTS[name](server), None)
        assert _sync.run(streamed(another)).strip() == "fine"
        assert another.ledger.total.calls == 1
