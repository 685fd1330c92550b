"""HiRetrieval (HiRAG 4.2, Alg. 2): local, global and bridge knowledge, and one ranking of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.checks import Checks
from stratagraph.ingest.graph.checks import check_vectors
from stratagraph.ingest.graph.stage import Graph
from stratagraph.kernels.checks import check_symmetric
from stratagraph.methods.base import MethodDescription, Opened, Ranking, RowTable, SearchQuestion
from stratagraph.methods.drift import check_drift
from stratagraph.methods.groups import check_nodes
from stratagraph.methods.hirag.bridge import SIMILAR, Bridge, LayeredGraph
from stratagraph.methods.hirag.clusters import IDS
from stratagraph.methods.hirag.communities import INPUTS
from stratagraph.methods.hirag.config import MODES, PARTS, HiRAGOptions, Part
from stratagraph.methods.hirag.naming import PACKAGE, ProposedSummary
from stratagraph.methods.hirag.summary_entities import (
    BY_MODEL,
    CLUSTERS,
    ENTITIES,
    LISTED,
    PROPOSED,
    STRENGTHS,
)
from stratagraph.models.gate import Gate
from stratagraph.models.prompts import load_prompt
from stratagraph.search.answer import Draft
from stratagraph.search.ranking import concatenate, interleaved, shares_of, taken
from stratagraph.text.packing import joined
from stratagraph.types.protocols import Rows
from stratagraph.types.question import Allowed, Mask
from stratagraph.types.records import Metadata, Node
from stratagraph.types.results import Retrieval

Csr = tuple[NDArray[np.int64], NDArray[np.int64]]

FOCUSED = 3
"""A hit with more passages behind it only mentions what they say: it does not count as repeating them."""
_REPORTED = 5  # pairs without a path that the trace names


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Results of Alg. 2 for a question; entities are numbered through all layers."""

    entities: Rows
    similarity: NDArray[np.float32]
    communities: Rows
    likeness: NDArray[np.float32]
    bridge: Bridge


@dataclass(frozen=True, slots=True)
class _Admitted:
    """Masks of a filter: entities of all layers, edges of the layered graph, communities."""

    entities: Mask
    edges: Mask
    communities: Mask


