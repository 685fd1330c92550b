"""The ways of searching through both frameworks: the core's lists, and the walk, which asks no model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.load import dumps
from llama_index.core import Document as LlamaDocument
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from pydantic import ValidationError

import stratagraph as sg
from langchain_stratagraph import (
    BridgeRetriever,
    DualSearchRetriever,
    HierarchicalRetriever,
    PPRRetriever,
    TreeRetriever,
)
from llama_index_stratagraph import ArchRAGIndex, HiRAGIndex, LSHTreeIndex, NodeRAGIndex, WalkIndex
from stratagraph import demo
from stratagraph.errors import MethodMissing
from stratagraph.methods import NAMES

WAYS: dict[str, tuple[Any, Any]] = {
    "walk": (PPRRetriever, WalkIndex),
    "archrag": (HierarchicalRetriever, ArchRAGIndex),
    "noderag": (DualSearchRetriever, NodeRAGIndex),
    "hirag": (BridgeRetriever, HiRAGIndex),
    "lshtree": (TreeRetriever, LSHTreeIndex),
}
QUESTIONS = [each.question for each in demo.questions()][::6]
QUESTION = QUESTIONS[0]


@pytest.fixture(scope="module")
def index() -> Iterator[sg.Index]:
    with sg.build_index(demo.documents(), NAMES, embedder="hashing", progress=False) as built:
        yield built


def found(documents: list[Document]) -> list[tuple[str, str]]:
    return [(each.metadata["stratagraph_kind"], each.metadata["stratagraph_id"]) for each in documents]


def of_nodes(nodes: Any) -> list[tuple[str, str]]:
    return [(each.metadata["stratagraph_kind"], each.metadata["stratagraph_id"]) for each in nodes]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((method, options) for method in WAYS for options in ({}, {"view": "chunks"})),
        *((method, {"fill": False}) for method in NAMES),
    ],
    ids=str,
)
def test_all_return_the_same_list(index: sg.Index, method: str, options: dict[str, Any]) -> None:
    retriever, kind = WAYS[method]
    for question in QUESTIONS:
        for k in (4, 9):
            hits = index.retrieve(question, k, method=method, **options).hits
            expected = [(hit.kind, hit.id) for hit in hits]
            scored = [(hit.score, hit.ref or hit.id) for hit in hits]
            documents = retriever(index=index, k=k, return_trace=True).invoke(question, **options)
            assert found(documents) == expected
            assert [(each.metadata["stratagraph"]["score"], each.id) for each in documents] == scored
            searching = kind(core=index, llm=False).as_retriever(similarity_top_k=k, **options)
            nodes = searching.retrieve(question)
            assert of_nodes(nodes) == expected
            assert [(each.score, each.node_id) for each in nodes] == scored


@pytest.mark.parametrize("method", WAYS)
def test_an_answer_rests_on_the_cores_hits(index: sg.Index, method: str) -> None:
    retriever, kind = WAYS[method]
    answer = index.answer(QUESTION, method=method)
    expected = [(hit.kind, hit.id) for hit in answer.retrieval]
    told = retriever(index=index).as_answer_runnable(return_sources=True).invoke(QUESTION)
    assert (found(told["sources"]), told["answer"]) == (expected, answer.text)
    response = kind(core=index, llm=False).as_query_engine().query(QUESTION)
    assert (of_nodes(response.source_nodes), str(response)) == (expected, answer.text)


# The walk


class Untouched(FakeListChatModel):
    """A model of LangChain that nobody may ask."""

    def _call(self, *args: Any, **kwargs: Any) -> str:
        raise AssertionError("the model was asked")


class UntouchedLLM(MockLLM):
    """A model of LlamaIndex that nobody may ask."""

    def complete(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the model was asked")


TEXTS = {each.id: each.text for each in demo.documents()[:12]}


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_langchain_builds_and_searches_without_its_model(asynchronous: bool, tmp_path: Any) -> None:
    documents = [Document(text, id=name) for name, text in TEXTS.items()]
    given = {
        "llm": Untouched(responses=["nothing"]),
        "embedding": sg.HashingEmbedder(),
        "path": tmp_path / "idx",
    }
    if asynchronous:
        retriever = await PPRRetriever.afrom_documents(documents, **given)
        await retriever.aadd_documents([Document("A zeppelin is moored at the mill.", id="new")])
        hits = await retriever.ainvoke("zeppelin")
    else:
        retriever = PPRRetriever.from_documents(documents, **given)
        retriever.add_documents([Document("A zeppelin is moored at the mill.", id="new")])
        hits = retriever.invoke("zeppelin")
    assert retriever.index.methods == ()
    assert hits[0].id == "new"
    assert {kind for kind, _ in found(hits)} == {"chunk"}
    retriever.index.close()
    loaded = PPRRetriever.load(tmp_path / "idx", embedding=sg.HashingEmbedder())
    assert loaded.invoke("zeppelin") == hits
    assert "zeppelin" in loaded.as_answer_runnable().invoke("What is moored at the mill?")
    with pytest.raises(MethodMissing, match=r"needs the method hirag, and index .* holds no method"):
        BridgeRetriever(index=loaded.index)
    loaded.index.add_method("hirag")
    assert found(BridgeRetriever(index=loaded.index).invoke(QUESTION))
    assert found(PPRRetriever(index=loaded.index).invoke("zeppelin")) == found(hits)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_llama_index_builds_and_searches_without_its_model(asynchronous: bool, tmp_path: Any) -> None:
    documents = [LlamaDocument(text=text, id_=name) for name, text in TEXTS.items()]
    given = {"llm": UntouchedLLM(), "embed_model": sg.HashingEmbedder(), "path": tmp_path / "idx"}
    if asynchronous:
        index = await WalkIndex.afrom_documents(documents, **given)
    else:
        index = WalkIndex.from_documents(documents, **given)
    index.insert(LlamaDocument(text="A zeppelin is moored at the mill.", id_="new"))
    searching = index.as_retriever(similarity_top_k=3)
    hits = await searching.aretrieve("zeppelin") if asynchronous else searching.retrieve("zeppelin")
    assert index.core.methods == ()
    assert hits[0].node.ref_doc_id == "new"
    assert {kind for kind, _ in of_nodes(hits)} == {"chunk"}
    index.close()
    loaded = WalkIndex.load(tmp_path / "idx", llm=False, embed_model=sg.HashingEmbedder())
    assert of_nodes(loaded.as_retriever(similarity_top_k=3).retrieve("zeppelin")) == of_nodes(hits)
    assert "zeppelin" in str(loaded.as_query_engine().query("What is moored at the mill?"))
    loaded.close()
    with pytest.raises(MethodMissing, match=r"needs the method archrag, and index .* holds no method"):
        ArchRAGIndex.load(tmp_path / "idx", llm=False, embed_model=sg.HashingEmbedder())


# Options


class Backwards:
    """The last text is best."""

    def rerank(self, question: str, texts: list[str]) -> list[float]:
        return [float(place) for place in range(len(texts))]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (HierarchicalRetriever, {"fill": False}),
        (PPRRetriever, {"rank": "dense"}),
        (PPRRetriever, {"rerank": Backwards()}),
    ],
    ids=["fill", "rank", "rerank"],
)
def test_how_to_search_is_a_field_and_an_argument(index: sg.Index, kind: Any, given: dict[str, Any]) -> None:
    plain, retriever = kind(index=index, k=8), kind(index=index, k=8, **given)
    asked = found(plain.invoke(QUESTION, **given))
    assert asked != found(plain.invoke(QUESTION))
    assert found(retriever.invoke(QUESTION)) == asked
    usual = {name: kind.model_fields[name].default for name in given}
    assert found(retriever.invoke(QUESTION, **usual)) == found(plain.invoke(QUESTION))
    assert retriever.as_answer_runnable().invoke(QUESTION)


def test_options_that_would_be_ignored_are_errors(index: sg.Index) -> None:
    assert PPRRetriever.options == ()
    with pytest.raises(ValidationError, match="steps"):
        PPRRetriever(index=index, steps=3)
    with pytest.raises(TypeError, match="PPRRetriever has no option 'steps'"):
        PPRRetriever(index=index).invoke(QUESTION, steps=3)
    with pytest.raises(ValueError, match="fill=False leaves passages out"):
        PPRRetriever(index=index).invoke(QUESTION, fill=False)
    with pytest.raises(TypeError, match="'relations' is an option of archrag, and view='chunks'"):
        HierarchicalRetriever(index=index, relations=False).invoke(QUESTION, view="chunks")
    with pytest.raises(ValueError, match="rank='bm25' orders passages"):
        HierarchicalRetriever(index=index).invoke(QUESTION, rank="bm25")
    walk, archrag = WalkIndex(core=index, llm=False), ArchRAGIndex(core=index, llm=False)
    with pytest.raises(TypeError, match="steps"):
        walk.as_retriever(steps=3)
    with pytest.raises(ValueError, match="fill=False leaves passages out"):
        walk.as_retriever(fill=False).retrieve(QUESTION)
    with pytest.raises(TypeError, match="'relations' is an option of archrag, and view='chunks'"):
        archrag.as_retriever(relations=False, view="chunks").retrieve(QUESTION)
    with pytest.raises(ValueError, match="rank='bm25' orders passages"):
        archrag.as_query_engine(rank="bm25").query(QUESTION)
    for wrong in (
        lambda: TreeRetriever(index=index, view="nodes"),
        lambda: archrag.as_retriever(view="nodes").retrieve(QUESTION),
    ):
        with pytest.raises(ValueError, match="chunks"):
            wrong()


@pytest.mark.parametrize("method", WAYS)
def test_no_question_changes_what_identifies_a_passage(index: sg.Index, method: str) -> None:
    retriever, kind = WAYS[method]
    first, second = (
        {each.id: each for each in retriever(index=index, k=200).invoke(question)}
        for question in QUESTIONS[:2]
    )
    passages = [key for key, each in first.items() if each.metadata["stratagraph_kind"] == "chunk"]
    assert passages
    for key in passages:
        assert dumps(first[key]) == dumps(second[key])
        assert all(isinstance(value, str | int) for value in first[key].metadata.values())
    searching = kind(core=index, llm=False).as_retriever(similarity_top_k=200)
    nodes = {each.node_id: each.node for each in searching.retrieve(QUESTIONS[0])}
    again = {each.node_id: each.node for each in searching.retrieve(QUESTIONS[1])}
    for key in passages:
        assert nodes[key].hash == again[key].hash == TextNode.from_json(nodes[key].to_json()).hash
