"""LangChain's vector stores as vector tables of an index.

The interface of a store takes texts and embeds them by its own object. So rows are added through a copy of
the store whose embeddings return the prepared vectors. Searches are by vector. Filters have no common form,
so only those of the stores named here are used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from stratagraph.errors import VectorStoreError
from stratagraph.types.built import VECTOR_FIELD, VectorRow

Where = Mapping[str, Sequence[str]]


def to_table(store: Any) -> LangChainTable:
    """A vector store as the core's vector table."""
    if not isinstance(store, VectorStore):
        raise TypeError(f"vectors must be a VectorStore of LangChain, not {type(store).__name__}: {store!r}")
    return LangChainTable(store)


class PreparedVectors(Embeddings):
    """Embeddings that return the vector prepared for each text.

    For stores that cannot be copied: make the store with `embedding=PreparedVectors()`.
    """

    def __init__(self) -> None:
        self.vectors: dict[str, Sequence[float]] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The prepared vectors; `VectorStoreError` if a text has none."""
        if missing := [text for text in texts if text not in self.vectors]:
            raise VectorStoreError(
                f"a store that an index of stratagraph writes to was asked to embed {missing[0][:60]!r}: "
                "search and add through the index, or through a store object of its own for other texts"
            )
        return [list(self.vectors[text]) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The prepared vector."""
        return self.embed_documents([text])[0]


class LangChainTable:
    """A vector store of LangChain."""

    def __init__(self, store: VectorStore) -> None:
        self.name = f"LangChain's {type(store).__name__}"
        self._store = store
        self._filter = _filter_of(store)
        self.filters = self._filter is not None

    def put(self, rows: Sequence[VectorRow]) -> None:
        """Add rows through a copy of the store whose embeddings are the rows' vectors."""
        documents = [Document(id=row.id, page_content=row.id, metadata=dict(row.fields)) for row in rows]
        store, prepared = _prepared(self._store)
        vectors = {row.id: row.vector for row in rows}
        prepared.vectors.update(vectors)
        try:
            store.add_documents(documents, ids=[row.id for row in rows])
        finally:
            for text in vectors:
                prepared.vectors.pop(text, None)

    def get(self, ids: Sequence[str]) -> dict[str, Any]:
        """Vectors of rows by id."""
        try:
            rows = self._store.get_by_ids(list(ids))
        except NotImplementedError as error:
            raise VectorStoreError(
                f"{self.name} cannot give rows by their ids (get_by_ids), which an index needs"
            ) from error
        return dict(map(_read, rows))

    def search(self, vector: Sequence[float], k: int, where: Where) -> list[tuple[str, Any]]:
        """The `k` rows most similar to a vector."""
        filtered = {} if self._filter is None else {"filter": self._filter(where)}
        rows = self._store.similarity_search_by_vector(list(vector), k=k, **filtered)
        return [_read(each) for each in rows]

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows."""
        if self._store.delete(list(ids)) is False:
            raise VectorStoreError(f"{self.name} refused to delete {len(ids)} rows")


def _read(document: Document) -> tuple[str, Any]:
    """Id and vector of a row. The text is the id, since not every store returns ids."""
    return document.page_content, document.metadata.get(VECTOR_FIELD)


def _prepared(store: VectorStore) -> tuple[VectorStore, PreparedVectors]:
    """A copy of a store that embeds by prepared vectors, and these."""
    own = store.embeddings
    if isinstance(own, PreparedVectors):
        return store, own
    twin, prepared = copy.copy(store), PreparedVectors()
    for name, value in list(vars(twin).items()):
        if own is not None and value is own:
            setattr(twin, name, prepared)
    if twin.embeddings is not prepared:
        raise VectorStoreError(
            f"{type(store).__name__} does not say by which object it embeds: make it with "
            "embedding=PreparedVectors() (from langchain_stratagraph)"
        )
    return twin, prepared


def _filter_of(store: VectorStore) -> Callable[[Where], Any] | None:
    """The function that makes a store's filter; None for unknown stores."""
    packages = {base.__module__.partition(".")[0] for base in type(store).__mro__}
    if "langchain_qdrant" in packages:
        return partial(_qdrant, getattr(store, "metadata_payload_key", "metadata"))
    if packages & {"langchain_chroma", "langchain_postgres"}:
        return _all_of
    own = {base.__module__ for base in type(store).__mro__}
    return _function if "langchain_core.vectorstores.in_memory" in own else None


def _qdrant(payload: str, where: Where) -> Any:
    models = import_module("qdrant_client.models")
    return models.Filter(
        must=[
            models.FieldCondition(key=f"{payload}.{name}", match=models.MatchAny(any=list(values)))
            for name, values in where.items()
        ]
    )


def _all_of(where: Where) -> dict[str, Any]:
    conditions = [{name: {"$in": list(values)}} for name, values in where.items()]
    return conditions[0] if len(conditions) == 1 else {"$and": conditions}


def _function(where: Where) -> Callable[[Document], bool]:
    wanted = {name: frozenset(values) for name, values in where.items()}
    return lambda document: all(document.metadata.get(name) in values for name, values in wanted.items())