class BridgeSearcher:
    """An opened hierarchy."""

    def __init__(self, opened: Opened) -> None:
        self._graph = opened.graph
        self._stored = opened.part
        self._layered = LayeredGraph(opened)
        self._sources: dict[RowTable, Csr] = {
            RowTable.GRAPH: opened.graph.sources,
            RowTable.NODE: opened.sources,
        }

    def nodes(self, question: SearchQuestion) -> Ranking:
        """Entities, relations of the bridge and reports, each part with its quota of the `k` results."""
        options: HiRAGOptions = question.options

        def looked_up() -> tuple[Knowledge, dict[Part, Ranking]]:
            admitted = self._admitted(question.allowed)
            knowledge = self._knowledge(question, options, admitted)
            return knowledge, {
                part: self._part(part, knowledge, question, admitted) for part in MODES[options.mode]
            }

        knowledge, parts = question.once(self, "knowledge", looked_up)
        quotas = options.quotas or shares_of(PARTS, question.shares)
        chosen = by_quota(parts, quotas, question.k, self._sources)
        return self._explained(chosen, knowledge, question)

    def describe(self) -> MethodDescription:
        """Entities per layer, communities per level, and the sparsity of each layer's clusters."""
        arrays, layered = self._stored.arrays, self._layered
        nodes = {
            "entities": layered.base,
            "summary_entities": layered.summaries,
            "communities": layered.communities,
        }
        levels, counts = np.unique(arrays["layers.levels"], return_counts=True)
        labels = arrays["communities.labels"]
        details: Metadata = {
            "layers": [int(size) for size in arrays["layers.sizes"]],
            "sparsity": [float(value) for value in arrays["layers.sparsity"]],
            "summary_entities": {str(level): int(n) for level, n in zip(levels, counts, strict=True)},
            "communities": {str(level): len(np.unique(own)) for level, own in enumerate(labels)},
        }
        return MethodDescription(nodes, details)

    def _admitted(self, allowed: Allowed | None) -> _Admitted | None:
        if allowed is None:
            return None
        layered = self._layered
        base, summaries, communities = layered.base, layered.summaries, layered.communities
        edges = np.ones(int(layered.adjacency.edges.max(initial=-1)) + 1 + layered.relations, np.bool_)
        edges[: layered.relations] = allowed.graph[base : base + layered.relations]
        entities = np.concatenate([allowed.graph[:base], allowed.nodes[:summaries]])
        return _Admitted(entities, edges, allowed.nodes[summaries : summaries + communities])

    def _knowledge(
        self, question: SearchQuestion, options: HiRAGOptions, admitted: _Admitted | None
    ) -> Knowledge:
        """Alg. 2 up to the reasoning paths."""
        layered, parts = self._layered, MODES[options.mode]
        nodes = None if admitted is None else admitted.entities
        rows, similarity = layered.nearest(question.vector, max(options.entities, SIMILAR), nodes)
        local, near = rows[: options.entities], similarity[: options.entities]
        # Reports may fill the results of a theme, so they come from the communities of more entities.
        found_in, most = (local, options.communities) if question.theme is None else (rows, len(rows))
        communities_near, likeness = layered.communities_of(found_in, question.vector)
        communities = communities_near[: options.communities]
        bridge = Bridge((), (), ())
        if "bridge" in parts:
            edges = None if admitted is None else admitted.edges
            similar = rows, similarity
            bridge = layered.bridge(communities, question.vector, similar, options.key_entities, nodes, edges)
        if admitted is not None:  # other reports than those of the communities that the bridge starts from
            passing = admitted.communities[communities_near]
            communities_near, likeness = communities_near[passing], likeness[passing]
        return Knowledge(local, near, communities_near[:most], likeness[:most], bridge)

    def _part(
        self, part: Part, knowledge: Knowledge, question: SearchQuestion, admitted: _Admitted | None
    ) -> Ranking:
        if part == "local":
            edges = None if admitted is None else admitted.edges
            members = self._members(self._layered.triples(np.sort(knowledge.bridge.entities), edges)[1])
            trace: list[Metadata] = [
                {"part": part, "similarity": float(score)}
                | ({"ends": [row], "members": members[row]} if row in members else {})  # told here alone
                for row, score in zip(knowledge.entities.tolist(), knowledge.similarity, strict=True)
            ]
            base = knowledge.entities < self._layered.base
            tables = np.where(base, RowTable.GRAPH, RowTable.NODE).astype(np.int8)
            rows = np.where(base, knowledge.entities, knowledge.entities - self._layered.base)
            return Ranking(rows, knowledge.similarity, tables, trace)
        if part == "global":
            trace = [{"part": part, "similarity": float(score)} for score in knowledge.likeness]
            return Ranking.of(
                RowTable.NODE, knowledge.communities + self._layered.summaries, knowledge.likeness, trace
            )
        return self._triples(knowledge, question, admitted)

    def _triples(self, knowledge: Knowledge, question: SearchQuestion, admitted: _Admitted | None) -> Ranking:
        """The bridge's triples, best first: relations, and summary entities for relations with them.

        The score of a triple is the mean similarity of its two ends to the question. Eq. 16 keeps all triples
        without an order; here they are ranked, because only the bridge's share of them is returned.
        """
        layered = self._layered
        rows = np.sort(knowledge.bridge.entities)
        numbers, ends = layered.triples(rows, None if admitted is None else admitted.edges)
        similarity = layered.similarity(rows, question.vector)
        scores = (
            similarity[np.searchsorted(rows, ends)].mean(axis=1) if len(ends) else np.zeros(0, np.float32)
        )
        order = np.lexsort((numbers, -scores))
        numbers, ends, scores = numbers[order], ends[order], scores[order]
        related = numbers < layered.relations
        hubs = np.unique(ends[~related][ends[~related] >= layered.base])
        hubs = hubs[~np.isin(hubs, knowledge.entities)]
        graph_rows = numbers[related] + layered.base
        trace = [{"part": "bridge", "ends": pair} for pair in ends[related].tolist()]
        of_relations = Ranking.of(RowTable.GRAPH, graph_rows, scores[related], trace)
        likeness = similarity[np.searchsorted(rows, hubs)]
        best = np.lexsort((hubs, -likeness))
        members = self._members(ends)
        entries = [
            {"part": "bridge", "ends": [hub], "members": members.get(hub, [])} for hub in hubs[best].tolist()
        ]
        of_hubs = Ranking.of(RowTable.NODE, hubs[best] - layered.base, likeness[best], entries)
        triples = concatenate([of_relations, of_hubs])
        return taken(triples, np.argsort(-triples.scores, kind="stable"))

    def _members(self, ends: Rows) -> dict[int, list[int]]:
        """The members that triples, in their order, join with each summary entity."""
        members: dict[int, list[int]] = {}
        for low, high in ends[ends[:, 1] >= self._layered.base].tolist():
            members.setdefault(high, []).append(low)
        return members

    def _explained(self, ranking: Ranking, knowledge: Knowledge, question: SearchQuestion) -> Ranking:
        """Adds to the trace the step and path of each bridge hit, and the pairs without a path."""
        bridge = knowledge.bridge
        ends_of = [tuple(entry.get("ends", ())) for entry in ranking.trace]
        explained = _explaining(bridge.paths, ends_of)
        steps = [explained.get(ends, (ends, 0)) for ends in ends_of]
        paths = [path for path, _ in steps]
        missing = list(bridge.unreachable[:_REPORTED])
        members = [tuple(entry.get("members", ())) for entry in ranking.trace]
        wanted = {row for rows in [*paths, *missing, *members, *ends_of] for row in rows}
        nodes: dict[int, Node] = question.once(self, "entities", dict)
        nodes |= self._nodes(wanted - nodes.keys())
        names = {row: str(nodes[row].extra["name"]) for row in wanted}
        trace = []
        for entry, ends, (path, step), own in zip(ranking.trace, ends_of, steps, members, strict=True):
            shown = {key: value for key, value in entry.items() if key not in ("ends", "members")}
            shown |= {"path": [names[row] for row in path]} if path else {}
            shown |= {"step": step} if step else {}
            entries = _belonging(nodes[ends[0]], [nodes[row] for row in own]) if own else []
            trace.append(shown | ({"members": entries} if entries else {}))
        if trace and bridge.keys:
            summary = {"key_entities": len(bridge.keys), "paths": len(bridge.paths)}
            pairs = [[names[one], names[two]] for one, two in missing]
            trace[0] |= {"bridge": {**summary, "unreachable": len(bridge.unreachable), "without_path": pairs}}
        return Ranking(ranking.rows, ranking.scores, ranking.tables, trace)

    def _nodes(self, rows: set[int]) -> dict[int, Node]:
        base = self._layered.base
        low, high = sorted(row for row in rows if row < base), sorted(row for row in rows if row >= base)
        read = [*self._graph.stored.nodes(low), *self._stored.nodes([row - base for row in high])]
        return dict(zip([*low, *high], read, strict=True))


