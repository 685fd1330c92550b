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
from stratarag.models.gateway import Gate
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.prompts import load_prompt
from stratarag.pipeline.summarize import Group, Summary, summarize
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


async def build(
    corpus: Corpus, graph: Graph, gate: Gate, *, config: LSHTreeConfig, previous: Stored | None
) -> Built:
    """Build the tree over a corpus; summaries of unchanged groups are taken over from `previous`.

    The tree is of chunks alone: the graph serves only its search for passages.
    """
    layers = [Layer(corpus.ids(range(corpus.size)), corpus.vectors)]
    children: list[list[Rows]] = []
    while len(layers) <= config.max_levels and layers[-1].size >= config.min_level:
        level = len(layers)
        groups = await asyncio.to_thread(partition, layers[-1], config)
        with gate.stage(f"summarize level {level}", len(groups)):
            layers.append(await _next_layer(corpus, layers[-1], groups, level, gate, config, previous))
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


async def _next_layer(
    corpus: Corpus,
    layer: Layer,
    groups: Sequence[Rows],
    level: int,
    gate: Gate,
    config: LSHTreeConfig,
    previous: Stored | None,
) -> Layer:
    """Summaries of the groups as the members of the next layer; known ones are not made again."""
    ids = [_node_id(level, config, [layer.ids[row] for row in members]) for members in groups]
    vectors = np.zeros((len(groups), layer.vectors.shape[1]), dtype=np.float32)
    nodes: list[Node] = []
    for start in range(0, len(groups), _BATCH):
        batch = range(start, min(start + _BATCH, len(groups)))
        made = await _summaries(corpus, layer, groups, ids, batch, gate, config, previous)
        nodes += [
            Node(ids[row], "summary", level, text, _sources(layer, groups[row]), extra)
            for row, (text, extra) in zip(batch, made.texts, strict=True)
        ]
        vectors[start : batch.stop] = made.vectors
    return Layer(ids, vectors, nodes)


@dataclass(frozen=True, slots=True)
class _Made:
    texts: list[tuple[str, dict[str, bool]]]
    vectors: Vectors


async def _summaries(
    corpus: Corpus,
    layer: Layer,
    groups: Sequence[Rows],
    ids: Sequence[str],
    batch: range,
    gate: Gate,
    config: LSHTreeConfig,
    previous: Stored | None,
) -> _Made:
    known = _taken_over(previous, [ids[row] for row in batch])
    new = [row for row in batch if ids[row] not in known]
    work = [_group(corpus, layer, groups[row]) for row in new]
    summaries = await summarize(work, gate, prompt=PROMPT, max_tokens=config.summary_tokens)
    embedded = await gate.embed("embed summaries", [summary.text for summary in summaries])
    fresh: dict[int, tuple[Summary, Vectors]] = dict(
        zip(new, zip(summaries, embedded, strict=True), strict=True)
    )
    texts, vectors = [], []
    for row in batch:
        if row in fresh:
            summary, vector = fresh[row]
            texts.append((summary.text, {"failed": True} if summary.failed else {}))
        else:
            text, vector = known[ids[row]]
            texts.append((text, {}))
        vectors.append(vector)
    return _Made(texts, np.stack(vectors))


def _taken_over(previous: Stored | None, ids: Sequence[str]) -> dict[str, tuple[str, Vectors]]:
    """Text and vector of those nodes that the previous index has, except where its model had failed."""
    if previous is None:
        return {}
    rows = previous.rows(ids)
    nodes = previous.nodes(list(rows.values()))
    vectors = previous.arrays["vectors"]
    return {
        identity: (node.text, vectors[row])
        for (identity, row), node in zip(rows.items(), nodes, strict=True)
        if not node.extra.get("failed")
    }


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
    return Built(
        nodes, arrays | Nearest.index(layers[0].vectors, "chunks") | Nearest.index(arrays["vectors"], "nodes")
    )
