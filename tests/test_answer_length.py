"""How long an answer is: brief or as one asks, from the core, the frameworks and the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import stratagraph as sg
from stratagraph.cli.main import main
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, documents

BRIEF, FULL = "Be direct and brief", "Answer in full"
QUESTION = "Which ferry did the captain take past the lighthouse?"
METHODS = ("archrag", "noderag", "hirag", "lshtree")


@pytest.fixture(scope="module")
def model() -> CountingModel:
    return CountingModel(lambda prompt: "He lights it [1].")


@pytest.fixture(scope="module")
def index(model: CountingModel, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("length") / "idx"
    sg.build_index(documents(20), method=list(METHODS), path=path, embedder=FakeEmbedder(), progress=False)
    with sg.open_index(path, llm=model, embedder=FakeEmbedder()) as opened:
        yield opened


def rule(model: CountingModel) -> str:
    """What the last prompt says of the length, in its system message."""
    system = next(each for each in reversed(model.prompts) if each.endswith("Answer:\n")).system
    found = [each for each in (BRIEF, FULL) if each in system]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("method", METHODS)
def test_an_answer_is_brief_and_one_may_ask_for_a_full_one(
    index: sg.Index, model: CountingModel, method: str
) -> None:
    index.answer(QUESTION, method=method)
    assert rule(model) == BRIEF
    for length, expected in (("brief", BRIEF), ("full", FULL)):
        index.answer(f"{length}: {QUESTION}", method=method, length=length)
        assert rule(model) == expected
        asyncio.run(index.aanswer(f"{length}, async: {QUESTION}", method=method, length=length))
        assert rule(model) == expected
        list(index.stream(f"{length}, in pieces: {QUESTION}", method=method, length=length))
        assert rule(model) == expected


def test_lengths_are_other_answers_to_the_cache(index: sg.Index, model: CountingModel) -> None:
    before = len(model.prompts)
    for _ in range(2):
        for length in ("brief", "full"):
            index.answer("How long?", method="lshtree", length=length, guided=False)
    assert len(model.prompts) - before == 2


def test_an_unknown_length_is_named(index: sg.Index) -> None:
    with pytest.raises(ValueError, match="length must be one of brief, full, or None, not 'long'"):
        index.answer(QUESTION, length="long")


def test_a_template_of_the_users_may_leave_it_out(model: CountingModel) -> None:
    prompts = {"search/answer": "Passages: {{context}}\nQuestion: {{question}}"}
    index = sg.build_index(
        ["The keeper lights the lamp."], embedder=FakeEmbedder(), config={"prompts": prompts}, progress=False
    )
    index.answer(QUESTION, llm=model, length="full")
    assert model.prompts[-1].system == ""
    assert model.prompts[-1].endswith(f"Question: {QUESTION}")


async def test_langchain(index: sg.Index) -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.messages import SystemMessage

    from langchain_stratagraph import TreeRetriever

    asked: list[Any] = []

    class Model(FakeListChatModel):
        def _call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
            asked.append(messages[0])
            return super()._call(messages, *args, **kwargs)

    retriever = TreeRetriever.load(index.path, embedding=FakeEmbedder())
    with retriever.index:
        for length, expected in ((None, BRIEF), ("full", FULL)):
            retriever.as_answer_runnable(Model(responses=["Yes [1]."]), length=length).invoke(f"{length}?")
            assert isinstance(asked[-1], SystemMessage)
            assert expected in asked[-1].text
            runnable = retriever.as_answer_runnable(Model(responses=["Yes [1]."]), length=length)
            await runnable.ainvoke(f"{length}??")
            assert expected in asked[-1].text


def test_llama_index(index: sg.Index) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.llms.types import ChatResponse
    from llama_index.core.llms import MockLLM

    from llama_index_stratagraph import LSHTreeIndex

    asked: list[Any] = []

    class Model(MockLLM):
        @classmethod
        def class_name(cls) -> str:
            return "listening"

        @property
        def metadata(self) -> Any:
            return super().metadata.model_copy(update={"is_chat_model": True})

        def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
            asked.append(messages)
            return super().chat(messages, **kwargs)

    opened = LSHTreeIndex.load(index.path, llm=False, embed_model=FakeEmbedder())
    for length, expected in ((None, BRIEF), ("full", FULL)):
        opened.as_query_engine(llm=Model(max_tokens=5), length=length).query(f"{length}?")
        assert [message.role.value for message in asked[-1]] == ["system", "user"]
        assert expected in asked[-1][0].content
    with pytest.raises(ValueError, match="length: only for the core's own answers"):
        opened.as_query_engine(llm=Model(max_tokens=5), length="full", response_mode="compact")
    sizes = []
    for most in (None, 60):
        opened.as_query_engine(llm=Model(max_tokens=5), max_tokens=most).query(f"{most}?")
        sizes.append(len(asked[-1][1].content))
    assert sizes[1] < sizes[0]


def test_command_line(tmp_path: Path) -> None:
    path = str(tmp_path / "idx")
    (tmp_path / "a.txt").write_text("The keeper lights the lamp. The lamp is old. " * 3)
    run = CliRunner().invoke
    assert run(main, ["build", str(tmp_path / "a.txt"), "-o", path, "--embedder", "hashing"]).exit_code == 0
    asked = [
        "query",
        path,
        "Who lights the lamp?",
        "--llm",
        "stratagraph.testing:ScriptedChatModel",
        "--json",
    ]
    answers = [
        run(main, [*asked, *length]).output for length in ([], ["--length", "brief"], ["--length", "full"])
    ]
    texts = [answer.split('"text": "Answer ')[1][:12] for answer in answers]
    assert texts[0] == texts[1] != texts[2]