def _belonging(summary: Node, members: Sequence[Node]) -> list[Metadata]:
    """The reasons that a model gave for members of a summary entity, the strongest first."""
    belonging = []
    for each in map(ProposedSummary.read, summary.extra["summaries"]):
        for member in members:
            if (relation := each.members.get(member.id)) is not None:
                belonging.append({"name": str(member.extra["name"]), **relation._asdict()})
    return sorted(belonging, key=lambda entry: -float(entry["strength"]))


def _explaining(
    paths: Sequence[Sequence[int]], wanted: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], tuple[Sequence[int], int]]:
    """The first path of each wanted pair of neighbours, the lower first, or entity, with its step.

    Steps count from 1. An entity has the number of the step that leads to it; the first of a path has 1.
    """
    wanted_ends = set(wanted)
    rows = {ends[0] for ends in wanted_ends if len(ends) == 1}
    explanations: dict[tuple[int, ...], tuple[Sequence[int], int]] = {}
    for path in paths:
        for step, (one, two) in enumerate(pairwise(path), 1):
            ends = (one, two) if one < two else (two, one)
            if ends in wanted_ends:
                explanations.setdefault(ends, (path, step))
        for place, row in enumerate(path):
            if row in rows:
                explanations.setdefault((row,), (path, max(1, place)))
    return explanations


