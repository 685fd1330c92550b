"""Answers of the core as a LangChain runnable."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.runnables import RunnableLambda

from langchain_stratagraph import TreeRetriever
from stratagraph import HashingEmbedder
from stratagraph.errors import ModelError
from tests.integrations.corpus import QUESTION, langchain_documents


@pytest.fixture(scope="module")
def retriever() -> Any:
    made = TreeRetriever.from_documents(langchain_documents(), embedding=HashingEmbedder())
    with made.index:
        yield made


async def test_without_a_model_answers_are_extractive(retriever: TreeRetriever) -> None:
    answering = retriever.as_answer_runnable()
    text = answering.invoke(QUESTION)
    assert text.startswith("[1] ")
    assert "the observatory kept its comet." in text
    assert await answering.ainvoke(QUESTION) == text
    assert "".join(answering.stream(QUESTION)) == text
    assert "".join([piece async for piece in answering.astream(QUESTION)]) == text


def test_it_is_part_of_a_chain_and_takes_options(retriever: TreeRetriever) -> None:
    chain = retriever.as_answer_runnable() | RunnableLambda(str.upper)
    assert "COMET" in chain.invoke(QUESTION)
    answering = retriever.as_answer_runnable()
    filtered = answering.invoke(QUESTION, where={"topic": "orchard"})
    assert filtered.startswith("No passage that the filter admits has: comet, observatory\n")
    assert "kept its comet" not in filtered
    with pytest.raises(TypeError, match="kk"):
        answering.invoke(QUESTION, kk=3)


def test_a_scripted_model_that_has_no_answer_left_is_an_error(retriever: TreeRetriever) -> None:
    with pytest.raises(ModelError, match="the model raised StopIteration"):
        retriever.as_answer_runnable(GenericFakeChatModel(messages=iter(()))).invoke(QUESTION)
