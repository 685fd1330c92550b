"""The extraction of an index as graph documents of LangChain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from langchain_core.documents import Document

from stratagraph import Chunk, Extraction, Index
from stratagraph.types.records import json_native

_BATCH = 500


@dataclass
class Node:
    """An entity of a chunk. The classes of this module have the fields that LangChain's graph stores read."""

    id: str
    type: str = "Node"
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass
class Relationship:
    """A relation of a chunk."""

    source: Node
    target: Node
    type: str = "RELATED_TO"
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass
class GraphDocument:
    """The entities and relations of a chunk, and the chunk as a document."""

    nodes: list[Node]
    relationships: list[Relationship]
    source: Document


def to_graph_documents(index: Index) -> Iterator[GraphDocument]:
    """Yield a graph document for each chunk: its entities, its relations and its text.

    A node's id is the entity's name in the chunk, its type the entity's type or `Node`. Relationships have
    the type `RELATED_TO`, with the properties `description` and `strength`.

    Parameters
    ----------
    index
        An open index.

    Examples
    --------
    >>> Neo4jGraph().add_graph_documents(list(to_graph_documents(index)))  # doctest: +SKIP
    """
    extractions = index.extractions()
    while batch := dict(islice(extractions, _BATCH)):
        for chunk in index.find_chunks(batch):
            if chunk.id in batch:
                yield _document(chunk, batch[chunk.id])


def _document(chunk: Chunk, extraction: Extraction) -> GraphDocument:
    nodes: dict[str, Node] = {}
    for entity in extraction.entities:
        properties = {"description": entity.description} if entity.description else {}
        nodes.setdefault(entity.name, Node(entity.name, entity.type or "Node", properties))
    relationships = [
        Relationship(
            nodes.get(relation.source) or Node(relation.source),
            nodes.get(relation.target) or Node(relation.target),
            relation.type or "RELATED_TO",
            {"description": relation.description, "strength": relation.strength},
        )
        for relation in extraction.relations
    ]
    metadata = {**json_native(chunk.metadata), "source": chunk.document_id}
    source = Document(id=chunk.ref or chunk.id, page_content=chunk.text, metadata=metadata)
    return GraphDocument(list(nodes.values()), relationships, source)
