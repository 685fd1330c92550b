"""The LangChain retriever: the framework's own suite, and what users of LangChain take for granted."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import numpy as np
import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import FakeListChatModel, FakeListLLM, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import BaseModel, ValidationError

import stratagraph
from langchain_stratagraph import TreeRetriever
from langchain_stratagraph._convert import to_chunks
from langchain_stratagraph._models import LangChainChatModel, to_chat_model
from stratagraph import HashingEmbedder
from stratagraph.errors import MethodMissing
from stratagraph.models.gate import ModelGate, Prompt, Task
from stratagraph.models.structured import json_as
from tests.integrations.corpus import QUESTION, langchain_documents, passages


class WordEmbeddings(Embeddings):
    """LangChain embeddings that count how they are called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._inner = HashingEmbedder()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append("embed_documents")
        return np.asarray(self._inner.embed_documents(texts)).tolist()

    def embed_query(self, text: str) -> list[float]:
        self.calls.append("embed_query")
        return np.asarray(self._inner.embed_query(text)).tolist()


class Log(BaseCallbackHandler):
    """Remembers the events that handlers are told."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.parents: dict[str, Any] = {}

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.events.append("chat")

    def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        self.events.append("answer")

    def on_retriever_start(self, *args: Any, **kwargs: Any) -> None:
        self.events.append("retrieve")

    def on_retriever_end(self, documents: list[Document], **kwargs: Any) -> None:
        self.events.append(f"found {len(documents)}")


def build(documents: list[Document] | None = None, **kwargs: Any) -> TreeRetriever:
    kwargs.setdefault("embedding", HashingEmbedder())
    return TreeRetriever.from_documents(langchain_documents() if documents is None else documents, **kwargs)


@pytest.fixture(scope="module")
def shared() -> Any:
    with build().index as index:
        yield index


@pytest.fixture
def retriever(shared: Any) -> TreeRetriever:
    return TreeRetriever(index=shared)


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Any:
    async def call(retriever: TreeRetriever, question: str = QUESTION, **kwargs: Any) -> list[Document]:
        if request.param == "sync":
            return retriever.invoke(question, **kwargs)
        return await retriever.ainvoke(question, **kwargs)

    return call


class TestStandardSuite(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _index(self, shared: Any) -> None:
        self.index = shared

    @property
    def retriever_constructor(self) -> type[TreeRetriever]:
        return TreeRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": self.index}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


# What comes back


async def test_documents_have_text_id_and_json_metadata(retriever: TreeRetriever, ask: Any) -> None:
    documents = await ask(retriever, k=24, return_trace=True)
    assert documents[0].page_content.startswith("In year 1901 the observatory kept its comet.")
    assert documents[0].id == "observatory-1"
    assert documents[0].metadata["topic"] == "observatory"
    ours = documents[0].metadata["stratagraph"]
    assert set(ours) == {"id", "kind", "level", "score", "sources", "documents", "trace"}
    assert ours["kind"] == "chunk"
    assert ours["documents"] == ["observatory-1"]
    assert {document.metadata["stratagraph_kind"] for document in documents} == {"chunk", "summary"}
    assert json.loads(json.dumps([document.metadata for document in documents]))
    scores = [document.metadata["stratagraph"]["score"] for document in documents]
    assert scores == sorted(scores, reverse=True)
    assert all(type(score) is float for score in scores)


async def test_options_per_call(retriever: TreeRetriever, ask: Any) -> None:
    chunks = await ask(retriever, k=24, view="chunks")
    assert {document.metadata["stratagraph_level"] for document in chunks} == {0}
    summaries = await ask(retriever, k=24, levels=(1,))
    assert {document.metadata["stratagraph_level"] for document in summaries} == {1}
    foundry = await ask(retriever, k=24, where={"topic": "foundry"}, view="chunks")
    assert {document.metadata["topic"] for document in foundry} == {"foundry"}
    late = await ask(retriever, k=24, where=lambda metadata: metadata["year"] >= 1904, view="chunks")
    assert {document.metadata["year"] for document in late} == {1904, 1905}
    assert len(await ask(retriever, k=2, mode="per_level", k_per_level=1)) == 2


async def test_fields_are_the_defaults_of_calls(shared: Any, ask: Any) -> None:
    retriever = TreeRetriever(index=shared, k=3, view="chunks", where={"topic": "orchard"})
    assert [d.metadata["topic"] for d in await ask(retriever)] == ["orchard"] * 3
    assert {d.metadata["topic"] for d in await ask(retriever, k=24, where={})} == {"orchard"}


async def test_misspelt_arguments_are_refused(retriever: TreeRetriever, shared: Any, ask: Any) -> None:
    with pytest.raises(TypeError, match="no option 'top_k'"):
        await ask(retriever, top_k=3)
    with pytest.raises(ValueError, match="at least 1"):
        await ask(retriever, k=0)
    with pytest.raises(ValueError, match="blank"):
        await ask(retriever, "  ")
    with pytest.raises(ValidationError, match="top_k"):
        TreeRetriever(index=shared, top_k=3)


@pytest.mark.parametrize("setting", [{"top_k": 3}, {"k": 0}, {"view": "trees"}, {"mode": "fast"}])
async def test_settings_are_checked_before_a_build_is_paid_for(setting: dict[str, Any]) -> None:
    embeddings = WordEmbeddings()
    with pytest.raises(ValidationError):
        TreeRetriever.from_documents(langchain_documents(), embedding=embeddings, **setting)
    with pytest.raises(ValidationError):
        await TreeRetriever.afrom_documents(langchain_documents(), embedding=embeddings, **setting)
    assert embeddings.calls == []


# What goes in


def test_caller_metadata_is_kept_and_made_json() -> None:
    metadata = {
        "score": 7,
        "id": "mine",
        "when": date(1907, 5, 1),
        "weight": np.float32(0.5),
        "tags": {"b", "a"},
        "stratagraph": {"old": True},
    }
    retriever = build([Document("A bell of bronze.", metadata=metadata)])
    [found] = retriever.invoke("bell", k=1)
    own = {key: value for key, value in found.metadata.items() if key in metadata and key != "stratagraph"}
    assert own == {
        "score": 7, "id": "mine", "when": "1907-05-01", "weight": 0.5, "tags": ["a", "b"],
    }  # fmt: skip
    assert found.metadata["stratagraph_kind"] == "chunk"
    retriever.index.close()


def test_document_ids() -> None:
    pieces = [
        Document("one", metadata={"source": "a.txt", "start_index": 0}),
        Document("other"),
        Document("two", metadata={"source": "a.txt", "start_index": 4}),
        Document("other"),
        Document("three", id="own", metadata={"source": "a.txt"}),
    ]
    chunks = to_chunks(pieces)
    assert [
        (c.document_id, c.ordinal, c.text, c.start, c.end, c.ref) for c in chunks if c.text != "other"
    ] == [("a.txt", 0, "one", 0, 3, ""), ("a.txt", 1, "two", 4, 7, ""), ("own", 0, "three", -1, -1, "own")]
    assert len([chunk for chunk in chunks if chunk.text == "other"]) == 1
    assert {c.document_id for c in to_chunks([pieces[0], pieces[4]], "source")} == {"a.txt"}
    assert [c.document_id for c in to_chunks(pieces[:1], lambda document: "x")] == ["x"]
    with pytest.raises(ValueError, match="'source'"):
        to_chunks([Document("other")], "source")
    with pytest.raises(TypeError, match="from_texts"):
        to_chunks(["text"])
    with pytest.raises(TypeError, match=r"\[document\]"):
        to_chunks(pieces[0])


async def test_adding_and_deleting(tmp_path: Any) -> None:
    documents = langchain_documents()
    retriever = build(documents[:20], path=tmp_path / "idx")
    assert retriever.add_documents(iter(documents[18:])) == [each.id for each in documents[18:]]
    report = retriever.index.last_report
    assert report is not None
    assert (len(report.added), len(report.unchanged)) == (4, 2)
    assert await retriever.aadd_documents([Document("A new bell.", id="foundry-3")]) == ["foundry-3"]
    assert retriever.invoke("new bell", k=1)[0].page_content == "A new bell."
    assert retriever.delete("foundry-3").deleted == ("foundry-3",)
    await retriever.adelete(["foundry-2", "foundry-1"])
    with pytest.raises(KeyError, match="foundry-3"):
        retriever.delete(["foundry-3"])
    assert retriever.delete(["foundry-3"], missing_ok=True).deleted == ()
    found = retriever.invoke("bell bronze mould foundry", k=100)
    assert {source for d in found for source in json.loads(d.metadata["stratagraph_documents"])}.isdisjoint(
        {"foundry-1", "foundry-2", "foundry-3"}
    )
    assert retriever.index.verify() == []


def test_nothing_to_index(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="blank"):
        build([Document("  ")], path=tmp_path / "idx")
    with pytest.raises(stratagraph.errors.NotAnIndex):
        TreeRetriever.load(tmp_path / "idx")


async def test_from_texts() -> None:
    texts, metadatas, ids = zip(*[(t, m, i) for i, t, m in passages()], strict=True)
    made = TreeRetriever.from_texts(texts, metadatas, ids=ids, embedding=HashingEmbedder(), k=2)
    twin = await TreeRetriever.afrom_texts(texts, metadatas, ids=ids, embedding=HashingEmbedder(), k=2)
    assert made.invoke(QUESTION) == twin.invoke(QUESTION)
    assert made.invoke(QUESTION)[0].id == "observatory-1"
    with pytest.raises(ValueError, match="24 texts and 1 metadatas"):
        TreeRetriever.from_texts(texts, [{}])


def test_a_method_that_the_folder_lacks(tmp_path: Any) -> None:
    class OtherRetriever(TreeRetriever):
        method = "hirag"

    build(path=tmp_path / "idx").index.close()
    with pytest.raises(MethodMissing, match=r"needs the method hirag.*holds lshtree.*add_method"):
        OtherRetriever.load(tmp_path / "idx", embedding=HashingEmbedder())


# Models and callbacks


@pytest.mark.parametrize("twin", [False, True])
async def test_chat_models_write_summaries_and_callbacks_hear_of_it(twin: bool) -> None:
    log = Log()
    model = FakeListChatModel(responses=["A summary of the town and its trades."])
    arguments: dict[str, Any] = {"llm": model, "embedding": HashingEmbedder(), "callbacks": [log]}
    if twin:
        retriever = await TreeRetriever.afrom_documents(langchain_documents(), **arguments)
    else:
        retriever = TreeRetriever.from_documents(langchain_documents(), **arguments)
    summaries = retriever.invoke("summary of the town", k=1, levels=(1,))
    assert summaries[0].page_content == "A summary of the town and its trades."
    calls = log.events.count("chat")
    assert calls == log.events.count("answer") > 0
    retriever.add_documents([Document("A lone whale.", id="whale")], callbacks=[log])
    report = retriever.index.last_report
    assert report is not None
    assert log.events.count("chat") - calls == report.usage.calls > 0


# The wrapped chat model


class Fact(BaseModel):
    """A fact."""

    subject: str
    year: int


class ToolModel(GenericFakeChatModel):
    """A fake model that takes tools, and answers with whatever message it is given."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


