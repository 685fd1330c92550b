"""An index in the place of a vector store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.structured_query import (
    Comparator,
    Comparison,
    Operation,
    Operator,
    StructuredQuery,
    Visitor,
)
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from langchain_stratagraph._base import check_question
from langchain_stratagraph._convert import of_texts
from langchain_stratagraph.document_index import document_key
from langchain_stratagraph.retrievers import PPRRetriever
from stratagraph import Hit, Index, Retrieval
from stratagraph.types.results import callers_own

_COMPARATORS = {
    Comparator.EQ: "$eq",
    Comparator.NE: "$ne",
    Comparator.GT: "$gt",
    Comparator.GTE: "$gte",
    Comparator.LT: "$lt",
    Comparator.LTE: "$lte",
    Comparator.IN: "$in",
    Comparator.NIN: "$nin",
}


class StrataVectorStore(VectorStore):
    """An index folder as a LangChain vector store, searched by the walk over names and passages.

    It stands wherever LangChain takes a vector store: `ParentDocumentRetriever`, `MultiVectorRetriever`, the
    indexing API. Each document is one passage, which comes back with its id and its metadata as they were
    given. A document without an id gets a hash of its text and metadata. Blank documents are left out.

    Parameters
    ----------
    embedding
        Embeddings. None uses the local default of a new index, or the model that the index was built with.
    path
        Index folder, opened or begun empty. None uses a temporary folder, removed when `index` is closed.
    **settings
        Further arguments of `PPRRetriever.document_index`, such as `llm`, `config` and `vectors`, and fields
        of `PPRRetriever` that hold for every search, such as `where`, `rank` and `guided`.

    Attributes
    ----------
    retriever
        The retriever over the same index, with answers and the other ways of searching.

    Examples
    --------
    >>> store = StrataVectorStore.from_documents(docs, embeddings, path="idx")  # doctest: +SKIP
    >>> store.similarity_search("Who built the lighthouse?", k=4, filter={"year": 1902})  # doctest: +SKIP
    """

    def __init__(
        self,
        embedding: Embeddings | None = None,
        path: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> None:
        self._embedding = embedding
        settings = {"id_key": document_key, **settings}
        self._documents = PPRRetriever.document_index(path, embedding=embedding, **settings)
        self.retriever = self._documents.retriever

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], embedding: Embeddings | None = None, **kwargs: Any
    ) -> Self:
        """Open or begin an index and add documents. Keyword arguments are those of the constructor."""
        store = cls(embedding, **kwargs)
        store.add_documents(documents)
        return store

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Open or begin an index and add texts. Keyword arguments are those of the constructor."""
        return cls.from_documents(of_texts(texts, metadatas, ids), embedding, **kwargs)

    @property
    def index(self) -> Index:
        """The open index."""
        return self.retriever.index

    @property
    def embeddings(self) -> Embeddings | None:
        """The embeddings that were given."""
        return self._embedding

    def add_documents(self, documents: Iterable[Document], **kwargs: Any) -> list[str]:
        """Add documents, in one change of the index, and return their ids.

        A document replaces the one with its id. `ids` gives ids in place of the documents' own. `batch_size`
        has no effect.
        """
        documents, ids = list(documents), kwargs.pop("ids", None)
        kwargs.pop("batch_size", None)  # LangChain's indexing API gives one to every vector store
        if ids is not None:
            texts = [each.page_content for each in documents]
            documents = of_texts(texts, [each.metadata for each in documents], ids)
        self._documents.upsert(documents, **kwargs)
        return [document_key(each) for each in documents]

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts as documents; see `add_documents`."""
        return self.add_documents(of_texts(texts, metadatas, ids), **kwargs)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents, and what was made of them. Unknown ids are ignored."""
        self._documents.delete(ids, **kwargs)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, without those that are unknown or hidden by `where`."""
        return [
            Document(id=each.ref or each.id, page_content=each.text, metadata=callers_own(each.metadata))
            for each in self.index.find_chunks(ids, where=self.retriever.request()["where"])
        ]

    def as_retriever(self, **kwargs: Any) -> VectorStoreRetriever:
        """Return LangChain's retriever over this store; see `VectorStore.as_retriever`.

        A filter in `search_kwargs` holds in every call: `filter` of a call narrows it.
        """
        store = copy(self)
        store.retriever, search = self.retriever.narrowed(kwargs.pop("search_kwargs", None) or {})
        return super(StrataVectorStore, store).as_retriever(search_kwargs=search, **kwargs)

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the `k` best documents by the walk.

        `filter` narrows the search; other options are those of `PPRRetriever`. `rank="dense"` searches by
        vectors alone.
        """
        return [_document(hit) for hit in self.found(query, k, **kwargs).hits]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the `k` best documents with their scores.

        The score is the passage's share of the walk: higher is better, it never rises with rank, and it can
        be compared within one search only. `similarity_search_with_relevance_scores` gives cosines.
        """
        return [(_document(hit), hit.score) for hit in self.found(query, k, **kwargs).hits]

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """The `k` best documents by the walk, with the cosines of their vectors and the question's."""
        found = self.found(query, k, **{"min_score": -1.0, **kwargs})
        return [
            (_document(hit), max(0.0, float(trace["cosine"])))
            for hit, trace in zip(found.hits, found.trace, strict=True)
        ]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Return the `k` documents nearest to a vector, of those that `filter` admits.

        A walk starts from the words of a question; this compares vectors alone.
        """
        narrowed, others = self.retriever.narrowed(kwargs)
        if others:
            raise TypeError(f"a search by a vector takes filter and as_of, and no {min(others)!r}")
        where = narrowed.request()["where"]
        return [_document(hit) for hit in self.index.nearest(embedding, k, where=where)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return `k` of the `fetch_k` best documents that are near the question and unlike each other.

        `lambda_mult` is 1 for nearness alone and 0 for variety alone. Vectors are those of the index.
        """
        found = self.found(query, max(k, fetch_k), **kwargs)
        if not found.hits:
            return []
        vectors = self.index.embeddings([hit.id for hit in found.hits])
        question = np.asarray(found.vector, np.float32)
        chosen = maximal_marginal_relevance(question, list(vectors), lambda_mult, k)
        return [_document(found.hits[place]) for place in chosen]

    def found(self, query: str, k: int = 4, **options: Any) -> Retrieval:
        """The search behind `similarity_search`, with traces, as the core returns it."""
        check_question(query)
        return self.index.retrieve(query, **self.retriever.request(k=k, **options))


