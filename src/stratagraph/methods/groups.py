"""How every method makes nodes for its groups: communities, clusters, tree nodes, statements of an entity.

1. The method divides what it has into groups.
2. Groups of unchanged members keep their previous nodes and are not read (`GroupBuilder.unchanged`).
3. The others are read as drafts. A draft with the id of a previous node keeps that node's text; the other
   texts are written (`GroupBuilder.nodes`).
4. The method embeds the new nodes (`ingest.graph.statements.group_vectors`).
5. All nodes are stored, with the arrays by which an update finds them again (`GroupBuilder.built`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from stratagraph._sync import while_reading
from stratagraph.ingest.before import Before, recognised
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
"""The array that tells of each node of a method whether a model wrote it, or nobody had to."""
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
    extra: Metadata = field(default_factory=dict)  # what the node has beside what it keeps of its text
    about: Sequence[Sequence[str]] = ()  # the ids of the members that each of the texts is about
    ranked: Sequence[str] = ()  # see `summarize.Group`
    text: str = ""  # the text, if there is nothing to write


class GroupBuilder(Generic[C_co]):
    """What a method's build is given, and what it takes over from the previous index.

    Parameters
    ----------
    previous, before
        The previous index of the method, if there is one, and its settings.
    regroup
        Whether groups are made as if there were none.
    texts
        In place of `previous`, nodes whose texts are taken over and nothing else.

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
        """The previous nodes. With a model, -1 stands for each that no model wrote: it is written again."""
        if not self.gate.has_llm:
            return rows
        usable, carried = rows.copy(), rows >= 0
        usable[carried] = np.where(self.arrays[BY_MODEL][rows[carried]], rows[carried], -1)
        return usable

    async def read_and_written(
        self,
        rows: Sequence[int],
        read: Callable[[Sequence[int]], list[NodeDraft]],
        write: Write,
        *,
        short: int = 0,
    ) -> list[Node]:
        """The nodes of the groups at some rows; drafts are read while others are written."""
        reads = (partial(read, rows[start : start + _BATCH]) for start in range(0, len(rows), _BATCH))
        written = partial(self.nodes, write=write, short=short)
        return list(chain.from_iterable(await while_reading(reads, written)))

    async def nodes(
        self, drafts: Sequence[NodeDraft], write: Write, stage: str = "", *, short: int = 0
    ) -> list[Node]:
        """The nodes of drafts, in order. `write` makes texts that neither a draft nor the previous index has.

        With a model, only texts that a model wrote are taken from the previous index, and groups that say no
        more than `short` tokens are not written: all that they say is their text. `stage` is the ledger's
        name for the writing; without it, the caller has opened a stage.
        """
        open_ones = [each for each in drafts if not each.text]
        carried = self.carry.nodes([each.id for each in open_ones])
        missing = [each for each in open_ones if each.id not in carried]
        text_of: dict[str, tuple[str, Metadata]] = {
            node.id: (node.text, node.extra) for node in carried.values()
        }
        if self.gate.has_llm and short:
            for each in missing:
                if told := told_within(each.texts, short, self.gate.count_tokens):
                    text_of[each.id] = f"{each.title}: {told}", {"title": each.title}
            missing = [each for each in missing if each.id not in text_of]
        to_write = missing if self.gate.has_llm else []
        rows = united(each.sources for each in to_write)
        ids = dict(zip(rows, self.corpus.ids(rows), strict=True)) if rows else {}
        groups = [
            Group(
                each.title,
                each.texts,
                [ids[row] for row in each.sources] if to_write else [],
                each.about,
                each.ranked,
            )
            for each in missing
        ]
        with self.gate.stage(stage, len(missing)) if stage and missing else nullcontext():
            texts = await write(groups) if groups else []
        text_of |= {each.id: (text.text, text.extra) for each, text in zip(missing, texts, strict=True)}
        nodes = []
        for each in drafts:
            text, extra = text_of.get(each.id, (each.text, {}))
            nodes.append(Node(each.id, each.kind, each.level, text, each.sources, {**each.extra, **extra}))
        return nodes

    def kept(self, before: Rows, fresh: Sequence[Node]) -> KeptNodes:
        """Nodes at the rows `before` of the previous index; where that is -1, the next of the fresh ones."""
        return KeptNodes.of(before, fresh, self.previous, self.graph.before)

    def built(
        self,
        parts: Sequence[KeptNodes],
        vectors: Vectors,
        arrays: Mapping[str, NDArray[Any]],
        *,
        origins: Mapping[str, Rows] | None = None,
        measures: Collection[str] = (),
        complete: bool = True,
        notes: Mapping[str, int] = MappingProxyType({}),
    ) -> Built:
        """The nodes of several parts in a row, with the vectors of all of them.

        `complete` is whether a model wrote all that is not in a node, `notes` what the report tells; for
        `origins` and `measures` see `Built`.
        """
        nodes = joined(parts)
        by_model = np.concatenate([np.zeros(0, np.bool_), *(each.by_model() for each in parts)])
        own = {
            VECTORS: stored_vectors(self.previous, VECTORS, nodes.before, vectors),
            VECTOR_KEYS: np.concatenate([np.zeros(0, np.uint64), *(each.text_keys() for each in parts)]),
            BY_MODEL: by_model,
        }
        complete = complete and bool(by_model.all())
        return Built(
            nodes,
            {**arrays, **own},
            notes,
            complete=complete,
            origins=origins or {},
            measures={BY_MODEL, *measures},
        )


