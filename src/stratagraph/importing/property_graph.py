"""LlamaIndex property graphs: stores, their graphs, and nodes with metadata of extractors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stratagraph.importing.draft import Draft, Imported, clean_name, finish
from stratagraph.importing.loose import Loose, field_of, mention_of, properties_of
from stratagraph.types.records import Chunk, EntityMention, content_id, json_native

_UNTYPED = "entity"
_SOURCE_KEY = "triplet_source_id"  # the passage that a node or relation was extracted from
_DOCUMENT_KEYS = ("ref_doc_id", "document_id", "doc_id")
_INTERNAL = frozenset(
    ("nodes", "relations", "_node_content", "_node_type", "vector_source_id", _SOURCE_KEY, *_DOCUMENT_KEYS)
)
Entities = Mapping[str, Iterable[tuple[EntityMention, str]]]  # by id: mentions, each with its passage
_LINKS = frozenset(("SOURCE", "PARENT", "CHILD", "PREVIOUS", "NEXT"))  # of passages, not of what they say


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
    return _imported(parts)


def _items(graph: object) -> Iterable[object]:
    for holder in ("property_graph_store", "graph"):
        graph = field_of(graph, holder) or graph
    nodes, relations = field_of(graph, "nodes"), field_of(graph, "relations")
    if nodes is not None and relations is not None:
        return [*_values(nodes), *_values(relations)]
    if isinstance(graph, str | bytes | Mapping) or not isinstance(graph, Iterable):
        raise TypeError(
            "expected a property graph (nodes and relations), a store that holds one, or a list of "
            f"nodes and relations, not {type(graph).__name__}"
        )
    return graph


def _values(items: Any) -> Iterable[object]:
    return items.values() if isinstance(items, Mapping) else items


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
            mention = mention_of(name, field_of(item, "label"), properties, untyped=_UNTYPED)
            self.entities.setdefault(_entity_id(item, name), {})[mention, passage] = None
        elif isinstance(field_of(item, "text"), str):
            self._passage(item)
        else:
            raise TypeError(f"a {type(item).__name__} is no node, relation or triplet of a property graph")

    def _passage(self, item: object) -> None:
        given = field_of(item, "id_") or field_of(item, "id")
        identity = str(given) if given else content_id(field_of(item, "text"))
        self.passages[identity] = item
        metadata = properties_of(item, "metadata")
        for key in ("nodes", "relations"):
            for part in metadata.get(key) or ():
                self.add(part, identity)


def _entity_id(item: object, name: str) -> str:
    identity = field_of(item, "id")
    return str(identity) if identity else str(field_of(item, "name")).replace('"', " ") or name


def _imported(parts: _Parts) -> Imported:
    notes: Counter[str] = Counter()
    loose = Loose(notes)
    links, mentions, said = _by_role(parts)
    if links:
        notes["links between passages and documents: left out, chunks know their documents"] = len(links)
    chunks = _chunks(parts, {edge.source: edge.target for edge in links if edge.label == "SOURCE"}, notes)
    drafts = {identity: Draft(notes) for identity in chunks}
    entities = _entities(parts, links, said)
    homeless = _add_entities(entities, drafts)
    placed = _add_mentions(mentions, entities, drafts) | _add_edges(said, entities, drafts, loose)
    for identity, mention in homeless:
        if identity not in placed or mention.description:
            loose.entity(mention)
    own_chunks, own_drafts = loose.passages()
    by_ref = {chunks[identity].ref: draft for identity, draft in drafts.items()}
    return Imported(
        [*chunks.values(), *own_chunks.values()], finish({**by_ref, **own_drafts}, notes), dict(notes)
    )


def _by_role(parts: _Parts) -> tuple[list[_Edge], list[_Edge], list[_Edge]]:
    """Links between passages, edges from passages to mentions, and relations."""
    links: list[_Edge] = []
    mentions: list[_Edge] = []
    said: list[_Edge] = []
    for edge in parts.edges.values():
        ends = (edge.source in parts.passages) + (edge.target in parts.passages)
        if ends == 2 or (edge.source in parts.passages and edge.label in _LINKS):
            links.append(edge)
        else:
            (mentions if ends else said).append(edge)
    return links, mentions, said


def _entities(parts: _Parts, links: Iterable[_Edge], said: Iterable[_Edge]) -> Entities:
    """Entities by id, without those a store made for documents that passages link to."""
    linked = {edge.target for edge in links} - {end for edge in said for end in (edge.source, edge.target)}
    return {
        identity: known
        for identity, known in parts.entities.items()
        if identity not in parts.passages and identity not in linked
    }


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
        start, end = _offsets(node, metadata)
        own = json_native({key: value for key, value in metadata.items() if key not in _INTERNAL})
        chunks[identity] = Chunk(text, document, ordinals[document], start, end, own, ref=ref)
        ordinals[document] += 1
    return chunks


def _offsets(node: object, metadata: Mapping[str, Any]) -> tuple[int, int]:
    """Place of a passage in its document: a text node's fields, or the copy of it in a chunk node."""
    try:
        copied = json.loads(metadata.get("_node_content") or "{}")
    except (TypeError, ValueError):
        copied = {}
    start, end = (
        value if (value := field_of(node, key)) is not None else field_of(copied, key)
        for key in ("start_char_idx", "end_char_idx")
    )
    return (start, end) if isinstance(start, int) and isinstance(end, int) else (-1, -1)


def _add_entities(entities: Entities, drafts: Mapping[str, Draft]) -> list[tuple[str, EntityMention]]:
    """Add entities to their passages; return those without a passage, with their ids."""
    homeless = []
    for identity, known in entities.items():
        for mention, passage in known:
            if passage in drafts:
                drafts[passage].entity(mention)
            else:
                homeless.append((identity, mention))
    return homeless


def _add_edges(
    edges: Iterable[_Edge], entities: Entities, drafts: Mapping[str, Draft], loose: Loose
) -> set[str]:
    """Add relations to their passages; return the ids of their ends."""
    placed = set()
    for edge in edges:
        known = edge.source in entities and edge.target in entities
        ends = [_bare(identity, entities) for identity in (edge.source, edge.target)]
        loose.edge(drafts.get(edge.passage), ends, edge.label, edge.properties, known=known)
        placed |= {edge.source, edge.target}
    return placed


def _add_mentions(edges: Iterable[_Edge], entities: Entities, drafts: Mapping[str, Draft]) -> set[str]:
    """Add entities to the passages that mention them; return their ids."""
    placed = set()
    for edge in edges:
        passage, entity = (edge.source, edge.target) if edge.source in drafts else (edge.target, edge.source)
        if passage in drafts:
            if (mention := _bare(entity, entities)).name not in drafts[passage]:
                drafts[passage].entity(mention)
            placed.add(entity)
    return placed


def _bare(identity: str, entities: Entities) -> EntityMention:
    """An entity's name and type, without its description, which is from one passage."""
    known, _ = next(iter(entities.get(identity, ())), (EntityMention(clean_name(identity)), ""))
    return EntityMention(known.name, known.type)
