"""Nodes to chunks, metadata filters to `where`, and hits to scored nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from llama_index.core.llms import ChatMessage
from llama_index.core.schema import (
    BaseNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from stratagraph import Chunk, Hit, Retrieval
from stratagraph.operations.pieces import piece_id
from stratagraph.types.question import Where, narrowed
from stratagraph.types.records import Metadata, json_native
from stratagraph.types.results import CHUNK, OURS, callers_own

SOURCE = "source"
NODE_KEYS = ("_node_content", "_node_type")
"""Keys of metadata by which LlamaIndex's stores keep a node without its text."""
Beside = tuple[Chunk | None, Chunk | None]
_RELATIONSHIPS = (NodeRelationship.SOURCE, NodeRelationship.PREVIOUS, NodeRelationship.NEXT)
_ROLES = {"chatbot": "assistant", "model": "assistant", "user": "user", "assistant": "assistant"}


def document_id(node: BaseNode) -> str:
    """The document of a node; a node without one is its own document."""
    return node.ref_doc_id or node.node_id


def to_chunks(nodes: Iterable[BaseNode]) -> list[Chunk]:
    """Nodes as chunks by document. The metadata that LlamaIndex embeds with a text is the chunk's prefix."""
    grouped: dict[str, list[BaseNode]] = {}
    for node in nodes:
        grouped.setdefault(document_id(node), []).append(node)
    chunks = []
    for document, group in grouped.items():
        for ordinal, node in enumerate(group):
            start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
            text = node.get_content(metadata_mode=MetadataMode.NONE)
            chunks.append(
                Chunk(
                    text=text,
                    document_id=document,
                    ordinal=ordinal,
                    start=-1 if start is None or end is None else start,
                    end=-1 if start is None or end is None else end,
                    metadata=callers_own(node.metadata),
                    ref=node.node_id,
                    prefix=_prefix(node),
                )
            )
    return chunks


def _prefix(node: BaseNode) -> str:
    """What the node's templates embed above its text, and below it, each with a blank line after it."""
    template = node.model_copy()
    template.set_content("\0")
    around = template.get_content(metadata_mode=MetadataMode.EMBED).split("\0")
    return "".join(f"{part}\n\n" for each in around if (part := each.strip()))


def as_given(passage: Chunk | Hit) -> BaseNode | None:
    """The node that `StrataVectorStore` keeps in the metadata of a passage, if that wrote the passage."""
    metadata = dict(passage.metadata)
    return metadata_dict_to_node(metadata, passage.text) if NODE_KEYS[0] in metadata else None


def to_stored(chunk: Chunk, beside: Beside = (None, None)) -> BaseNode:
    """A chunk of the folder as a node for the docstore; `beside` are the chunks before and after it."""
    return as_given(chunk) or TextNode(
        id_=piece_id(chunk),
        text=chunk.text,
        metadata=dict(chunk.metadata),
        start_char_idx=chunk.start if chunk.start >= 0 else None,
        end_char_idx=chunk.end if chunk.end >= 0 else None,
        relationships=_related(chunk.document_id, piece_id(chunk), beside),
    )


def _related(document: str, node: str, beside: Beside) -> dict[NodeRelationship, Any]:
    """The relationships of a node to its document, unless it is that itself, and to the nodes beside it."""
    names = ["" if document == node else document, *(piece_id(chunk) if chunk else "" for chunk in beside)]
    return {
        kind: RelatedNodeInfo(node_id=name) for kind, name in zip(_RELATIONSHIPS, names, strict=True) if name
    }


def to_node(
    hit: Hit, trace: Metadata | None, stored: BaseNode | None, beside: Beside = (None, None)
) -> NodeWithScore:
    """A hit as a scored node: `Hit.identity` in its metadata, and with a trace `Hit.provenance` under `OURS`.

    `stored` is the docstore's node of the hit, if any; a copy of it is returned, with its relationships and
    templates. Otherwise `beside` are the chunks before and after it.
    """
    stored, ours = stored or as_given(hit), dict[str, Any](hit.identity())
    if trace is not None:
        ours[OURS] = hit.provenance(trace)
    if stored is None or stored.get_content(metadata_mode=MetadataMode.NONE) != hit.text:
        identity, documents = hit.ref or hit.id, hit.documents
        source = {key: value for key, value in hit.metadata.items() if key == SOURCE}
        stored = TextNode(
            id_=identity,
            text=hit.text,
            metadata=dict(hit.metadata) if hit.kind == CHUNK else source,
            relationships=_related(documents[0], identity, beside) if len(documents) == 1 else {},
        )
    # What we add is for readers; prompts and embeddings leave it out.
    node = stored.model_copy(
        update={
            "metadata": {**callers_own(json_native(stored.metadata)), **ours},
            "excluded_llm_metadata_keys": [*stored.excluded_llm_metadata_keys, *ours],
            "excluded_embed_metadata_keys": [*stored.excluded_embed_metadata_keys, *ours],
        }
    )
    return NodeWithScore(node=node, score=float(hit.score))


