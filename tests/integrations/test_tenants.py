"""A filter of one tenant holds through every door: a call can only narrow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.runnables import ConfigurableField

import stratagraph as sg
from langchain_stratagraph import PPRRetriever, create_search_tool
from stratagraph.testing import FakeEmbedder

DOCUMENTS = [
    sg.Document("a1", "Ada Thornbury met Bram Okafor in Bremen.", {"tenant": "a", "year": 1890}),
    sg.Document("a2", "Ada Thornbury left Bremen.", {"tenant": "a", "year": 1891}),
    sg.Document("b1", "Ada Thornbury pays Zorblat Corp in Bremen.", {"tenant": "b", "year": 1890}),
    sg.Document("b2", "Zorblat Corp hides gold in Bremen.", {"tenant": "b", "year": 1891}),
]
QUESTION = "Who is in Bremen?"
FIXED = [{"tenant": "a"}, lambda metadata: metadata["tenant"] == "a"]
CALLS: list[tuple[Any, set[str]]] = [
    (None, {"a1", "a2"}),
    ({}, {"a1", "a2"}),
    ({"year": 1890}, {"a1"}),
    ({"tenant": "b"}, set()),
    ({"$or": [{"tenant": "b"}, {"year": 1891}]}, {"a2"}),
    (lambda metadata: True, {"a1", "a2"}),
    (lambda metadata: metadata["year"] == 1891, {"a2"}),
]


@pytest.fixture(scope="module")
def index() -> Iterator[sg.Index]:
    with sg.build_index(DOCUMENTS, embedder=FakeEmbedder(), progress=False) as index:
        yield index


def call(made: PPRRetriever, name: str, where: Any) -> Any:
    return made.invoke(QUESTION, **{name: where})


def answer(made: PPRRetriever, where: Any) -> Any:
    return made.as_answer_runnable(return_sources=True).invoke(QUESTION, where=where)["sources"]


def bound_answer(made: PPRRetriever, where: Any) -> Any:
    return made.as_answer_runnable(return_sources=True).bind(filter=where).invoke(QUESTION)["sources"]


def configured(made: PPRRetriever, where: Any) -> Any:
    field = made.configurable_fields(where=ConfigurableField("where"), k=ConfigurableField("k"))
    return field.with_config(configurable={"where": where, "k": 9}).invoke(QUESTION)


DOORS: dict[str, Callable[[PPRRetriever, Any], Any]] = {
    "invoke(where=)": lambda made, where: call(made, "where", where),
    "invoke(filter=)": lambda made, where: call(made, "filter", where),
    "bind": lambda made, where: made.bind(where=where).invoke(QUESTION),
    "bind, then a call": lambda made, where: made.bind(filter=where).invoke(QUESTION, where={}),
    "configurable_fields": configured,
    "answer": answer,
    "bound answer": bound_answer,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("fixed", FIXED)
def test_a_call_narrows_the_filter_of_a_retriever(index: sg.Index, fixed: Any, door: str) -> None:
    made = PPRRetriever(index=index, where=fixed, k=9)
    for where, expected in CALLS:
        found = DOORS[door](made, where)
        assert {document.metadata["source"] for document in found} == expected, where
    assert made.where == fixed


@pytest.mark.parametrize("fixed", FIXED)
def test_a_call_narrows_the_filter_of_a_vector_store_and_of_its_retriever(fixed: Any) -> None:
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding

    from langchain_stratagraph import StrataVectorStore

    documents = [Document(each.text, id=each.id, metadata=dict(each.metadata)) for each in DOCUMENTS]
    store = StrataVectorStore.from_documents(documents, DeterministicFakeEmbedding(size=16), where=fixed)
    open_to_all = StrataVectorStore(store.embeddings, path=store.index.path)
    for where, expected in CALLS:
        given = {} if where is None else {"filter": where}
        assert {each.id for each in store.similarity_search(QUESTION, 9, **given)} == expected
        for search_type in ("similarity", "mmr"):
            made = open_to_all.as_retriever(search_type=search_type, search_kwargs={"filter": fixed, "k": 9})
            assert {each.id for each in made.invoke(QUESTION, **given)} == expected
    assert len(open_to_all.similarity_search(QUESTION, 9)) == 4
    listed = [each.id for each in DOCUMENTS]
    for get in (store.get_by_ids, store.retriever.as_document_index().get):
        assert {each.id for each in get(listed)} == {"a1", "a2"}
    open_to_all.index.close()
    store.index.close()


@pytest.mark.parametrize("fixed", FIXED)
def test_the_filters_of_an_agent_narrow_those_of_its_tool(index: sg.Index, fixed: Any) -> None:
    tool = create_search_tool(index, filters={"year": "Year", "tenant": "Tenant"}, where=fixed)
    for given in ({}, {"year": 1890}, {"tenant": "b"}, {"year": None, "tenant": None}):
        assert "Zorblat" not in tool.invoke({"query": QUESTION, **given})
    assert "a1" in tool.invoke({"query": QUESTION, "year": 1890})


def test_the_filter_of_a_middleware_holds(index: sg.Index) -> None:
    pytest.importorskip("langchain.agents")
    from langchain_core.messages import HumanMessage

    from langchain_stratagraph.middleware import RetrievalMiddleware

    state = RetrievalMiddleware(index, where={"tenant": "a"}).before_agent(
        {"messages": [HumanMessage(QUESTION)]}, None
    )
    assert {document.metadata["source"] for document in state["passages"]} == {"a1", "a2"}


def test_filters_of_llama_index_hold() -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core import Document
    from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

    from llama_index_stratagraph import WalkIndex
    from llama_index_stratagraph.retriever import StrataRetriever

    documents = [Document(id_=each.id, text=each.text, metadata=dict(each.metadata)) for each in DOCUMENTS]
    made = WalkIndex.from_documents(documents, embed_model=FakeEmbedder(), llm=False)
    own = MetadataFilters(filters=[MetadataFilter(key="tenant", value="a")])
    for given in ({"filters": own}, {"where": FIXED[0]}, {"where": FIXED[1]}):
        nodes = made.as_retriever(similarity_top_k=9, **given).retrieve(QUESTION)
        assert {node.metadata["tenant"] for node in nodes} == {"a"}
        answered = made.as_query_engine(similarity_top_k=9, **given).query(QUESTION)
        assert {node.metadata["tenant"] for node in answered.source_nodes} == {"a"}
    with pytest.raises(TypeError, match="search has no option 'where'"):
        StrataRetriever(made, filters=own, search={"where": {}})
    for condition in ("or", "and"):
        empty = MetadataFilters(filters=[], condition=condition)
        assert len(made.as_retriever(similarity_top_k=9, filters=empty).retrieve(QUESTION)) == 4
    made.close()


@pytest.mark.parametrize("fixed", FIXED)
def test_filters_joined_many_times_admit_what_all_admit(index: sg.Index, fixed: Any) -> None:
    made = PPRRetriever(index=index, where=fixed, k=9)
    narrowed = made.bind(where={"year": 1890}).bind(where={})
    assert [each.metadata["source"] for each in narrowed.invoke(QUESTION)] == ["a1"]


def test_history_does_not_tell_which_names_a_filter_hides(index: sg.Index) -> None:
    asked = {}
    for name in ("Zorblat Corp", "Gurtok Corp", "Ada Thornbury"):
        history = [("user", f"Who is {name}?")]
        found = index.retrieve("Where is it?", where={"tenant": "a"}, history=history)
        asked[name] = found.query.replace(name, "NAME")
        assert [hit.documents for hit in found if hit.documents[0].startswith("b")] == []
    assert asked["Zorblat Corp"] == asked["Gurtok Corp"] == "Where is it? (Who is NAME?)"
    assert asked["Ada Thornbury"] == "Where is it? (NAME)"
    unfiltered = index.retrieve("Where is it?", history=[("user", "Who is Zorblat Corp?")])
    assert unfiltered.query == "Where is it? (Zorblat Corp)"


def test_history_with_documents_does_not_tell_either(index: sg.Index) -> None:
    retriever = PPRRetriever(index=index, where={"tenant": "a"}, return_trace=False)
    documents = retriever.invoke(QUESTION)
    retrieval = sg.Retrieval("Where is it?", "walk", index.retrieve(QUESTION, where={"tenant": "a"}).hits)
    for name in ("Zorblat Corp", "Gurtok Corp"):
        answer = index.answer(retrieval, history=[("user", f"Who is {name}?")])
        assert answer.retrieval.query == f"Where is it? (Who is {name}?)"
    assert len(documents) == 2


@pytest.mark.parametrize("fixed", [*FIXED, None])
def test_descriptions_count_what_the_filter_admits_and_name_nothing_unasked(
    index: sg.Index, fixed: Any
) -> None:
    count = "4 documents" if fixed is None else "2 documents"
    plain = create_search_tool(index, where=fixed)
    assert plain.description.startswith(f"Search {count}. ")
    named = create_search_tool(index, where=fixed, names=8)
    assert named.description.startswith(f'Search {count}, with names such as "')
    assert "Bremen" in named.description
    assert ("Zorblat" in named.description) == (fixed is None)


def test_descriptions_of_llama_index_count_what_the_filter_admits(index: sg.Index) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

    from llama_index_stratagraph import WalkIndex

    made = WalkIndex.load(index.path, embed_model=FakeEmbedder(), llm=False)
    own = MetadataFilters(filters=[MetadataFilter(key="tenant", value="a")])
    for given in ({"filters": own}, {"where": FIXED[0]}):
        for tool in (made.as_query_engine_tool(**given), made.as_retriever_tool(**given)):
            assert " 2 documents. " in tool.metadata.description
        named = made.as_retriever_tool(names=8, **given).metadata.description
        assert "Ada Thornbury" in named
        assert "Zorblat" not in named
    made.close()


def test_counts_and_names_of_shards_are_those_that_the_filter_admits(tmp_path: Any) -> None:
    arguments: Any = {"embedder": FakeEmbedder(), "progress": False}
    with sg.build_shards(DOCUMENTS, path=tmp_path / "s", by="year", **arguments) as shards:
        assert shards.about() == "4 documents"
        about = shards.about(8, {"tenant": "a"})
        assert about.startswith("2 documents, with names such as ")
        assert "Ada Thornbury" in about
        assert "Zorblat" not in about
        history = [("user", "Who is Zorblat Corp?")]
        hidden = shards.retrieve("Where is it?", where={"tenant": "a"}, history=history)
        assert hidden.query == "Where is it? (Who is Zorblat Corp?)"
        admitted = shards.retrieve("Where is it?", where={"tenant": "b"}, history=history)
        assert admitted.query == "Where is it? (Zorblat Corp)"