def by_quota(
    parts: dict[Part, Ranking], quotas: Sequence[float], k: int, sources: dict[RowTable, Csr]
) -> Ranking:
    """The best of each part, with its share of `k`, the parts taking turns.

    `sources` are the passages behind each row of a table, as indptr and indices.
    """
    if "bridge" in parts:
        parts = {**parts, "bridge": diverse(parts["bridge"], sources, k)}
    present = [(parts[part], quota) for part, quota in zip(PARTS, quotas, strict=True) if part in parts]
    return interleaved([ranking for ranking, _ in present], [quota for _, quota in present], k)


def diverse(bridge: Ranking, sources: dict[RowTable, Csr], k: int) -> Ranking:
    """The best of the bridge's triples, those with a passage that no better triple has first.

    Summary entities, which stand for triples without a text, neither move triples back nor are moved.
    """
    triples = np.flatnonzero(bridge.tables == RowTable.GRAPH)
    hubs = np.flatnonzero(bridge.tables != RowTable.GRAPH)
    order = triples[fresh(_passages(taken(bridge, triples), sources), k)]
    better = np.searchsorted(-bridge.scores[triples], -bridge.scores[hubs], "right")
    turns = np.concatenate([np.arange(len(order)), np.maximum(better, 1) - 0.5])
    return taken(bridge, np.concatenate([order, hubs])[np.argsort(turns, kind="stable")])


def fresh(passages: Iterable[Sequence[int]], count: int) -> Rows:
    """The first `count` places of a ranking, those with a passage that no earlier result has first.

    `passages` are the passages of each result, best first.
    """
    seen: set[int] = set()
    new: list[int] = []
    rest: list[int] = []
    for place, rows in enumerate(passages):
        if len(new) == count:
            break
        (rest if new and seen.issuperset(rows) else new).append(place)
        if len(rows) <= FOCUSED:
            seen.update(rows)
    return np.array([*new, *rest][:count], np.int64)


def _passages(ranking: Ranking, sources: dict[RowTable, Csr]) -> Iterator[list[int]]:
    for row, table in zip(ranking.rows.tolist(), ranking.tables.tolist(), strict=True):
        indptr, indices = sources[RowTable(table)]
        yield indices[indptr[row] : indptr[row + 1]].tolist()


ANSWER = load_prompt(PACKAGE, "answer")
HEADINGS = {
    "local": "## Local knowledge",
    "bridge": "## Bridge knowledge",
    "global": "## Global knowledge",
    "passages": "## Passages",
}
# The part of a hit without a trace, as one that passed through a framework.
_PART_OF_KIND = {"entity": "local", "summary_entity": "local", "relation": "bridge", "community": "global"}