@dataclass(frozen=True)
class KeptNodes:
    """Nodes of a method: those that stay as they were in the previous index, and new ones.

    The chunk rows of node i are `indices[indptr[i]:indptr[i + 1]]`.
    """

    before: Rows  # the previous row of each node, or -1
    fresh: Sequence[Node]  # the other nodes, in order
    indptr: Rows
    indices: Rows
    previous: Stored | None

    @classmethod
    def of(
        cls, before: Rows, fresh: Sequence[Node], previous: Stored | None, seen: Before | None
    ) -> KeptNodes:
        """From nodes whose members and sources are unchanged (`Before.same`), and fresh ones."""
        carried = before >= 0
        if previous is None or seen is None or not carried.any():
            indptr, indices = np.zeros(1, np.int64), np.zeros(0, np.int64)
        else:
            indptr, indices = seen.sources(previous, before[carried])
        own = [node.sources for node in fresh]
        sizes = np.zeros(len(before), np.int64)
        sizes[carried], sizes[~carried] = np.diff(indptr), [len(each) for each in own]
        borders = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.empty(int(borders[-1]), np.int64)
        rows[ranges(borders[:-1][carried], sizes[carried])] = indices
        rows[ranges(borders[:-1][~carried], sizes[~carried])] = list(chain.from_iterable(own))
        return cls(before, fresh, borders, rows, previous)

    def __len__(self) -> int:
        return len(self.before)

    def read(self, rows: Sequence[int]) -> list[Node]:
        """The nodes at some rows."""
        carried_rows = [row for row in dict.fromkeys(rows) if self.before[row] >= 0]
        previous_nodes: dict[int, Node] = {}
        if self.previous is not None and carried_rows:
            nodes = self.previous.nodes(self.before[carried_rows].tolist())
            previous_nodes = {
                row: self._placed(row, node) for row, node in zip(carried_rows, nodes, strict=True)
            }
        places = np.cumsum(self.before < 0) - 1
        return [previous_nodes[row] if row in previous_nodes else self.fresh[places[row]] for row in rows]

    def texts(self) -> list[str]:
        """The texts of all nodes."""
        previous_rows = self.before[self.before >= 0].tolist()
        previous_texts = iter(
            self.previous.texts(previous_rows) if self.previous is not None and previous_rows else []
        )
        fresh = iter(self.fresh)
        return [next(previous_texts) if row >= 0 else next(fresh).text for row in self.before.tolist()]

    def column(self, name: str, fresh: NDArray[Any]) -> NDArray[Any]:
        """An array with a value for each node: the previous values, and the given ones of fresh nodes."""
        values = np.zeros((len(self.before), *fresh.shape[1:]), fresh.dtype)
        carried = self.before >= 0
        values[~carried] = fresh
        if self.previous is not None and carried.any():
            values[carried] = self.previous.arrays[name][self.before[carried]]
        return values

    def by_model(self) -> NDArray[np.bool_]:
        """Whether each node was written by a model, or needed no writing."""
        return self.column(BY_MODEL, np.array([written_by_model(node) for node in self.fresh], np.bool_))

    def text_keys(self) -> Keys:
        """The key of each node's text (`carryover.text_keys`)."""
        return self.column(VECTOR_KEYS, text_keys(node.text for node in self.fresh))

    def vectors(self, name: str, fresh: Vectors) -> Vectors:
        """The vectors of all nodes, shape (nodes, dimension); `fresh` itself if all are fresh."""
        return fresh if (self.before < 0).all() else self.column(name, fresh)

    def _placed(self, row: int, node: Node) -> Node:
        sources = self.indices[self.indptr[row] : self.indptr[row + 1]].tolist()
        return Node(node.id, node.kind, node.level, node.text, sources, node.extra)


def joined(parts: Sequence[KeptNodes]) -> Carried:
    """The nodes of several parts in a row, to be stored."""
    none = np.zeros(0, np.int64)
    sizes = [np.diff(each.indptr) for each in parts]
    return Carried(
        np.concatenate([none, *(each.before for each in parts)]),
        [node for each in parts for node in each.fresh],
        np.cumsum(np.concatenate([[0], *sizes]), dtype=np.int64),
        np.concatenate([none, *(each.indices for each in parts)]),
    )


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
