"""What the builds of all methods share: nodes for groups such as communities, clusters or statements.

1. The method divides what it has into groups.
2. A group of unchanged members carries its node over from the previous index, and its members are not read
   (`GroupBuilder.unchanged`).
3. Other groups are read as drafts. A draft with the id of a previous node takes that node's text; the other
   texts are written (`GroupBuilder.nodes`).
4. The method embeds the new nodes (`ingest.graph.statements.group_vectors`).
5. All nodes are stored, with the arrays by which an update finds them again (`GroupBuilder.built`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from stratagraph._sync import in_thread
from stratagraph.ingest.before import recognised
from stratagraph.ingest.carryover import (
    VECTOR_KEYS,
    VECTORS,
    CarryOver,
    Keys,
    Labels,
    TextsOnly,
    text_keys,
    written_by_model,
)
from stratagraph.ingest.checks import Checks
from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.summarize import Group, Summary, told_within
from stratagraph.kernels.ranges import distinct, ranges
from stratagraph.methods.reports import CommunityReport
from stratagraph.models.gate import Gate
from stratagraph.types.built import Built, Carried, CarriedVectors
from stratagraph.types.protocols import Corpus, Rows, Stored, Vectors
from stratagraph.types.records import Metadata, Node

BY_MODEL = "by_model"
"""The array of whether a model wrote each node of a method, or nobody had to."""
_BATCH = 1024  # groups that are read at a time


class Settings(Protocol):
    """The settings of a method."""

    @property
    def text_settings(self) -> Sequence[int]:
        """Those that texts depend on."""
        ...

    @property
    def group_settings(self) -> Sequence[object]:
        """Those that groups depend on."""
        ...


C_co = TypeVar("C_co", bound=Settings, covariant=True)
Write = Callable[[Sequence[Group]], Awaitable[Sequence[Summary | CommunityReport]]]
"""Writes a text for each group, in order."""


@dataclass(frozen=True, slots=True)
class NodeDraft:
    """A node before its text."""

    id: str  # derived from everything that the text is made of
    kind: str
    level: int
    title: str  # what the node is called if no model names it
    texts: Sequence[str]  # what the text is made of
    sources: Sequence[int]  # ascending rows of the chunks behind the node
    extra: Metadata = field(default_factory=dict)  # beside what comes with the text
    about: Sequence[Sequence[str]] = ()  # for each of `texts` the ids of the members that it is about
    ranked: Sequence[str] = ()  # see `summarize.Group`
    text: str = ""  # the text, if it need not be written


@dataclass(frozen=True, slots=True)
class NodeTable(Carried):
    """Nodes of a method: some carried over from the previous index, `fresh` ones where `before` is -1."""

    previous: Stored | None = None

    def read(self, rows: Sequence[int]) -> list[Node]:
        """The nodes at some rows."""
        carried = [row for row in dict.fromkeys(rows) if self.before[row] >= 0]
        read: Sequence[Node] = ()
        if self.previous is not None:
            read = self.previous.nodes(self.before[carried].tolist())
        nodes = {
            row: replace(node, sources=self.indices[self.indptr[row] : self.indptr[row + 1]].tolist())
            for row, node in zip(carried, read, strict=True)
        }
        places = np.cumsum(self.before < 0) - 1
        return [nodes[row] if row in nodes else self.fresh[places[row]] for row in rows]

    def column(self, name: str, fresh: NDArray[Any]) -> NDArray[Any]:
        """An array with a value for each node: the previous values, and the given ones of fresh nodes."""
        carried = self.before >= 0
        if self.previous is None or not carried.any():
            return fresh
        values = np.zeros((len(self.before), *fresh.shape[1:]), fresh.dtype)
        values[~carried] = fresh
        values[carried] = self.previous.arrays[name][self.before[carried]]
        return values

    def by_model(self) -> NDArray[np.bool_]:
        """Whether a model wrote each node, or it needed no writing."""
        return self.column(BY_MODEL, np.array([written_by_model(node) for node in self.fresh], np.bool_))

    def text_keys(self) -> Keys:
        """The key of each node's text (`carryover.text_keys`)."""
        return self.column(VECTOR_KEYS, text_keys(node.text for node in self.fresh))


