"""What models really send, through the core, both frameworks and REST: thoughts, marks, and how it ended."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("langchain_openai")
pytest.importorskip("llama_index.llms.openai_like")
pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from llama_index.core import Document
from llama_index.llms.openai_like import OpenAILike

import stratagraph as sg
from langchain_stratagraph import TreeRetriever
from llama_index_stratagraph import WalkIndex
from stratagraph.server import create_app
from tests.clients.clients import CLIENTS
from tests.clients.server import ModelServer

TEXTS = ["The ferry to Ostra leaves at seven.", "Tickets are sold by Runa Vik at the quay."]
QUESTION = "When does the ferry leave?"
ANSWER = "At seven [1]."
DRAFT = "Maybe at nine [2]?"
LIMITS: dict[str, Any] = {"limits": {"retries": 0, "timeout": 2.0}}
FRAME = {
    "nothing": "{answer}",
    "<think>": "<think>{draft}</think>\n\n{answer}",
    "<thinking>": "<thinking>{draft}</thinking>{answer}",
    "<thought>": "<thought>{draft}</thought>{answer}",
    "<reasoning>": "<reasoning>{draft}</reasoning>{answer}",
    "[THINK]": "[THINK]{draft}[/THINK]{answer}",
    "<mm:think>": "<mm:think>{draft}</mm:think>{answer}",
    "<seed:think>": "<seed:think>{draft}</seed:think>{answer}<|im_end|>",
    "channels": "<|channel|>analysis<|message|>{draft}<|end|>"
    "<|start|>assistant<|channel|>final<|message|>{answer}<|return|>",
    "Cohere": "<|START_THINKING|>{draft}<|END_THINKING|><|START_RESPONSE|>{answer}<|END_RESPONSE|>",
    "Kimi": "◁think▷{draft}◁/think▷{answer}",
    "Gemma": "<|channel>thought\n{draft}<channel|>{answer}<turn|>",
    "no special tokens": "analysis{draft}assistantfinal{answer}",
    "turns": "Assistant: {answer}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n{draft}",
}


class Said(NamedTuple):
    """An answer as a caller sees it."""

    text: str
    finish: str | None
    cited: list[int] | None = None


def by_core(name: str) -> Callable[[ModelServer, bool], Said]:
    def ask(server: ModelServer, streamed: bool) -> Said:
        index = built(CLIENTS[name](server))
        if not streamed:
            answer = index.answer(QUESTION, guided=False)
        else:

            async def read() -> sg.Answer:
                stream = index.astream(QUESTION, guided=False)
                text = "".join([piece async for piece in stream])
                assert stream.answer is not None
                assert text == stream.answer.text
                return stream.answer

            answer = asyncio.run(read())
        return Said(answer.text, answer.finish, [each.number for each in answer.citations])

    return ask


def built(llm: Any) -> sg.Index:
    return sg.build_index(TEXTS, llm=llm, embedder="hashing", config=LIMITS, progress=False)


def by_langchain(server: ModelServer, streamed: bool) -> Said:
    given: Any = {"embedding": sg.HashingEmbedder(), "config": LIMITS, "progress": False}
    retriever = TreeRetriever.from_texts(TEXTS, **given)
    runnable = retriever.as_answer_runnable(CLIENTS["ChatOpenAI"](server), return_sources=True)
    if streamed:
        return Said("".join(runnable.stream(QUESTION)), None)
    answer = runnable.invoke(QUESTION)
    return Said(answer["answer"], answer["finish"])


def by_llama_index(server: ModelServer, streamed: bool) -> Said:
    documents = [Document(text=text) for text in TEXTS]
    given: Any = {"embed_model": sg.HashingEmbedder(), "config": LIMITS, "show_progress": False}
    index = WalkIndex.from_documents(documents, llm=False, **given)
    llm = OpenAILike(model="m", api_base=server.openai, api_key="k", is_chat_model=True)
    response: Any = index.as_query_engine(llm, streaming=streamed, guided=False).query(QUESTION)
    text = "".join(response.response_gen) if streamed else response.response
    return Said(text, response.metadata["stratagraph"]["finish"])


def by_rest(server: ModelServer, streamed: bool) -> Said:
    asked = {"question": QUESTION, "guided": False}
    llm = CLIENTS["ollama by name"](server)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "idx"
        sg.build_index(TEXTS, path=path, llm=llm, embedder="hashing", config=LIMITS, progress=False).close()
        app = create_app(path, lambda progress: sg.open_index(path, llm, "hashing", progress=progress))
        with TestClient(app, base_url="http://127.0.0.1:8765") as client:
            return _of_rest(client, asked, streamed)


def _of_rest(client: TestClient, asked: dict[str, Any], streamed: bool) -> Said:
    if not streamed:
        answer = client.post("/api/answer", json=asked).raise_for_status().json()["answer"]
        return Said(answer["text"], answer["finish"], answer["citations"])
    body = client.post("/api/ask", json=asked).raise_for_status().text
    events = [event.split("\n") for event in body.strip().split("\n\n")]
    data = [
        (name.removeprefix("event: "), json.loads(value.removeprefix("data: "))) for name, value in events
    ]
    (answer,) = [value for name, value in data if name == "answer"]
    assert "".join(value["text"] for name, value in data if name == "piece") == answer["text"]
    return Said(answer["text"], answer["finish"], answer["citations"])


WAYS: dict[str, Callable[[ModelServer, bool], Said]] = {
    "core": by_core("openai by name"),
    "LangChain": by_langchain,
    "LlamaIndex": by_llama_index,
    "REST": by_rest,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("streamed", [False, True], ids=["answer", "stream"])
@pytest.mark.parametrize("marks", FRAME)
def test_thoughts_are_no_part_of_an_answer(marks: str, streamed: bool, way: str) -> None:
    raw = FRAME[marks].format(draft=DRAFT, answer=ANSWER)
    with ModelServer(write=lambda prompt: raw, cut=3) as server:
        said = WAYS[way](server, streamed)
    assert said.text == ANSWER
    assert said.cited in (None, [1])
    assert said.finish in (("stop", None) if streamed and way == "LangChain" else ("stop",))


GOOD = '{"sentences":["1|ferry"],"types":["ship|ferry"]}'
WRONG = GOOD.replace("ferry", "seven")
CALLS = {
    "drafts": "{draft}\nBetter:\n{answer}",
    "call": '{{"name":"extract","arguments":{answer}}}',
    "tagged call": '<tool_call>\n{{"name":"extract","parameters":{answer}}}\n</tool_call>',
    "list of calls": '[TOOL_CALLS][{{"name":"extract","arguments":{text}}}]',
    "function": "<function=extract>{answer}</function>",
}


@pytest.mark.parametrize("name", ["openai by name", "ollama by name", "ChatOpenAI", "OpenAILike chat"])
@pytest.mark.parametrize("marks", [*FRAME, *CALLS])
def test_the_last_json_counts_and_no_draft(marks: str, name: str) -> None:
    raw = {**FRAME, **CALLS}[marks].format(draft=WRONG, answer=GOOD, text=json.dumps(GOOD))
    with ModelServer(write=lambda prompt: raw, supports=()) as server:
        llm = CLIENTS[name](server)
        index = sg.build_index(
            TEXTS[:1], "noderag", llm=llm, embedder="hashing", config=LIMITS, progress=False
        )
    assert {entity.name for entity in index.entities()} == {"ferry"}


BROKEN = " [The answer ends here: broken off]"
ENDS = {
    "length": (ANSWER + " [The answer ends here: the length limit]", "length"),
    "filtered_after": (ANSWER + " [The answer ends here: a content filter]", "filtered"),
    "broken": (ANSWER + BROKEN, "broken off"),
    "broken:error": (ANSWER + BROKEN, "broken off"),
}


@pytest.mark.filterwarnings("ignore:the answer is broken off")
@pytest.mark.parametrize("name", [*CLIENTS])
@pytest.mark.parametrize("mode", ENDS)
def test_an_answer_without_an_end_says_so(mode: str, name: str) -> None:
    if mode.startswith("broken") and name == "OpenAILike text":
        pytest.skip("each piece of this protocol has a reason")
    with ModelServer(mode, write=lambda prompt: ANSWER, cut=3) as server:
        for streamed in (True,) if mode.startswith("broken") else (False, True):
            assert by_core(name)(server, streamed) == (*ENDS[mode], [1])


@pytest.mark.parametrize("streamed", [False, True], ids=["answer", "stream"])
@pytest.mark.parametrize(
    ("mode", "finish"),
    [("refusal", "refused"), ("filtered", "filtered"), ("500", "broken off"), ("empty", "stop")],
)
@pytest.mark.parametrize("way", WAYS)
def test_without_words_there_are_excerpts(way: str, mode: str, finish: str, streamed: bool) -> None:
    if streamed and way == "LangChain":
        finish = ""
    warns = pytest.warns(RuntimeWarning, match="could not answer")
    with ModelServer(mode, write=lambda prompt: "x") as server, warns:
        said = WAYS[way](server, streamed)
    assert "leaves at seven" in said.text
    assert (said.finish or "") == finish


def test_a_stream_that_stalls_names_the_limit() -> None:
    warns = pytest.warns(RuntimeWarning, match=r"no answer within timeout=2 s")
    with ModelServer("hang") as server, warns:
        assert by_core("openai by name")(server, True).finish == "broken off"


def test_the_first_word_is_yielded_with_its_piece() -> None:
    seen: list[str] = []

    class Model:
        async def acomplete(self, prompt: str) -> str:
            raise AssertionError

        async def astream(self, prompt: str) -> Any:
            for piece in ("At", " seven", " [1]", "."):
                seen.append(piece)
                yield piece

    for count, _ in enumerate(built(Model()).stream(QUESTION, guided=False), 1):
        assert len(seen) == count
