"""The nodes of a level's communities: what each report is made of, what is taken over, what is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stratarag.methods.archrag.clustering import Weights
from stratarag.methods.archrag.levels import Level, Partition, strengths, unions
from stratarag.models.gate import Gate
from stratarag.pipeline.carryover import CarryOver
from stratarag.pipeline.prompts import load_prompt
from stratarag.pipeline.reports import carried, support, write_reports
from stratarag.pipeline.summarize import Group
from stratarag.protocols import Corpus, Rows, Vectors
from stratarag.records import Node, content_id

PROMPT = load_prompt("stratarag.methods.archrag", "report")
KIND = "community"
TITLE_NAMES = 3
"""Members whose names make the title of a report that no model wrote."""
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class Community:
    """A community before its report: its members, most connected first, and the texts it is made of."""

    row: int
    id: str
    members: Sequence[Node]
    relations: Sequence[str]
    sources: Sequence[int]

    @property
    def texts(self) -> list[str]:
        """Texts of the members, then of the relations between them."""
        return [*(member.text for member in self.members), *self.relations]

    @property
    def names(self) -> list[str]:
        """Entities' names, one for each of the most connected members."""
        return [_name(member) for member in self.members[:TITLE_NAMES]]

    @property
    def title(self) -> str:
        """What it is called where no model names it."""
        return ", ".join(self.names)


class Writer:
    """Makes the nodes of communities; what a previous index has of them is not made again."""

    def __init__(self, corpus: Corpus, gate: Gate, reuse: CarryOver, summary_tokens: int) -> None:
        self._corpus = corpus
        self._gate = gate
        self._reuse = reuse
        self._tokens = summary_tokens

    async def write(self, level: Level, partition: Partition) -> tuple[list[Node], Vectors]:
        """A node and a vector for each community of a level, in the order of the labels."""
        sources = unions(partition.labels, partition.count, level.sources, self._corpus.size)
        members, inner = partition.members(), partition.inner(level.ends)
        connected = strengths(level, partition.labels)
        vectors = np.zeros((partition.count, level.vectors.shape[1]), np.float32)
        nodes: list[Node] = []
        for start in range(0, partition.count, _BATCH):
            rows = range(start, min(start + _BATCH, partition.count))
            ordered = [_by_connection(members[row], connected) for row in rows]
            gathered = self._gathered(level, rows, ordered, [inner[row] for row in rows], sources)
            written, found = await self._nodes(level, gathered, ordered)
            nodes += written
            vectors[rows.start : rows.stop] = found
        return nodes, vectors

    def _gathered(
        self,
        level: Level,
        rows: range,
        members: Sequence[Rows],
        inner: Sequence[Rows],
        sources: Sequence[Sequence[int]],
    ) -> list[Community]:
        """Read what a batch of communities is made of, in one go each."""
        nodes = iter(level.read(np.concatenate(members).tolist()))
        texts = iter(level.relations(np.concatenate(inner).tolist()))
        made = []
        for row, own, joined in zip(rows, members, inner, strict=True):
            read = [next(nodes) for _ in own]
            told = [text for text in [next(texts, "") for _ in joined] if text]
            identity = self._identity(level.number + 1, read, told)
            made.append(Community(row, identity, read, told, sources[row]))
        return made

    def _identity(self, number: int, members: Sequence[Node], relations: Sequence[str]) -> str:
        """Changes exactly when anything does that the report is made of, but for the order of members."""
        ids, texts = sorted(node.id for node in members), sorted(node.text for node in members)
        sizes = (str(number), str(self._tokens), str(len(ids)))
        return content_id("archrag", KIND, *sizes, *ids, *texts, *sorted(relations))

    async def _nodes(
        self, level: Level, communities: Sequence[Community], members: Sequence[Rows]
    ) -> tuple[list[Node], Vectors]:
        """The nodes of a batch. A community of one has nothing to report: it is its member."""
        joined = [each for each in communities if len(each.members) > 1]
        taken = self._reuse.take([each.id for each in joined])
        missing = [each for each in joined if each.id not in taken]
        reports = await write_reports(
            [Group(each.title, each.texts, self._corpus.ids(each.sources)) for each in missing],
            self._gate,
            prompt=PROMPT,
            max_tokens=self._tokens,
        )
        embedded = await self._gate.embed("embed reports", [report.text for report in reports])
        written = dict(zip((each.id for each in missing), zip(reports, embedded, strict=True), strict=True))
        nodes: list[Node] = []
        vectors = np.zeros((len(communities), level.vectors.shape[1]), np.float32)
        for place, each in enumerate(communities):
            if len(each.members) == 1:
                (member,) = each.members
                text, vector, told = member.text, level.vectors[members[place][0]], _alone(member)
            elif each.id in taken:
                node, vector = taken[each.id]
                text, told = node.text, carried(node, len(each.sources))
            else:
                report, vector = written[each.id]
                text, told = report.text, report.extra
            extra = {**told, "names": each.names, "members": [member.id for member in each.members]}
            nodes.append(Node(each.id, KIND, level.number + 1, text, each.sources, extra))
            vectors[place] = vector
        return nodes, vectors


def _by_connection(members: Rows, connected: Weights) -> Rows:
    return members[np.lexsort((members, -connected[members]))]


def _name(node: Node) -> str:
    """An entity's name; a community's first."""
    return str(node.extra["name"] if node.kind == "entity" else node.extra["names"][0])


def _alone(member: Node) -> dict[str, Any]:
    rating, reason = support(len(member.sources))
    return {"title": _name(member), "rating": rating, "reason": reason}
