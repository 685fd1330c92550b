"""What the builds of all methods share: nodes for groups such as communities, clusters or statements.

1. The method divides what it has into groups.
2. A group whose mark the previous index has keeps its node, and its members are not read
   (`GroupBuilder.regroup`, `ingest.marks`).
3. Other groups are read as drafts. A draft with the id of a previous node takes that node's text; the other
   texts are written (`GroupBuilder.nodes`).
4. The method embeds the new nodes (`ingest.graph.statements.group_vectors`).
5. All nodes are stored, with the arrays by which an update finds them again (`GroupBuilder.built`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import (
    VECTOR_KEYS,
    VECTORS,
    CarryOver,
    Keys,
    TextsOnly,
    lookup,
    text_keys,
    written_by_model,
)
from stratagraph.ingest.checks import Checks
from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.marks import Marks, combined, find_marks
from stratagraph.ingest.summarize import Group, Summary, told_within
from stratagraph.kernels.ranges import distinct, ranges
from stratagraph.methods.reports import WrittenReport
from stratagraph.methods.settings import MethodConfig
from stratagraph.models.gate import Gate
from stratagraph.system.threads import in_thread
from stratagraph.text.packing import divided
from stratagraph.types.built import Arrays, Built, Carried, CarriedVectors, Holds
from stratagraph.types.protocols import Rows, Stored, StoredCorpus, Vectors
from stratagraph.types.records import Metadata, Node, content_key, content_keys

BY_MODEL, MARKS = "by_model", "marks"
"""Arrays of a method: whether a model wrote each node, or nobody had to; the mark of what it is made of."""
VECTOR_HASHES = "vectors.hashes"
"""The array of a hash of each node's vector, of methods with edges that follow from vectors alone."""
STATEMENT_BORDERS, STATEMENT_KEYS, STATEMENT_VECTORS = (
    "statements.indptr",
    "statements.keys",
    "statements.vectors",
)
"""Arrays of the statements of nodes that a model wrote (`text.packing.divided`): where those of each node
are, and the key and the vector of each, by which contexts for themes are packed."""
_BATCH = 1024  # groups that are read at a time


C_co = TypeVar("C_co", bound=MethodConfig, covariant=True)
Write = Callable[[Sequence[Group]], Awaitable[Sequence[Summary | WrittenReport]]]
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
    """Nodes of a method: some carried over from the previous index, `fresh` ones where `before` is -1.

    `marks` are those of their groups; 0 for a node that is no group's.
    """

    marks: Marks
    previous: Stored | None

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

    def keys(self) -> Keys:
        """The key of each node's id."""
        keys = np.empty(len(self.before), np.uint64)
        keys[self.before < 0] = content_keys(node.id for node in self.fresh)
        if self.previous is not None:
            keys[self.before >= 0] = self.previous.keys[self.before[self.before >= 0]]
        return keys

    def vector_hashes(self, fresh: Vectors) -> Keys:
        """The hash of each node's vector, as it is stored; `fresh` are those of the fresh nodes."""
        return self.column(VECTOR_HASHES, content_keys(each.tobytes() for each in fresh.astype(np.float16)))

    def member_marks(self) -> Marks:
        """The marks of the nodes as members of further groups: of their own groups, and their texts."""
        return combined(self.marks, self.text_keys())


