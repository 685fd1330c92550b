"""A hierarchy of communities with reports over the shared graph: GraphRAG's, or attributed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from stratagraph import _sync
from stratagraph.eval.measuring import json_task
from stratagraph.eval.rankers import Workbench
from stratagraph.ingest.summarize import MEMBER_TOKENS, Summary, answered
from stratagraph.kernels.leiden import hierarchical_leiden
from stratagraph.kernels.partition import community_graph
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.archrag.levels import augmented, clustered
from stratagraph.methods.reports import joined_members
from stratagraph.models.gate import CallItem
from stratagraph.types.protocols import Rows

Kind = Literal["leiden", "attributed"]
LARGEST = 10
"""Maximum entities of a community that is not split: `max_cluster_size` of GraphRAG's program."""
MOST_LEVELS = 6
STAGE = "graphrag reports"
REPORT_TOKENS = 1300
"""Tokens of a report as JSON: the median of 122 reports of the program has 703 words in seven findings."""
EXTRACT_TOKENS = 200
"""Tokens of the sentences that stand for a report without a model."""
TITLE_NAMES = 3
"""Names in the title of such a report."""


class Finding(BaseModel):
    """A finding in a sentence, and what the members say on it."""

    model_config = ConfigDict(str_strip_whitespace=True)

    summary: str = ""
    explanation: str = ""


class Report(BaseModel):
    """What the model is asked for."""

    model_config = ConfigDict(str_strip_whitespace=True)

    title: str = Field(min_length=1)
    summary: str = Field(min_length=1)
    rating: float = Field(default=0, description="from 0 to 10")
    rating_reason: str = ""
    findings: list[Finding] = Field(default_factory=list)

    @property
    def text(self) -> str:
        """The title, the summary, and each finding with its explanation."""
        told = [f"## {each.summary}\n\n{each.explanation}".strip() for each in self.findings]
        return "\n\n".join([f"# {self.title}", self.summary, *told])


REPORT = json_task("graphrag_report", Report, REPORT_TOKENS)


@dataclass(frozen=True, slots=True)
class Community:
    """A community of entities (rows), the rows of its chunks, and its report with a rating (0 by default)."""

    members: tuple[int, ...]
    sources: tuple[int, ...]
    text: str
    rating: float = 0.0


Level = Sequence[Community]


def hierarchy(bench: Workbench, kind: Kind = "leiden") -> list[Level]:
    """Communities by level, the coarsest first, each of at least two entities.

    `leiden` partitions the relations by Leiden, and each community of more than `LARGEST` entities again.
    `attributed` takes the augmentation, the clustering and the settings of the method `archrag` (Alg. 1),
    level by level over the reports. Both write GraphRAG's long reports, under the stage `STAGE`.
    """
    if not bench.graph.entities:
        return []
    return _leiden(bench) if kind == "leiden" else _attributed(bench)


def _leiden(bench: Workbench) -> list[Level]:
    graph = bench.graph
    labels = hierarchical_leiden(
        graph.ends, graph.weights, len(graph.entities), max_size=LARGEST, max_levels=MOST_LEVELS
    )
    written: dict[tuple[int, ...], Community] = {}
    levels = [[group for group in _by_label(each) if len(group) > 1] for each in labels]
    for groups in reversed(levels):  # the finest first: their reports stand in larger communities' prompts
        new = [group for group in groups if group not in written]
        written |= dict(zip(new, _reported(bench, new, written), strict=True))
    return [[written[group] for group in groups] for groups in levels]


