"""What models really send, through the core, both frameworks and REST: thoughts, marks, and how it ended."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Iterator
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
ANSWER = "At seven [1]."
DRAFT = "Maybe at nine [2]?"
LIMITS = sg.Limits(retries=0, timeout=60.0)
GIVEN: dict[str, Any] = {"config": {"limits": {"retries": 0, "timeout": 60.0}}}
WAYS = ["core", "LangChain", "LlamaIndex", "REST"]
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


class Callers:
    """An index for each way to ask, all at one server; no question is asked twice, since answers are kept."""

    def __init__(self, server: ModelServer, folder: Path) -> None:
        self.server, self.runner, self._numbers = server, asyncio.Runner(), itertools.count(1)
        self._models: dict[str, Any] = {}
        given: dict[str, Any] = {"embedder": "hashing", "progress": False, **GIVEN}
        sg.build_index(TEXTS, path=folder, **given).close()
        self._index = sg.open_index(folder, embedder="hashing", limits=LIMITS)
        self._retriever = TreeRetriever.from_texts(
            TEXTS, embedding=sg.HashingEmbedder(), progress=False, **GIVEN
        )
        walk = WalkIndex.from_documents(
            [Document(text=text) for text in TEXTS],
            llm=False,
            embed_model=sg.HashingEmbedder(),
            show_progress=False,
            **GIVEN,
        )
        llm = OpenAILike(model="m", api_base=server.openai, api_key="k", is_chat_model=True)
        self._engines = [walk.as_query_engine(llm, streaming=each, guided=False) for each in (False, True)]
        ollama = self.model("ollama by name")
        app = create_app(
            folder,
            lambda progress: sg.open_index(folder, ollama, "hashing", limits=LIMITS, progress=progress),
        )
        self.rest = TestClient(app, base_url="http://127.0.0.1:8765")

    def model(self, name: str) -> Any:
        if name not in self._models:
            self._models[name] = CLIENTS[name](self.server)
        return self._models[name]

    def ask(self, way: str, streamed: bool, *, raw: str, mode: str = "ok") -> Said:
        """Ask in one of `WAYS`, or the core by one of `CLIENTS`."""
        self.server.write, self.server.mode = lambda prompt: raw, mode
        question = f"When does ferry {next(self._numbers)} leave?"
        if way == "LangChain":
            return self._by_langchain(question, streamed)
        if way == "LlamaIndex":
            response: Any = self._engines[streamed].query(question)
            text = "".join(response.response_gen) if streamed else response.response
            return Said(text, response.metadata["stratagraph"]["finish"])
        if way == "REST":
            return self._by_rest({"question": question, "guided": False}, streamed)
        return self._by_core(question, streamed, "openai by name" if way == "core" else way)

    def _by_core(self, question: str, streamed: bool, name: str) -> Said:
        llm = self.model(name)

        async def read() -> sg.Answer:
            stream = self._index.astream(question, llm=llm, guided=False)
            text = "".join([piece async for piece in stream])
            assert stream.answer is not None
            assert text == stream.answer.text
            return stream.answer

        answer = self.runner.run(read()) if streamed else self._index.answer(question, llm=llm, guided=False)
        return Said(answer.text, answer.finish, [each.number for each in answer.citations])

    def _by_langchain(self, question: str, streamed: bool) -> Said:
        runnable = self._retriever.as_answer_runnable(self.model("ChatOpenAI"), return_sources=True)
        if streamed:
            return Said("".join(runnable.stream(question)), None)
        answer = runnable.invoke(question)
        return Said(answer["answer"], answer["finish"])

    def _by_rest(self, asked: dict[str, Any], streamed: bool) -> Said:
        if not streamed:
            answer = self.rest.post("/api/answer", json=asked).raise_for_status().json()["answer"]
            return Said(answer["text"], answer["finish"], answer["citations"])
        body = self.rest.post("/api/ask", json=asked).raise_for_status().text
        events = [event.partition("\n") for event in body.strip().split("\n\n")]
        data = [
            (name.removeprefix("event: "), json.loads(value.removeprefix("data: ")))
            for name, _, value in events
        ]
        (answer,) = [value for name, value in data if name == "answer"]
        assert "".join(value["text"] for name, value in data if name == "piece") == answer["text"]
        return Said(answer["text"], answer["finish"], answer["citations"])


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    with ModelServer(cut=3, supports=()) as server:
        callers = Callers(server, tmp_path_factory.mktemp("raw") / "idx")
        with callers.runner, callers.rest:
            yield callers


EVERYWHERE = ("nothing", "<think>", "channels")  # by each way to ask; all other marks by the core alone


@pytest.mark.parametrize("streamed", [False, True], ids=["answer", "stream"])
@pytest.mark.parametrize(
    ("marks", "way"), [(marks, way) for marks in FRAME for way in (WAYS if marks in EVERYWHERE else WAYS[:1])]
)
def test_thoughts_are_no_part_of_an_answer(marks: str, streamed: bool, way: str, callers: Callers) -> None:
    said = callers.ask(way, streamed, raw=FRAME[marks].format(draft=DRAFT, answer=ANSWER))
    assert said.text == ANSWER
    assert said.cited in (None, [1])
    assert said.finish == (None if streamed and way == "LangChain" else "stop")


CALLS = {
    "drafts": "{draft}\nBetter:\n{answer}",
    "call": '{{"name":"extract","arguments":{answer}}}',
    "tagged call": '<tool_call>\n{{"name":"extract","parameters":{answer}}}\n</tool_call>',
    "list of calls": '[TOOL_CALLS][{{"name":"extract","arguments":{text}}}]',
    "function": "<function=extract>{answer}</function>",
}
JSON = [*FRAME.values(), *CALLS.values()]


@pytest.fixture(scope="module", params=["openai by name", "ollama by name", "ChatOpenAI", "OpenAILike chat"])
def names(request: pytest.FixtureRequest, callers: Callers) -> set[str]:
    """The names in an index of one text for each way to write JSON."""

    def extraction(name: str) -> str:
        return json.dumps({"sentences": [f"1|{name}"], "types": [f"ship|{name}"]})

    def write(prompt: str) -> str:
        found = re.search(r"^.*Boat(\d+) leaves", prompt, re.MULTILINE)
        if found is None:
            return "x"
        good, wrong = extraction(f"Boat{found[1]}"), extraction(f"Hour{found[1]}")
        return JSON[int(found[1])].format(draft=wrong, answer=good, text=json.dumps(good))

    callers.server.write, callers.server.mode = write, "ok"
    texts = [f"Boat{number} leaves at Hour{number}." for number in range(len(JSON))]
    llm = callers.model(request.param)
    with sg.build_index(texts, "noderag", llm=llm, embedder="hashing", progress=False, **GIVEN) as index:
        return {entity.name for entity in index.entities()}


@pytest.mark.parametrize("marks", [*FRAME, *CALLS])
def test_the_last_json_counts_and_no_draft(marks: str, names: set[str]) -> None:
    number = JSON.index({**FRAME, **CALLS}[marks])
    assert names & {f"Boat{number}", f"Hour{number}"} == {f"Boat{number}"}


BROKEN = " [The answer ends here: broken off]"
ENDS = {
    "length": (ANSWER + " [The answer ends here: the length limit]", "length"),
    "filtered_after": (ANSWER + " [The answer ends here: a content filter]", "filtered"),
    "broken": (ANSWER + BROKEN, "broken off"),
    "broken:error": (ANSWER + BROKEN, "broken off"),
}


@pytest.mark.filterwarnings("ignore:the answer is broken off")
@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("mode", ENDS)
def test_an_answer_without_an_end_says_so(mode: str, name: str, callers: Callers) -> None:
    if mode.startswith("broken") and name == "OpenAILike text":
        pytest.skip("each piece of this protocol has a reason")
    for streamed in (True,) if mode.startswith("broken") else (False, True):
        assert callers.ask(name, streamed, raw=ANSWER, mode=mode) == (*ENDS[mode], [1])


def test_a_stream_that_was_ended_by_the_server_is_whole_without_a_reason(callers: Callers) -> None:
    assert callers.ask("core", True, raw=ANSWER, mode="broken:done") == (ANSWER, "stop", [1])


@pytest.mark.parametrize("streamed", [False, True], ids=["answer", "stream"])
@pytest.mark.parametrize(
    ("mode", "finish"),
    [("refusal", "refused"), ("filtered", "filtered"), ("500", "broken off"), ("empty", "stop")],
)
@pytest.mark.parametrize("way", WAYS)
def test_without_words_there_are_excerpts(
    way: str, mode: str, finish: str, streamed: bool, callers: Callers
) -> None:
    with pytest.warns(RuntimeWarning, match="could not answer"):
        said = callers.ask(way, streamed, raw="x", mode=mode)
    assert "leaves at seven" in said.text
    assert said.finish == (None if streamed and way == "LangChain" else finish)


def test_a_stream_that_stalls_names_the_limit() -> None:
    limits = {"limits": {"retries": 0, "timeout": 0.2}}
    warns = pytest.warns(RuntimeWarning, match=r"no answer within timeout=0.2 s")
    with ModelServer("hang") as server, warns:
        llm = CLIENTS["openai by name"](server)
        index = sg.build_index(TEXTS, llm=llm, embedder="hashing", config=limits, progress=False)
        assert "leaves at seven" in "".join(index.stream("When does the ferry leave?", guided=False))


class Pieces:
    """A model that streams these pieces, and keeps how many were taken."""

    def __init__(self, *pieces: str) -> None:
        self.pieces, self.taken = pieces, 0

    async def acomplete(self, prompt: str) -> str:
        raise AssertionError

    async def astream(self, prompt: str) -> Any:
        for number, piece in enumerate(self.pieces, 1):
            self.taken = number
            yield piece


def test_the_first_word_is_yielded_with_its_piece() -> None:
    model = Pieces("At", " seven", " [1]", ".")
    index = sg.build_index(TEXTS, llm=model, embedder="hashing", progress=False)
    for count, _ in enumerate(index.stream("When does the ferry leave?", guided=False), 1):
        assert model.taken == count


async def test_a_model_that_ends_its_thoughts_without_beginning_them_is_held_from_then_on() -> None:
    model = Pieces("Maybe", " [2]?", "</think>", "At", " seven", " [1].")
    with sg.build_index(TEXTS, llm=model, embedder="hashing", progress=False) as index:
        for expected in ("Maybe [2]?At seven [1].", "At seven [1]."):
            stream = index.astream("When does the ferry leave?", guided=False)
            assert "".join([piece async for piece in stream]) == expected
            assert stream.answer is not None
            assert (stream.answer.text, len(stream.answer.citations)) == ("At seven [1].", 1)
