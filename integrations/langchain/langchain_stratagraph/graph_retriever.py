"""A stratagraph vector store under the `GraphRetriever` of langchain-graph-retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_stratagraph.vector_store import StrataVectorStore
from stratagraph.errors import require
from stratagraph.types.results import callers_own

try:
    from graph_retriever import Content
    from graph_retriever.adapters import Adapter
except ModuleNotFoundError:
    require("graph-retriever", "graph_retriever")
    raise


class StrataAdapter(Adapter):
    """Adapter of `StrataVectorStore` for `GraphRetriever`, which follows edges between metadata fields.

    The traversal begins with the passages that the walk finds for the question.

    Examples
    --------
    >>> GraphRetriever(store=StrataAdapter(store), edges=[("mentions", "name")])  # doctest: +SKIP
    """

    def __init__(self, store: StrataVectorStore) -> None:
        super().__init__()
        self._store = store

    def search_with_embedding(
        self, query: str, k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[list[float], list[Content]]:
        """The question's vector, and the passages that the walk finds."""
        found = self._store.found(query, max(1, k), filter=filter, **kwargs)
        assert found.vector is not None
        return found.vector.tolist(), self._contents([hit.ref for hit in found.hits][:k])

    def search(
        self, embedding: list[float], k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Content]:
        """The passages nearest to a vector."""
        found = self._store.similarity_search_by_vector(embedding, max(1, k), filter=filter, **kwargs)
        return self._contents([str(each.id) for each in found[:k]])

    def get(self, ids: Sequence[str], filter: dict[str, Any] | None = None, **kwargs: Any) -> list[Content]:
        """The passages with these ids that the filter admits."""
        return self._contents(ids, filter)

    def _contents(self, ids: Sequence[str], filter: dict[str, Any] | None = None) -> list[Content]:
        """Passages with their vectors, in the order of the ids, without those that are unknown or hidden."""
        where = self._store.retriever.request(filter=filter)["where"]
        chunks = {each.ref: each for each in self._store.index.find_chunks(ids, where=where)}
        chosen = [chunks[each] for each in ids if each in chunks]
        vectors = self._store.index.embeddings([each.id for each in chosen])
        return [
            Content(each.ref, each.text, vector.tolist(), callers_own(each.metadata))
            for each, vector in zip(chosen, vectors, strict=True)
        ]
