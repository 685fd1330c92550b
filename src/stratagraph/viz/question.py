"""The graph around a question: named entities, hits with reasons, and what joins them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from stratagraph.types.records import GraphEntity, GraphRelation
from stratagraph.types.results import Hit, Picture, Retrieval
from stratagraph.viz.page import counted, cut, page, shortened

MOST_HITS = 40
PATHS = ("path", "paths")
"""Keys of a trace under which a method keeps the entities that it walked through, by id or name."""
_LABEL = 34  # characters
_TEXT = 1200

_SCRIPTS = (
    *(
        f"d3/d3-{name}.min.js"
        for name in (
            "dispatch",
            "timer",
            "quadtree",
            "color",
            "interpolate",
            "ease",
            "selection",
            "transition",
            "drag",
            "zoom",
            "force",
        )
    ),
    "common.js",
    "question.js",
)
_LEGEND = (
    ("entry", "named in the question"),
    ("entity", "entity"),
    ("hit", "passage found"),
    ("summary", "summary or node found"),
)
_KEYS = "".join(f'<span><i class="key-{kind}"></i>{words}</span>' for kind, words in _LEGEND)
_BODY = f"""<main class="split">
<div class="stage"><svg id="graph" role="img" aria-label="The graph around the question"></svg>
<div class="legend">{_KEYS}</div></div>
<aside id="detail" aria-live="polite"></aside>
</main>"""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The part of an index's graph around a question and its hits.

    `named` are ids of entities that the question names, `meant` of those it may mean. `left_out` counts
    entities of the hits' passages that are not among `entities`.
    """

    entities: tuple[GraphEntity, ...] = ()
    relations: tuple[GraphRelation, ...] = ()
    named: frozenset[str] = frozenset()
    meant: frozenset[str] = frozenset()
    left_out: int = 0


