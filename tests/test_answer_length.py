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


async def test_frameworks(index: sg.Index, model: CountingModel) -> None:
    for framework in ("langchain_core", "llama_index.core"):
        pytest.importorskip(framework)
    from llama_index.core.llms import MockLLM

    from langchain_stratagraph import TreeRetriever
    from llama_index_stratagraph import LSHTreeIndex

    retriever = TreeRetriever.load(index.path, llm=model, embedding=FakeEmbedder())
    opened = LSHTreeIndex.load(index.path, llm=model, embed_model=FakeEmbedder())
    with retriever.index, opened.core:
        for length, expected in ((None, BRIEF), ("full", FULL)):
            runnable = retriever.as_answer_runnable(length=length)
            engine = opened.as_query_engine(length=length)
            for number, ask in enumerate((runnable.invoke, runnable.ainvoke, engine.query)):
                before = len(model.prompts)
                given = ask(f"{length} {number}?")
                if asyncio.iscoroutine(given):
                    await given
                assert len(model.prompts) > before
                assert rule(model) == expected
        with pytest.raises(ValueError, match="length: only for the core's own answers"):
            opened.as_query_engine(llm=MockLLM(), length="full", response_mode="compact")
        sizes = []
        for most in (None, 60):
            opened.as_query_engine(max_tokens=most).query(f"{most}?")
            sizes.append(len(model.prompts[-1].user))
        assert sizes[1] < sizes[0]


def test_command_line(tmp_path: Path) -> None:
    path = str(tmp_path / "idx")
    (tmp_path / "a.txt").write_text("The keeper lights the lamp. The lamp is old. " * 3)
    run = CliRunner().invoke
    assert run(main, ["build", str(tmp_path / "a.txt"), "-o", path, "--embedder", "hashing"]).exit_code == 0
    asked = f"query {path} Who? --llm stratagraph.testing:ScriptedChatModel --json".split()
    answers = [run(main, [*asked, *given]).output for given in ([], ["--length=brief"], ["--length=full"])]
    texts = [answer.split('"text": "Answer ')[1][:12] for answer in answers]
    assert texts[0] == texts[1] != texts[2]