class GroupBuilder(Generic[C_co]):
    """What a method's build is given, and what it takes over from the previous index.

    Parameters
    ----------
    previous
        The previous index of the method, if there is one. Of `TextsOnly` only texts are taken over.
    divides_anew
        Whether to divide into groups without regard to the previous ones.
    """

    def __init__(
        self,
        corpus: StoredCorpus,
        graph: Graph,
        gate: Gate,
        config: C_co,
        previous: Stored | TextsOnly | None = None,
        *,
        divides_anew: bool = False,
    ) -> None:
        self.corpus, self.graph, self.gate, self.config = corpus, graph, gate, config
        self.previous: Stored | None = None if isinstance(previous, TextsOnly) else previous
        # The previous index, if groups are to continue those in it.
        self.grouped: Stored | None = None if divides_anew else self.previous
        self.dimension = int(corpus.vectors.shape[1])
        self.carry = CarryOver(previous, gate)

    @property
    def row_marks(self) -> Marks:
        """The marks of the rows of the graph."""
        return self.graph.marks(self.corpus)

    def regroup(self, sums: Marks, kind: str, level: int = 0) -> tuple[Marks, Rows]:
        """The mark of each group, and the row of the previous node that has it, or -1.

        `sums` are those of the marks of the members. A mark also holds the settings of texts, the `kind` of
        node and its `level`. With a model, a node that no model wrote is not taken.
        """
        salt = content_key(kind, str(level), *self.config.text_settings)
        marks = combined(np.full(len(sums), salt, np.uint64), sums)
        if self.previous is None:
            return marks, np.full(len(sums), -1, np.int64)
        return marks, self.usable(find_marks(marks, self.previous.arrays[MARKS]))

    def usable(self, rows: Rows) -> Rows:
        """Rows of previous nodes; with a model, -1 in place of nodes that no model wrote."""
        if self.previous is None or not self.gate.has_llm or not self.previous.keys.size:
            return rows
        return np.where((rows >= 0) & self.previous.arrays[BY_MODEL][rows], rows, -1)

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

    def table(self, before: Rows, fresh: Sequence[Node], marks: Marks | None = None) -> NodeTable:
        """Nodes at the rows `before` of the previous index; where that is -1, the next of the fresh ones.

        `marks` are those of their groups, if they are of groups.
        """
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
        marks = np.zeros((len(before), 2), np.uint64) if marks is None else marks
        return NodeTable(before, fresh, borders, rows, marks, self.previous)

    def built(
        self,
        tables: Sequence[NodeTable],
        vectors: Vectors,
        arrays: Arrays,
        *,
        complete: bool = True,
        notes: Mapping[str, int] = MappingProxyType({}),
    ) -> Built:
        """The nodes of several tables in a row, with the vectors of all of them.

        `complete` is whether a model wrote all that is not in a node, `notes` what the report tells.
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
        keys = np.concatenate([np.zeros(0, np.uint64), *(each.text_keys() for each in tables)])
        marks = np.concatenate([np.zeros((0, 2), np.uint64), *(each.marks for each in tables)])
        own = Holds.CONTENT.of({VECTOR_KEYS: keys, MARKS: marks}) | Holds.MEASURES.of({BY_MODEL: by_model})
        own |= Holds.VECTORS.of({VECTORS: stored_vectors(self.previous, VECTORS, nodes.before, vectors)})
        return Built(nodes, {**arrays, **own}, notes, complete and bool(by_model.all()))

    async def with_statements(self, built: Built) -> Built:
        """What was built, with vectors of the statements of nodes that a model wrote or need not write."""
        nodes = cast(Carried, built.nodes)
        texts: list[list[str]] = [[] for _ in nodes.fresh]
        if self.gate.has_llm:
            texts = [divided(node.text) if written_by_model(node) else [] for node in nodes.fresh]
        flat = list(chain.from_iterable(texts))
        fresh = await self.carry.embed(
            "embed statements", flat, self.dimension, vectors=STATEMENT_VECTORS, keys=STATEMENT_KEYS
        )
        carried, counts = nodes.before >= 0, np.zeros(len(nodes), np.int64)
        counts[~carried] = [len(each) for each in texts]
        starts, before = np.zeros(0, np.int64), None if self.previous is None else self.previous.arrays
        if before is not None and carried.any():
            borders = before[STATEMENT_BORDERS]
            starts = borders[nodes.before[carried]]
            counts[carried] = borders[nodes.before[carried] + 1] - starts
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows_before, keys = np.full(int(indptr[-1]), -1, np.int64), np.zeros(int(indptr[-1]), np.uint64)
        rows_before[ranges(indptr[:-1][carried], counts[carried])] = ranges(starts, counts[carried])
        keys[rows_before < 0] = text_keys(flat)
        vectors: Any = fresh
        if before is not None and (rows_before >= 0).any():
            keys[rows_before >= 0] = before[STATEMENT_KEYS][rows_before[rows_before >= 0]]
            vectors = CarriedVectors(before[STATEMENT_VECTORS], rows_before, fresh)
        first, some = np.zeros(len(nodes), np.int64), np.diff(nodes.indptr) > 0  # the first chunk behind each
        first[some] = nodes.indices[nodes.indptr[:-1][some]]
        chunks = np.repeat(first, counts)
        own = Holds.ROWS.of({STATEMENT_BORDERS: indptr}) | Holds.CONTENT.of({STATEMENT_KEYS: keys})
        own |= Holds.VECTORS.of({STATEMENT_VECTORS: vectors}, chunks)
        return replace(built, arrays={**built.arrays, **own})


def stored_vectors(previous: Stored | None, name: str, before: Rows, vectors: Vectors) -> Vectors:
    """Vectors of nodes, without storing again those of the previous index.

    `before` holds the row of each equal vector in the previous array `name`, or -1.
    """
    if previous is None or not (before >= 0).any():
        return vectors
    return cast(Vectors, CarriedVectors(previous.arrays[name], before, vectors[np.flatnonzero(before < 0)]))


def of_same_vectors(hashes: Keys, hashes_before: Keys) -> Rows:
    """The place of the same hash in `hashes_before`, each once, or -1."""
    rows_before = np.full(len(hashes), -1, np.int64)
    places, first = np.unique(lookup(hashes, hashes_before), return_index=True)
    rows_before[first] = places
    return rows_before


def united(sources: Iterable[Sequence[int] | NDArray[np.integer]]) -> list[int]:
    """All chunk rows of several lists, each once, ascending."""
    rows: list[int] = distinct(np.concatenate([np.zeros(0, np.int64), *sources])).tolist()
    return rows


def check_nodes(checks: Checks, chunks: int, dimension: int, nodes: int | None = None) -> int:
    """Check the arrays that every method has of its nodes; returns how many nodes there are."""
    nodes = checks.csr("sources", chunks, nodes, ascending=True)
    checks.of(VECTORS, np.float32, (nodes, dimension))
    checks.of(BY_MODEL, np.bool_, (nodes,))
    checks.of(VECTOR_KEYS, np.uint64, (nodes,))
    checks.of(MARKS, np.uint64, (nodes, 2))
    statements = checks.of(STATEMENT_KEYS, np.uint64, (None,)).shape[0]
    checks.borders(STATEMENT_BORDERS, statements, nodes)
    checks.of(STATEMENT_VECTORS, np.float32, (statements, dimension))
    return nodes
