"""GraphRAG: reports on communities, local and global search (Edge et al. 2024, and the program)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.sparse import csr_array

from papers.asking import ASKED
from papers.corpus import Baseline, Corpus, json_task, text_task
from stratagraph import _sync
from stratagraph.errors import CallFailed
from stratagraph.eval import Passage
from stratagraph.ingest.summarize import MEMBER_TOKENS, Summary, answered
from stratagraph.kernels.edges import community_graph
from stratagraph.kernels.leiden import hierarchical_leiden
from stratagraph.kernels.topk import top_k
from stratagraph.methods.archrag.levels import augmented, clustered
from stratagraph.methods.reports import joined_members
from stratagraph.models.gate import CallItem
from stratagraph.models.structured import plain_text
from stratagraph.text.sentences import clip
from stratagraph.types.question import Length
from stratagraph.types.records import Usage

LARGEST = 10
"""Maximum entities of a community that is not split: `max_cluster_size` of GraphRAG's program."""
MOST_LEVELS = 6
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
Members = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Community:
    """A community of entities (rows), the rows of its chunks, and its report with a rating (0 by default)."""

    members: tuple[int, ...]
    sources: tuple[int, ...]
    text: str
    rating: float = 0.0


class OverCommunities(Baseline):
    """Reports on the communities of one level, or of the finest level above it, each of two entities or more.

    By Leiden over the relations, in which each community of more than `LARGEST` entities is parted again; or,
    if `attributed`, by the augmentation, the clustering and the settings of the method `archrag` (Alg. 1),
    level by level over the reports. Both write GraphRAG's long reports.
    """

    def __init__(
        self, name: str, corpus: Corpus, *, attributed: bool = False, level: int = 2, passages: bool = False
    ) -> None:
        super().__init__(name, corpus, passages=passages)
        self._attributed, self._level = attributed, level

    def ready(self) -> None:
        self._written: dict[Members, Community] = {}
        levels = []
        if self.graph.entities:
            levels = self._by_attributes() if self._attributed else self._by_leiden()
        self.reports: list[Community] = levels[min(self._level, len(levels) - 1)] if levels else []

    def shown_report(self, report: Community) -> Passage:
        """A report as a result."""
        return self.passage(report.text, report.sources)

    def _by_leiden(self) -> list[list[Community]]:
        graph = self.graph
        labels = hierarchical_leiden(
            graph.ends, graph.weights, len(graph.entities), max_size=LARGEST, max_levels=MOST_LEVELS
        )
        # The finest first: their reports stand in larger communities' prompts.
        return [self._communities(by_label(each)) for each in labels[::-1]][::-1]

    def _by_attributes(self) -> list[list[Community]]:
        graph, embedder = self.graph, self.corpus.embedder
        config: Any = self.bench.config.method("archrag")
        vectors = embedder.documents([node.text for node in graph.entities])
        ends, weights = graph.ends, graph.weights.astype(np.float64)
        members: list[Members] = [(row,) for row in range(len(graph.entities))]
        levels: list[list[Community]] = []
        while len(levels) < config.max_levels and len(members) >= config.min_communities:
            ends, weights = augmented(vectors, ends, weights, config)
            labels = clustered(vectors, ends, weights, config)
            if labels.max() + 1 > (1 - config.min_shrink) * len(members):
                break
            ends, weights = community_graph(ends, None, labels)
            members = [
                tuple(sorted(row for part in group for row in members[part])) for group in by_label(labels)
            ]
            levels.append(self._communities(members))
            own = (self._written[group] if len(group) > 1 else graph.entities[group[0]] for group in members)
            vectors = embedder.documents([each.text for each in own])
        return levels[::-1]

    def _communities(self, groups: Sequence[Members]) -> list[Community]:
        """Communities of two entities or more, with reports on these and on their inner relations."""
        graph, gate, shown = self.graph, self.gate, [group for group in groups if len(group) > 1]
        new = [group for group in shown if group not in self._written]
        ranked = [sorted(group, key=lambda row: (-graph.degrees[row], row)) for group in new]
        titles = [", ".join(graph.names[row] for row in group[:TITLE_NAMES]) for group in ranked]
        texts = [self._fitting(group) for group in ranked]
        sources = [
            tuple(sorted({at for row in group for at in graph.entities[row].sources})) for group in new
        ]
        items = [
            CallItem(
                {"members": joined_members(each, MEMBER_TOKENS, gate.count_tokens)[0]},
                title,
                list(map(str, rows)),
            )
            for title, each, rows in zip(titles, texts, sources, strict=True)
        ]
        with gate.stage("graphrag reports"):
            reports = _sync.run(answered(REPORT, items, texts, EXTRACT_TOKENS, gate))
        for group, title, rows, report in zip(new, titles, sources, reports, strict=True):
            if isinstance(report, Summary):
                self._written[group] = Community(group, rows, f"{title}: {report.text}")
            else:
                self._written[group] = Community(group, rows, report.text, report.rating)
        return [self._written[group] for group in shown]

    def _fitting(self, ranked: Sequence[int]) -> list[str]:
        """Texts of a report: entities, the best connected first, and relations between them.

        Where they are too long, reports on parts stand for the elements of these, those of most tokens first,
        until all fits (Edge et al. 2024, 3.1.4).
        """
        graph, group, parts = self.graph, set(ranked), self._written
        inner = np.flatnonzero(np.isin(graph.ends, ranked).all(axis=1)).tolist()
        entities = {row: graph.entities[row].text for row in ranked}
        relations = {row: graph.relations[row].text for row in inner}

        def tokens(texts: Mapping[int, str]) -> int:
            return sum(map(self.corpus.count_tokens, texts.values()))

        left = MEMBER_TOKENS - tokens(entities) - tokens(relations)
        if left >= 0:
            return [*entities.values(), *relations.values()]
        within = [part for part in parts if set(part) < group]
        covered = []
        for part in (each for each in within if not any(set(each) < set(other) for other in within)):
            between = {row: relations[row] for row in inner if set(graph.ends[row].tolist()) <= set(part)}
            covered.append((tokens({row: entities[row] for row in part}) + tokens(between), part, between))
        reports = []
        for length, part, between in sorted(covered, key=lambda each: (-each[0], each[1])):
            saved = length - self.corpus.count_tokens(parts[part].text)
            if left >= 0 or saved <= 0:
                continue
            reports.append(parts[part].text)
            left += saved
            entities = {row: text for row, text in entities.items() if row not in part}
            relations = {row: text for row, text in relations.items() if row not in between}
        return [*reports, *entities.values(), *relations.values()]


