"""The LlamaIndex index: building, asking, answering, and the models behind it."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import Settings
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
    ToolCallBlock,
)
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import Document, MetadataMode, NodeRelationship
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from pydantic import BaseModel

import llama_index_stratagraph
import stratagraph
from llama_index_stratagraph import LSHTreeIndex, WalkIndex
from llama_index_stratagraph._models import to_chat_model, to_embedder
from stratagraph import HashingEmbedder
from stratagraph.errors import ParseFailed, SettingsConflict
from stratagraph.testing import ScriptedChatModel
from stratagraph.types.results import NOTHING_FOUND
from tests.integrations.corpus import QUESTION, llama_documents, passages

pytestmark = pytest.mark.usefixtures("fresh_settings")


class WordEmbedding(BaseEmbedding):
    """An embedding with synchronous methods, as most local ones have."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._inner = HashingEmbedder()
        self._broken = False

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        if self._broken:
            return [[float("nan")] * 4 for _ in texts]
        return np.asarray(self._inner.embed_documents(texts)).tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class WritingLLM(CustomLLM):
    """A CustomLLM, whose asynchronous methods would stop the loop that they run in."""

    def __init__(self, answer: str = "A summary of the town and its trades.") -> None:
        super().__init__()
        self._answer = answer
        self._threads: list[str] = []

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="writer")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self._threads.append(threading.current_thread().name)
        return CompletionResponse(text=self._answer)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        def pieces() -> CompletionResponseGen:
            for word in self._answer.split():
                yield CompletionResponse(text=word, delta=word)

        return pieces()


def build(documents: list[Document] | None = None, **kwargs: Any) -> LSHTreeIndex:
    kwargs.setdefault("embed_model", HashingEmbedder())
    return LSHTreeIndex.from_documents(llama_documents() if documents is None else documents, **kwargs)


@pytest.fixture(scope="module")
def index() -> Any:
    index = build()
    yield index
    index.close()


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Any:
    async def call(asked: Any, question: Any = QUESTION) -> Any:
        if isinstance(asked, BaseRetriever):
            return asked.retrieve(question) if request.param == "sync" else await asked.aretrieve(question)
        return asked.query(question) if request.param == "sync" else await asked.aquery(question)

    return call


# Retrieval


async def test_nodes(index: LSHTreeIndex, ask: Any) -> None:
    found = await ask(index.as_retriever(similarity_top_k=24))
    assert len(found) == 24
    best = found[0].node
    assert best.get_content(metadata_mode=MetadataMode.NONE).startswith("In year 1901 the observatory")
    assert best.ref_doc_id == "observatory-1"
    assert best.node_id in index.ref_doc_info["observatory-1"].node_ids
    assert best.metadata["topic"] == "observatory"
    assert best.metadata["stratagraph_kind"] == "chunk"
    assert json.loads(best.metadata["stratagraph_documents"]) == ["observatory-1"]
    assert {n.metadata["stratagraph_kind"] for n in found} == {"chunk", "summary"}
    assert [n.score for n in found] == sorted((n.score for n in found), reverse=True)
    assert json.dumps([n.metadata for n in found])
    assert len({n.node_id for n in found}) == 24


async def test_summaries_have_ids_that_stay(index: LSHTreeIndex, ask: Any) -> None:
    retriever = index.as_retriever(similarity_top_k=3, levels=(1,))
    first = await ask(retriever)
    assert [n.node_id for n in first] == [n.metadata["stratagraph_id"] for n in first]
    assert [n.node_id for n in await ask(retriever)] == [n.node_id for n in first]


async def test_docstore_nodes_come_back_with_all_they_have(ask: Any) -> None:
    long = " ".join(f"Sentence {n} of the long tale." for n in range(400))
    index = build([Document(id_="tale", text=long, metadata={"author": "me", "secret": "x"},
                            excluded_llm_metadata_keys=["secret"]), *llama_documents()])  # fmt: skip
    assert len(index.ref_doc_info["tale"].node_ids) > 2
    found = await ask(index.as_retriever(similarity_top_k=3, where={"author": "me"}, view="chunks"), "tale")
    node = found[1].node
    assert NodeRelationship.NEXT in node.relationships or NodeRelationship.PREVIOUS in node.relationships
    shown = node.get_content(metadata_mode=MetadataMode.LLM)
    assert "author: me" in shown
    assert "secret" not in shown
    assert "stratagraph" not in shown
    assert "stratagraph" not in node.get_content(metadata_mode=MetadataMode.EMBED)
    assert "stratagraph" not in index.docstore.get_node(node.node_id).metadata
    index.close()


