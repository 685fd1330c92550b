"""Every index class, whatever its method: built, persisted, loaded, asked and changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, load_index_from_storage
from llama_index.core.llms import MockLLM
from llama_index.core.schema import MetadataMode

import llama_index_stratagraph
from llama_index_stratagraph import CoreSynthesizer
from llama_index_stratagraph._base import StrataIndex
from stratagraph import HashingEmbedder
from stratagraph.methods import get_way
from stratagraph.types.results import IDENTITY
from tests.integrations.corpus import QUESTION, llama_documents, passages

INDEXES: list[type[StrataIndex]] = [
    kind
    for name in llama_index_stratagraph.__all__
    if isinstance(kind := getattr(llama_index_stratagraph, name), type) and issubclass(kind, StrataIndex)
]


@pytest.fixture(scope="module", params=INDEXES, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def index(kind: type[StrataIndex]) -> Iterator[StrataIndex]:
    built = kind.from_documents(llama_documents(), llm=False, embed_model=HashingEmbedder())
    yield built
    built.close()


def test_options_are_those_of_the_method(kind: type[StrataIndex]) -> None:
    assert set(kind.options) == {item.name for item in fields(get_way(kind.method).options_type)}


async def test_built_persisted_and_loaded(kind: Any, index: StrataIndex, tmp_path: Any) -> None:
    found = index.as_retriever(similarity_top_k=6).retrieve(QUESTION)
    assert len(found) == 6
    index.storage_context.persist(str(tmp_path / "kept"))
    storage = StorageContext.from_defaults(persist_dir=str(tmp_path / "kept"))
    loaded = load_index_from_storage(storage, llm=False, embed_model=HashingEmbedder())
    assert type(loaded) is kind
    again = await loaded.as_retriever(similarity_top_k=6).aretrieve(QUESTION)
    assert [(node.node_id, node.score) for node in again] == [(node.node_id, node.score) for node in found]
    loaded.close()


def test_answers_are_the_methods_own(index: StrataIndex) -> None:
    engine = index.as_query_engine(llm=MockLLM())
    assert isinstance(engine._response_synthesizer, CoreSynthesizer)
    plain = index.as_query_engine(llm=MockLLM(), response_mode="compact")
    assert not isinstance(plain._response_synthesizer, CoreSynthesizer)


@pytest.mark.parametrize("view", [None, "chunks"])
async def test_what_we_know_of_nodes_stays_out_of_prompts_and_embeddings(
    index: StrataIndex, view: Any
) -> None:
    retriever = index.as_retriever(similarity_top_k=200, view=view)
    given = {key for _, _, metadata in passages() for key in metadata}
    for scored in [*retriever.retrieve(QUESTION), *await retriever.aretrieve(QUESTION)]:
        assert set(scored.node.metadata) <= {*given, *IDENTITY, "source"}
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            shown = scored.node.get_metadata_str(mode)
            assert {line.partition(": ")[0] for line in shown.splitlines()} <= {*given, "source"}
            assert scored.node.metadata["stratagraph_id"] not in shown
    engine = index.as_query_engine(llm=MockLLM(), response_mode="compact", similarity_top_k=5, view=view)
    prompt = str(await engine.aquery(QUESTION))
    assert "kept its comet" in prompt
    assert "topic: observatory" in prompt
    assert "stratagraph" not in prompt
