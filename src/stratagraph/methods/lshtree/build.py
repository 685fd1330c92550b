"""Building the tree: hash, group, summarise, embed, and again on the summaries (paper 004, 4.2).

An update keeps the groups of the previous tree. A new chunk joins the nearest group, and the bounds on sizes
are restored; on the levels above, the summary of a changed group stays in the group where it was. When more
than `REGROUP_SHARE` of the chunks came since the groups were made, all groups are made anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph._sync import in_thread
from stratagraph.kernels.buckets import Groups, group, place
from stratagraph.kernels.hamming import WORD, Codes
from stratagraph.kernels.knn import knn_graph
from stratagraph.kernels.lsh import hash_codes, hyperplanes
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
from stratagraph.pipeline.drift import DRIFT
from stratagraph.pipeline.graph import Graph
from stratagraph.pipeline.kept_nodes import BY_MODEL, KeptNodes, joined, stored_vectors
from stratagraph.pipeline.nearest import Nearest
from stratagraph.pipeline.prompts import load_prompt
from stratagraph.pipeline.reading import read_lists
from stratagraph.pipeline.summarize import Group, summarize
from stratagraph.protocols import Rows, Vectors
from stratagraph.records import Node, content_id

TIES, CHUNK_TIES, CODES = "ties", "chunks.ties", "codes"
"""Arrays: what orders nodes of equal codes, and chunks; the representative code of each node's group."""
SETTINGS, GROUP_SETTINGS = "summary_settings", "group_settings"
"""Arrays: the settings that summaries depend on, and those that groups do."""
NEIGHBOURS = 8
"""Nearest vectors whose groups a small group may join. Mean pairwise cosine of groups of 19,000 texts: .419
with 8, 16 and 32, and .413 if all are compared."""
REGROUP_SHARE = 0.3
"""Groups are made anew when more than this share of the chunks came since, which the array `DRIFT` counts."""


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
        found = recognised(labels, before, before >= 0, parents(self._arrays, level), count)
        if self._asks:
            found[found >= 0] = np.where(self._arrays[BY_MODEL][found[found >= 0]], found[found >= 0], -1)
        return found