def admitted(
    index: LSHTreeIndex, *filters: Any, condition: FilterCondition = FilterCondition.AND
) -> set[str]:
    chosen = MetadataFilters(filters=list(filters), condition=condition)
    found = index.as_retriever(similarity_top_k=100, filters=chosen).retrieve(QUESTION)
    return {document for node in found for document in json.loads(node.metadata["stratagraph_documents"])}


def test_filters(index: LSHTreeIndex) -> None:
    def test(key: str, value: Any, operator: FilterOperator = FilterOperator.EQ) -> MetadataFilter:
        return MetadataFilter(key=key, value=value, operator=operator)

    foundry = {f"foundry-{n}" for n in range(6)}
    last = {f"{topic}-5" for topic in ("harbour", "orchard", "observatory", "foundry")}
    assert admitted(index, test("topic", "foundry")) == foundry
    assert admitted(index, test("year", 1905, FilterOperator.GTE)) == last
    assert admitted(index, test("year", 1905), test("topic", "foundry")) == {"foundry-5"}
    either = admitted(index, test("year", 1905), test("topic", "foundry"), condition=FilterCondition.OR)
    assert either == foundry | last
    neither = admitted(index, test("year", 1905), test("topic", "foundry"), condition=FilterCondition.NOT)
    assert len(neither) == 15
    assert neither.isdisjoint(either)
    nested = MetadataFilters(filters=[test("topic", "orchard"), test("topic", "foundry")], condition="or")
    assert admitted(index, nested, test("year", 1905)) == {"orchard-5", "foundry-5"}
    assert admitted(index, test("topic", ["orchard"], FilterOperator.NIN)).isdisjoint(
        f"orchard-{n}" for n in range(6)
    )
    assert admitted(index, test("topic", "FOUND", FilterOperator.TEXT_MATCH_INSENSITIVE)) == foundry
    assert admitted(index, test("topic", 5, FilterOperator.GT)) == set()
    assert admitted(index, test("absent", None, FilterOperator.IS_EMPTY)) == {
        name for name, _, _ in passages()
    }
    with pytest.raises(ValueError, match="not both"):
        index.as_retriever(where={"topic": "x"}, filters=nested)


def test_misspelt_arguments_are_refused(index: LSHTreeIndex) -> None:
    with pytest.raises(TypeError, match="no argument 'similarity_topk'"):
        index.as_retriever(similarity_topk=3)
    with pytest.raises(TypeError, match="no argument 'similarity_topk'"):
        index.as_query_engine(similarity_topk=3)
    with pytest.raises(TypeError, match="no argument 'llm'"):
        index.as_retriever(llm=False)
    with pytest.raises(ValueError, match="at least 1"):
        index.as_retriever(similarity_top_k=0)
    with pytest.raises(ValueError, match="needs an LLM"):
        index.as_chat_engine(chat_mode="context")
    embedding = WordEmbedding()
    embedding._broken = True
    with pytest.raises(TypeError, match="no argument 'levels'"):
        build(embed_model=embedding, levels=2)


# Answers


async def test_answers_without_an_llm_are_extractive(index: LSHTreeIndex, ask: Any) -> None:
    imported = "llama_index.llms.openai" in sys.modules  # by another test
    response = await ask(index.as_query_engine(similarity_top_k=5))
    assert str(response).startswith("[1] ")
    assert "the observatory kept its comet." in str(response)
    assert response.metadata["stratagraph"] == {"extractive": True, "finish": None}
    assert response.source_nodes[0].node.ref_doc_id == "observatory-1"
    assert ("llama_index.llms.openai" in sys.modules) is imported
    nothing = index.as_query_engine(where={"topic": "none"})
    assert str(await ask(nothing)) == NOTHING_FOUND


async def test_an_llm_writes_the_answer(index: LSHTreeIndex, ask: Any) -> None:
    response = await ask(index.as_query_engine(llm=MockLLM(), similarity_top_k=1))
    assert "kept its comet" in str(response)
    assert "stratagraph" not in str(response)
    Settings.llm = WritingLLM("From the settings.")
    assert str(await ask(index.as_query_engine())) == "From the settings."
    own = LSHTreeIndex(core=index.core, llm=WritingLLM("My own."))
    # Another number of nodes makes another prompt: the answer to the same one is in the cache of calls.
    assert str(await ask(own.as_query_engine(similarity_top_k=3))) == "My own."
    without = LSHTreeIndex(core=index.core, llm=False)
    assert (await ask(without.as_query_engine())).metadata["stratagraph"]["extractive"]


# Building and opening


