"""Building the tree: hash, group, summarise, embed, and again on the summaries (paper 004, 4.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph._sync import in_thread
from stratagraph.kernels.lsh import bits_for, group, hash_codes, hyperplanes
from stratagraph.kernels.ranges import split
from stratagraph.methods.base import Built, Corpus, Stored
from stratagraph.methods.lshtree.config import LSHTreeConfig
from stratagraph.models.gate import Gate
from stratagraph.pipeline.before import carried_keys, recognised
from stratagraph.pipeline.carryover import (
    VECTOR_KEYS,
    VECTORS,
    CarryOver,
    Keys,
    Labels,
    derived_id,
)
from stratagraph.pipeline.graph import Graph
from stratagraph.pipeline.kept_nodes import BY_MODEL, KeptNodes, joined, stored_vectors
from stratagraph.pipeline.nearest import Nearest
from stratagraph.pipeline.prompts import load_prompt
from stratagraph.pipeline.reading import read_lists
from stratagraph.pipeline.summarize import Group, summarize
from stratagraph.protocols import Rows, Vectors
from stratagraph.records import Node, content_id

TIES, CHUNK_TIES, SETTINGS = "ties", "chunks.ties", "summary_settings"
"""Arrays: what orders nodes of equal codes, and chunks; the settings that summaries depend on."""


class Unchanged:
    """Finds the previous rows of groups with the same members; with a model only those a model wrote."""

    def __init__(self, graph: Graph, gate: Gate, previous: Stored | None, summary_tokens: int) -> None:
        usable = previous is not None and graph.before is not None
        if previous is not None and usable:
            usable = previous.arrays[SETTINGS].tolist() == [summary_tokens]
        self._arrays = previous.arrays if previous is not None and usable else {}
        self._asks = gate.has_llm

    def rows(self, level: int, labels: Labels, before: Rows, count: int) -> Rows:
        """The previous row of each group's summary, or -1; `labels` and `before` are those of members."""
        if not self._arrays:
            return np.full(count, -1, np.int64)
        found = recognised(labels, before, before >= 0, self._parents(level), count)
        if self._asks:
            found[found >= 0] = np.where(self._arrays[BY_MODEL][found[found >= 0]], found[found >= 0], -1)
        return found

    def _parents(self, level: int) -> Labels:
        """The summary of each chunk (level 0) or node that there was, or -1."""
        rows = np.flatnonzero(self._arrays["levels"] == level + 1)
        indptr, indices = self._arrays["children.indptr"], self._arrays["children.indices"]
        size = len(self._arrays[CHUNK_TIES]) if level == 0 else len(self._arrays["levels"])
        found = np.full(size, -1, np.int64)
        if len(rows):  # those of a level lie together
            own = slice(int(indptr[rows[0]]), int(indptr[rows[-1] + 1]))
            found[indices[own]] = np.repeat(rows, np.diff(indptr)[rows])
        return found


PROMPT = load_prompt("stratagraph.methods.lshtree", "summarize")
_BATCH = 2048


@dataclass(frozen=True, slots=True)
class Member:
    """A chunk or a summary as what a group is made of; `sources` are the chunk rows below it."""

    id: str
    text: str
    sources: Sequence[int]


@dataclass(frozen=True, slots=True)
class Layer:
    """One level of the tree: the chunks (level 0), or the summaries of the level below.

    `ties` order members of equal codes, `before` are previous rows or -1, `read` gives the members at rows.
    """

    level: int
    vectors: Vectors
    ties: Keys
    before: Rows
    read: Callable[[Sequence[int]], list[Member]]

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.ties)


@dataclass(frozen=True)
class Summaries(KeptNodes):
    """The summaries of a layer's groups; `fresh_vectors` are those of `fresh`."""

    fresh_vectors: Vectors

    def ties(self) -> Keys:
        """What orders those of equal codes."""
        return self.column(TIES, _ties([node.id for node in self.fresh]))

    def layer(self, level: int) -> Layer:
        """These summaries as the members of the next groups."""
        vectors = self.vectors(VECTORS, self.fresh_vectors)
        return Layer(level, vectors, self.ties(), self.before, self._members)

    def _members(self, rows: Sequence[int]) -> list[Member]:
        return [Member(node.id, node.text, node.sources) for node in self.read(rows)]