def _attributed(bench: Workbench) -> list[Level]:
    graph = bench.graph
    config = bench.config.method("archrag")
    assert isinstance(config, ArchRAGConfig)
    vectors = bench.embedder.documents([node.text for node in graph.entities])
    ends, weights = graph.ends, graph.weights.astype(np.float64)
    members: list[tuple[int, ...]] = [(row,) for row in range(len(graph.entities))]
    written: dict[tuple[int, ...], Community] = {}
    levels: list[Level] = []
    while len(levels) < config.max_levels and len(members) >= config.min_communities:
        ends, weights = augmented(vectors, ends, weights, config)
        labels = clustered(vectors, ends, weights, config)
        if labels.max() + 1 > (1 - config.min_shrink) * len(members):
            break
        ends, weights = community_graph(ends, None, labels)
        grouped = _by_label(labels)
        members = [tuple(sorted(row for part in group for row in members[part])) for group in grouped]
        new = [group for group in members if len(group) > 1 and group not in written]
        written |= dict(zip(new, _reported(bench, new, written), strict=True))
        levels.append([written[group] for group in members if len(group) > 1])
        texts = [
            written[group].text if len(group) > 1 else graph.entities[group[0]].text for group in members
        ]
        vectors = bench.embedder.documents(texts)
    return levels[::-1]


def _by_label(labels: Rows) -> list[tuple[int, ...]]:
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [tuple(part.tolist()) for part in parts]


def _reported(
    bench: Workbench, groups: Sequence[tuple[int, ...]], parts: Mapping[tuple[int, ...], Community]
) -> list[Community]:
    """Communities with reports on their entities and inner relations."""
    graph = bench.graph
    titles, texts, sources = [], [], []
    for group in groups:
        ranked = sorted(group, key=lambda row: (-graph.degrees[row], row))
        titles.append(", ".join(graph.names[row] for row in ranked[:TITLE_NAMES]))
        texts.append(_fitting(bench, ranked, parts))
        sources.append(tuple(sorted({chunk for row in group for chunk in graph.entities[row].sources})))
    reports = _sync.run(_written(bench, titles, texts, sources))
    return [
        Community(group, rows, f"{title}: {report.text}")
        if isinstance(report, Summary)
        else Community(group, rows, report.text, report.rating)
        for group, title, rows, report in zip(groups, titles, sources, reports, strict=True)
    ]


async def _written(
    bench: Workbench,
    titles: Sequence[str],
    texts: Sequence[Sequence[str]],
    sources: Sequence[Sequence[int]],
) -> list[Report | Summary]:
    """Reports by the model; extracts without one, and where it fails."""
    gate = bench.gate
    with gate.stage(STAGE):
        items = (
            CallItem(
                {"members": joined_members(each, MEMBER_TOKENS, gate.count_tokens)[0]},
                title,
                [str(row) for row in rows],
            )
            for title, each, rows in zip(titles, texts, sources, strict=True)
        )
        return await answered(REPORT, items, texts, EXTRACT_TOKENS, gate)


def _fitting(
    bench: Workbench, ranked: Sequence[int], parts: Mapping[tuple[int, ...], Community]
) -> list[str]:
    """Texts of a report: entities, the best connected first, and relations between them.

    Where they are too long, reports on parts stand for the elements of these, those of most tokens first,
    until all fits (Edge et al. 2024, 3.1.4).
    """
    graph, group = bench.graph, set(ranked)
    inner = np.flatnonzero(np.isin(graph.ends, ranked).all(axis=1)).tolist()
    entities = {row: graph.entities[row].text for row in ranked}
    relations = {row: graph.relations[row].text for row in inner}

    def tokens(texts: Mapping[int, str]) -> int:
        return sum(map(bench.count_tokens, texts.values()))

    left = MEMBER_TOKENS - tokens(entities) - tokens(relations)
    if left >= 0:
        return [*entities.values(), *relations.values()]
    within = [part for part in parts if set(part) < group]
    covered = []
    for part in (each for each in within if not any(set(each) < set(other) for other in within)):
        inside = {row: entities[row] for row in part}
        between = {row: relations[row] for row in inner if set(graph.ends[row].tolist()) <= set(part)}
        covered.append((tokens(inside) + tokens(between), part, between))
    reports = []
    for length, part, between in sorted(covered, key=lambda each: (-each[0], each[1])):
        report = parts[part].text
        saved = length - bench.count_tokens(report)
        if left >= 0 or saved <= 0:
            continue
        reports.append(report)
        left += saved
        entities = {row: text for row, text in entities.items() if row not in part}
        relations = {row: text for row, text in relations.items() if row not in between}
    return [*reports, *entities.values(), *relations.values()]