async def compose(retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any) -> Draft:
    """A draft with the numbered hits of each part under its heading, passages last.

    The hits are packed together (`Retrieval.pieces`), a summary entity with the reasons why members on the
    bridge belong to it. Where tokens are left, the steps of the bridge are followed by their paths.
    """
    traced = list(zip(retrieval.hits, retrieval.trace, strict=True))
    parts = [trace.get("part", _PART_OF_KIND.get(hit.kind, "passages")) for hit, trace in traced]
    present = [name for name in HEADINGS if name in parts]
    headings = sum(gate.count_tokens(HEADINGS[name]) + 1 for name in present)
    texts = [hit.text.strip() + _reasons(trace) for hit, trace in traced]
    room = max(1, max_tokens - headings)
    pieces = retrieval.pieces(texts, room)
    room -= gate.count_tokens(joined(pieces))
    for at, piece in enumerate(pieces):
        path = _path(retrieval.trace[piece.place])
        if path and (room := room - gate.count_tokens(path) - 1) >= 0:
            pieces[at] = piece._replace(text=piece.text + path)
    lines: list[str] = []
    for name in present:
        own = [str(piece) for piece in pieces if parts[piece.place] == name]
        lines += [HEADINGS[name], *own] if own else []
    values = {"context": "\n\n".join(lines), "question": retrieval.query}
    return Draft(ANSWER, values, retrieval.cited(pieces))


def _reasons(trace: Metadata) -> str:
    """The reasons why a summary entity connects its members."""
    reasons = [f"{each['name']}: {each['reason']}" for each in trace.get("members", ()) if each["reason"]]
    return f" It connects {'; '.join(reasons)}" if reasons else ""


def _path(trace: Metadata) -> str:
    """The path of a step of the bridge, if it has several."""
    path = trace.get("path", ())
    if len(path) < 3 or "step" not in trace:
        return ""
    return f" (step {trace['step']} of the path {' - '.join(path)})"


_REPEATED = 64
"""Bound of edge numbers per edge: a mask over edge numbers must fit into memory."""


def check_arrays(checks: Checks, graph: Graph, chunks: int, dimension: int) -> None:
    """Check that the arrays fit each other, the graph, and the number of chunks."""
    check_vectors(graph.stored.arrays)
    check_drift(checks)
    summaries, communities, meta = checks.rows("counts", 2**31, (3,)).tolist()
    entities = graph.entities + summaries
    check_nodes(checks, chunks, dimension, summaries + communities + meta)
    checks.csr("layered", entities, entities, ascending=True)
    joined = checks.any("layered.indices").shape
    edges = checks.rows(
        "layered.edges", graph.relations + _REPEATED * (1 + joined[0]), joined, dtype=np.int32
    )
    check_symmetric(checks.any("layered.indptr"), checks.any("layered.indices"), edges, "layered")
    checks.rows("communities.labels", communities, (None, entities), dtype=np.int32)
    checks.csr("communities", entities, communities)
    checks.of(INPUTS, np.uint64, (communities,))
    checks.of("layers.levels", np.int16, (summaries,))
    checks.numbers("layers.sparsity", np.float64, checks.of("layers.sizes", np.int64, (None,)).shape)
    checks.of(IDS, np.uint64, (*checks.of("clusters.levels", np.int16, (None,)).shape, 2))
    (clusters,) = checks.of("clusters.levels", np.int16, (None,)).shape
    members = checks.rows("clusters.members", entities, (None,), dtype=np.int32)
    checks.borders("clusters.indptr", len(members), clusters)
    (proposals,) = checks.rows(CLUSTERS, clusters, (None,), dtype=np.int32).shape
    checks.rows(ENTITIES, summaries, (proposals,), dtype=np.int32, start=-1)
    checks.of(PROPOSED, np.uint64, (proposals, 2))
    checks.of(BY_MODEL, np.bool_, (proposals,))
    listed = checks.rows(LISTED, 2**31, (None, 2), dtype=np.int32)
    checks.numbers(STRENGTHS, np.float64, listed.shape[:1])
    for name, rows in (("entities", graph.entities), ("summaries", summaries), ("reports", communities)):
        checks.nearest(name, rows, dimension)