class RefusingModel(FakeListChatModel):
    """A model whose server rejects tools when it is called."""

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        def reject(_: Any) -> Any:
            self.__dict__["rejected"] = self.__dict__.get("rejected", 0) + 1
            error = RuntimeError("this model does not support tools")
            error.status_code = 400  # type: ignore[attr-defined]
            raise error

        return RunnableLambda(reject)


def tool_message(arguments: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "Fact", "args": arguments, "id": "1"}])


@pytest.fixture(params=["sync", "async"])
def complete(request: pytest.FixtureRequest) -> Any:
    async def call(model: LangChainChatModel, **kwargs: Any) -> str:
        if request.param == "sync":
            return model.complete("{prompt} with braces", **kwargs)
        return await model.acomplete("{prompt} with braces", **kwargs)

    return call


async def test_structured_output_is_json_text(complete: Any) -> None:
    model = ToolModel(messages=iter([tool_message({"subject": "bell", "year": 1907})]))
    assert json.loads(await complete(to_chat_model(model), schema=Fact)) == {"subject": "bell", "year": 1907}


async def test_an_answer_that_does_not_fit_is_handed_on_for_repair(complete: Any) -> None:
    model = ToolModel(
        messages=iter([tool_message({"subject": "bell", "year": "soon"}), AIMessage("no tool")])
    )
    wrapped = to_chat_model(model)
    assert json.loads(await complete(wrapped, schema=Fact)) == {"subject": "bell", "year": "soon"}
    assert await complete(wrapped, schema=Fact) == "no tool"


