"""GraphRAG: reports on communities, local and global search (Edge et al. 2024, and the program)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.sparse import csr_array

from stratagraph import _sync
from stratagraph.errors import CallFailed
from stratagraph.eval.baselines import Level
from stratagraph.eval.baselines.shared import by_support, passage_of, shared_out
from stratagraph.eval.measuring import booked, json_task, unestimated
from stratagraph.eval.workbench import Passage, Workbench, needs_model
from stratagraph.ingest.summarize import MEMBER_TOKENS, Summary, answered
from stratagraph.kernels.leiden import hierarchical_leiden
from stratagraph.kernels.partition import community_graph
from stratagraph.kernels.topk import top_k
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.archrag.levels import augmented, clustered
from stratagraph.methods.reports import joined_members
from stratagraph.models.gate import CallItem, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import plain_text
from stratagraph.text.sentences import clip
from stratagraph.types.protocols import Rows
from stratagraph.types.question import Length
from stratagraph.types.records import Usage

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
        findings = [f"## {each.summary}\n\n{each.explanation}".strip() for each in self.findings]
        return "\n\n".join([f"# {self.title}", self.summary, *findings])


REPORT = json_task("graphrag_report", Report, REPORT_TOKENS)


@dataclass(frozen=True, slots=True)
class Community:
    """A community of entities (rows), the rows of its chunks, and its report with a rating (0 by default)."""

    members: tuple[int, ...]
    sources: tuple[int, ...]
    text: str
    rating: float = 0.0


def hierarchy(bench: Workbench, kind: Kind = "leiden") -> list[Sequence[Community]]:
    """Communities by level, the coarsest first, each of at least two entities.

    `leiden` partitions the relations by Leiden, and each community of more than `LARGEST` entities again.
    `attributed` takes the augmentation, the clustering and the settings of the method `archrag` (Alg. 1),
    level by level over the reports. Both write GraphRAG's long reports, under the stage `STAGE`.
    """
    if not bench.graph.entities:
        return []
    return _leiden(bench) if kind == "leiden" else _attributed(bench)


def _leiden(bench: Workbench) -> list[Sequence[Community]]:
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


def _attributed(bench: Workbench) -> list[Sequence[Community]]:
    graph = bench.graph
    config = bench.config.method("archrag")
    assert isinstance(config, ArchRAGConfig)
    vectors = bench.embedder.documents([node.text for node in graph.entities])
    ends, weights = graph.ends, graph.weights.astype(np.float64)
    members: list[tuple[int, ...]] = [(row,) for row in range(len(graph.entities))]
    written: dict[tuple[int, ...], Community] = {}
    levels: list[Sequence[Community]] = []
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
    graph, gate = bench.graph, bench.gate
    titles, texts, sources = [], [], []
    for group in groups:
        ranked = sorted(group, key=lambda row: (-graph.degrees[row], row))
        titles.append(", ".join(graph.names[row] for row in ranked[:TITLE_NAMES]))
        texts.append(_fitting(bench, ranked, parts))
        sources.append(tuple(sorted({chunk for row in group for chunk in graph.entities[row].sources})))
    items = (
        CallItem(
            {"members": joined_members(each, MEMBER_TOKENS, gate.count_tokens)[0]},
            title,
            [str(row) for row in rows],
        )
        for title, each, rows in zip(titles, texts, sources, strict=True)
    )
    with gate.stage(STAGE):
        reports = _sync.run(answered(REPORT, items, texts, EXTRACT_TOKENS, gate))
    return [
        Community(group, rows, f"{title}: {report.text}")
        if isinstance(report, Summary)
        else Community(group, rows, report.text, report.rating)
        for group, title, rows, report in zip(groups, titles, sources, reports, strict=True)
    ]


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


LEVEL = 2
"""Level of the communities, from 0, the coarsest: `community_level` of the program."""
ENTITIES, RELATIONS = 20, 10
"""Entities that a local search starts from, and relations to others for each of them.

