"""Answers of the core as a LlamaIndex response synthesizer, written by LlamaIndex's model."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from llama_index_stratagraph import CoreSynthesizer, LSHTreeIndex
from stratagraph import HashingEmbedder
from tests.integrations.corpus import QUESTION, llama_documents


@pytest.fixture(scope="module")
def index() -> Any:
    made = LSHTreeIndex.from_documents(llama_documents(), llm=False, embed_model=HashingEmbedder())
    yield made
    made.close()


def engine(index: LSHTreeIndex, *, streaming: bool = False) -> RetrieverQueryEngine:
    retriever = index.as_retriever(similarity_top_k=3)
    return RetrieverQueryEngine(
        retriever, response_synthesizer=CoreSynthesizer(retriever, llm=MockLLM(), streaming=streaming)
    )


async def test_the_model_is_asked_the_cores_own_prompt(index: LSHTreeIndex) -> None:
    response = engine(index).query(QUESTION)
    assert "<passages>" in str(response)  # this model repeats its prompt
    assert "kept its comet" in str(response)
    assert response.metadata["stratagraph"] == {"extractive": False, "finish": None}
    assert str(await engine(index).aquery(QUESTION)) == str(response)


async def test_streams(index: LSHTreeIndex) -> None:
    whole = str(engine(index).query(QUESTION))
    pieces = list(engine(index, streaming=True).query(QUESTION).response_gen)
    assert len(pieces) > 1
    assert "".join(pieces).strip() == whole
    response = await engine(index, streaming=True).aquery(QUESTION)
    assert "".join([piece async for piece in response.response_gen]).strip() == whole