async def test_models_without_structured_output_answer_in_text(complete: Any) -> None:
    assert await complete(to_chat_model(FakeListChatModel(responses=["plain"])), schema=Fact) == "plain"
    assert await complete(to_chat_model(FakeListLLM(responses=["plain"])), schema=Fact) == "plain"
    bound = FakeListChatModel(responses=["plain"]).with_retry()
    assert await complete(to_chat_model(bound), schema=Fact) == "plain"


async def test_a_server_that_rejects_tools_is_asked_for_them_once() -> None:
    model = RefusingModel(responses=['{"subject": "bell", "year": 1907}'])
    task = Task("fact", Prompt("p", "{{text}}"), json_as(Fact), lambda values: None, schema=Fact)
    gate = ModelGate(to_chat_model(model), None)
    for text in "abc":
        assert (await gate.call(task, {"text": text}, item=text)).year == 1907
    assert model.__dict__["rejected"] == 1


async def test_streams() -> None:
    wrapped = to_chat_model(FakeListChatModel(responses=["abc", "abc"]))
    assert list(wrapped.stream("x")) == ["a", "b", "c"]
    assert [piece async for piece in wrapped.astream("x")] == ["a", "b", "c"]


def test_content_blocks_are_read_as_text() -> None:
    blocks = AIMessage([{"type": "text", "text": "two "}, {"type": "text", "text": "parts"}])
    assert to_chat_model(GenericFakeChatModel(messages=iter([blocks]))).complete("x") == "two parts"


def test_other_chat_models() -> None:
    class Own:
        def complete(self, prompt: str) -> str:
            return "x"

    own = Own()
    assert to_chat_model(own) is own
    assert to_chat_model(None) is None
    with pytest.raises(TypeError, match="language model of LangChain"):
        to_chat_model(3)


def test_many_threads_share_a_retriever(retriever: TreeRetriever) -> None:
    counts = [1, 2, 3, 4] * 10
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: retriever.invoke(QUESTION, k=k), counts))
    assert [len(documents) for documents in found] == counts
