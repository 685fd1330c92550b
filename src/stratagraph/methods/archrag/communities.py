"""The nodes of a level's communities: what each report is made of, what is taken over, what is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph._sync import while_reading
from stratagraph.methods.archrag.clustering import Weights
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.archrag.levels import Level, LevelBefore, Partition, community_sources, inner_degrees
from stratagraph.methods.base import Graph
from stratagraph.models.gate import Gate
from stratagraph.pipeline.before import recognised
from stratagraph.pipeline.carryover import VECTORS, CarryOver, Labels
from stratagraph.pipeline.kept_nodes import BY_MODEL, KeptNodes
from stratagraph.pipeline.names.spelling import telling
from stratagraph.pipeline.prompts import load_prompt
from stratagraph.pipeline.reading import read_lists
from stratagraph.pipeline.reports import carried, write_reports
from stratagraph.pipeline.statements import group_vectors
from stratagraph.pipeline.summarize import Group
from stratagraph.protocols import Corpus, Rows, Stored, Vectors
from stratagraph.records import Node, content_id

PROMPT = load_prompt("stratagraph.methods.archrag", "report")
KIND = "community"
TITLE_NAMES = 3
"""Members whose names make the title of a report that no model wrote."""
_BATCH = 512


@dataclass(frozen=True, slots=True)
class Community:
    """A community before its report: its members, most connected first, and the relations between them.

    A relation is given by the places of the members that it joins, and its text.
    """

    id: str
    members: Sequence[Node]
    relations: Sequence[tuple[tuple[int, int], str]]
    sources: Sequence[int]

    @property
    def texts(self) -> list[str]:
        """Texts of the members, then of the relations between them."""
        return [*(member.text for member in self.members), *(text for _, text in self.relations)]

    @property
    def about(self) -> list[tuple[str, ...]]:
        """The ids of the members that each text is about."""
        ids = [member.id for member in self.members]
        return [*((each,) for each in ids), *((ids[one], ids[two]) for (one, two), _ in self.relations)]

    @property
    def names(self) -> list[str]:
        """Names of the most connected members, of a community the name of an entity in it."""
        return telling(map(_name, self.members), TITLE_NAMES)

    @property
    def title(self) -> str:
        """The title of a report that no model wrote."""
        return ", ".join(self.names)


@dataclass(frozen=True)
class Written(KeptNodes):
    """The communities of a level; `fresh_vectors` are those of `fresh`."""

    fresh_vectors: Vectors

    @cached_property
    def all_vectors(self) -> Vectors:
        """Of all of them, shape (communities, dimension)."""
        return self.vectors(VECTORS, self.fresh_vectors)

    def level(self, number: int, partition: Partition) -> Level:
        """These communities as the next level."""
        return Level(
            number,
            self.all_vectors,
            partition.ends,
            partition.weights,
            (self.indptr, self.indices),
            self.read,
            lambda rows: [],
            LevelBefore(self.before, self.before >= 0),
        )


class CommunityWriter:
    """Makes the nodes of communities; reports that the previous index has are taken over."""

    def __init__(self, corpus: Corpus, gate: Gate, previous: Stored | None, config: ArchRAGConfig) -> None:
        self._corpus = corpus
        self._gate = gate
        self._previous = previous
        self._carry = CarryOver(previous, gate)
        self._config = config

    async def write(self, level: Level, partition: Partition, before: Rows) -> Written:
        """A node and a vector for each community of a level, in the order of the labels.

        A community of one has no report: it is its member, with the member's vector. Nothing is read of those
        that are as they were, whose previous rows are in `before`.
        """
        indptr, indices = community_sources(
            partition.labels, partition.count, level.sources, self._corpus.size
        )
        members, edges = partition.members(), partition.inner_edges(level.ends)
        degrees = inner_degrees(level, partition.labels)
        made: list[int] = np.flatnonzero(before < 0).tolist()

        def read(batch: Sequence[int]) -> list[Community]:
            ordered = [_by_degree(members[row], degrees) for row in batch]
            sources = [indices[indptr[row] : indptr[row + 1]].tolist() for row in batch]
            return self._read(level, ordered, [edges[row] for row in batch], sources)

        reads = (partial(read, made[start : start + _BATCH]) for start in range(0, len(made), _BATCH))
        nodes = list(chain.from_iterable(await while_reading(reads, partial(self._nodes, level))))
        joined = [members[row].tolist() for row in made if row < partition.joined]
        embedded = await group_vectors(
            nodes[: len(joined)], joined, level.vectors, stage="embed reports", carry=self._carry
        )
        alone = np.array([members[row][0] for row in made[len(joined) :]], np.int64)
        vectors = np.concatenate([embedded, level.vectors[alone]])
        return Written(before, nodes, indptr, indices, self._previous, vectors)

    def _read(
        self, level: Level, members: Sequence[Rows], edges: Sequence[Rows], sources: Sequence[Sequence[int]]
    ) -> list[Community]:
        """A batch of communities; nodes and relations are read at once for all of them."""
        nodes = iter(level.read_nodes(np.concatenate(members).tolist()))
        texts = iter(level.read_relations(np.concatenate(edges).tolist()))
        communities = []
        for rows, inner, chunks in zip(members, edges, sources, strict=True):
            own = [next(nodes) for _ in rows]
            places = {row: place for place, row in enumerate(rows.tolist())}
            joined = ((places[one], places[two]) for one, two in level.ends[inner].tolist())
            relations = [(ends, text) for ends, text in zip(joined, texts, strict=False) if text]
            identity = self._id(level.number + 1, own, [text for _, text in relations])
            communities.append(Community(identity, own, relations, chunks))
        return communities

    def _id(self, number: int, members: Sequence[Node], relations: Sequence[str]) -> str:
        """Changes exactly when anything does that the report is made of, but for the order of members."""
        ids, texts = sorted(node.id for node in members), sorted(node.text for node in members)
        sizes = map(str, (number, *self._config.report_settings, len(ids)))
        return content_id("archrag", KIND, *sizes, *ids, *texts, *sorted(relations))

    async def _nodes(self, level: Level, communities: Sequence[Community]) -> list[Node]:
        """The nodes of a batch of communities."""
        joined = [each for each in communities if len(each.members) > 1]
        known = self._carry.nodes([each.id for each in joined])
        missing = [each for each in joined if each.id not in known]
        lists = [each.sources if self._gate.has_llm else () for each in missing]  # of what a model is asked
        sources = read_lists(self._corpus.ids, lists)
        groups = [
            Group(each.title, each.texts, ids, each.about) for each, ids in zip(missing, sources, strict=True)
        ]
        reports = await write_reports(
            groups,
            self._gate,
            prompt=PROMPT,
            max_tokens=self._config.summary_tokens,
            form=self._config.report_form,
            context_tokens=self._config.context_tokens,
        )
        written = dict(zip((each.id for each in missing), reports, strict=True))
        nodes = []
        for each in communities:
            if len(each.members) == 1:
                text, report = each.members[0].text, {"title": _name(each.members[0])}
            elif each.id in known:
                text, report = known[each.id].text, carried(known[each.id])
            else:
                text, report = written[each.id].text, written[each.id].extra
            extra = {**report, "names": each.names, "members": [member.id for member in each.members]}
            nodes.append(Node(each.id, KIND, level.number + 1, text, each.sources, extra))
        return nodes


def _by_degree(members: Rows, degrees: Weights) -> Rows:
    return members[np.lexsort((members, -degrees[members]))]


def _name(node: Node) -> str:
    """An entity's name; a community's first."""
    return str(node.extra["name"] if node.kind == "entity" else node.extra["names"][0])


SETTINGS = "report_settings"
"""The array of the settings that reports depend on."""


class Unchanged:
    """Finds previous rows of unchanged communities; with a model only those whose report a model wrote."""

    def __init__(self, graph: Graph, gate: Gate, previous: Stored | None, config: ArchRAGConfig) -> None:
        self._graph = graph
        self._asks = gate.has_llm
        usable = previous is not None and graph.before is not None
        self._previous = previous if usable else None
        if self._previous is not None and self._previous.arrays[SETTINGS].tolist() != config.report_settings:
            self._previous = None

    def rows(self, level: Level, partition: Partition) -> Rows:
        """The previous row of each community of a level, or -1."""
        if self._previous is None:
            return np.full(partition.count, -1, np.int64)
        labels, before = partition.labels, self._parents(level.number)
        if level.number == 0:
            labels = np.concatenate([labels, partition.of_edges(level.ends)])
        found = recognised(labels, level.before.origin, level.before.same, before, partition.count)
        if self._asks:
            kept = found >= 0
            found[kept] = np.where(self._previous.arrays[BY_MODEL][found[kept]], found[kept], -1)
        return found

    def _parents(self, number: int) -> Labels:
        """The community of each node that there was, and at level 0 of each relation inside of one."""
        assert self._previous is not None
        assert self._graph.before is not None
        if number > 0:
            return np.asarray(self._previous.arrays["parents"])
        parents: Labels = np.asarray(self._previous.arrays["entities.parents"])
        own = parents[self._graph.before.stored.arrays["relations.ends"]]
        return np.concatenate([parents, np.where(own[:, 0] == own[:, 1], own[:, 0], -1)])


def unchanged_arrays(by_model: Sequence[NDArray[np.bool_]], config: ArchRAGConfig) -> dict[str, NDArray[Any]]:
    """What the next update reads; `by_model` is of each level's communities."""
    return {
        BY_MODEL: np.concatenate([np.zeros(0, np.bool_), *by_model]),
        SETTINGS: np.array(config.report_settings, np.int64),
    }
