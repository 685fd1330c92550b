"""The graph around a question: named entities, hits with reasons, and what joins them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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

_D3 = "dispatch timer quadtree color interpolate ease selection transition drag zoom force"
_SCRIPTS = (*(f"d3/d3-{name}.min.js" for name in _D3.split()), "common.js", "question.js")
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
    drawing = _Drawing(retrieval.query)
    for entity in around.entities:
        drawing.add_entity(entity, around)
    scores = [hit.score for hit in hits]
    for rank, (hit, trace) in enumerate(zip(hits, retrieval.trace, strict=False), 1):
        low, high = min(scores), max(scores)
        drawing.add_hit(rank, hit, trace, (hit.score - low) / (high - low) if high > low else 1.0)
    drawing.join_hits(hits, around)
    drawing.join_entities(around, retrieval.trace)
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


class _Drawing:
    """Nodes and links of the page. The first node is the question; `places` finds entities and hits by id."""

    def __init__(self, asked: str) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.links: list[dict[str, Any]] = []
        self.places: dict[str, int] = {}
        self._add("", kind="question", label="The question", text=asked)

    def _add(self, key: str, **values: Any) -> None:
        self.places[key] = len(self.nodes)
        self.nodes.append({"rank": None, "why": [], "documents": [], "sources": 0, **values})

    def _join(self, source: int, target: int, kind: str, text: str = "") -> None:
        self.links.append({"source": source, "target": target, "kind": kind, "text": text})

    def add_entity(self, entity: GraphEntity, around: Subgraph) -> None:
        if entity.id in self.places:
            return
        why = [["named in the question", ""]] if entity.id in around.named else []
        if entity.id in around.meant and not why:
            why = [["may be meant by the question", ""]]
        self._add(
            entity.id,
            kind="entry" if why else "entity",
            label=shortened(entity.name, _LABEL),
            text=cut(entity.description or entity.name, _TEXT),
            why=why + ([["type", entity.type]] if entity.type else []),
            documents=list(entity.documents[:8]),
            sources=len(entity.sources),
        )
        if why:
            self._join(0, self.places[entity.id], "named")

    def add_hit(self, rank: int, hit: Hit, trace: Mapping[str, Any], share: float) -> None:
        """Add a hit; one that is an entity of the graph marks that entity as found."""
        why = [["score", _shown(hit.score)], *([str(key), _shown(value)] for key, value in trace.items())]
        if hit.id in self.places:
            node = self.nodes[self.places[hit.id]]
            node.update(rank=rank, why=node["why"] + why, share=share)
            return
        title = hit.metadata.get("title")
        if not (isinstance(title, str) and title.strip()):
            title = hit.documents[0] if hit.kind == "chunk" and hit.documents else hit.text
        self._add(
            hit.id,
            kind="hit" if hit.kind == "chunk" else "summary",
            label=shortened(title, _LABEL),
            text=cut(hit.text, _TEXT),
            rank=rank,
            share=share,
            why=[["what", f"{hit.kind}, level {hit.level}"], *why],
            documents=list(hit.documents[:8]),
            sources=len(hit.sources),
        )

    def join_hits(self, hits: Sequence[Hit], around: Subgraph) -> None:
        """Join hits to the entities of their passages, or to the question if there are none."""
        entities = {entity.id: set(entity.sources) for entity in around.entities}
        for hit in hits:
            if hit.id in entities:
                continue
            joined = [each for each, sources in entities.items() if not sources.isdisjoint(hit.sources)]
            for entity in joined:
                self._join(self.places[entity], self.places[hit.id], "mentions")
            if not joined:
                self._join(0, self.places[hit.id], "similar")

    def join_entities(self, around: Subgraph, traces: Sequence[Mapping[str, Any]]) -> None:
        """Draw relations, and the paths in traces through those of their entities that are shown."""
        places = {each.id: self.places[each.id] for each in around.entities}
        for relation in around.relations:
            if relation.source in places and relation.target in places:
                label = f"{', '.join(relation.types)}: {relation.text}" if relation.types else relation.text
                self._join(
                    places[relation.source], places[relation.target], "relation", shortened(label, 200)
                )
        places |= {each.name: places[each.id] for each in around.entities if each.name not in places}
        steps = (
            (places.get(one), places.get(other))
            for trace in traces
            for path in paths(trace)
            for one, other in pairwise(path)
        )
        for source, target in dict.fromkeys(steps):
            if source is not None and target is not None:
                self._join(source, target, "path")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return " → ".join(map(_shown, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_shown(item)}" for key, item in value.items())
    return str(value)


def paths(trace: Mapping[str, Any]) -> Iterator[list[str]]:
    """The paths of a hit, each as names or ids of entities."""
    for key in PATHS:
        value = trace.get(key)
        if not isinstance(value, list | tuple):
            continue
        for path in [value] if all(isinstance(each, str) for each in value) else value:
            if isinstance(path, list | tuple) and path:
                yield [each for each in path if isinstance(each, str)]
