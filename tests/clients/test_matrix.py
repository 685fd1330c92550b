"""Real clients against a server that misbehaves: nothing lost that can be read, no call wasted."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

pytest.importorskip("langchain_openai")
pytest.importorskip("langchain_ollama")
pytest.importorskip("llama_index.llms.openai_like")
pytest.importorskip("llama_index.llms.ollama")

from stratagraph import _sync
from stratagraph.errors import CallFailed, ModelError, ParseFailed, StratagraphError
from stratagraph.ingest.extraction.by_model import EXTRACT
from stratagraph.models.budget import Limits
from stratagraph.models.gate import CallItem, ModelGate
from stratagraph.models.structured import plain_text
from stratagraph.models.task import Prompt, Task
from stratagraph.testing import MemoryCalls
from tests.clients.clients import CLIENTS
from tests.clients.server import ModelServer, first
from tests.models.tasks import TEXT, all_free

PASSAGE = "Ada Lovelace met Charles Babbage in London. They spoke of the Analytical Engine."
RETRIES = 2
APIS: dict[str, Callable[[Coroutine[Any, Any, Any]], Any]] = {"async": asyncio.run, "sync": _sync.run}
READ, UNREADABLE, UNIT, STOP = "read", ParseFailed, CallFailed, ModelError

# What becomes of one unit, requests to the server, answers kept.
OUTCOMES = {
    "ok": (READ, 1, 1),
    "fenced": (READ, 1, 1),
    "prose": (READ, 1, 1),
    "nul": (READ, 1, 1),
    "truncated": (READ, 2, 0),
    "wrong_key": (UNREADABLE, 2, 0),
    "refusal": (UNREADABLE, 2, 0),
    "empty": (UNREADABLE, 2, 0),
    "filtered": (UNIT, 1, 0),
    "content_filter": (UNIT, 1, 0),
    "context": (UNIT, 1, 0),
    "context_vllm": (UNIT, 1, 0),
    "context_ollama": (UNIT, 1, 0),
    "context_runner": (UNIT, 1, 0),
    "context_minute": (UNIT, 1, 0),
    "429:0.02": (UNIT, 1 + RETRIES, 0),
    "429:120": (UNIT, 1, 0),
    "quota": (STOP, 1, 0),
    "401": (STOP, 1, 0),
    "404": (STOP, 1, 0),
    "500": (UNIT, 1 + RETRIES, 0),
    "503": (UNIT, 1 + RETRIES, 0),
    "html": (UNIT, 1 + RETRIES, 0),
    "drop": (UNIT, 1 + RETRIES, 0),
}


async def pause(seconds: float) -> None:
    await asyncio.sleep(min(seconds, 0.005))


def gate(name: str, server: ModelServer, **settings: Any) -> ModelGate:
    settings = {
        "limits": Limits(retries=RETRIES, timeout=20),
        "cache": MemoryCalls(),
        "sleep": pause,
        **settings,
    }
    return ModelGate(CLIENTS[name](server), None, **settings)


async def extract(through: ModelGate, passage: str = PASSAGE) -> Any:
    types = {"types": "person", "relation_types": "", "relation_form": ""}
    return await through.call(EXTRACT, {"passage": passage, **types}, item="one")


WRITTEN = ("fenced", "prose", "nul", "wrong_key", "empty")  # what the model writes is the same to all clients


def cases() -> list[Any]:
    """Each client and mode, by the synchronous or the asynchronous API in turn; the first ones by both."""
    found = []
    for place, (mode, name) in enumerate(itertools.product(OUTCOMES, CLIENTS)):
        if mode in WRITTEN and name not in ("ChatOpenAI", "LlamaIndex Ollama", "openai by name"):
            continue
        for api in APIS if mode in ("ok", "truncated", "drop") else [list(APIS)[(place + place // 8) % 2]]:
            found.append(pytest.param(name, mode, api, id=f"{name}-{mode}-{api}"))
    return found


@pytest.mark.parametrize(("name", "mode", "api"), cases())
def test_one_unit(name: str, mode: str, api: str) -> None:
    outcome, requests, kept = OUTCOMES[mode]
    with ModelServer(mode) as server:
        cache = MemoryCalls()
        through = gate(name, server, cache=cache)
        if outcome is READ:
            assert APIS[api](extract(through)).entities
        else:
            with pytest.raises(StratagraphError) as caught:
                APIS[api](extract(through))
            assert type(caught.value) is outcome
            assert "model" in str(caught.value) or "answer" in str(caught.value)
            assert ("smaller chunks" in str(caught.value)) is mode.startswith("context")
        assert (server.requests, len(cache.entries)) == (requests, kept)
        used = through.ledger.total
        if mode not in ("html", "drop"):  # nobody can know what was counted there
            assert used.output_tokens == pytest.approx(server.output_tokens, abs=40)
            assert used.input_tokens == pytest.approx(server.input_tokens, rel=0.15)
    assert all_free(through)


@pytest.mark.parametrize("name", CLIENTS)
def test_what_passes_is_tried_again(name: str) -> None:
    for fault in ("500", "429:0.02", "wrong_key"):
        with ModelServer(first(1, fault)) as server:
            through = gate(name, server)
            assert _sync.run(extract(through)).entities
            assert server.requests == 2


@pytest.mark.parametrize("name", CLIENTS)
def test_a_filtered_text_does_not_turn_the_schema_off(name: str) -> None:
    with ModelServer(first(1, "content_filter")) as server:
        through = gate(name, server)
        with pytest.raises(CallFailed, match="content management policy"):
            asyncio.run(extract(through))
        asyncio.run(extract(through, PASSAGE + " It was late."))
        before, after = server.bodies
        assert [key for key in ("response_format", "format", "tools") if after.get(key)] == [
            key for key in ("response_format", "format", "tools") if before.get(key)
        ]


@pytest.mark.parametrize("name", ["ChatOpenAI", "LlamaIndex OpenAI", "openai by name"])
def test_a_server_without_schemas_is_asked_for_text(name: str) -> None:
    with ModelServer(supports=()) as server:
        through = gate(name, server)
        for number in range(3):
            assert _sync.run(extract(through, f"{PASSAGE} {number}.")).entities
        assert ["response_format" in body for body in server.bodies] == [True, False, False, False]


@pytest.mark.parametrize("name", CLIENTS)
def test_requests_are_cold_and_say_only_what_models_should_read(name: str) -> None:
    with ModelServer() as server:
        _sync.run(extract(gate(name, server)))
        (body,) = server.bodies
    assert body.get("temperature", body.get("options", {}).get("temperature")) in (0, 0.1)
    sent = str(body.get("response_format") or body.get("format") or "")
    assert "minLength" not in sent
    assert "default" not in sent
    assert "tool_choice" not in body


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", CLIENTS)
def test_ten_calls_in_flight_and_never_eleven(name: str, api: str) -> None:
    with ModelServer(latency=0.05, together=10, write=lambda prompt: "fine") as server:
        through = gate(name, server, limits=Limits(concurrency=10))
        items = [CallItem({"text": f"thing {number}"}, str(number)) for number in range(24)]
        assert APIS[api](through.map(TEXT, items)) == ["fine"] * 24
        assert (server.peak, server.requests) == (10, 24)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", ["LlamaIndex OpenAI", "ollama by name"])
def test_a_slow_server_is_not_asked_twice_at_once(name: str, api: str) -> None:
    """An answer after half of the timeout is taken: no request is sent in the place of one that is out."""
    with ModelServer(latency=2.6, write=lambda prompt: "fine") as server:
        through = gate(name, server, limits=Limits(concurrency=4, timeout=5))
        items = [CallItem({"text": f"thing {number}"}, str(number)) for number in range(4)]
        assert APIS[api](through.map(TEXT, items)) == ["fine"] * 4
        assert server.requests == 4


@pytest.mark.parametrize(
    "name", ["ChatOpenAI", "ChatOllama", "LlamaIndex OpenAI", "openai by name", "ollama by name"]
)
def test_loops_that_have_ended_leave_nothing_to_complain_of(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ModelServer(write=lambda prompt: "fine") as server:
        model = CLIENTS[name](server)
        for number in range(3):
            call = ModelGate(model, None).call(TEXT, {"text": str(number)}, item="one")
            assert asyncio.run(call) == "fine"
            gc.collect()
        del model

        async def collect() -> None:
            gc.collect()
            await asyncio.sleep(0)

        asyncio.run(collect())
        gc.collect()
    assert not [each for each in caplog.records if each.name == "asyncio" and each.levelno >= logging.ERROR]


def test_a_server_that_hangs() -> None:
    for name, api in itertools.product(("ChatOpenAI", "ollama by name"), APIS):
        with ModelServer("hang") as server:
            through = gate(name, server, limits=Limits(concurrency=2, timeout=0.5, retries=5, grace=0.1))
            with pytest.raises(CallFailed, match=r"no answer within timeout=0\.5 s"):
                APIS[api](extract(through))
            in_thread = name == "ChatOpenAI" and api == "sync"  # cannot be stopped, and so is not repeated
            assert server.requests <= (1 if in_thread else 2)


@pytest.mark.parametrize("name", CLIENTS)
def test_nobody_there(name: str) -> None:
    with ModelServer() as server:
        port = server.port
    with socket.socket() as taken:  # by nobody who listens
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        with pytest.raises(ModelError, match=r"no server answers there"):
            _sync.run(extract(gate(name, server)))


async def test_what_users_gave_is_left_as_it_is() -> None:
    from langchain_openai import ChatOpenAI
    from llama_index.llms.openai import OpenAI

    from langchain_stratagraph._models import to_chat_model as of_langchain
    from llama_index_stratagraph._models import to_chat_model as of_llama_index

    with ModelServer("500") as server:
        chat = ChatOpenAI(model="m", base_url=server.openai, api_key="k", max_retries=7, top_p=0.5)
        llm = OpenAI(model="gpt-4o-mini", api_base=server.openai, api_key="k", max_retries=7)
        llm._get_client()
        for wrapped in (of_langchain(chat), of_llama_index(llm)):
            with pytest.raises(CallFailed):
                await extract(ModelGate(wrapped, None, limits=Limits(retries=0)))
        assert server.requests == 2
        assert chat.root_client.max_retries == llm._get_client().max_retries == llm.max_retries == 7
        assert chat.temperature is None
        assert of_langchain(chat).settings == {"temperature": 0.0, "top_p": 0.5}


PROMPT = Prompt("p", 'Be {brief}.\n\n{{role "user"}}\n<text>\n{{text}}\n</text>\n')
TASK = Task("t", PROMPT, plain_text, lambda values: "")
VALUES = {"text": "Ada {system} wrote."}
RULES, DATA = "Be {brief}.", "<text>\nAda {system} wrote.\n</text>"


def sent(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Role and text of each message of a request; of a completion its prompt."""
    if "prompt" in body:
        return [("text", body["prompt"].strip())]
    return [(each["role"], each["content"].strip()) for each in body["messages"]]


async def streamed(gate: ModelGate) -> str:
    *pieces, whole = [piece async for piece in gate.stream(PROMPT, VALUES, stage="answer")]
    assert "".join(pieces) == whole
    return whole


@pytest.mark.parametrize("name", CLIENTS)
def test_two_messages(name: str) -> None:
    with ModelServer(write=lambda prompt: "fine") as server:
        _sync.run(ModelGate(CLIENTS[name](server), None).call(TASK, VALUES, item="one"))
        asyncio.run(ModelGate(CLIENTS[name](server), None).call(TASK, VALUES, item="one"))
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