def to_retrieval(question: str, method: str, nodes: Sequence[NodeWithScore]) -> Retrieval:
    """Scored nodes, of a retriever or others, as a retrieval with their present texts."""
    restored = [
        Hit.restored(
            scored.node.get_content(metadata_mode=MetadataMode.NONE),
            scored.node.metadata,
            id=scored.node.node_id,
            document=document_id(scored.node),
            score=scored.score,
            ref=scored.node.node_id,
        )
        for scored in nodes
    ]
    hits, traces = (hit for hit, _ in restored), (trace for _, trace in restored)
    return Retrieval(question, method, tuple(hits), tuple(traces))


def to_history(messages: Any) -> Any:
    """Chat messages as pairs of the core's roles and texts, without those of other roles (system, tool).

    Pairs stay as they are; other values are passed on, and the core names them in its error.
    """
    if not isinstance(messages, Iterable) or isinstance(messages, str | bytes | Mapping):
        return messages
    turns: list[Any] = []
    for each in messages:
        if not isinstance(each, ChatMessage):
            turns.append(each)
        elif role := _ROLES.get(each.role.value):
            turns.append((role, each.content or ""))
    return turns


def to_where(
    where: Where | None,
    filters: MetadataFilters | None,
    node_ids: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
) -> Where | None:
    """The core's filter from its own form or LlamaIndex's, and from ids of nodes and documents.

    `ValueError` if both forms are given.
    """
    if where is not None and filters is not None:
        raise ValueError("give a filter as `where` or as `filters`, not both")
    chosen = where if filters is None else _mapping(filters)
    for key, ids in (("$passage", node_ids), ("$document", doc_ids)):
        chosen = narrowed(chosen, None if ids is None else {key: {"$in": list(ids)}})
    return chosen


def _mapping(filters: MetadataFilters) -> Where:
    """LlamaIndex's filters as those of the core. `NOT` admits what none of its filters admits."""
    parts = [_mapping(each) if isinstance(each, MetadataFilters) else _test(each) for each in filters.filters]
    if not parts:
        return {}
    if filters.condition is FilterCondition.NOT:
        return {"$not": {"$or": parts}}
    return {"$or" if filters.condition is FilterCondition.OR else "$and": parts}


def _test(test: MetadataFilter) -> Where:
    """A comparison of the core, or a function for one that the core has not."""
    key, operator, wanted = test.key, test.operator, test.value
    if operator in _COMPARISONS:
        listed = operator in (FilterOperator.IN, FilterOperator.NIN) and not isinstance(wanted, list)
        return {key: {_COMPARISONS[operator]: [wanted] if listed else wanted}}
    if operator not in _FUNCTIONS:
        raise ValueError(f"filters with the operator {operator.value!r} are not supported")
    return partial(_fits, _FUNCTIONS[operator], key, wanted)


def _fits(operation: Callable[[Any, Any], Any], key: str, wanted: Any, metadata: Mapping[str, Any]) -> bool:
    """Values that cannot be compared do not fit."""
    try:
        return bool(operation(metadata.get(key), wanted))
    except (TypeError, AttributeError):
        return False


_COMPARISONS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
}
_FUNCTIONS: dict[FilterOperator, Callable[[Any, Any], Any]] = {
    FilterOperator.ANY: lambda value, wanted: any(item in value for item in wanted),
    FilterOperator.ALL: lambda value, wanted: value is not None and all(item in value for item in wanted),
    FilterOperator.CONTAINS: lambda value, wanted: wanted in value,
    FilterOperator.TEXT_MATCH: lambda value, wanted: wanted in value,
    FilterOperator.TEXT_MATCH_INSENSITIVE: lambda value, wanted: wanted.lower() in value.lower(),
    FilterOperator.IS_EMPTY: lambda value, wanted: value in (None, "", []),
}
