"""Building the hierarchy: augment, cluster, report, embed, and again on the communities (Alg. 1)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.nearest import zero_rows
from stratagraph.kernels.augment import PreviousEdges
from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.chnsw_options import Options
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.archrag.levels import (
    PARENTS,
    Communities,
    LevelGraph,
    WarmStart,
    entity_level,
    partition,
    write_communities,
)
from stratagraph.methods.base import Built, Graph, Stored
from stratagraph.methods.drift import Drift
from stratagraph.methods.groups import VECTOR_HASHES, GroupBuilder
from stratagraph.system.memory import release
from stratagraph.types.built import Arrays, Holds, declared
from stratagraph.types.protocols import Rows, Vectors

ADDED = "entities.added"
"""Name of the array of the edges of similarity between entities, which an update keeps."""
ADDED_ABOVE = "communities.added"
"""Name of the array of those between communities of one level, by their rows."""
_MANY = 4
"""If more than one in so many nodes need new edges, all are searched for: that is faster."""
INDEX = "index."
"""Prefix of the arrays of C-HNSW, which orders nodes in its own way."""
CHANGES = "index_changes"
"""Name of the array with the number of nodes that C-HNSW has lost or gained since it was built."""
ZEROS = "zeros"
"""Prefix of the arrays of the rows of zero vectors, by level."""
_MOST_CHANGES = 0.5
"""Share of such nodes up to which C-HNSW is updated, not rebuilt; up to there recall is tested."""

_LAYERS = {
    Holds.ROWS: ("links", "down", "ids", "child_from", "children", "pilots"),
    Holds.MEASURES: ("alive", "scales", "bounds"),
    Holds.CONTENT: ("codes",),
    Holds.VECTORS: ("vectors",),
}
"""The arrays of each layer of C-HNSW."""


async def build(builder: GroupBuilder[ArchRAGConfig]) -> Built:
    """Build the hierarchy over the graph of a corpus.

    An update starts from the communities of a previous index with the same settings: only new entities and
    those with other neighbours may move. A level is clustered without them if too much is new, if it would
    hardly shrink, if its partition has drifted (`methods.drift`), or to regroup. All edges of similarity are
    searched for again after more changes (`drift.FRESH_SHARE`). Reports on the same members and texts are
    taken over.

    So a hierarchy depends on its past: a document that is inserted and deleted again may leave other
    communities than before, within the bounds of `methods.drift`. To regroup gives those of a new build.
    """
    graph, config, previous = builder.graph, builder.config, builder.previous
    warm_start = await asyncio.to_thread(WarmStart, graph, builder.grouped)
    level, levels = await asyncio.to_thread(entity_level, builder), list[Communities]()
    while len(levels) < config.max_levels and level.size >= config.min_communities:
        edges = None
        if not warm_start.drift.lapsed:
            edges = await asyncio.to_thread(_previous_edges, level, previous)
        initial, most = warm_start.initial, (1 - config.min_shrink) * level.size
        divided = await asyncio.to_thread(partition, level, config, initial, warm_start.drift, edges)
        if divided.count > most and initial is not None:
            divided = await asyncio.to_thread(partition, level, config, None, warm_start.drift)
        if divided.count > most:
            break
        if previous is None:
            await asyncio.to_thread(release)
        warm_start.ascend(divided.labels, divided.count)
        start = levels[-1].start + len(levels[-1].nodes) if levels else 0
        with builder.gate.stage(f"report level {level.number + 1}", divided.joined):
            levels.append(await write_communities(builder, level, divided, start))
        level = levels[-1].level(level.number + 1)
    return await asyncio.to_thread(_built, builder, levels, warm_start.drift)


def layer_vectors(
    graph: Graph, vectors: Vectors, starts: Sequence[int], joined: Sequence[int]
) -> list[Vectors]:
    """Vectors of the layers of C-HNSW: entities, then the communities of several members of each level.

    `vectors` are those of all communities; a level begins in them at its start, with its `joined` communities
    of several members first. A community of one is its member and not in C-HNSW a second time.
    """
    above = [vectors[start : start + count] for start, count in zip(starts, joined, strict=True)]
    return [graph.vectors, *above]


def _previous_edges(level: LevelGraph, previous: Stored | None) -> PreviousEdges | None:
    """The edges of similarity that the previous index added to a level between nodes of the same vectors.

    New nodes, those with another vector and those without an edge are to be given new ones. None if the index
    added no edges, or if so many nodes need new ones that it is faster to search for all.
    """
    name, nodes = (ADDED_ABOVE, "parents") if level.number else (ADDED, PARENTS)
    if previous is None or name not in previous.arrays:
        return None
    carried = np.flatnonzero(level.rows_before >= 0)
    rows = np.full(len(previous.arrays[nodes]), -1, np.int64)
    rows[level.rows_before[carried]] = carried
    edges = rows[previous.arrays[name]]
    edges = edges[(edges >= 0).all(axis=1)]
    linked = np.bincount(np.concatenate([level.ends.ravel(), edges.ravel()]), minlength=level.size)
    looking = np.flatnonzero((level.rows_before < 0) | (linked == 0))
    return None if _MANY * len(looking) > level.size else PreviousEdges(edges, looking)


def _rows_before(graph: Graph, levels: Sequence[Communities], previous: Stored | None) -> list[Rows] | None:
    """For each layer of C-HNSW the previous row there of each node, or -1 if its vector is new."""
    if previous is None or graph.before is None:
        return None
    rows_before = [np.where(graph.before.alike, graph.before.rows_before[: graph.entities], -1)]
    starts, sizes = previous.arrays["levels.starts"].tolist(), previous.arrays["levels.joined"].tolist()
    for number, level in enumerate(levels):
        rows = np.full(level.partition.joined, -1, np.int64)
        if number < len(starts):
            rows = level.rows_before[: len(rows)] - starts[number]
            rows[(rows < 0) | (rows >= sizes[number])] = -1
        rows_before.append(rows)
    return rows_before


def _built(builder: GroupBuilder[ArchRAGConfig], levels: Sequence[Communities], drift: Drift) -> Built:
    """All communities, level by level, with what a search reads; C-HNSW continues the previous one."""
    graph, config, previous = builder.graph, builder.config, builder.grouped
    vectors = np.concatenate(
        [np.zeros((0, builder.dimension), np.float32), *(each.vectors for each in levels)]
    )
    starts, joined = [each.start for each in levels], [each.partition.joined for each in levels]
    top = len(levels[-1].nodes) if levels else graph.entities
    parents = [*(each.partition.labels + each.start for each in levels), np.full(top, -1, np.int64)]
    rows = {
        PARENTS: parents[0],
        "parents": np.concatenate([np.zeros(0, np.int64), *parents[1:]]),
        "levels.starts": np.array(starts, np.int64),
        "levels.joined": np.array(joined, np.int64),
    }
    if levels and config.augmentation == "knn":  # the highest level has no edges of similarity
        own, *above = [each.partition.added for each in levels]
        pairs = [edges + below.start for edges, below in zip(above, levels, strict=False)]
        rows[ADDED] = own.astype(np.int32)
        rows[ADDED_ABOVE] = np.concatenate([np.zeros((0, 2), np.int64), *pairs]).astype(np.int32)
    hashes = np.concatenate([np.zeros(0, np.uint64), *(each.hashes for each in levels)])
    arrays = drift.arrays() | Holds.CONTENT.of({VECTOR_HASHES: hashes}) | Holds.ROWS.of(rows)
    if graph.entities:
        children, below = [], graph.entities  # pairs of a community of several and a member
        for divided in (each.partition for each in levels):
            members = np.flatnonzero(divided.labels[:below] < divided.joined)
            children.append(np.column_stack([divided.labels[members], members]))
            below = divided.joined
        layers = layer_vectors(graph, vectors, starts, joined)
        arrays |= index_arrays(layers, children, config, previous, _rows_before(graph, levels, previous))
    return builder.built([each.nodes for each in levels], vectors, arrays)


def index_arrays(
    layers: Sequence[Vectors],
    children: Sequence[Rows],
    config: ArchRAGConfig,
    previous: Stored | None,
    rows: Sequence[Rows] | None,
) -> Arrays:
    """C-HNSW over all levels as arrays, without zero vectors, whose rows are `zeros<level>`.

    It stores codes only; results are scored by the vectors of graph and communities. It continues the
    previous C-HNSW until too much has changed since that was built. `rows` hold, for each level, the previous
    row of each unchanged vector, or -1; unchanged vectors are not read.
    """
    before = {} if previous is None else previous.arrays
    threads, index, changes = os.cpu_count() or 1, None, 0
    zeros = [
        zero_rows(vectors, rows_before, before.get(f"{ZEROS}{level}"))
        for level, (vectors, rows_before) in enumerate(
            zip(layers, rows or [np.full(len(each), -1, np.int64) for each in layers], strict=True)
        )
    ]
    options = Options(
        codes=config.codes,
        keep_vectors=False,
        links=config.links,
        breadth=config.breadth,
        ef=config.ef,
        mode=config.mode,
        seed=config.seed,
    )
    if rows is not None and CHANGES in before:
        known = opened(before)
        if (known.options, len(known), known.dimension) == (options, len(layers), layers[0].shape[1]):
            index, changed = known.revised(layers, children, rows, threads=threads)
            # Nodes of zero vectors, which are added and then deleted, do not count.
            changes = int(before[CHANGES][0]) + sum(changed) - sum(map(len, zeros))
    if index is None or changes > _MOST_CHANGES * sum(map(len, layers)):
        changes = 0
        index = CHNSW.build([np.asarray(vectors) for vectors in layers], children, options, threads=threads)
    for level, each in enumerate(zeros):
        if len(each):
            index.delete(level, each)
    arrays = Holds.ROWS.of({f"{ZEROS}{level}": each for level, each in enumerate(zeros)})
    arrays |= Holds.MEASURES.of({CHANGES: np.array([changes], np.int64)})
    holds = {
        kind: [f"layer{level}.{name}" for level in range(len(layers)) for name in names]
        for kind, names in _LAYERS.items()
    }
    holds[Holds.MEASURES].append("options")
    return arrays | declared(index.arrays(), holds, INDEX)


def opened(arrays: Mapping[str, NDArray[Any]]) -> CHNSW:
    """C-HNSW from the arrays of ArchRAG's part."""
    named = {name.removeprefix(INDEX): np.asarray(arrays[name]) for name in arrays if name.startswith(INDEX)}
    return CHNSW.from_arrays(named)
