"""Graphs of the frameworks: LangChain's graph documents and LlamaIndex's property graphs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from stratagraph.importing.draft import (
    Imported,
    Loose,
    PassageDraft,
    clean_name,
    field_of,
    finish,
    key_of,
    mention_of,
    properties_of,
)
from stratagraph.types.records import Chunk, EntityMention, content_id, digest_blocks

_SOURCE_KEY = "triplet_source_id"  # the passage that a node or relation was extracted from
_DOCUMENT_KEYS = ("ref_doc_id", "document_id", "doc_id")
_INTERNAL = frozenset(
    ("nodes", "relations", "_node_content", "_node_type", "vector_source_id", _SOURCE_KEY, *_DOCUMENT_KEYS)
)
_LINKS = frozenset(("SOURCE", "PARENT", "CHILD", "PREVIOUS", "NEXT"))  # of passages, not of what they say


def from_graph_documents(graph_documents: Iterable[object]) -> Imported:
    """Read the nodes and relationships of LangChain graph documents.

    Takes objects with `nodes` (`id`, `type`, `properties`), `relationships` (`source`, `target`, `type`,
    `properties`) and `source` (`page_content`, `metadata`, `id`), or dictionaries of these. Each source is
    one chunk. Its document id is the source's `id`, else `metadata["source"]`, else a hash of the text. Graph
    documents without a source text become passages of statements.

    Raises
    ------
    TypeError
        If an item is no graph document.
    """
    notes: Counter[str] = Counter()
    loose = Loose(notes)
    chunks: dict[str, Chunk] = {}
    drafts: dict[str, PassageDraft] = {}
    ordinals: Counter[str] = Counter()

    def draft_of(source: object) -> PassageDraft | None:
        """The draft of a source's chunk; None if it has no text."""
        text = field_of(source, "page_content")
        if not isinstance(text, str) or not text.strip():
            return None
        metadata = properties_of(source, "metadata")
        identity = clean_name(field_of(source, "id"))
        document = identity or clean_name(metadata.get("source")) or digest_blocks([text])
        key = identity or content_id(document, text)
        if key in drafts:
            notes["graph documents of the same source: extractions joined"] += 1
            return drafts[key]
        start = metadata.get("start_index")
        start = start if isinstance(start, int) and not isinstance(start, bool) else -1
        end = start + len(text) if start >= 0 else -1
        chunks[key] = Chunk(text, document, ordinals[document], start, end, metadata, ref=key)
        ordinals[document] += 1
        return drafts.setdefault(key, PassageDraft(notes))

    if isinstance(graph_documents, str | bytes | Mapping) or hasattr(graph_documents, "relationships"):
        raise TypeError(f"expected a list of graph documents, not one {type(graph_documents).__name__}")
    for position, graph_document in enumerate(graph_documents):
        nodes, edges = field_of(graph_document, "nodes"), field_of(graph_document, "relationships")
        if nodes is None or edges is None:
            raise TypeError(
                f"graph document {position} is a {type(graph_document).__name__} "
                "without nodes and relationships"
            )
        draft = draft_of(field_of(graph_document, "source"))
        names = set()
        for node in nodes:
            mention = _node_mention(node)
            names.add(key_of(mention.name))
            (draft or loose).entity(mention)
        for edge in edges:
            ends = [_node_mention(field_of(edge, end)) for end in ("source", "target")]
            has_both_ends = all(key_of(end.name) in names for end in ends)
            loose.edge(draft, ends, field_of(edge, "type"), properties_of(edge), has_ends=has_both_ends)
    own_chunks, own_drafts = loose.passages()
    documents = [*chunks.values(), *own_chunks.values()]
    return Imported(documents, finish({**drafts, **own_drafts}, notes), dict(notes))


def _node_mention(node: object) -> EntityMention:
    """A node, or the bare id of one."""
    if isinstance(node, str | int):
        return EntityMention(clean_name(node))
    return mention_of(field_of(node, "id"), field_of(node, "type"), properties_of(node), untyped="Node")


