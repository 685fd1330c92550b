"""The extraction of an index as graph documents of LangChain."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from typing import Any, Protocol

from langchain_core.documents import Document

from stratagraph import Chunk, Extraction, Index
from stratagraph.records import json_native

RELATED = "RELATED_TO"
UNTYPED = "Node"
_HOME = "langchain_community.graphs.graph_document"
_BATCH = 500


class GraphTypes(Protocol):
    """The module, or any object, that has the three classes of a graph document."""

    Node: Any
    Relationship: Any
    GraphDocument: Any


def to_graph_documents(index: Index, types: GraphTypes | None = None) -> Iterator[Any]:
    """A `GraphDocument` for each chunk: what was extracted from it, with the chunk as its source.

    A node's id is the entity's name as the chunk has it, its type the entity's or `Node`; relationships are
    `RELATED_TO` with description and strength. What `add_graph_documents` of a graph store takes is
    `list(to_graph_documents(index))`.

    Parameters
    ----------
    index
        An open index of the core.
    types
        Where `Node`, `Relationship` and `GraphDocument` are, since `langchain-core` has none: the module of
        the graph store's package, such as `langchain_neo4j.graphs.graph_document`. None takes those of
        `langchain-community`.

    Raises
    ------
    ImportError
        If `types` is None and `langchain-community` is not installed.
    """
    found = _community() if types is None else types
    return (_document(chunk, extraction, found) for chunk, extraction in _read(index))


def _community() -> Any:
    try:
        return import_module(_HOME)
    except ImportError as error:
        raise ImportError(
            "graph documents are of langchain-community, which is not installed. Install it with: "
            "pip install langchain-community; or pass types=, the module with Node, Relationship and "
            "GraphDocument of your graph store's package"
        ) from error


def _read(index: Index) -> Iterator[tuple[Chunk, Extraction]]:
    extractions = index.extractions()
    while batch := dict(islice(extractions, _BATCH)):
        for chunk in index.find_chunks(batch):
            if chunk.id in batch:
                yield chunk, batch[chunk.id]


def _document(chunk: Chunk, extraction: Extraction, types: GraphTypes) -> Any:
    nodes: dict[str, Any] = {}
    for entity in extraction.entities:
        if entity.name not in nodes:
            nodes[entity.name] = types.Node(
                id=entity.name,
                type=entity.type or UNTYPED,
                properties={"description": entity.description} if entity.description else {},
            )
    relationships = [
        types.Relationship(
            source=nodes.get(each.source) or types.Node(id=each.source, type=UNTYPED),
            target=nodes.get(each.target) or types.Node(id=each.target, type=UNTYPED),
            type=RELATED,
            properties={"description": each.description, "strength": each.strength},
        )
        for each in extraction.relations
    ]
    metadata = {**json_native(chunk.metadata), "source": chunk.document_id}
    source = Document(id=chunk.ref or chunk.id, page_content=chunk.text, metadata=metadata)
    return types.GraphDocument(nodes=list(nodes.values()), relationships=relationships, source=source)
