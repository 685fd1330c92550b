"""Communities of the layered graph, from fine to coarse, and their reports (HiRAG 4.1, ERRATA A4's bound).

Summary entities are nodes like any others, so that what is alike comes together although nothing relates it
directly. A community of the finest level is reported from its members, one of a higher level from the
reports of the communities in it. One that has a single community in it is that community.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.leiden import hierarchical_leiden, leiden
from stratarag.methods.hirag.clusters import FRESH_SHARE, Keys, same_settings
from stratarag.methods.hirag.config import HiRAGConfig
from stratarag.methods.hirag.layers import Entities, Work
from stratarag.methods.hirag.naming import PACKAGE
from stratarag.pipeline.carryover import CarryOver
from stratarag.pipeline.prompts import load_prompt
from stratarag.pipeline.reports import CommunityReport, carried, write_reports
from stratarag.pipeline.summarize import MODEL, Group
from stratarag.protocols import Rows, Stored, Vectors
from stratarag.records import Node, content_id

KIND = "community"
REPORT = load_prompt(PACKAGE, "report")
_MOST_SPLITS = 12  # levels of splitting before the finest is bounded by cutting
_NAMED = 3  # members in a title that no model wrote
_LONGEST_TITLE = 120

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Communities:
    """All communities. `labels[l][v]` is the one of entity v at level l, from the finest on."""

    nodes: Sequence[Node]
    members: Sequence[Rows]
    labels: Sequence[Labels]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class Edges:
    """The layered graph's edges: the graph's relations, then those of members and summary entities."""

    ends: Rows
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, work: Work, entities: Entities) -> Edges:
        """A relation with a summary entity weighs as much as a relation of the graph does typically."""
        given = np.asarray(work.graph.weights, dtype=np.float64)
        usual = float(np.median(given)) if len(given) else 1.0
        hierarchy = np.array(entities.relations, dtype=np.int64).reshape(-1, 2)
        ends = np.concatenate([np.asarray(work.graph.ends, dtype=np.int64).reshape(-1, 2), hierarchy])
        return cls(ends, np.concatenate([given, np.full(len(hierarchy), usual)]))


async def build_communities(work: Work, entities: Entities, edges: Edges) -> Communities:
    """Partition the entities of all layers, level by level, and report on each community."""
    labels = await asyncio.to_thread(_partition, work, entities, edges)
    count, repeated = len(entities.ids), np.repeat(edges.weights, 2)
    degrees = np.bincount(edges.ends.ravel(), repeated, count).astype(np.float64)
    writer = _Writer(work, entities, degrees)
    own = [await writer.finest(labels[0])] if labels else []
    for level, coarser in enumerate(labels[1:], 1):
        own.append(await writer.coarser(level, own[-1], coarser))
    return Communities(writer.nodes, writer.members, own, writer.stacked(entities.vectors.shape[1]))


def _partition(work: Work, entities: Entities, edges: Edges) -> list[Labels]:
    """Labels of all entities at each level, the finest first."""
    config, count = work.config, len(entities.ids)
    if not count:
        return []
    before = _before(work.previous, entities.keys, config)
    if before and np.mean(before[0] < 0) <= FRESH_SHARE:
        return _moved(before, edges, count, config)
    levels = hierarchical_leiden(
        edges.ends,
        edges.weights,
        count,
        max_size=config.max_community,
        max_levels=_MOST_SPLITS,
        resolution=config.resolution,
        seed=config.seed,
    )
    finest = leiden(
        edges.ends,
        edges.weights,
        count,
        max_size=config.max_community,
        initial=levels[-1],
        movable=np.zeros(count, np.bool_),
        seed=config.seed,
    )
    kept = np.unique(np.linspace(0, len(levels) - 1, config.community_levels).round().astype(int))[::-1]
    return [finest, *(levels[place] for place in kept[1:].tolist())]


def _before(previous: Stored | None, keys: Keys, config: HiRAGConfig) -> list[Labels] | None:
    """The labels that the previous index gave to these entities, -1 where it did not know one."""
    if previous is None or not len(previous.arrays["entities.keys"]) or not same_settings(previous, config):
        return None
    stored = previous.arrays["entities.keys"]
    order = np.argsort(stored, kind="stable")
    at = order[np.minimum(np.searchsorted(stored, keys, sorter=order), len(stored) - 1)]
    known = stored[at] == keys
    return [
        np.where(known, labels[at], -1).astype(np.int64) for labels in previous.arrays["communities.labels"]
    ]


def _moved(before: Sequence[Labels], edges: Edges, count: int, config: HiRAGConfig) -> list[Labels]:
    """The former communities: new entities find their place, the others keep it."""
    finest = leiden(
        edges.ends,
        edges.weights,
        count,
        max_size=config.max_community,
        resolution=config.resolution,
        initial=before[0],
        movable=before[0] < 0,
        seed=config.seed,
    )
    labels = [finest]
    for former in before[1:]:
        finer = labels[-1]
        groups = int(finer.max()) + 1
        start = _majority(finer, former, groups)
        upper = leiden(
            finer[edges.ends],
            edges.weights,
            groups,
            resolution=config.resolution,
            initial=start,
            movable=start < 0,
            seed=config.seed,
        )
        labels.append(upper[finer])
    return labels


def _majority(finer: Labels, former: Labels, groups: int) -> Labels:
    """For each community the former label that most of its members had, of equals the lower; -1 for none."""
    known = former >= 0
    pairs, counts = np.unique(np.column_stack([finer[known], former[known]]), axis=0, return_counts=True)
    start = np.full(groups, -1, np.int64)
    rising = np.lexsort((-pairs[:, 1], counts))
    start[pairs[rising, 0]] = pairs[rising, 1]
    return start


class _Writer:
    """Writes the reports of one level after the other."""

    def __init__(self, work: Work, entities: Entities, degrees: NDArray[np.float64]) -> None:
        self._work = work
        self._entities = entities
        self._degrees = degrees
        self._reuse = CarryOver(work.previous, work.gate)
        self.nodes: list[Node] = []
        self.members: list[Rows] = []
        self._vectors: list[Vectors] = []

    def stacked(self, dimension: int) -> Vectors:
        """The vectors of all reports, shape (communities, dimension)."""
        return np.stack(self._vectors) if self._vectors else np.zeros((0, dimension), np.float32)

    async def finest(self, labels: Labels) -> Labels:
        """Report on the communities of the finest level."""
        drafts = [self._of_entities(rows) for rows in _groups(labels)]
        numbers = await self._write(drafts)
        return numbers[labels]

    async def coarser(self, level: int, finer: Labels, labels: Labels) -> Labels:
        """Report on those that have several of the finer level's communities in them."""
        groups = _groups(labels)
        inside = [np.unique(finer[rows]) for rows in groups]
        several = [place for place, own in enumerate(inside) if len(own) > 1]
        drafts = [self._of_communities(level, inside[place], groups[place]) for place in several]
        numbers = np.array([own[0] for own in inside], np.int64)
        numbers[several] = await self._write(drafts)
        return numbers[labels]

    def _of_entities(self, rows: Rows) -> _Draft:
        entities = self._entities
        order = rows[np.lexsort((rows, -self._degrees[rows]))].tolist()
        return _Draft(
            level=0,
            title=", ".join(entities.names[row] for row in order[:_NAMED])[:_LONGEST_TITLE],
            ids=[entities.ids[row] for row in order],
            texts=[entities.texts[row] for row in order],
            rows=rows,
            sources=entities.of_members(order),
        )

    def _of_communities(self, level: int, numbers: Labels, rows: Rows) -> _Draft:
        order = sorted(numbers.tolist(), key=lambda number: (-len(self.members[number]), number))
        nodes = [self.nodes[number] for number in order]
        return _Draft(
            level=level,
            title="; ".join(node.extra["title"] for node in nodes[:_NAMED])[:_LONGEST_TITLE],
            ids=[node.id for node in nodes],
            texts=[node.text for node in nodes],
            rows=rows,
            sources=sorted({source for node in nodes for source in node.sources}),
        )

    async def _write(self, drafts: Sequence[_Draft]) -> Labels:
        """Reports for these communities, known ones taken over; returns their numbers."""
        tokens = self._work.config.report_tokens
        ids = [draft.identity(tokens) for draft in drafts]
        known = self._reuse.take(ids)
        todo = [place for place, identity in enumerate(ids) if identity not in known]
        made = dict(zip(todo, await self._made([drafts[place] for place in todo]), strict=True))
        for place, (draft, identity) in enumerate(zip(drafts, ids, strict=True)):
            if identity in known:
                node, vector = known[identity]
                extra = {**carried(node, len(draft.sources)), "members": draft.ids}
                node = replace(node, level=draft.level, sources=draft.sources, extra=extra)
            else:
                report, vector = made[place]
                extra = {**report.extra, "members": draft.ids}
                node = Node(identity, KIND, draft.level, report.text, draft.sources, extra)
            self.nodes.append(node)
            self.members.append(draft.rows)
            self._vectors.append(vector)
        return np.arange(len(self.nodes) - len(drafts), len(self.nodes))

    async def _made(self, drafts: Sequence[_Draft]) -> list[tuple[CommunityReport, Vectors]]:
        if not drafts:
            return []
        gate, level = self._work.gate, drafts[0].level
        groups = [Group(draft.title, draft.texts, self._work.corpus.ids(draft.sources)) for draft in drafts]
        with gate.stage(f"report communities, level {level}", len(groups)):
            reports = await write_reports(
                groups, gate, prompt=REPORT, max_tokens=self._work.config.report_tokens
            )
        vectors = await gate.embed("embed reports", [report.text for report in reports])
        return list(zip(reports, vectors, strict=True))


@dataclass(frozen=True, slots=True)
class _Draft:
    """A community before its report: its members' ids and texts, most connected first, and its entities."""

    level: int
    title: str
    ids: list[str]
    texts: list[str]
    rows: Rows
    sources: Sequence[int]

    def identity(self, tokens: int) -> str:
        """Another as soon as a member, or what is said of it, is another."""
        made_of = sorted(content_id(*pair) for pair in zip(self.ids, self.texts, strict=True))
        return content_id("hirag", KIND, str(tokens), *made_of)


def complete(nodes: Sequence[Node]) -> bool:
    """Whether a model wrote all of these."""
    return all(node.extra["by"] == MODEL for node in nodes)


def _groups(labels: Labels) -> list[Rows]:
    """Ascending members of each label from 0 on."""
    order = np.argsort(labels, kind="stable").astype(np.int64)
    return list(np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)) if len(labels) else []
