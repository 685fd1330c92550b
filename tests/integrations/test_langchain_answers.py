"""Answers of the core as a LangChain runnable."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda

from langchain_stratagraph import TreeRetriever
from stratagraph import HashingEmbedder
from tests.integrations.corpus import QUESTION, langchain_documents


class Calls(BaseCallbackHandler):
    """Counts the chat model's calls that handlers hear of."""

    def __init__(self) -> None:
        self.count = 0
        self.chains: list[str] = []

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self.chains.append(kwargs.get("name") or "")

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.count += 1


@pytest.fixture(scope="module")
def retriever() -> Any:
    made = TreeRetriever.from_documents(langchain_documents(), embedding=HashingEmbedder())
    with made.index:
        yield made


def writer() -> FakeListChatModel:
    return FakeListChatModel(responses=["The keeper of the comet [1]."])


async def test_without_a_model_answers_are_extractive(retriever: TreeRetriever) -> None:
    answering = retriever.as_answer_runnable()
    text = answering.invoke(QUESTION)
    assert text.startswith("[1] ")
    assert "the observatory kept its comet." in text
    assert await answering.ainvoke(QUESTION) == text
    assert "".join(answering.stream(QUESTION)) == text
    assert "".join([piece async for piece in answering.astream(QUESTION)]) == text


async def test_a_model_answers_in_pieces_and_handlers_hear_of_it(retriever: TreeRetriever) -> None:
    answering = retriever.as_answer_runnable(writer())
    calls = Calls()
    config: Any = {"callbacks": [calls]}
    assert answering.invoke(QUESTION, config) == "The keeper of the comet [1]."
    assert await answering.ainvoke(QUESTION, config) == "The keeper of the comet [1]."
    pieces = list(answering.stream(QUESTION, config))
    assert len(pieces) > 1
    assert "".join(pieces) == "The keeper of the comet [1]."
    assert [piece async for piece in answering.astream(QUESTION, config)] == pieces
    assert calls.count == 3  # the second answer came from the cache


def test_it_is_part_of_a_chain_and_takes_options(retriever: TreeRetriever) -> None:
    chain = retriever.as_answer_runnable() | RunnableLambda(str.upper)
    assert "COMET" in chain.invoke(QUESTION)
    answering = retriever.as_answer_runnable()
    filtered = answering.invoke(QUESTION, where={"topic": "orchard"})
    assert filtered.startswith("No passage that the filter admits has: comet, observatory\n")
    assert "kept its comet" not in filtered
    with pytest.raises(TypeError, match="kk"):
        answering.invoke(QUESTION, kk=3)


async def test_streams_are_runs_of_their_own(retriever: TreeRetriever) -> None:
    answering = retriever.as_answer_runnable(writer())
    calls = Calls()
    config: Any = {"callbacks": [calls], "run_name": "mine"}
    list(answering.stream(QUESTION, config))
    _ = [piece async for piece in answering.astream(QUESTION, config)]
    assert calls.chains == ["mine", "mine"]
    events = [event["event"] async for event in answering.astream_events(QUESTION, version="v2")]
    assert events[0] == "on_chain_start"
    assert events[-1] == "on_chain_end"
    assert "on_chat_model_end" in events