@pytest.mark.parametrize("twin", [False, True])
async def test_llm_and_embedding_from_arguments_and_settings(twin: bool) -> None:
    async def made(**kwargs: Any) -> LSHTreeIndex:
        if twin:
            return await LSHTreeIndex.afrom_documents(llama_documents(), **kwargs)
        return LSHTreeIndex.from_documents(llama_documents(), **kwargs)

    llm, embedding = WritingLLM(), WordEmbedding()
    index = await made(llm=llm, embed_model=embedding)
    top = index.as_retriever(similarity_top_k=1, levels=(1,)).retrieve("summary")
    assert top[0].get_content() == "A summary of the town and its trades."
    assert threading.main_thread().name not in llm._threads
    assert all("model" in name for name in llm._threads)
    index.close()
    Settings.llm, Settings.embed_model = WritingLLM(), embedding
    index = await made()
    assert Settings.llm._threads
    assert index.core.stats()["embedder"].startswith("WordEmbedding")
    index.close()


def test_a_disabled_settings_llm_is_none(index: LSHTreeIndex) -> None:
    Settings.llm = None
    Settings.embed_model = None
    assert to_chat_model(None) is None
    assert to_embedder(None) is None
    assert type(index.as_query_engine()._response_synthesizer).__name__ == "CoreSynthesizer"


def test_progress(capfd: pytest.CaptureFixture[str]) -> None:
    build(show_progress=True).close()
    assert "embed chunks" in capfd.readouterr().err
    build().close()
    assert capfd.readouterr().err == ""


def test_nothing_to_index() -> None:
    with pytest.raises(ValueError, match="blank"):
        build([Document(text=" ")])


def test_an_index_may_begin_empty() -> None:
    for index in (build([]), WalkIndex([], embed_model=False)):
        assert index.as_retriever().retrieve(QUESTION) == []
        index.insert(Document(id_="note", text="Ada met Bob."))
        assert [each.node.ref_doc_id for each in index.as_retriever(view="chunks").retrieve("Ada")] == [
            "note"
        ]


def test_documents_with_one_id() -> None:
    first, other = Document(id_="note", text="Ada met Bob."), Document(id_="note", text="Cyd left.")
    assert list(build([first, first]).core.chunks()) == ["note"]
    assert len(build([first, first]).core.chunks()["note"]) == 1
    with pytest.raises(ValueError, match="two documents have the id 'note' and different texts"):
        build([first, other])


@pytest.mark.parametrize("twin", [False, True])
async def test_the_same_command_again(tmp_path: Any, twin: bool) -> None:
    async def run(documents: list[Document], **kwargs: Any) -> LSHTreeIndex:
        kwargs |= {"path": tmp_path / "idx", "embed_model": HashingEmbedder()}
        if twin:
            return await LSHTreeIndex.afrom_documents(documents, **kwargs)
        return LSHTreeIndex.from_documents(documents, **kwargs)

    first = await run([*llama_documents(), Document(id_="blank", text=" ")])
    expected = [n.score for n in first.as_retriever(similarity_top_k=9).retrieve(QUESTION)]
    first.close()
    again = await run(llama_documents())
    assert [n.score for n in again.as_retriever(similarity_top_k=9).retrieve(QUESTION)] == expected
    best = again.as_retriever().retrieve(QUESTION)[0]
    assert again.docstore.document_exists(best.node_id)
    again.close()
    fewer = await run(llama_documents()[:5])
    assert fewer.core.documents().keys() == {document.id_ for document in llama_documents()}
    fewer.close()
    pruned = await run(llama_documents()[:5], prune=True)
    assert pruned.core.documents().keys() == {document.id_ for document in llama_documents()[:5]}
    pruned.close()
    with pytest.raises(SettingsConflict, match=r"lshtree\.max_cluster"):
        await run(llama_documents(), config={"lshtree": {"max_cluster": 20}})
    (await run(llama_documents(), config={"lshtree": {"max_cluster": 20}}, rebuild=True)).close()


@pytest.mark.parametrize("twin", [False, True])
async def test_documents_without_ids_are_known_again_by_their_text(tmp_path: Any, twin: bool) -> None:
    for count in (3, 3, 4):
        given = [Document(text=f"Letter {number} of Ada about Bremen.") for number in range(count)]
        kwargs = {"path": tmp_path / "idx", "embed_model": HashingEmbedder()}
        made = LSHTreeIndex.afrom_documents(given, **kwargs) if twin else None
        index = LSHTreeIndex.from_documents(given, **kwargs) if made is None else await made
        assert index.core.documents().keys() == {document.id_ for document in given}
        assert index.core.verify() == []
        index.close()


# The wrapped models


class Fact(BaseModel):
    """A fact."""

    subject: str
    year: int


class PredictingLLM(WritingLLM):
    """A model class with a structured prediction of its own, as those of local servers have."""

    def structured_predict(self, output_cls: Any, prompt: PromptTemplate, **kwargs: Any) -> Any:
        self._prompt_seen = prompt.format(text=kwargs["text"])
        return output_cls.model_validate_json(self._answer)


