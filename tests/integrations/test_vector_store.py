"""The vector store, by LangChain's own tests, under LangChain's own recipes, and in what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_tests")
pytest.importorskip("langchain_classic")

from graph_retriever.strategies import Eager
from langchain_classic.retrievers import MultiVectorRetriever, ParentDocumentRetriever
from langchain_classic.retrievers.self_query.base import SelfQueryRetriever
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_graph_retriever import GraphRetriever
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests
from langchain_text_splitters import CharacterTextSplitter

from langchain_stratagraph import StrataTranslator, StrataVectorStore
from langchain_stratagraph.graph_retriever import StrataAdapter
from stratagraph import HashingEmbedder

QUESTION = "Who steered the ship that ran aground off Cape Ellery?"
ANSWER = "quill"
TEXTS = {
    ANSWER: "Mara Quill steered the Dunlin from 1889 until she was sold.",
    "wreck": "The Dunlin ran aground off Cape Ellery in the gale of 1895.",
    "tow": "Ships that ran aground in a gale were towed to Bremen.",
    "captain": "The captain of a ship steers by the lamp in a gale.",
    "keeper": "Tomas Quill kept the lamp of Cape Ellery.",
    "board": "The harbour board of Bremen sold an old lamp in 1902.",
}
YEARS = {"wreck": 1895, "board": 1902}


def documents() -> list[Document]:
    return [
        Document(id=key, page_content=text, metadata={"year": YEARS[key]} if key in YEARS else {})
        for key, text in TEXTS.items()
    ]


@pytest.fixture
def store() -> Iterator[StrataVectorStore]:
    made = StrataVectorStore.from_documents(documents(), HashingEmbedder())
    yield made
    made.index.close()


class TestStandard(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> Iterator[StrataVectorStore]:
        made = StrataVectorStore(self.get_embeddings())
        yield made
        made.index.close()


def ids(found: list[Document]) -> list[str | None]:
    return [each.id for each in found]


def test_the_walk_finds_what_vectors_miss(store: StrataVectorStore) -> None:
    dense = InMemoryVectorStore(HashingEmbedder())
    dense.add_documents(documents())
    assert ANSWER not in ids(dense.similarity_search(QUESTION, k=3))
    found = store.similarity_search(QUESTION, k=3)
    assert ANSWER in ids(found)
    assert all(each in documents() for each in found)
    assert ids(store.as_retriever(search_kwargs={"k": 3}).invoke(QUESTION)) == ids(found)


def test_parents_and_other_vectors_of_what_the_walk_finds() -> None:
    parents = [Document(page_content=f"{text}\n\nFiled by the harbour board.") for text in TEXTS.values()]
    splitter = CharacterTextSplitter(separator="\n\n", chunk_size=1, chunk_overlap=0)
    for kind in (InMemoryVectorStore, StrataVectorStore):
        retriever = ParentDocumentRetriever(
            vectorstore=kind(HashingEmbedder()),
            docstore=InMemoryStore(),
            child_splitter=splitter,
            search_kwargs={"k": 3},
        )
        retriever.add_documents(parents, ids=list(TEXTS))
        found = [each.page_content for each in retriever.invoke(QUESTION)]
        assert (parents[0].page_content in found) is (kind is StrataVectorStore)
        several = MultiVectorRetriever(
            vectorstore=kind(HashingEmbedder()), docstore=InMemoryStore(), id_key="of", search_kwargs={"k": 3}
        )
        several.vectorstore.add_documents(
            [Document(page_content=text, metadata={"of": key}) for key, text in TEXTS.items()]
        )
        several.docstore.mset([(key, Document(page_content=key)) for key in TEXTS])
        held = [each.page_content for each in several.invoke(QUESTION)]
        assert (ANSWER in held) is (kind is StrataVectorStore)


def test_the_indexing_api_keeps_it_up_to_date(store: StrataVectorStore) -> None:
    records = InMemoryRecordManager("harbour")
    records.create_schema()
    given: dict[str, Any] = {"source_id_key": "source", "key_encoder": "sha256", "cleanup": "full"}
    files = [Document(page_content=text, metadata={"source": key}) for key, text in TEXTS.items()]
    store.delete(list(TEXTS))
    assert index(files, records, store, **given)["num_added"] == len(files)
    done = index(files[1:], records, store, **given)
    assert (done["num_skipped"], done["num_deleted"]) == (len(files) - 1, 1)
    assert files[0].page_content not in [each.page_content for each in store.similarity_search(QUESTION, k=9)]


def test_a_filter_that_a_model_wrote(store: StrataVectorStore) -> None:
    wanted = Operation(
        Operator.AND,
        [
            Comparison(Comparator.GTE, "year", 1890),
            Operation(Operator.NOT, [Comparison(Comparator.EQ, "year", 1902)]),
        ],
    )
    retriever = SelfQueryRetriever(
        vectorstore=store,
        query_constructor=RunnableLambda(lambda _: StructuredQuery("the gale", wanted, 3)),
        structured_query_translator=StrataTranslator(),
    )
    assert ids(retriever.invoke("What happened in the gale of the nineties?")) == ["wreck"]


def test_edges_of_metadata_are_followed() -> None:
    linked = [
        Document(id=key, page_content=TEXTS[key], metadata={"name": key, "mentions": others})
        for key, others in {"wreck": ["keeper"], "keeper": ["board"], "board": []}.items()
    ]
    store = StrataVectorStore.from_documents(linked, HashingEmbedder())
    retriever = GraphRetriever(
        store=StrataAdapter(store),
        edges=[("mentions", "name")],
        strategy=Eager(select_k=3, start_k=1, max_depth=2),
    )
    found = retriever.invoke("What ran aground off Cape Ellery?")
    assert [(each.id, each.metadata["_depth"]) for each in found] == [
        ("wreck", 0),
        ("keeper", 1),
        ("board", 2),
    ]
    store.index.close()


def test_scores_and_variety(store: StrataVectorStore) -> None:
    scored = store.similarity_search_with_score(QUESTION, k=6)
    assert [score for _, score in scored] == sorted((score for _, score in scored), reverse=True)
    relevant = store.similarity_search_with_relevance_scores(QUESTION, k=6)
    assert ids([each for each, _ in relevant]) == ids([each for each, _ in scored])
    assert all(0 <= cosine <= 1 for _, cosine in relevant)
    least = sorted(cosine for _, cosine in relevant)[3]
    threshold = store.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": least, "k": 6}
    )
    assert len(threshold.invoke(QUESTION)) == 3
    assert ids(store.max_marginal_relevance_search(QUESTION, k=2, lambda_mult=1.0))[0] in TEXTS
    store.add_documents([Document(id="copy", page_content=TEXTS["wreck"])])
    varied = store.max_marginal_relevance_search(QUESTION, k=6, fetch_k=7, lambda_mult=0.2)
    assert not {"wreck", "copy"} <= {*ids(varied)}


def test_a_filter_of_the_store_holds(store: StrataVectorStore, tmp_path: Path) -> None:
    made = StrataVectorStore(HashingEmbedder(), tmp_path / "idx", where={"year": 1902})
    made.add_documents(documents())
    vector = HashingEmbedder().embed_query(QUESTION)
    for found in (
        made.similarity_search(QUESTION, k=9),
        made.similarity_search_by_vector(vector, k=9),
        made.get_by_ids(list(TEXTS)),
        made.max_marginal_relevance_search(QUESTION, k=9),
    ):
        assert ids(found) == ["board"]
    assert made.similarity_search(QUESTION, k=9, filter={"year": 1895}) == []
    with pytest.raises(TypeError, match="has no option 'top_k'; it has k, "):
        made.similarity_search(QUESTION, top_k=3)
    made.index.close()