The program's setting is ten entities, of which it finds and keeps twice as many.
"""
SHARES = {"reports": 0.15, "texts": 0.5, "graph": 0.35}
"""Shares of the context of a local search in the program."""
MAP_TOKENS = 8000
"""Maximum tokens of reports in one call of a global search."""
_EXPECTED = {"brief": 20, "full": 400}
_ASKED = {
    "brief": "the shortest answer that is complete, without a sentence around it",
    "full": "all sides of the question, in paragraphs",
}


class Point(BaseModel):
    """A point of reports on a question, and how much it helps, from 0 to 100."""

    description: str
    score: float


class Points(BaseModel):
    """Points of a batch of reports; may be empty."""

    points: list[Point] = Field(default_factory=list)


MAP = json_task("graphrag_map", Points, 300)
REDUCE = load_prompt("stratagraph.eval", "graphrag_reduce")


class _OverCommunities:
    """The reports of one level, or of the finest level above it."""

    def __init__(self, bench: Workbench, communities: Kind, level: int) -> None:
        self._bench = bench
        levels = hierarchy(bench, communities)
        self._reports: Sequence[Community] = levels[min(level, len(levels) - 1)] if levels else []

    def _shown(self, report: Community) -> Passage:
        return passage_of(self._bench, report.text, report.sources)


class LocalSearch(_OverCommunities):
    """What surrounds the twenty entities whose descriptions are most similar to the question.

    View `chunks` ranks their passages, entity by entity, those first that state most of its relations. View
    `nodes` adds, with the program's shares of the context, the reports on their communities (those with most
    of them first), the entities, and their relations: first those between them, then those to neighbours that
    several of them share, the best connected first. Needs no model.

    Parameters
    ----------
    communities
        `leiden`, or `attributed` as the method `archrag` builds them.
    level
        Level of the communities, from 0, the coarsest.
    """

    name = "graphrag_local"
    description = "GraphRAG's local search: entities like the question, their passages, relations and reports"

    def __init__(self, bench: Workbench, *, communities: Kind = "leiden", level: Level = LEVEL) -> None:
        super().__init__(bench, communities, level)
        self._graph = bench.graph
        texts = [node.text for node in self._graph.entities]
        self._vectors = bench.embedder.documents(texts) if texts else None

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages or nodes, best first."""
        if self._vectors is None:
            return []
        chosen = top_k(self._vectors, self._bench.embedder.question(question), ENTITIES)[0]
        graph = self._graph

        def stating(entity: int) -> csr_array:
            return graph.statements[np.flatnonzero((graph.ends == entity).any(axis=1))]

        chunks = by_support(graph, chosen.tolist(), stating)
        texts = [self._bench.passages[row] for row in chunks]
        if self._bench.view == "chunks":
            return texts[:k]
        entities = set(chosen.tolist())
        covering = [each for each in self._reports if entities & set(each.members)]
        covering.sort(key=lambda each: (-len(entities & set(each.members)), -each.rating, -len(each.sources)))
        reports = [self._shown(each) for each in covering]
        nodes = {"reports": reports, "texts": texts, "graph": self._around(chosen)}
        return shared_out([(SHARES[kind], nodes[kind]) for kind in SHARES], self._bench, k)

    def _around(self, chosen: Rows) -> list[Passage]:
        """The entities, the relations between them, and those to their neighbours."""
        graph = self._graph
        inside = np.isin(graph.ends, chosen)
        within = np.flatnonzero(inside.all(axis=1))
        across = np.flatnonzero(inside.any(axis=1) & ~inside.all(axis=1))
        degrees = graph.degrees[graph.ends].sum(axis=1)
        swapped = inside[across, 0]
        outer = np.where(swapped, graph.ends[across, 1], graph.ends[across, 0])
        inner = np.where(swapped, graph.ends[across, 0], graph.ends[across, 1])
        links = Counter(row for row, _ in set(zip(outer.tolist(), inner.tolist(), strict=True)))
        shared = np.array([links[row] for row in outer.tolist()], np.int64)
        across = across[np.lexsort((across, -degrees[across], -shared))][: RELATIONS * len(chosen)]
        within = within[np.lexsort((within, -degrees[within]))]
        relations = [*within.tolist(), *across.tolist()]
        nodes = [*(graph.entities[row] for row in chosen), *(graph.relations[row] for row in relations)]
        return [passage_of(self._bench, node.text, node.sources) for node in nodes]


