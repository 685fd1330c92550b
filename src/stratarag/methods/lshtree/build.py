"""Building the tree: hash, group, summarise, embed, and again on the summaries (paper 004, 4.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.lsh import bits_for, group, hash_codes, hyperplanes
from stratarag.methods.base import Built, Corpus, Stored
from stratarag.methods.lshtree.config import LSHTreeConfig
from stratarag.models.gate import Gate
from stratarag.pipeline.carryover import (
    VECTOR_KEYS,
    VECTORS,
    CarryOver,
    derived_id,
    leading_bits,
    text_keys,
    written_by_model,
)
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.prompts import load_prompt
from stratarag.pipeline.summarize import Group, summarize
from stratarag.protocols import Rows, Vectors
from stratarag.records import Node, content_id

PROMPT = load_prompt("stratarag.methods.lshtree", "summarize")
_BATCH = 2048


@dataclass(frozen=True, slots=True)
class Layer:
    """One level of the tree. `nodes` is None for level 0, whose members are the chunks."""

    ids: Sequence[str]
    vectors: Vectors
    nodes: Sequence[Node] | None = None

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.ids)

    def sources(self, members: Sequence[int]) -> list[int]:
        """The chunk rows below some members, ascending."""
        if self.nodes is None:
            return list(members)
        return sorted({source for row in members for source in self.nodes[row].sources})


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

    The tree is made of chunks alone: the graph serves only the walk to passages. The groups depend on nothing
    but the chunks, so that there is nothing to `regroup`.
    """
    layers = [Layer(corpus.ids(range(corpus.size)), corpus.vectors)]
    children: list[list[Rows]] = []
    writer = SummaryWriter(corpus, gate, CarryOver(previous, gate), config.summary_tokens)
    while len(layers) <= config.max_levels and layers[-1].size >= config.min_level:
        level = len(layers)
        groups = await asyncio.to_thread(partition, layers[-1], config)
        with gate.stage(f"summarize level {level}", len(groups)):
            layers.append(await writer.write(layers[-1], groups, level))
        children.append(groups)
    return _assemble(layers, children)


def partition(layer: Layer, config: LSHTreeConfig) -> list[Rows]:
    """The groups of a layer, each the ascending rows of its members (paper 4.1 and 4.2)."""
    bits = config.bits or bits_for(layer.size, config.max_cluster)
    planes = hyperplanes(bits, layer.vectors.shape[1], config.seed)
    ties = np.array([leading_bits(identity) for identity in layer.ids], dtype=np.uint64)
    labels = group(
        hash_codes(layer.vectors, planes), minimum=config.min_cluster, maximum=config.max_cluster, ties=ties
    )
    order = np.argsort(labels, kind="stable")
    borders = np.flatnonzero(np.diff(labels[order])) + 1
    return list(np.split(order.astype(np.int64), borders))


class SummaryWriter:
    """Makes the summaries of groups; those that the previous index has are taken over."""

    def __init__(self, corpus: Corpus, gate: Gate, carry: CarryOver, summary_tokens: int) -> None:
        self._corpus = corpus
        self._gate = gate
        self._carry = carry
        self._tokens = summary_tokens

    async def write(self, layer: Layer, groups: Sequence[Rows], level: int) -> Layer:
        """The summaries of the groups of a layer, as the next layer."""
        nodes: list[Node] = []
        for start in range(0, len(groups), _BATCH):
            batch = [rows.tolist() for rows in groups[start : start + _BATCH]]
            nodes += await self._nodes(layer, batch, level)
        texts = [node.text for node in nodes]
        vectors = await self._carry.embed("embed summaries", texts, layer.vectors.shape[1])
        return Layer([node.id for node in nodes], vectors, nodes)

    async def _nodes(self, layer: Layer, groups: Sequence[list[int]], level: int) -> list[Node]:
        """The nodes of a batch of groups."""
        ids = [self._id(layer, members, level) for members in groups]
        known = self._carry.nodes(ids)
        missing = [row for row, identity in enumerate(ids) if identity not in known]
        written = await summarize(
            [self._group(layer, groups[row]) for row in missing],
            self._gate,
            prompt=PROMPT,
            max_tokens=self._tokens,
        )
        made = dict(zip(missing, written, strict=True))
        nodes = []
        for row, (identity, members) in enumerate(zip(ids, groups, strict=True)):
            if row in made:
                text, by = made[row].text, made[row].by
            else:
                text, by = known[identity].text, known[identity].extra["by"]
            nodes.append(Node(identity, "summary", level, text, layer.sources(members), {"by": by}))
        return nodes

    def _id(self, layer: Layer, members: Sequence[int], level: int) -> str:
        """The id of a group's summary. Ids of chunks are derived from their texts, those of nodes are not."""
        settings = ("lshtree", str(level), str(self._tokens))
        if layer.nodes is None:
            return content_id(*settings, *sorted(layer.ids[row] for row in members))
        return derived_id(((layer.ids[row], layer.nodes[row].text) for row in members), *settings)

    def _group(self, layer: Layer, members: Sequence[int]) -> Group:
        if layer.nodes is None:
            texts = self._corpus.texts(members)
        else:
            texts = [layer.nodes[row].text for row in members]
        return Group(texts[0][:60], texts, self._corpus.ids(layer.sources(members)))


def _assemble(layers: Sequence[Layer], children: Sequence[Sequence[Rows]]) -> Built:
    """Number the nodes level by level; level 1 points to chunk rows, higher levels to node rows."""
    nodes = [node for layer in layers[1:] for node in layer.nodes or ()]
    dimension = layers[0].vectors.shape[1]
    lists: list[NDArray[np.int64]] = []
    offset = 0
    for level, groups in enumerate(children):
        below = 0 if level == 0 else offset - len(children[level - 1])
        lists += [members + below for members in groups]
        offset += len(groups)
    arrays = {
        VECTORS: np.concatenate([np.zeros((0, dimension), np.float32), *(x.vectors for x in layers[1:])]),
        VECTOR_KEYS: text_keys(node.text for node in nodes),
        "levels": np.array([node.level for node in nodes], dtype=np.int16),
        "children.indptr": np.cumsum([0, *map(len, lists)], dtype=np.int64),
        "children.indices": np.concatenate([np.zeros(0, np.int64), *lists]),
    }
    arrays |= Nearest.index(arrays[VECTORS], "nodes")
    return Built(nodes, arrays, complete=all(map(written_by_model, nodes)))