class GroupBuilder(Generic[C_co]):
    """What a method's build is given, and what it takes over from the previous index.

    Parameters
    ----------
    previous, before
        The previous index of the method, if there is one, and its settings.
    regroup
        Whether to divide into groups without regard to the previous ones.
    texts
        In place of `previous`, nodes from which only texts are taken over.

    Attributes
    ----------
    grouped
        `previous`; None with `regroup`, or if its groups have other settings.
    arrays
        The arrays of `previous` if its texts have the same settings and it is known what changed since; else
        none.
    """

    def __init__(
        self,
        corpus: Corpus,
        graph: Graph,
        gate: Gate,
        config: C_co,
        previous: Stored | None = None,
        before: Settings | None = None,
        *,
        regroup: bool = False,
        texts: TextsOnly | None = None,
    ) -> None:
        self.corpus, self.graph, self.gate, self.config, self.previous = corpus, graph, gate, config, previous
        same_groups = before is not None and before.group_settings == config.group_settings
        self.grouped = previous if same_groups and not regroup else None
        self.carry = CarryOver(previous or texts, gate)
        self.arrays: Mapping[str, NDArray[Any]] = {}
        if previous is not None and before is not None and graph.before is not None:
            self.arrays = previous.arrays if before.text_settings == config.text_settings else {}

    @property
    def dimension(self) -> int:
        """Dimension of all vectors."""
        return int(self.corpus.vectors.shape[1])

    def unchanged(
        self,
        labels: Labels,
        origin: Rows,
        same: NDArray[np.bool_],
        before: Callable[[], Labels],
        count: int,
    ) -> Rows:
        """The previous node of each group that has the same, unchanged members, or -1, shape (count,).

        `before` gives the previous node of each previous member, or -1; the others are as in
        `ingest.before.recognised`.
        """
        if not self.arrays:
            return np.full(count, -1, np.int64)
        return self.usable(recognised(labels, origin, same, before(), count))

    def usable(self, rows: Rows) -> Rows:
        """Rows of previous nodes; with a model, -1 in place of nodes that no model wrote."""
        if not self.gate.has_llm or not len(self.arrays[BY_MODEL]):
            return rows
        return np.where((rows >= 0) & self.arrays[BY_MODEL][rows], rows, -1)

    async def read_and_write(
        self,
        rows: Sequence[int],
        read: Callable[[Sequence[int]], list[NodeDraft]],
        write: Write,
        *,
        short: int = 0,
    ) -> list[Node]:
        """`nodes` of the groups at some rows, whose drafts are read by thousands."""
        nodes: list[Node] = []
        for start in range(0, len(rows), _BATCH):
            drafts = await in_thread(read, rows[start : start + _BATCH])
            nodes += await self.nodes(drafts, write, short=short)
        return nodes

    async def nodes(
        self, drafts: Sequence[NodeDraft], write: Write, stage: str = "", *, short: int = 0
    ) -> list[Node]:
        """The nodes of drafts, in order. `write` makes texts that neither a draft nor the previous index has.

        With a model, only texts that a model wrote are taken from the previous index, and a group that says
        no more than `short` tokens gets all that it says as its text. `stage` is the ledger's name for the
        writing; without it, the caller has opened a stage.
        """
        texts: dict[str, tuple[str, Metadata]] = {each.id: (each.text, {}) for each in drafts if each.text}
        carried = self.carry.nodes([each.id for each in drafts if not each.text])
        texts |= {node.id: (node.text, node.extra) for node in carried.values()}
        missing = [each for each in drafts if each.id not in texts]
        if self.gate.has_llm and short:
            for each in missing:
                if statements := told_within(each.texts, short, self.gate.count_tokens):
                    texts[each.id] = f"{each.title}: {statements}", {"title": each.title}
            missing = [each for each in missing if each.id not in texts]
        if missing:
            with self.gate.stage(stage, len(missing)) if stage else nullcontext():
                written = await write(self._groups(missing))
            texts |= {each.id: (text.text, text.extra) for each, text in zip(missing, written, strict=True)}
        return [
            Node(each.id, each.kind, each.level, text, each.sources, {**each.extra, **extra})
            for each in drafts
            for text, extra in (texts[each.id],)
        ]

    def _groups(self, drafts: Sequence[NodeDraft]) -> list[Group]:
        """What is written about; only a model's calls are filed under the ids of their chunks."""
        rows = united(each.sources for each in drafts) if self.gate.has_llm else []
        ids = dict(zip(rows, self.corpus.ids(rows), strict=True))
        sources = [[ids[row] for row in each.sources] if ids else [] for each in drafts]
        return [
            Group(each.title, each.texts, own, each.about, each.ranked)
            for each, own in zip(drafts, sources, strict=True)
        ]

    def table(self, before: Rows, fresh: Sequence[Node]) -> NodeTable:
        """Nodes at the rows `before` of the previous index; where that is -1, the next of the fresh ones."""
        carried, own = before >= 0, [node.sources for node in fresh]
        indptr, indices = np.zeros(1, np.int64), np.zeros(0, np.int64)
        if self.previous is not None and self.graph.before is not None:
            indptr, indices = self.graph.before.sources(self.previous, before[carried])
        sizes = np.zeros(len(before), np.int64)
        sizes[carried], sizes[~carried] = np.diff(indptr), [len(each) for each in own]
        borders = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.empty(int(borders[-1]), np.int64)
        rows[ranges(borders[:-1][carried], sizes[carried])] = indices
        rows[ranges(borders[:-1][~carried], sizes[~carried])] = list(chain.from_iterable(own))
        return NodeTable(before, fresh, borders, rows, self.previous)

    def built(
        self,
        tables: Sequence[NodeTable],
        vectors: Vectors,
        arrays: Mapping[str, NDArray[Any]],
        *,
        origins: Mapping[str, Rows] | None = None,
        measures: Collection[str] = (),
        complete: bool = True,
        notes: Mapping[str, int] = MappingProxyType({}),
    ) -> Built:
        """The nodes of several tables in a row, with the vectors of all of them.

        `complete` is whether a model wrote all that is not in a node, `notes` what the report tells; for
        `origins` and `measures` see `Built`.
        """
        none = np.zeros(0, np.int64)
        sizes = [np.diff(each.indptr) for each in tables]
        nodes = Carried(
            np.concatenate([none, *(each.before for each in tables)]),
            [node for each in tables for node in each.fresh],
            np.cumsum(np.concatenate([[0], *sizes]), dtype=np.int64),
            np.concatenate([none, *(each.indices for each in tables)]),
        )
        by_model = np.concatenate([np.zeros(0, np.bool_), *(each.by_model() for each in tables)])
        own = {
            VECTORS: stored_vectors(self.previous, VECTORS, nodes.before, vectors),
            VECTOR_KEYS: np.concatenate([np.zeros(0, np.uint64), *(each.text_keys() for each in tables)]),
            BY_MODEL: by_model,
        }
        complete = complete and bool(by_model.all())
        measures = {BY_MODEL, *measures}
        return Built(nodes, {**arrays, **own}, notes, complete, origins or {}, measures)


def stored_vectors(previous: Stored | None, name: str, before: Rows, vectors: Vectors) -> Vectors:
    """Vectors of nodes, without storing again those of the previous index.

    `before` holds the row of each equal vector in the previous array `name`, or -1.
    """
    if previous is None or not (before >= 0).any():
        return vectors
    return cast(Vectors, CarriedVectors(previous.arrays[name], before, vectors[np.flatnonzero(before < 0)]))


def united(sources: Iterable[Sequence[int] | NDArray[np.integer]]) -> list[int]:
    """All chunk rows of several lists, each once, ascending."""
    rows: list[int] = distinct(np.concatenate([np.zeros(0, np.int64), *sources])).tolist()
    return rows


def check_nodes(checks: Checks, chunks: int, dimension: int, nodes: int | None = None) -> int:
    """Check the arrays that every method has of its nodes; returns how many nodes there are."""
    nodes = checks.csr("sources", chunks, nodes, ascending=True)
    checks.of(VECTORS, np.float32, (nodes, dimension))
    checks.of(BY_MODEL, np.bool_, (nodes,))
    return nodes
