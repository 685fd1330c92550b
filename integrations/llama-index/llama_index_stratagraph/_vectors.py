"""LlamaIndex's vector stores as vector tables of an index."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from stratagraph.errors import VectorStoreError
from stratagraph.types.built import VECTOR_FIELD, VectorRow

_NO_COLLECTION = re.compile(
    r"(collection|table)\b.*\b(not found|does not exist|doesn't exist|not initialized)",
    re.IGNORECASE | re.DOTALL,
)
Where = Mapping[str, Sequence[str]]


def to_table(store: Any) -> LlamaIndexTable:
    """A vector store as the core's vector table."""
    if not isinstance(store, BasePydanticVectorStore):
        raise TypeError(
            f"vectors must be a vector store of LlamaIndex, not {type(store).__name__}: {store!r}"
        )
    modules = {base.__module__ for base in type(store).__mro__}
    in_sql = "llama_index.vector_stores.lancedb.base" in modules
    return LanceTable(store) if in_sql else LlamaIndexTable(store)


class LlamaIndexTable:
    """A vector store of LlamaIndex.

    `add` replaces rows in some stores and duplicates them in others, so rows are deleted before they are
    added.
    """

    filters = True

    def __init__(self, store: BasePydanticVectorStore) -> None:
        self.name = f"LlamaIndex's {type(store).__name__}"
        self._store = store

    def put(self, rows: Sequence[VectorRow]) -> None:
        """Add rows."""
        if there := list(self.get([row.id for row in rows])):
            self.delete(there)
        self._store.add(
            [
                TextNode(id_=row.id, text=row.id, embedding=list(row.vector), metadata=dict(row.fields))
                for row in rows
            ]
        )

    def get(self, ids: Sequence[str]) -> dict[str, Any]:
        """Vectors of rows by id: as their field has them, or as the store gives them if it has no texts."""
        try:
            nodes = self._nodes(ids)
        except NotImplementedError as error:
            return self._embeddings(ids, error)
        except Exception as error:
            if _NO_COLLECTION.search(str(error)):
                return {}  # some make it with the first rows
            raise
        return {node.node_id: node.metadata.get(VECTOR_FIELD) for node in nodes}

    def _nodes(self, ids: Sequence[str]) -> Sequence[BaseNode]:
        return self._store.get_nodes(node_ids=list(ids))

    def _embeddings(self, ids: Sequence[str], error: Exception) -> dict[str, Any]:
        """Vectors one by one, from a store that keeps nothing else."""
        one = getattr(self._store, "get", None)
        if one is None:
            raise VectorStoreError(
                f"{self.name} cannot give rows by their ids (get_nodes), which an index needs"
            ) from error
        vectors = {}
        for identity in ids:
            try:
                vectors[identity] = one(identity)
            except KeyError:
                continue
        return vectors

    def search(self, vector: Sequence[float], k: int, where: Where) -> list[tuple[str, Any]]:
        """The `k` rows most similar to a vector."""
        filters = MetadataFilters(
            filters=[
                MetadataFilter(key=name, value=list(values), operator=FilterOperator.IN)
                for name, values in where.items()
            ]
        )
        query = VectorStoreQuery(query_embedding=list(vector), similarity_top_k=k, filters=filters)
        result = self._store.query(query)
        if result.nodes is not None:
            return [(node.node_id, node.metadata.get(VECTOR_FIELD)) for node in result.nodes]
        ids = [str(each) for each in result.ids or []]
        vectors = self._embeddings(ids, NotImplementedError())
        return [(identity, vectors.get(identity)) for identity in ids]

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows."""
        self._store.delete_nodes(node_ids=list(ids))


class LanceTable(LlamaIndexTable):
    """LanceDB's store, whose requests by ids quote these as columns."""

    def _nodes(self, ids: Sequence[str]) -> Sequence[BaseNode]:
        store: Any = self._store
        found: list[BaseNode] = store.get_nodes(where=_among(ids))
        return found

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows."""
        store: Any = self._store
        store.table.delete(_among(ids))


def _among(ids: Sequence[str]) -> str:
    """A condition of SQL. Ids of rows are UUIDs, which need no escaping."""
    quoted = [f"'{uuid.UUID(each)}'" for each in ids]
    return f"id in ({', '.join(quoted)})" if quoted else "false"
