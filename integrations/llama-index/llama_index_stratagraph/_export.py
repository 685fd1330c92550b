"""The graph of an index as a property graph of LlamaIndex."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    TRIPLET_SOURCE_KEY,
    ChunkNode,
    EntityNode,
    LabelledNode,
    PropertyGraphStore,
    Relation,
)

from stratagraph import Chunk, GraphEntity, GraphRelation, Index

RELATED, MENTIONS = "RELATED_TO", "MENTIONS"
_BATCH = 500

T = TypeVar("T")


def to_property_graph(index: Index, store: PropertyGraphStore | None = None) -> PropertyGraphStore:
    """Write the chunks, entities and relations of an index to a property graph store.

    Entities become `EntityNode`s (label: the type; property: `description`), joined as `RELATED_TO` with
    `description` and `weight`. Chunks become `ChunkNode`s, joined as `MENTIONS` to their entities;
    `triplet_source_id` is the first source.

    Parameters
    ----------
    index
        An open index.
    store
        Store to write to. None makes a `SimplePropertyGraphStore` in memory.

    Examples
    --------
    >>> PropertyGraphIndex.from_existing(to_property_graph(index))  # doctest: +SKIP
    """
    target = SimplePropertyGraphStore() if store is None else store
    names: dict[str, str] = {}
    for chunks in _batches(chunk for group in index.chunks().values() for chunk in group):
        target.upsert_nodes([_chunk(chunk) for chunk in chunks])
    for entities in _batches(index.entities()):
        nodes = [_entity(entity) for entity in entities]
        names.update((entity.id, node.id) for entity, node in zip(entities, nodes, strict=True))
        labelled: list[LabelledNode] = list(nodes)
        target.upsert_nodes(labelled)
        target.upsert_relations([edge for entity in entities for edge in _mentions(entity, names[entity.id])])
    for relations in _batches(index.relations()):
        target.upsert_relations([_relation(each, names) for each in relations])
    return target


def _batches(items: Iterable[T]) -> Iterator[Sequence[T]]:
    source = iter(items)
    while batch := list(islice(source, _BATCH)):
        yield batch


def _chunk(chunk: Chunk) -> ChunkNode:
    properties: dict[str, Any] = {**chunk.metadata, "ref_doc_id": chunk.document_id}
    return ChunkNode(id_=chunk.id, text=chunk.text, properties=properties)


def _entity(entity: GraphEntity) -> EntityNode:
    properties = {"description": entity.description} if entity.description else {}
    if entity.sources:
        properties[TRIPLET_SOURCE_KEY] = entity.sources[0]
    return EntityNode(name=entity.name, label=entity.type or "entity", properties=properties)


def _mentions(entity: GraphEntity, identity: str) -> Iterator[Relation]:
    for source in entity.sources:
        yield Relation(label=MENTIONS, source_id=source, target_id=identity)


def _relation(relation: GraphRelation, names: dict[str, str]) -> Relation:
    properties: dict[str, Any] = {"description": relation.text, "weight": relation.weight}
    if relation.sources:
        properties[TRIPLET_SOURCE_KEY] = relation.sources[0]
    return Relation(
        label=next(iter(relation.types), RELATED),
        source_id=names[relation.source],
        target_id=names[relation.target],
        properties=properties,
    )