async def build(
    corpus: Corpus,
    graph: Graph,
    gate: Gate,
    *,
    config: LSHTreeConfig,
    previous: Stored | None,
    regroup: bool = False,
) -> Built:
    """Build the tree over a corpus; summaries of unchanged groups are taken over from `previous`.

    Groups depend on the chunks alone, so there is nothing to `regroup`. The graph only tells which chunks are
    known.
    """
    layer = await asyncio.to_thread(_chunks, corpus, graph, previous)
    chunk_ties, children, summaries = layer.ties, list[list[Rows]](), list[Summaries]()
    writer = SummaryWriter(corpus, graph, gate, previous, config.summary_tokens)
    while len(children) < config.max_levels and layer.size >= config.min_level:
        labels, groups = await asyncio.to_thread(partition, layer, config)
        with gate.stage(f"summarize level {layer.level + 1}", len(groups)):
            summaries.append(await writer.write(layer, labels, groups))
        children.append(groups)
        layer = summaries[-1].layer(layer.level + 1)
    arrays = {CHUNK_TIES: chunk_ties, SETTINGS: np.array([config.summary_tokens], np.int64)}
    return _assemble(summaries, children, arrays, previous, int(corpus.vectors.shape[1]))


def _chunks(corpus: Corpus, graph: Graph, previous: Stored | None) -> Layer:
    """The chunks as level 0; what orders them is taken over for those that there were."""
    before, known = np.full(corpus.size, -1, np.int64), np.zeros(0, np.uint64)
    if previous is not None and graph.before is not None:
        before, known = graph.before.chunks, previous.arrays[CHUNK_TIES]

    def read(rows: Sequence[int]) -> list[Member]:
        found = zip(corpus.ids(rows), corpus.texts(rows), rows, strict=True)
        return [Member(identity, text, [row]) for identity, text, row in found]

    ties = carried_keys(known, before, lambda rows: _ties(corpus.ids(rows)))
    return Layer(0, corpus.vectors, ties, before, read)


def _ties(ids: Sequence[str]) -> Keys:
    return np.fromiter((int(identity[:16], 16) for identity in ids), np.uint64, len(ids))


def partition(layer: Layer, config: LSHTreeConfig) -> tuple[Labels, list[Rows]]:
    """The groups of a layer: of each member its group, and of each group its members (paper 4.1 and 4.2)."""
    bits = config.bits or bits_for(layer.size, config.max_cluster)
    planes = hyperplanes(bits, layer.vectors.shape[1], config.seed)
    found = group(
        hash_codes(layer.vectors, planes),
        minimum=config.min_cluster,
        maximum=config.max_cluster,
        ties=layer.ties,
    )
    labels = np.unique(found, return_inverse=True)[1].astype(np.int64)
    order = np.argsort(labels, kind="stable")
    return labels, split(order.astype(np.int64), np.bincount(labels))


