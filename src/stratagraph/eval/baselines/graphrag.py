"""GraphRAG's local and global search over reports on communities (Edge et al. 2024, and the program)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field
from scipy.sparse import csr_array

from stratagraph.errors import CallFailed
from stratagraph.eval.baselines import Level
from stratagraph.eval.baselines.communities import Community, Kind, hierarchy
from stratagraph.eval.baselines.shared import by_support, passage_of, shared_out, stand_ins
from stratagraph.eval.measuring import booked, json_task, unestimated
from stratagraph.eval.rankers import Passage, Workbench, needs_model
from stratagraph.kernels.topk import top_k
from stratagraph.models.gate import CallItem, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import plain_text
from stratagraph.text.sentences import clip
from stratagraph.types.protocols import Rows
from stratagraph.types.question import Length
from stratagraph.types.records import Usage

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
        found = {"reports": self._told(chosen), "texts": texts, "graph": self._around(chosen)}
        return shared_out([(SHARES[kind], found[kind]) for kind in SHARES], self._bench, k)

    def _told(self, chosen: Rows) -> list[Passage]:
        """Reports by how many of the entities they cover, then by rating, then by passages."""
        wanted = set(chosen.tolist())
        matches = [(len(wanted & set(each.members)), each) for each in self._reports]
        matches = [each for each in matches if each[0]]
        return [
            self._shown(each)
            for _, each in sorted(
                matches, key=lambda each: (-each[0], -each[1].rating, -len(each[1].sources))
            )
        ]

    def _around(self, chosen: Rows) -> list[Passage]:
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
        found = [self._reports[row] for row in nearest.tolist()]
        if self._bench.view == "nodes":
            return [self._shown(each) for each in found]
        rows = stand_ins([each.sources for each in found], self._bench.vectors @ vector, k)
        return [self._bench.passages[row] for row in rows]

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        """An answer from the best points of all reports that fit, and its usage."""
        bench = self._bench
        needs_model(bench, "GraphRAG's global search")
        with booked(bench.gate, f"answer {self.name}") as work:
            items = [
                CallItem({"question": question, "reports": batch}, question) for batch in self._batches()
            ]
            found = await work.gate.map(MAP, items, required=False)
            if items and not any(each is not None for each in found):
                raise CallFailed(f"none of {len(items)} batches of reports could be read for points")
            points = [point for each in found if each is not None for point in each.points if point.score > 0]
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
            text = await work.gate.call(task, values, item=question)
        return text, work.usage

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