@pytest.fixture(params=["sync", "async"])
def complete(request: pytest.FixtureRequest) -> Any:
    async def call(model: Any, **kwargs: Any) -> str:
        if request.param == "async" and hasattr(model, "acomplete"):
            return await model.acomplete("{text} and {braces}", **kwargs)
        return model.complete("{text} and {braces}", **kwargs)

    return call


def tool_model(block: ToolCallBlock | None, text: str = "") -> MockFunctionCallingLLM:
    def answer(messages: Any, **kwargs: Any) -> ChatMessage:
        return ChatMessage(role="assistant", content=text) if block is None else ChatMessage(
            role="assistant", blocks=[block]
        )  # fmt: skip

    return MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)


async def test_function_calling_models_call_one_tool(complete: Any) -> None:
    block = ToolCallBlock(tool_name="Fact", tool_kwargs={"subject": "bell", "year": 1907})
    assert json.loads(await complete(to_chat_model(tool_model(block)), schema=Fact)) == block.tool_kwargs
    wrong = ToolCallBlock(tool_name="Fact", tool_kwargs={"subject": "bell"})
    assert json.loads(await complete(to_chat_model(tool_model(wrong)), schema=Fact)) == {"subject": "bell"}
    assert await complete(to_chat_model(tool_model(None, "no tool")), schema=Fact) == "no tool"


async def test_text_models_answer_in_text(complete: Any) -> None:
    assert await complete(to_chat_model(MockLLM())) == "{text} and {braces}"
    assert await complete(to_chat_model(MockFunctionCallingLLM())) == "{text} and {braces}"
    assert await complete(to_chat_model(WritingLLM("plain")), schema=Fact) == "plain"


async def test_a_structured_prediction_of_its_own_is_used(complete: Any) -> None:
    llm = PredictingLLM('{"subject": "bell", "year": 1907}')
    assert json.loads(await complete(to_chat_model(llm), schema=Fact)) == {"subject": "bell", "year": 1907}
    assert llm._prompt_seen == "{text} and {braces}"


@pytest.mark.parametrize(
    "answer", ['{"subject": "bell", "ye', "a bell", '{"Subject": "bell", "Year": 1907}', '["bell", 1907]']
)
async def test_a_prediction_that_could_not_be_read_is_handed_on_for_repair(
    complete: Any, answer: str
) -> None:
    found = await complete(to_chat_model(PredictingLLM(answer)), schema=Fact)
    assert found == answer


async def test_a_prediction_that_is_lost_says_why(complete: Any) -> None:
    with pytest.raises(ParseFailed, match=r"does not fit Fact: year: .*valid integer[^\n]*$"):
        await complete(to_chat_model(PredictingLLM('{"subject": "bell", "year": "soon"}')), schema=Fact)


def test_custom_llms_are_left_to_the_threads_of_the_core() -> None:
    assert not hasattr(to_chat_model(WritingLLM()), "acomplete")
    assert hasattr(to_chat_model(MockFunctionCallingLLM()), "acomplete")
    assert list(to_chat_model(WritingLLM("in two")).stream("x")) == ["in", "two"]


def test_names() -> None:
    assert to_chat_model(WritingLLM()).name == "writer"
    assert to_chat_model(MockLLM(max_tokens=3)).name == "MockLLM"
    named = to_embedder(MockEmbedding(embed_dim=4, model_name="mini"))
    assert named.model_name == "mini"
    assert to_embedder(WordEmbedding()).name == "WordEmbedding"
    assert to_embedder(False) is None
    own = HashingEmbedder()
    assert to_embedder(own) is own


async def test_embeddings() -> None:
    blocking, native = to_embedder(WordEmbedding()), to_embedder(MockEmbedding(embed_dim=4))
    assert not hasattr(blocking, "aembed_documents")
    assert len(blocking.embed_documents(["a", "b"])) == 2
    assert await native.aembed_documents(["a"]) == [[0.5] * 4]
    assert await native.aembed_query("a") == native.embed_query("a") == [0.5] * 4


def test_without_a_model_is_what_false_asks_for() -> None:
    model = ScriptedChatModel("It was Mara [1].")
    texts = ["Mara Quill steered the ferry Dunlin from Ostra.", "The Dunlin ran aground off Cape Ellery."]
    made = {"llm": model, "embedder": HashingEmbedder(), "progress": False}
    with stratagraph.build_index(texts, **made) as core:
        index = llama_index_stratagraph.WalkIndex(core=core)
        response = index.as_query_engine(llm=False).query("Who steered the Dunlin?")
        assert response.metadata["stratagraph"]["extractive"]
        assert "Mara Quill steered" in str(response)
        assert core.answer("Who steered the Dunlin?", llm=False).extractive
        assert model.calls == 0
        assert not core.answer("Who steered the Dunlin?").extractive