class GlobalSearch(_OverCommunities):
    """Map-reduce over the reports of a level: scored points from batches of reports, then one answer.

    A model answers so. A ranking is a form without a model: reports by similarity to the question, and in
    view `chunks` the most similar passage of each report in turn.

    Parameters
    ----------
    communities, level
        As for the local search.
    own_prompt
        False answers from its ranking by the prompt for all.
    """

    name = "graphrag_global"
    description = (
        "GraphRAG's global search: answers by map-reduce over reports on communities; "
        "rankings (LLM-free) by the reports' similarity"
    )

    def __init__(
        self, bench: Workbench, *, communities: Kind = "leiden", level: Level = LEVEL, own_prompt: bool = True
    ) -> None:
        super().__init__(bench, communities, level)
        self.own_prompt = own_prompt
        texts = [each.text for each in self._reports]
        self._vectors = bench.embedder.documents(texts) if texts else None

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` reports or passages, best first."""
        if self._vectors is None:
            return []
        vector = self._bench.embedder.question(question)
        nearest = top_k(self._vectors, vector, min(k, len(self._reports)))[0]
        reports = [self._reports[row] for row in nearest.tolist()]
        if self._bench.view == "nodes":
            return [self._shown(each) for each in reports]
        likeness = self._bench.vectors @ vector
        queues = [
            iter(sorted(each.sources, key=lambda row: (-float(likeness[row]), row))) for each in reports
        ]
        passages: dict[int, None] = {}
        while queues and len(passages) < k:
            waiting = []
            for queue in queues:
                row = next((row for row in queue if row not in passages), None)
                if row is not None:
                    passages[row] = None
                    waiting.append(queue)
            queues = waiting
        return [self._bench.passages[row] for row in list(passages)[:k]]

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        """An answer from the best points of all reports that fit, and its usage."""
        bench = self._bench
        needs_model(bench, "GraphRAG's global search")
        with booked(bench.gate, f"answer {self.name}") as gate:
            items = [
                CallItem({"question": question, "reports": batch}, question) for batch in self._batches()
            ]
            read = [each for each in await gate.map(MAP, items, required=False) if each is not None]
            if items and not read:
                raise CallFailed(f"none of {len(items)} batches of reports could be read for points")
            points = [point for each in read for point in each.points if point.score > 0]
            points.sort(key=lambda point: -point.score)
            lines = "\n".join(f"- ({point.score:.0f}) {point.description}" for point in points)
            values = {
                "points": clip(lines, max_tokens, bench.count_tokens) if lines else "(none)",
                "question": question,
                "length": _ASKED[length],
            }
            task = Task(
                "eval/graphrag_reduce",
                REDUCE,
                plain_text,
                unestimated,
                expected_output_tokens=_EXPECTED[length],
            )
            text = await gate.call(task, values, item=question)
        return text, gate.ledger.total

    def _batches(self) -> list[str]:
        """The reports in shuffled order, joined to texts of at most `MAP_TOKENS`."""
        order = np.random.default_rng(0).permutation(len(self._reports))
        batches: list[list[str]] = []
        left = 0
        for row in order.tolist():
            text = self._reports[row].text
            tokens = self._bench.count_tokens(text)
            if tokens > left:
                batches.append([])
                left = MAP_TOKENS
            batches[-1].append(text)
            left -= tokens
        return ["\n\n".join(batch) for batch in batches]