def _document(hit: Hit) -> Document:
    """A passage as it was given."""
    return Document(id=hit.ref or hit.id, page_content=hit.text, metadata=callers_own(hit.metadata))


class StrataTranslator(Visitor):
    """Writes the filters of LangChain's `SelfQueryRetriever` as filters of stratagraph.

    Examples
    --------
    >>> SelfQueryRetriever.from_llm(
    ...     llm, store, "Letters.", fields, structured_query_translator=StrataTranslator()
    ... )  # doctest: +SKIP
    """

    allowed_operators = tuple(Operator)
    allowed_comparators = (*_COMPARATORS, Comparator.CONTAIN)

    def visit_operation(self, operation: Operation) -> dict[str, Any]:
        """Conditions joined by `$and` or `$or`, or the opposite of one."""
        self._validate_func(operation.operator)
        conditions = [each.accept(self) for each in operation.arguments]
        if operation.operator is Operator.NOT:
            return {"$not": conditions[0] if len(conditions) == 1 else {"$and": conditions}}
        return {f"${operation.operator.value}": conditions}

    def visit_comparison(self, comparison: Comparison) -> dict[str, Any]:
        """A comparison with a value; of a list in the metadata one item must pass."""
        self._validate_func(comparison.comparator)
        value = comparison.value
        if isinstance(value, dict) and "date" in value:  # as LangChain's parser gives dates
            value = value["date"]
        return {comparison.attribute: {_COMPARATORS.get(comparison.comparator, "$eq"): value}}

    def visit_structured_query(self, structured_query: StructuredQuery) -> tuple[str, dict[str, Any]]:
        """The query, and the keyword arguments of a search."""
        condition = structured_query.filter
        return structured_query.query, {} if condition is None else {"filter": condition.accept(self)}
