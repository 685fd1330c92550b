"""LangChain graph documents, as `LLMGraphTransformer` makes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from stratagraph.importing.draft import Draft, Imported, clean_name, finish, key_of
from stratagraph.importing.loose import Loose, field_of, mention_of, properties_of
from stratagraph.types.records import Chunk, EntityMention, content_id, digest_blocks, json_native

_UNTYPED = "Node"


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
    sources, loose = _Sources(notes), Loose(notes)
    if isinstance(graph_documents, str | bytes | Mapping) or hasattr(graph_documents, "relationships"):
        raise TypeError(f"expected a list of graph documents, not one {type(graph_documents).__name__}")
    for position, graph_document in enumerate(graph_documents):
        nodes, edges = field_of(graph_document, "nodes"), field_of(graph_document, "relationships")
        if nodes is None or edges is None:
            raise TypeError(
                f"graph document {position} is a {type(graph_document).__name__} "
                "without nodes and relationships"
            )
        _fill(sources.draft(field_of(graph_document, "source")), nodes, edges, loose)
    chunks, drafts = loose.passages()
    documents = [*sources.chunks.values(), *chunks.values()]
    return Imported(documents, finish({**sources.drafts, **drafts}, notes), dict(notes))


class _Sources:
    """The source documents as chunks, with a draft for each."""

    def __init__(self, notes: Counter[str]) -> None:
        self.chunks: dict[str, Chunk] = {}
        self.drafts: dict[str, Draft] = {}
        self._ordinals: Counter[str] = Counter()
        self._notes = notes

    def draft(self, source: object) -> Draft | None:
        """The draft of a source's chunk; None if it has no text."""
        text = field_of(source, "page_content")
        if not isinstance(text, str) or not text.strip():
            return None
        metadata = properties_of(source, "metadata")
        identity = clean_name(field_of(source, "id"))
        document = identity or clean_name(metadata.get("source")) or digest_blocks([text])
        key = identity or content_id(document, text)
        if key in self.drafts:
            self._notes["graph documents of the same source: extractions joined"] += 1
            return self.drafts[key]
        ordinal = self._ordinals[document]
        self._ordinals[document] += 1
        start = metadata.get("start_index")
        start = start if isinstance(start, int) and not isinstance(start, bool) else -1
        end = start + len(text) if start >= 0 else -1
        self.chunks[key] = Chunk(text, document, ordinal, start, end, json_native(metadata), ref=key)
        self.drafts[key] = Draft(self._notes)
        return self.drafts[key]


def _fill(
    draft: Draft | None,
    nodes: Iterable[object],
    edges: Iterable[object],
    loose: Loose,
) -> None:
    names = set()
    for node in nodes:
        mention = _mention(node)
        names.add(key_of(mention.name))
        (draft or loose).entity(mention)
    for edge in edges:
        ends = [_mention(field_of(edge, "source")), _mention(field_of(edge, "target"))]
        known = all(key_of(end.name) in names for end in ends)
        loose.edge(draft, ends, field_of(edge, "type"), properties_of(edge), known=known)


def _mention(node: object) -> EntityMention:
    """A node, or the bare id of one."""
    if isinstance(node, str | int):
        return EntityMention(clean_name(node))
    return mention_of(field_of(node, "id"), field_of(node, "type"), properties_of(node), untyped=_UNTYPED)