def parents(arrays: Mapping[str, NDArray[Any]], level: int) -> Labels:
    """The summary of each chunk (level 0) or node of a stored tree, or -1."""
    rows = np.flatnonzero(arrays["levels"] == level + 1)
    indptr, indices = arrays["children.indptr"], arrays["children.indices"]
    size = len(arrays[CHUNK_TIES]) if level == 0 else len(arrays["levels"])
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

    `ties` order members of equal codes, `before` are previous rows of unchanged members or -1, `origin` those
    of members that may have changed, `read` gives the members at rows.
    """

    level: int
    vectors: Vectors
    ties: Keys
    before: Rows
    origin: Rows
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

    def layer(self, level: int, origin: Rows) -> Layer:
        """These summaries as the members of the next groups; `origin` is that of their groups."""
        vectors = self.vectors(VECTORS, self.fresh_vectors)
        origin = np.where(self.before >= 0, self.before, origin)
        return Layer(level, vectors, self.ties(), self.before, origin, self._members)

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
    """Build the tree over a corpus; groups, and summaries of unchanged groups, are kept from `previous`.

    With `regroup`, or after many insertions, groups are made anew. The graph only tells which chunks are
    known.
    """
    layer = await asyncio.to_thread(_chunks, corpus, graph, previous)
    settings = np.array([config.min_cluster, config.max_cluster, config.bits, config.seed], np.int64)
    arrived, kept = int(np.count_nonzero(layer.before < 0)), None
    if previous is not None and graph.before is not None and not regroup:
        arrived += int(previous.arrays[DRIFT][0])
        same = np.array_equal(previous.arrays[GROUP_SETTINGS], settings)
        kept = previous.arrays if same and arrived <= REGROUP_SHARE * layer.size else None
    arrays = {
        CHUNK_TIES: layer.ties,
        SETTINGS: np.array([config.summary_tokens], np.int64),
        GROUP_SETTINGS: settings,
        DRIFT: np.array([0 if kept is None else arrived], np.int64),
    }
    partitions, summaries = list[Groups](), list[Summaries]()
    writer = SummaryWriter(corpus, graph, gate, previous, config.summary_tokens)
    while len(partitions) < config.max_levels and layer.size >= config.min_level:
        groups = await asyncio.to_thread(partition, layer, config, kept)
        with gate.stage(f"summarize level {layer.level + 1}", len(groups.members)):
            summaries.append(await writer.write(layer, groups.members))
        partitions.append(groups)
        layer = summaries[-1].layer(layer.level + 1, groups.origin)
    return _assemble(summaries, partitions, arrays, previous, config, int(corpus.vectors.shape[1]))


def _chunks(corpus: Corpus, graph: Graph, previous: Stored | None) -> Layer:
    """The chunks as level 0; what orders them is taken over for those that there were."""
    before, known = np.full(corpus.size, -1, np.int64), np.zeros(0, np.uint64)
    if previous is not None and graph.before is not None:
        before, known = graph.before.chunks, previous.arrays[CHUNK_TIES]

    def read(rows: Sequence[int]) -> list[Member]:
        found = zip(corpus.ids(rows), corpus.texts(rows), rows, strict=True)
        return [Member(identity, text, [row]) for identity, text, row in found]

    ties = carried_keys(known, before, lambda rows: _ties(corpus.ids(rows)))
    return Layer(0, corpus.vectors, ties, before, before, read)


def _ties(ids: Sequence[str]) -> Keys:
    return np.fromiter((int(identity[:16], 16) for identity in ids), np.uint64, len(ids))


def partition(layer: Layer, config: LSHTreeConfig, kept: Mapping[str, NDArray[Any]] | None) -> Groups:
    """The groups of a layer (paper 4.1 and 4.2): new ones, or those in the arrays `kept`, brought up to date.

    `Groups.origin` holds rows of the previous tree.
    """
    planes = hyperplanes(config.bits, layer.vectors.shape[1], config.seed)

    def hashed(rows: Rows) -> Codes:
        return hash_codes(np.asarray(layer.vectors[rows]), planes)

    homes = np.full(layer.size, -1, np.int64)
    above = None if kept is None else parents(kept, layer.level)
    if above is not None:
        homes[layer.origin >= 0] = above[layer.origin[layer.origin >= 0]]
    if kept is None or above is None or (homes < 0).all():
        neighbours, _ = knn_graph(layer.vectors, NEIGHBOURS)
        codes = hash_codes(layer.vectors, planes)
        bounds = {"minimum": config.min_cluster, "maximum": config.max_cluster}
        return group(codes, neighbours, ties=layer.ties, **bounds)
    order = np.argsort(homes, kind="stable")[np.count_nonzero(homes < 0) :]
    rows, sizes = np.unique(homes[order], return_counts=True)
    unchanged = np.add.reduceat(layer.before[order] >= 0, np.cumsum(sizes) - sizes)
    new = np.flatnonzero(homes < 0)
    found = place(
        split(order, sizes),
        kept[CODES][rows],
        new[np.argsort(layer.ties[new])],
        hashed,
        changed=np.flatnonzero(unchanged < np.diff(kept["children.indptr"])[rows]).tolist(),
        minimum=config.min_cluster,
        maximum=config.max_cluster,
    )
    return replace(found, origin=np.where(found.origin >= 0, rows[found.origin], -1))


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

    async def write(self, layer: Layer, groups: Sequence[Rows]) -> Summaries:
        """The summaries of the groups of a layer; nothing is read of those that are as they were."""
        labels = np.empty(layer.size, np.int64)
        labels[np.concatenate(groups)] = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
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
    partitions: Sequence[Groups],
    arrays: dict[str, NDArray[Any]],
    previous: Stored | None,
    config: LSHTreeConfig,
    dimension: int,
) -> Built:
    """Number the nodes level by level; level 1 points to chunk rows, higher levels to node rows."""
    lists: list[Rows] = []
    sizes = [len(each) for each in levels]
    for level, groups in enumerate(partitions):
        below = sum(sizes[: level - 1]) if level else 0
        lists += [members + below for members in groups.members]
    vectors = [each.vectors(VECTORS, each.fresh_vectors) for each in levels]
    none = np.zeros(0, np.uint64)
    no_codes = np.zeros((0, ceil(config.bits / WORD)), np.uint64)
    arrays |= {
        VECTORS: np.concatenate([np.zeros((0, dimension), np.float32), *vectors]),
        VECTOR_KEYS: np.concatenate([none, *(each.text_keys() for each in levels)]),
        TIES: np.concatenate([none, *(each.ties() for each in levels)]),
        CODES: np.concatenate([no_codes, *(groups.representatives for groups in partitions)]),
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