@dataclass(slots=True)
class _Drawing:
    """Nodes and links of the page; `places` finds a node by its table and key."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    places: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, table: str, key: str, **values: Any) -> int:
        place = self.places.setdefault((table, key), len(self.nodes))
        if place == len(self.nodes):
            self.nodes.append({"rank": None, "why": [], "documents": [], "sources": 0, **values})
        return place

    def join(self, source: int, target: int, kind: str, text: str = "") -> None:
        self.links.append({"source": source, "target": target, "kind": kind, "text": text})


def question(retrieval: Retrieval, surroundings: Subgraph | None = None) -> Picture:
    """Show the graph around a question.

    It draws the question, what it names, the hits (their area is their score within this search), the
    entities of their passages, and the relations between these. A click on a hit shows the method's trace.

    Parameters
    ----------
    retrieval
        The retrieval.
    surroundings
        The part of the graph around it; None draws only the question and the hits.
    """
    around = surroundings or Subgraph()
    hits = retrieval.hits[:MOST_HITS]
    drawing = _Drawing()
    asked = drawing.add("question", "", kind="question", label="The question", text=retrieval.query)
    for entity in around.entities:
        _add_entity(drawing, asked, entity, around)
    for rank, (hit, trace) in enumerate(zip(hits, retrieval.trace, strict=False), 1):
        _add_hit(drawing, asked, rank, hit, trace, _share(hit, hits))
    _join_hits(drawing, asked, hits, around)
    _join_entities(drawing, around)
    _mark_paths(drawing, around, retrieval.trace)
    return page(
        f"Question: {shortened(retrieval.query, 160)}",
        list(_notes(retrieval, hits, around)),
        _BODY,
        data={"nodes": drawing.nodes, "links": drawing.links},
        scripts=_SCRIPTS,
    )


def _notes(retrieval: Retrieval, hits: Sequence[Hit], around: Subgraph) -> Iterator[str]:
    hits_shown = counted(len(retrieval.hits), "hit")
    part = f", the first {len(hits)} are shown" if len(hits) < len(retrieval.hits) else ""
    names = [each.name for each in around.entities if each.id in around.named]
    entries = f" Entry points: {', '.join(names[:8])}." if names else ""
    yield f"{hits_shown} by {retrieval.method}{part}.{entries}"
    if around.left_out:
        yield (
            f"{counted(len(around.entities), 'entity', 'entities')} shown. {around.left_out:,} more in these "
            "passages are left out: those that join the least."
        )


def _add_entity(drawing: _Drawing, asked: int, entity: GraphEntity, around: Subgraph) -> None:
    named, meant = entity.id in around.named, entity.id in around.meant
    why = (
        [["named in the question", ""]] if named else [["may be meant by the question", ""]] if meant else []
    )
    place = drawing.add(
        "entity",
        entity.id,
        kind="entry" if named or meant else "entity",
        label=shortened(entity.name, _LABEL),
        text=cut(entity.description or entity.name, _TEXT),
        why=why + ([["type", entity.type]] if entity.type else []),
        documents=list(entity.documents[:8]),
        sources=len(entity.sources),
    )
    if named or meant:
        drawing.join(asked, place, "named")


def _add_hit(
    drawing: _Drawing, asked: int, rank: int, hit: Hit, trace: Mapping[str, Any], share: float
) -> None:
    """Add a hit; one that is an entity of the graph marks that entity as found."""
    why = [["score", _shown(hit.score)], *([str(key), _shown(value)] for key, value in trace.items())]
    place = drawing.add("entity", hit.id) if ("entity", hit.id) in drawing.places else None
    if place is not None:
        drawing.nodes[place].update(rank=rank, why=drawing.nodes[place]["why"] + why, share=share)
        return
    drawing.add(
        "hit",
        hit.id,
        kind="hit" if hit.kind == "chunk" else "summary",
        label=shortened(_name(hit), _LABEL),
        text=cut(hit.text, _TEXT),
        rank=rank,
        share=share,
        why=[["what", f"{hit.kind}, level {hit.level}"], *why],
        documents=list(hit.documents[:8]),
        sources=len(hit.sources),
    )


def _name(hit: Hit) -> str:
    title = hit.metadata.get("title")
    if isinstance(title, str) and title.strip():
        return title
    return hit.documents[0] if hit.kind == "chunk" and hit.documents else hit.text


def _share(hit: Hit, hits: Sequence[Hit]) -> float:
    """A hit's score scaled to [0, 1] over all hits."""
    low, high = min(each.score for each in hits), max(each.score for each in hits)
    return (hit.score - low) / (high - low) if high > low else 1.0


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return " → ".join(map(_shown, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_shown(item)}" for key, item in value.items())
    return str(value)


def _join_hits(drawing: _Drawing, asked: int, hits: Sequence[Hit], around: Subgraph) -> None:
    """Join hits to the entities of their passages, or to the question if there are none."""
    passages = [(entity, set(entity.sources)) for entity in around.entities]
    for hit in hits:
        place = drawing.places.get(("hit", hit.id))
        if place is None:
            continue
        joined = [entity for entity, sources in passages if not sources.isdisjoint(hit.sources)]
        for entity in joined:
            drawing.join(drawing.places["entity", entity.id], place, "mentions")
        if not joined:
            drawing.join(asked, place, "similar")


def _join_entities(drawing: _Drawing, around: Subgraph) -> None:
    for relation in around.relations:
        ends = [drawing.places.get(("entity", each)) for each in (relation.source, relation.target)]
        if ends[0] is not None and ends[1] is not None:
            label = f"{', '.join(relation.types)}: {relation.text}" if relation.types else relation.text
            drawing.join(ends[0], ends[1], "relation", shortened(label, 200))


def _mark_paths(drawing: _Drawing, around: Subgraph, traces: Sequence[Mapping[str, Any]]) -> None:
    """Draw the paths in traces, through those of their entities that are shown."""
    ids = {name: each.id for each in around.entities for name in (each.name, each.id)}
    joined = set()
    for trace in traces:
        for path in paths(trace):
            stations = [drawing.places.get(("entity", ids.get(name, name))) for name in path]
            for source, target in pairwise(stations):
                if source is not None and target is not None and (source, target) not in joined:
                    joined.add((source, target))
                    drawing.join(source, target, "path")


def paths(trace: Mapping[str, Any]) -> Iterator[list[str]]:
    """The paths of a hit, each as names or ids of entities."""
    for key in PATHS:
        value = trace.get(key)
        if not isinstance(value, list | tuple):
            continue
        for path in [value] if all(isinstance(each, str) for each in value) else value:
            if isinstance(path, list | tuple) and path:
                yield [each for each in path if isinstance(each, str)]
