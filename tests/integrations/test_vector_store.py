"""The vector store, by LangChain's own tests, and in what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("langchain_tests")
pytest.importorskip("langchain_classic")

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests

from langchain_stratagraph import StrataVectorStore
from stratagraph import HashingEmbedder
from tests.integrations.corpus import SHIPS, STEERED, langchain_ships


@pytest.fixture
def store() -> Iterator[StrataVectorStore]:
    made = StrataVectorStore.from_documents(langchain_ships(), HashingEmbedder())
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
    dense.add_documents(langchain_ships())
    assert "quill" not in ids(dense.similarity_search(STEERED, k=3))
    found = store.similarity_search(STEERED, k=3)
    assert "quill" in ids(found)
    assert all(each in langchain_ships() for each in found)
    assert ids(store.as_retriever(search_kwargs={"k": 3}).invoke(STEERED)) == ids(found)


def test_scores_and_variety(store: StrataVectorStore) -> None:
    scored = store.similarity_search_with_score(STEERED, k=6)
    assert [score for _, score in scored] == sorted((score for _, score in scored), reverse=True)
    relevant = store.similarity_search_with_relevance_scores(STEERED, k=6)
    assert ids([each for each, _ in relevant]) == ids([each for each, _ in scored])
    assert all(0 <= cosine <= 1 for _, cosine in relevant)
    least = sorted(cosine for _, cosine in relevant)[3]
    threshold = store.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": least, "k": 6}
    )
    assert len(threshold.invoke(STEERED)) == 3
    assert ids(store.max_marginal_relevance_search(STEERED, k=2, lambda_mult=1.0))[0] in SHIPS
    store.add_documents([Document(id="copy", page_content=SHIPS["wreck"])])
    varied = store.max_marginal_relevance_search(STEERED, k=6, fetch_k=7, lambda_mult=0.2)
    assert not {"wreck", "copy"} <= {*ids(varied)}


def test_a_filter_of_the_store_holds(store: StrataVectorStore, tmp_path: Path) -> None:
    made = StrataVectorStore(HashingEmbedder(), tmp_path / "idx", where={"year": 1902})
    made.add_documents(langchain_ships())
    vector = HashingEmbedder().embed_query(STEERED)
    for found in (
        made.similarity_search(STEERED, k=9),
        made.similarity_search_by_vector(vector, k=9),
        made.get_by_ids(list(SHIPS)),
        made.max_marginal_relevance_search(STEERED, k=9),
    ):
        assert ids(found) == ["board"]
    assert made.similarity_search(STEERED, k=9, filter={"year": 1895}) == []
    with pytest.raises(TypeError, match="has no option 'top_k'; it has k, "):
        made.similarity_search(STEERED, top_k=3)
    made.index.close()
