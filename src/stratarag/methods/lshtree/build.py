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
from stratarag.pipeline.carryover import CarryOver
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.prompts import load_prompt
from stratarag.pipeline.summarize import MODEL, Group, Summary, summarize
from stratarag.protocols import Rows, Vectors
from stratarag.records import Node, content_id

PROMPT = load_prompt("stratarag.methods.lshtree", "summarize")
_BATCH = 2048


@dataclass(frozen=True, slots=True)
class Layer:
    """One level of the tree. `nodes` is None for level 0, whose members are the chunks.

    `remade` are the ids of those members that were written in this build.
    """

    ids: Sequence[str]
    vectors: Vectors
    nodes: Sequence[Node] | None = None
    remade: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.ids)


async def build(
    corpus: Corpus, graph: Graph, gate: Gate, *, config: LSHTreeConfig, previous: Stored | None
) -> Built:
    """Build the tree over a corpus; summaries of unchanged groups are taken over from `previous`.

    The tree is of chunks alone: the graph serves only its search for passages.
    """
    layers = [Layer(corpus.ids(range(corpus.size)), corpus.vectors)]
    children: list[list[Rows]] = []
    work = _Work(corpus, gate, config, CarryOver(previous, gate))
    while len(layers) <= config.max_levels and layers[-1].size >= config.min_level:
        level = len(layers)
        groups = await asyncio.to_thread(partition, layers[-1], config)
        with gate.stage(f"summarize level {level}", len(groups)):
            layers.append(await _next_layer(work, layers[-1], groups, level))
        children.append(groups)
    return _assemble(layers, children)


def partition(layer: Layer, config: LSHTreeConfig) -> list[Rows]:
    """The groups of a layer, each the ascending rows of its members (paper 4.1 and 4.2)."""
    bits = config.bits or bits_for(layer.size, config.max_cluster)
    planes = hyperplanes(bits, layer.vectors.shape[1], config.seed)
    ties = np.array([int(identity[:16], 16) for identity in layer.ids], dtype=np.uint64)
    labels = group(
        hash_codes(layer.vectors, planes), minimum=config.min_cluster, maximum=config.max_cluster, ties=ties
    )
    order = np.argsort(labels, kind="stable")
    borders = np.flatnonzero(np.diff(labels[order])) + 1
    return list(np.split(order.astype(np.int64), borders))


@dataclass(frozen=True, slots=True)
class _Work:
    """What making the summaries of one level needs."""

    corpus: Corpus
    gate: Gate
    config: LSHTreeConfig
    reuse: CarryOver


async def _next_layer(work: _Work, layer: Layer, groups: Sequence[Rows], level: int) -> Layer:
    """Summaries of the groups as the members of the next layer; known ones are not made again."""
    ids = [_node_id(level, work.config, [layer.ids[row] for row in members]) for members in groups]
    vectors = np.zeros((len(groups), layer.vectors.shape[1]), dtype=np.float32)
    nodes: list[Node] = []
    remade: set[str] = set()
    for start in range(0, len(groups), _BATCH):
        batch = range(start, min(start + _BATCH, len(groups)))
        known = {
            identity: (Summary(node.text, node.extra["by"]), vector)
            for identity, (node, vector) in work.reuse.take([ids[row] for row in batch]).items()
        }
        # A summary whose members were written anew under their old names is out of date as well.
        stale = [
            ids[row] for row in batch if any(layer.ids[member] in layer.remade for member in groups[row])
        ]
        for identity in stale:
            known.pop(identity, None)
        made = await _summaries(work, layer, groups, [row for row in batch if ids[row] not in known])
        for row in batch:
            summary, vector = made[row] if row in made else known[ids[row]]
            sources = _sources(layer, groups[row])
            nodes.append(Node(ids[row], "summary", level, summary.text, sources, {"by": summary.by}))
            vectors[row] = vector
        remade |= {ids[row] for row in made}
    return Layer(ids, vectors, nodes, frozenset(remade))


async def _summaries(
    work: _Work, layer: Layer, groups: Sequence[Rows], rows: Sequence[int]
) -> dict[int, tuple[Summary, Vectors]]:
    """New summaries and their vectors, by the row of the group."""
    gathered = [_group(work.corpus, layer, groups[row]) for row in rows]
    written = await summarize(gathered, work.gate, prompt=PROMPT, max_tokens=work.config.summary_tokens)
    vectors = await work.gate.embed("embed summaries", [summary.text for summary in written])
    return dict(zip(rows, zip(written, vectors, strict=True), strict=True))


def _node_id(level: int, config: LSHTreeConfig, members: Sequence[str]) -> str:
    return content_id("lshtree", str(level), str(config.summary_tokens), *sorted(members))


def _sources(layer: Layer, members: Rows) -> list[int]:
    if layer.nodes is None:
        return [int(row) for row in members]
    return sorted({source for row in members for source in layer.nodes[row].sources})


def _group(corpus: Corpus, layer: Layer, members: Rows) -> Group:
    rows = [int(row) for row in members]
    texts = corpus.texts(rows) if layer.nodes is None else [layer.nodes[row].text for row in rows]
    return Group(texts[0][:60], texts, corpus.ids(_sources(layer, members)))


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
        "vectors": np.concatenate([np.zeros((0, dimension), np.float32), *(x.vectors for x in layers[1:])]),
        "levels": np.array([node.level for node in nodes], dtype=np.int16),
        "children.indptr": np.cumsum([0, *map(len, lists)], dtype=np.int64),
        "children.indices": np.concatenate([np.zeros(0, np.int64), *lists]),
    }
    arrays |= Nearest.index(arrays["vectors"], "nodes")
    return Built(nodes, arrays, complete=all(node.extra["by"] == MODEL for node in nodes))