def by_label(labels: np.ndarray) -> list[Members]:
    """The rows of each label."""
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [tuple(part.tolist()) for part in parts]


ENTITIES, RELATIONS = 20, 10
"""Entities that a local search starts from, and relations to others for each of them.

The program's setting is ten entities, of which it finds and keeps twice as many.
"""
SHARES = {"reports": 0.15, "texts": 0.5, "graph": 0.35}
"""Shares of the context of a local search in the program."""
MAP_TOKENS = 8000
"""Maximum tokens of reports in one call of a global search."""


class Point(BaseModel):
    """A point of reports on a question, and how much it helps, from 0 to 100."""

    description: str
    score: float


class Points(BaseModel):
    """Points of a batch of reports; may be empty."""

    points: list[Point] = Field(default_factory=list)


MAP = json_task("graphrag_map", Points, 300)
REDUCE = text_task("graphrag_reduce", 400, plain_text)


class LocalSearch(OverCommunities):
    """GraphRAG's local search: what surrounds the twenty entities most similar to the question. No model.

    With the program's shares of the context: their passages, entity by entity, those first that state most of
    its relations; the reports on their communities, those with most of them first; the entities, and their
    relations: first those between them, then those to neighbours that several of them share, the best
    connected first.
    """

    def ready(self) -> None:
        super().ready()
        texts = [node.text for node in self.graph.entities]
        self._vectors = self.corpus.embedder.documents(texts) if texts else None

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        if self._vectors is None:
            return []
        graph = self.graph
        chosen = top_k(self._vectors, self.corpus.embedder.question(question), ENTITIES)[0]

        def stating(entity: int) -> csr_array:
            return graph.statements[np.flatnonzero((graph.ends == entity).any(axis=1))]

        texts = self.shown(graph.by_support(chosen.tolist(), stating))
        if self.passages:
            return texts[:k]
        entities = set(chosen.tolist())
        covering = [each for each in self.reports if entities & set(each.members)]
        covering.sort(key=lambda each: (-len(entities & set(each.members)), -each.rating, -len(each.sources)))
        reports = list(map(self.shown_report, covering))
        nodes = {"reports": reports, "texts": texts, "graph": self._around(chosen)}
        return self.shared_out([(SHARES[kind], nodes[kind]) for kind in SHARES], k)

    def _around(self, chosen: np.ndarray) -> list[Passage]:
        """The entities, the relations between them, and those to their neighbours."""
        graph = self.graph
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
        nodes = [
            *(graph.entities[row] for row in chosen),
            *(graph.relations[row] for row in (*within, *across)),
        ]
        return [self.passage(node.text, node.sources) for node in nodes]


class GlobalSearch(OverCommunities):
    """GraphRAG's global search: map-reduce over the reports of a level, from scored points to one answer.

    It has no ranking; the reports nearest to the question stand for one, so that something can be judged.
    """

    own_prompt = True
    needs_model = True

    def ready(self) -> None:
        super().ready()
        texts = [each.text for each in self.reports]
        self._vectors = self.corpus.embedder.documents(texts) if texts else None

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        if self._vectors is None:
            return []
        nearest = top_k(self._vectors, self.corpus.embedder.question(question), min(k, len(self.reports)))[0]
        return [self.shown_report(self.reports[row]) for row in nearest.tolist()]

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        items = [CallItem({"question": question, "reports": batch}, question) for batch in self._batches()]

        async def asked(gate: Any) -> str:
            read = [each for each in await gate.map(MAP, items, required=False) if each is not None]
            if items and not read:
                raise CallFailed(f"none of {len(items)} batches of reports could be read for points")
            points = [point for each in read for point in each.points if point.score > 0]
            points.sort(key=lambda point: -point.score)
            lines = "\n".join(f"- ({point.score:.0f}) {point.description}" for point in points)
            values = {
                "points": clip(lines, max_tokens, self.corpus.count_tokens) if lines else "(none)",
                "question": question,
                "length": ASKED[length],
            }
            return await gate.call(REDUCE, values, item=question)

        return await self.booked(asked)

    def _batches(self) -> list[str]:
        """The reports in shuffled order, joined to texts of at most `MAP_TOKENS`."""
        batches: list[list[str]] = []
        left = 0
        for row in np.random.default_rng(0).permutation(len(self.reports)).tolist():
            text = self.reports[row].text
            tokens = self.corpus.count_tokens(text)
            if tokens > left:
                batches.append([])
                left = MAP_TOKENS
            batches[-1].append(text)
            left -= tokens
        return ["\n\n".join(batch) for batch in batches]
