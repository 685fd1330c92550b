"""A hierarchy of communities with reports over the shared graph: GraphRAG's, or attributed ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stratagraph import _sync
from stratagraph.eval.rankers import Workbench
from stratagraph.ingest.summarize import MEMBER_TOKENS, Group
from stratagraph.kernels.leiden import hierarchical_leiden
from stratagraph.kernels.partition import attributed_communities, community_graph
from stratagraph.methods.archrag.communities import PROMPT, TITLE_NAMES
from stratagraph.methods.reports import write_reports
from stratagraph.types.protocols import Rows, Vectors

Kind = Literal["leiden", "attributed"]
LARGEST = 10
"""Maximum entities of a community that is not split: `max_cluster_size` of GraphRAG's program."""
MOST_LEVELS = 6
FEWEST = 10
"""Minimum communities for a further level of attributed ones (ERRATA A4)."""
REPORT_TOKENS = 200


@dataclass(frozen=True, slots=True)
class Community:
    """A community of entities (rows), with its report and the rows of its chunks."""

    members: tuple[int, ...]
    sources: tuple[int, ...]
    text: str


Level = Sequence[Community]


def hierarchy(bench: Workbench, kind: Kind = "leiden") -> list[Level]:
    """Communities by level, the coarsest first, each of at least two entities.

    `leiden` partitions the relations by Leiden, and each community of more than `LARGEST` entities again.
    `attributed` partitions the graph augmented by similar entities (ArchRAG, Alg. 1), then the graph of these
    communities by their reports, and so on. Both write reports by one prompt.
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
    levels = [_groups(each) for each in labels]
    for groups in reversed(
        levels
    ):  # the finest first: reports on large communities are made from those on their parts
        new = [group for group in groups if group not in written]
        written |= dict(zip(new, _reported(bench, new, written), strict=True))
    return [[written[group] for group in groups] for groups in levels]


def _attributed(bench: Workbench) -> list[Level]:
    graph = bench.graph
    vectors = bench.embedder.documents([node.text for node in graph.entities])
    ends, weights = graph.ends, graph.weights.astype(np.float64)
    members: list[tuple[int, ...]] = [(row,) for row in range(len(graph.entities))]
    written: dict[tuple[int, ...], Community] = {}
    levels: list[Level] = []
    while len(levels) < MOST_LEVELS and len(members) > FEWEST:
        labels = attributed_communities(vectors, ends, weights)
        if labels.max() + 1 > 0.9 * len(members):
            break
        ends, weights = community_graph(ends, weights, labels)
        grouped = [np.flatnonzero(labels == label).tolist() for label in range(int(labels.max()) + 1)]
        members = [tuple(sorted(row for part in group for row in members[part])) for group in grouped]
        new = [group for group in members if len(group) > 1 and group not in written]
        written |= dict(zip(new, _reported(bench, new, written), strict=True))
        levels.append([written[group] for group in members if len(group) > 1])
        texts = [
            written[group].text if len(group) > 1 else graph.entities[group[0]].text for group in members
        ]
        vectors = bench.embedder.documents(texts)
    return levels[::-1]


def _groups(labels: Rows) -> list[tuple[int, ...]]:
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [tuple(part.tolist()) for part in parts if len(part) > 1]


def _reported(
    bench: Workbench, groups: Sequence[tuple[int, ...]], parts: dict[tuple[int, ...], Community]
) -> list[Community]:
    """Communities with reports on their entities and inner relations."""
    graph = bench.graph
    asked, sources = [], []
    for group in groups:
        ranked = sorted(group, key=lambda row: (-graph.degrees[row], row))
        inner = np.flatnonzero(np.isin(graph.ends, group).all(axis=1))
        rows = sorted({chunk for row in group for chunk in graph.entities[row].sources})
        texts = [graph.entities[row].text for row in ranked] + [graph.relations[row].text for row in inner]
        title = ", ".join(graph.names[row] for row in ranked[:TITLE_NAMES])
        asked.append(Group(title, _fitting(bench, group, texts, parts), [str(row) for row in rows]))
        sources.append(tuple(rows))
    reports = _sync.run(write_reports(asked, bench.gate, prompt=PROMPT, max_tokens=REPORT_TOKENS))
    return [
        Community(group, rows, report.text)
        for group, rows, report in zip(groups, sources, reports, strict=True)
    ]


def _fitting(
    bench: Workbench,
    group: tuple[int, ...],
    texts: Sequence[str],
    parts: dict[tuple[int, ...], Community],
) -> Sequence[str]:
    """Texts of a report: its elements, or the reports on its parts where the elements are too long."""
    if sum(map(bench.count_tokens, texts)) <= MEMBER_TOKENS:
        return texts
    within = [each for members, each in parts.items() if set(members) < set(group)]
    largest = [each for each in within if not any(set(each.members) < set(other.members) for other in within)]
    return [each.text for each in sorted(largest, key=lambda each: -len(each.members))] or texts


def vectors_of(bench: Workbench, level: Level) -> Vectors:
    """Unit vectors of a level's reports, shape (communities, dimension)."""
    return bench.embedder.documents([each.text for each in level])