def from_property_graph(graph: object) -> Imported:
    """Read entities and relations of a property graph, with the passages they were extracted from.

    Parameters
    ----------
    graph
        A `SimplePropertyGraphStore`, an index with one, its `LabelledPropertyGraph` or the dictionary of
        that; or a list of chunk nodes, entity nodes, relations and triplets, or of text nodes from a path
        extractor. Only their fields are read.

    Returns
    -------
    A chunk for each passage, with the node's id as `ref`. A store keeps one passage for an entity or
    relation, that of its first or last extraction. What names no passage of the graph becomes passages of
    statements.

    Raises
    ------
    TypeError
        If `graph` is none of these.
    """
    parts = _Parts()
    for item in _items(graph):
        parts.add(item)
    notes: Counter[str] = Counter()
    loose = Loose(notes)
    links: list[_Edge] = []  # of passages to passages and documents
    mentions: list[_Edge] = []  # of passages to entities
    relations: list[_Edge] = []
    for edge in parts.edges.values():
        passages = (edge.source in parts.passages) + (edge.target in parts.passages)
        if passages == 2 or (edge.source in parts.passages and edge.label in _LINKS):
            links.append(edge)
        else:
            (mentions if passages else relations).append(edge)
    if links:
        notes["links between passages and documents: left out, chunks know their documents"] = len(links)
    chunks = _chunks(parts, {edge.source: edge.target for edge in links if edge.label == "SOURCE"}, notes)
    drafts = {identity: PassageDraft(notes) for identity in chunks}

    # A store makes entities of the documents that passages link to; they are none.
    documents = {edge.target for edge in links}
    documents -= {end for edge in relations for end in (edge.source, edge.target)}
    entities = {
        identity: own
        for identity, own in parts.entities.items()
        if identity not in parts.passages and identity not in documents
    }

    def bare(identity: str) -> EntityMention:
        """An entity's name and type, without its description, which is from one passage."""
        mention, _ = next(iter(entities.get(identity, ())), (EntityMention(clean_name(identity)), ""))
        return EntityMention(mention.name, mention.type)

    homeless: list[tuple[str, EntityMention]] = []
    for identity, own in entities.items():
        for mention, passage in own:
            if passage in drafts:
                drafts[passage].entity(mention)
            else:
                homeless.append((identity, mention))
    placed: set[str] = set()
    for edge in mentions:
        passage, identity = (
            (edge.source, edge.target) if edge.source in drafts else (edge.target, edge.source)
        )
        if passage in drafts:
            placed.add(identity)
            if (mention := bare(identity)).name not in drafts[passage]:
                drafts[passage].entity(mention)
    for edge in relations:
        placed |= {edge.source, edge.target}
        ends = [bare(edge.source), bare(edge.target)]
        has_both_ends = edge.source in entities and edge.target in entities
        loose.edge(drafts.get(edge.passage), ends, edge.label, edge.properties, has_ends=has_both_ends)
    for identity, mention in homeless:
        if identity not in placed or mention.description:
            loose.entity(mention)
    own_chunks, own_drafts = loose.passages()
    by_ref = {chunks[identity].ref: draft for identity, draft in drafts.items()}
    return Imported(
        [*chunks.values(), *own_chunks.values()], finish({**by_ref, **own_drafts}, notes), dict(notes)
    )


def _items(graph: object) -> Iterable[object]:
    for holder in ("property_graph_store", "graph"):
        graph = field_of(graph, holder) or graph
    nodes, relations = field_of(graph, "nodes"), field_of(graph, "relations")
    if nodes is not None and relations is not None:
        values = (items.values() if isinstance(items, Mapping) else items for items in (nodes, relations))
        return list(chain.from_iterable(values))
    if isinstance(graph, str | bytes | Mapping) or not isinstance(graph, Iterable):
        raise TypeError(
            "expected a property graph (nodes and relations), a store that holds one, or a list of "
            f"nodes and relations, not {type(graph).__name__}"
        )
    return graph


@dataclass(frozen=True, slots=True)
class _Edge:
    source: str
    label: str
    target: str
    properties: Mapping[str, Any]
    passage: str


@dataclass(slots=True)
class _Parts:
    """Parts of a graph, each with the id of its passage."""

    passages: dict[str, object] = field(default_factory=dict)
    entities: dict[str, dict[tuple[EntityMention, str], None]] = field(default_factory=dict)
    edges: dict[tuple[str, ...], _Edge] = field(default_factory=dict)

    def add(self, item: object, passage: str = "") -> None:
        """Add a node, a relation, a triplet, or a text node with its metadata."""
        properties = properties_of(item)
        passage = passage or clean_name(properties.get(_SOURCE_KEY))
        source, target = field_of(item, "source_id"), field_of(item, "target_id")
        if isinstance(item, tuple | list) and len(item) == 3:
            for part in item:
                self.add(part, passage)
        elif source is not None and target is not None:
            edge = _Edge(str(source), clean_name(field_of(item, "label")), str(target), properties, passage)
            self.edges[edge.source, edge.label, edge.target, passage] = edge
        elif name := clean_name(field_of(item, "name")):
            mention = mention_of(name, field_of(item, "label"), properties, untyped="entity")
            stated = field_of(item, "id")
            identity = str(stated) if stated else str(field_of(item, "name")).replace('"', " ") or name
            self.entities.setdefault(identity, {})[mention, passage] = None
        elif isinstance(field_of(item, "text"), str):
            identity = str(
                field_of(item, "id_") or field_of(item, "id") or content_id(field_of(item, "text"))
            )
            self.passages[identity] = item
            metadata = properties_of(item, "metadata")
            for key in ("nodes", "relations"):
                for part in metadata.get(key) or ():
                    self.add(part, identity)
        else:
            raise TypeError(f"a {type(item).__name__} is no node, relation or triplet of a property graph")


def _chunks(parts: _Parts, documents: Mapping[str, str], notes: Counter[str]) -> dict[str, Chunk]:
    ordinals: Counter[str] = Counter()
    chunks = {}
    for identity, node in parts.passages.items():
        text = field_of(node, "text")
        if not text.strip():
            notes["passages without text: left out"] += 1
            continue
        ref = str(field_of(node, "id_") or content_id(text))  # a chunk node without an id has a random one
        metadata = {**properties_of(node, "metadata"), **properties_of(node)}
        named = [field_of(node, "ref_doc_id"), *(metadata.get(key) for key in _DOCUMENT_KEYS)]
        stated = (clean_name(name) for name in named)
        document = next(
            (name for name in stated if name not in ("", "None")), documents.get(identity, identity)
        )
        try:  # a chunk node has a copy of its text node, which knows the offsets
            copy = json.loads(metadata.get("_node_content") or "{}")
        except (TypeError, ValueError):
            copy = {}
        start, end = (
            value if (value := field_of(node, key)) is not None else field_of(copy, key)
            for key in ("start_char_idx", "end_char_idx")
        )
        if not (isinstance(start, int) and isinstance(end, int)):
            start = end = -1
        own = {key: value for key, value in metadata.items() if key not in _INTERNAL}
        chunks[identity] = Chunk(text, document, ordinals[document], start, end, own, ref=ref)
        ordinals[document] += 1
    return chunks