class SummaryWriter:
    """Makes the summaries of groups; those that the previous index has are taken over."""

    def __init__(
        self, corpus: Corpus, graph: Graph, gate: Gate, previous: Stored | None, summary_tokens: int
    ) -> None:
        self._corpus = corpus
        self._graph = graph
        self._gate = gate
        self._previous = previous
        self._carry = CarryOver(previous, gate)
        self._unchanged = Unchanged(graph, gate, previous, summary_tokens)
        self._tokens = summary_tokens

    async def write(self, layer: Layer, labels: Labels, groups: Sequence[Rows]) -> Summaries:
        """The summaries of the groups of a layer; nothing is read of those that are as they were."""
        before = await asyncio.to_thread(self._unchanged.rows, layer.level, labels, layer.before, len(groups))
        made = np.flatnonzero(before < 0).tolist()
        nodes: list[Node] = []
        for start in range(0, len(made), _BATCH):
            nodes += await self._nodes(layer, [groups[row] for row in made[start : start + _BATCH]])
        dimension = int(layer.vectors.shape[1])
        vectors = await self._carry.embed("embed summaries", [node.text for node in nodes], dimension)
        rounded = vectors.astype(np.float16).astype(np.float32)  # as an update reads them
        kept = KeptNodes.of(before, nodes, self._previous, self._graph.before)
        return Summaries(kept.before, kept.fresh, kept.indptr, kept.indices, kept.previous, rounded)

    async def _nodes(self, layer: Layer, groups: Sequence[Rows]) -> list[Node]:
        """The nodes of a batch of groups."""
        read = iter(await in_thread(layer.read, np.concatenate(groups).tolist()))
        members = [[next(read) for _ in rows] for rows in groups]
        ids = [self._id(layer.level + 1, own) for own in members]
        known = self._carry.nodes(ids)
        missing = [row for row, identity in enumerate(ids) if identity not in known]
        written = await summarize(
            await in_thread(self._groups, [members[row] for row in missing]),
            self._gate,
            prompt=PROMPT,
            max_tokens=self._tokens,
        )
        made = dict(zip(missing, written, strict=True))
        nodes = []
        for row, (identity, own) in enumerate(zip(ids, members, strict=True)):
            if row in made:
                text, by = made[row].text, made[row].by
            else:
                text, by = known[identity].text, known[identity].extra["by"]
            nodes.append(Node(identity, "summary", layer.level + 1, text, _sources(own), {"by": by}))
        return nodes

    def _id(self, level: int, members: Sequence[Member]) -> str:
        """The id of a group's summary. Ids of chunks are derived from their texts, those of nodes are not."""
        settings = ("lshtree", str(level), str(self._tokens))
        if level == 1:
            return content_id(*settings, *sorted(each.id for each in members))
        return derived_id(((each.id, each.text) for each in members), *settings)

    def _groups(self, groups: Sequence[Sequence[Member]]) -> list[Group]:
        """Groups with the texts of their members and the ids of the chunks below."""
        texts = [[each.text for each in members] for members in groups]
        asked = groups if self._gate.has_llm else [()] * len(groups)  # told of what a model is asked
        sources = read_lists(self._corpus.ids, [_sources(members) for members in asked])
        return [Group(own[0][:60], own, ids) for own, ids in zip(texts, sources, strict=True)]


def _sources(members: Sequence[Member]) -> list[int]:
    """The chunk rows below some members, ascending."""
    return sorted({source for each in members for source in each.sources})


def _assemble(
    levels: Sequence[Summaries],
    children: Sequence[Sequence[Rows]],
    arrays: dict[str, NDArray[Any]],
    previous: Stored | None,
    dimension: int,
) -> Built:
    """Number the nodes level by level; level 1 points to chunk rows, higher levels to node rows."""
    lists: list[Rows] = []
    sizes = [len(each) for each in levels]
    for level, groups in enumerate(children):
        below = sum(sizes[: level - 1]) if level else 0
        lists += [members + below for members in groups]
    vectors = [each.vectors(VECTORS, each.fresh_vectors) for each in levels]
    none = np.zeros(0, np.uint64)
    arrays |= {
        VECTORS: np.concatenate([np.zeros((0, dimension), np.float32), *vectors]),
        VECTOR_KEYS: np.concatenate([none, *(each.text_keys() for each in levels)]),
        TIES: np.concatenate([none, *(each.ties() for each in levels)]),
        BY_MODEL: np.concatenate([np.zeros(0, np.bool_), *(each.by_model() for each in levels)]),
        "levels": np.repeat(np.arange(1, len(sizes) + 1), sizes).astype(np.int16),
        "children.indptr": np.cumsum([0, *map(len, lists)], dtype=np.int64),
        "children.indices": np.concatenate([np.zeros(0, np.int64), *lists]),
    }
    nodes = joined(levels)
    before = None if previous is None else (previous.arrays, nodes.before)
    arrays |= Nearest.index(arrays[VECTORS], "nodes", before)
    arrays[VECTORS] = stored_vectors(previous, VECTORS, nodes.before, arrays[VECTORS])
    return Built(nodes, arrays, complete=bool(arrays[BY_MODEL].all()))
