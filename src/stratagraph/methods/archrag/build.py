"""Building the hierarchy: augment, cluster, report, embed, and again on the communities (Alg. 1)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.augment import Known
from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.chnsw_options import Options
from stratagraph.methods.archrag.communities import Communities, write_communities
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.archrag.levels import (
    PARENTS,
    Level,
    Partition,
    WarmStart,
    entity_level,
    partition,
)
from stratagraph.methods.archrag.ranking import calibration_arrays
from stratagraph.methods.base import Built, Graph, Stored
from stratagraph.methods.groups import GroupBuilder
from stratagraph.system.memory import release
from stratagraph.types.protocols import Rows, Vectors

ADDED = "entities.added"
"""Name of the array of the edges of similarity between entities, which an update keeps."""
ADDED_ABOVE = "communities.added"
"""Name of the array of those between communities of one level, by their rows."""
_MANY = 4
"""If more than one in so many nodes look for neighbours, all do: that is faster."""
INDEX = "index."
"""Prefix of the arrays of C-HNSW, in which nodes have an order of their own."""
CHANGES = "index_changes"
"""Name of the array with the number of nodes that C-HNSW has lost or gained since it was built."""
ZEROS = "zeros"
"""Prefix of the arrays of the rows of zero vectors, by level."""
_MOST_CHANGES = 0.5
"""These, as a part of all nodes, up to which it is brought up to date: up to there recall is tested."""

Arrays = Mapping[str, NDArray[Any]]


async def build(builder: GroupBuilder[ArchRAGConfig]) -> Built:
    """Build the hierarchy over the graph of a corpus.

    An update starts from the communities of a previous index with the same settings: only new entities and
    those with other neighbours may move. A level is clustered anew if too much is new, if it would hardly
    shrink, if its partition has drifted (`methods.drift`), or to regroup. Edges of similarity are found
    anew after more changes (`drift.ANEW_SHARE`). Reports on the same members and texts are taken over.

    So a hierarchy depends on its past: a document that is inserted and deleted again may leave other
    communities than before, within the bounds of `methods.drift`. To regroup gives those of a new build.
    """
    graph, config, previous = builder.graph, builder.config, builder.previous
    threads = os.cpu_count() or 1
    warm_start = await asyncio.to_thread(WarmStart, graph, builder.grouped)
    level, hierarchy = entity_level(graph), _Hierarchy(graph.entities)
    while len(hierarchy.partitions) < config.max_levels and level.size >= config.min_communities:
        lapsed = warm_start.drift.lapsed
        edges = None if lapsed else await asyncio.to_thread(_known_edges, graph, level, previous)
        divided = await asyncio.to_thread(_partitioned, level, config, threads, warm_start, edges)
        if divided is None:
            break
        if previous is None:
            await asyncio.to_thread(release)
        warm_start.ascend(divided.labels, divided.count)
        with builder.gate.stage(f"report level {level.number + 1}", divided.joined):
            written = await write_communities(builder, level, divided)
        hierarchy.add(written, divided)
        level = written.level(level.number + 1, divided)
    arrays = {PARENTS: hierarchy.parents()[0], **warm_start.drift.arrays()}
    return await asyncio.to_thread(_built, builder, hierarchy, threads, arrays)


def layer_vectors(
    graph: Graph, vectors: Vectors, starts: Sequence[int], joined: Sequence[int]
) -> list[Vectors]:
    """Vectors of the layers of C-HNSW: entities, then the communities of several members of each level.

    `vectors` are those of all communities; a level begins in them at its start, with its `joined` communities
    of several members first. A community of one is its member and not in C-HNSW a second time.
    """
    above = [vectors[start : start + count] for start, count in zip(starts, joined, strict=True)]
    return [graph.vectors, *above]


def _known_edges(graph: Graph, level: Level, previous: Stored | None) -> Known | None:
    """The edges of similarity that the previous index added to a level between unchanged nodes.

    These nodes look for neighbours: new ones, those with another vector, and those that have no edge left.
    None if there are no such edges, or if so many nodes look that finding all edges anew is faster.
    """
    name, nodes = (ADDED_ABOVE, "parents") if level.number else (ADDED, PARENTS)
    if previous is None or graph.before is None or name not in previous.arrays:
        return None
    origin, same = (each[: level.size] for each in (level.before.origin, level.before.same))
    alike = (same if level.number else graph.before.alike) & (origin >= 0)
    kept = np.flatnonzero(alike)
    rows = np.full(len(previous.arrays[nodes]), -1, np.int64)
    rows[origin[kept]] = kept
    edges = rows[previous.arrays[name]]
    edges = edges[(edges >= 0).all(axis=1)]
    linked = np.bincount(np.concatenate([level.ends.ravel(), edges.ravel()]), minlength=level.size)
    looking = np.flatnonzero(~alike | (linked == 0))
    return None if _MANY * len(looking) > level.size else Known(edges, looking)


def _partitioned(
    level: Level, config: ArchRAGConfig, threads: int, warm_start: WarmStart, edges: Known | None
) -> Partition | None:
    """The communities of a level; None if they are nearly as many as its nodes."""
    most = (1 - config.min_shrink) * level.size
    divided = partition(level, config, threads, warm_start.initial, warm_start.drift, edges)
    if divided.count > most and warm_start.initial is not None:
        divided = partition(level, config, threads, None, warm_start.drift)
    return divided if divided.count <= most else None


class _Hierarchy:
    """The levels made so far."""

    def __init__(self, entities: int) -> None:
        self.levels: list[Communities] = []
        self.partitions: list[Partition] = []
        self.starts: list[int] = []
        self._size = 0
        self._parents = [np.full(entities, -1, np.int64)]

    def add(self, written: Communities, partition: Partition) -> None:
        """The communities of the next level."""
        self.starts.append(self._size)
        self._parents[-1] = partition.labels + self._size
        self._parents.append(np.full(partition.count, -1, np.int64))
        self._size += partition.count
        self.levels.append(written)
        self.partitions.append(partition)

    def added(self) -> dict[str, NDArray[np.int32]]:
        """The edges of similarity of all levels but the highest, which has none."""
        own, *above = [each.added for each in self.partitions]
        pairs = [edges + start for edges, start in zip(above, self.starts, strict=False)]
        none = np.zeros((0, 2), np.int64)
        return {
            ADDED: own.astype(np.int32),
            ADDED_ABOVE: np.concatenate([none, *pairs]).astype(np.int32),
        }

    def rows_before(self, graph: Graph, previous: Stored | None) -> list[Rows] | None:
        """Of each layer of C-HNSW the row that each node had there, if its vector is the same, or -1."""
        if previous is None or graph.before is None:
            return None
        entities = np.where(graph.before.alike, graph.before.origin[: graph.entities], -1)
        starts = previous.arrays["levels.starts"].tolist()
        sizes = previous.arrays["levels.joined"].tolist()
        previous_rows = [entities]
        for number, (level, count) in enumerate(zip(self.levels, self.joined, strict=True)):
            rows = np.full(count, -1, np.int64)
            if number < len(starts):
                rows = level.nodes.before[:count] - starts[number]
                rows[(rows < 0) | (rows >= sizes[number])] = -1
            previous_rows.append(rows)
        return previous_rows

    @property
    def joined(self) -> list[int]:
        """Communities of several members, by level."""
        return [each.joined for each in self.partitions]

    def parents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The node row of each entity's community, and of each community's own; -1 at the top."""
        return self._parents[0], np.concatenate([np.zeros(0, np.int64), *self._parents[1:]])

    def children(self) -> list[NDArray[np.int64]]:
        """Links of C-HNSW from each layer to the one below, as pairs (node, child)."""
        links = []
        below = len(self._parents[0])
        for divided in self.partitions:
            members = np.arange(min(below, len(divided.labels)))
            parents = divided.labels[members]
            kept = parents < divided.joined
            links.append(np.column_stack([parents[kept], members[kept]]))
            below = divided.joined
        return links


def _built(
    builder: GroupBuilder[ArchRAGConfig], hierarchy: _Hierarchy, threads: int, arrays: dict[str, NDArray[Any]]
) -> Built:
    """All communities, level by level, with what a search reads; C-HNSW goes on from the previous one."""
    graph, config, linked = builder.graph, builder.config, builder.grouped
    none = np.zeros((0, builder.dimension), np.float32)
    vectors = np.concatenate([none, *(each.vectors for each in hierarchy.levels)])
    arrays |= {
        "levels.starts": np.array(hierarchy.starts, np.int64),
        "levels.joined": np.array(hierarchy.joined, np.int64),
        "parents": hierarchy.parents()[1],
    }
    if hierarchy.partitions and config.augmentation == "knn":
        arrays |= hierarchy.added()
    if graph.entities:
        layers = layer_vectors(graph, vectors, hierarchy.starts, hierarchy.joined)
        rows = hierarchy.rows_before(graph, linked)
        arrays |= index_arrays(layers, hierarchy.children(), config, threads, linked, rows)
        zeros = [arrays[f"{ZEROS}{level}"] for level in range(len(layers))]
        arrays |= calibration_arrays([len(layer) for layer in layers], zeros, config.seed)
    nodes = [each.nodes for each in hierarchy.levels]
    return builder.built(nodes, vectors, arrays, measures=[*filter(is_measure, arrays)])


def is_measure(array: str) -> bool:
    """Whether an array of C-HNSW tells only which nodes are there, and how their codes are scaled."""
    return array.startswith(INDEX) and array.endswith((".alive", ".bounds", ".scales"))


def index_arrays(
    layers: Sequence[Vectors],
    children: Sequence[Rows],
    config: ArchRAGConfig,
    threads: int,
    previous: Stored | None,
    rows: Sequence[Rows] | None,
) -> dict[str, NDArray[Any]]:
    """C-HNSW over all levels as arrays, without zero vectors, whose rows are `zeros<level>`.

    It stores codes only; results are scored by the vectors of graph and communities. Links of the previous
    index are kept until too much has changed since it was built. `rows` hold, for each level, the previous
    row of each vector that is the same, or -1; such vectors are not read.
    """
    arrays_before: Arrays = {} if previous is None else previous.arrays
    origins = rows or [np.full(len(vectors), -1, np.int64) for vectors in layers]
    zeros = [
        zero_rows(vectors, origin, arrays_before.get(f"{ZEROS}{level}"))
        for level, (vectors, origin) in enumerate(zip(layers, origins, strict=True))
    ]
    gone = sum(map(len, zeros))
    options = Options(
        codes=config.codes,
        keep_vectors=False,
        links=config.links,
        breadth=config.breadth,
        ef=config.ef,
        mode=config.mode,
        seed=config.seed,
    )
    updated = _brought_up_to_date(arrays_before, layers, children, rows, options, threads, gone)
    index, changes = updated or (
        CHNSW.build([np.asarray(vectors) for vectors in layers], children, options, threads=threads),
        0,
    )
    arrays: dict[str, NDArray[Any]] = {CHANGES: np.array([changes], np.int64)}
    for level, each in enumerate(zeros):
        arrays[f"{ZEROS}{level}"] = each
        if len(each):
            index.delete(level, each)
    return arrays | {INDEX + name: np.asarray(array) for name, array in index.arrays().items()}


def zero_rows(vectors: Vectors, origin: Rows, zeros_before: Rows | None) -> Rows:
    """The rows of zero vectors. Only those without a previous row (`origin` is -1) are read."""
    if zeros_before is None:
        origin = np.full(len(vectors), -1, np.int64)
        zeros_before = origin[:0]
    new = np.flatnonzero(origin < 0)
    zero = np.isin(origin, zeros_before)
    zero[new] = ~np.any(np.asarray(vectors[new]), axis=1)
    return np.flatnonzero(zero)


def opened(arrays: Arrays) -> CHNSW:
    """C-HNSW from the arrays of ArchRAG's part."""
    named = {name.removeprefix(INDEX): np.asarray(arrays[name]) for name in arrays if name.startswith(INDEX)}
    return CHNSW.from_arrays(named)


def _brought_up_to_date(
    previous: Arrays,
    layers: Sequence[Vectors],
    children: Sequence[Rows],
    rows: Sequence[Rows] | None,
    options: Options,
    threads: int,
    zeros: int,
) -> tuple[CHNSW, int] | None:
    """The previous C-HNSW updated to these layers, and its number of changes; None if it must be rebuilt.

    It is built anew if levels, settings or too many nodes changed. The `zeros` nodes of zero vectors, added
    and then deleted, do not count as changes.
    """
    if rows is None or CHANGES not in previous:
        return None
    before = opened(previous)
    if before.options != options or len(before) != len(layers) or before.dimension != layers[0].shape[1]:
        return None
    index, changed = before.revised(layers, children, rows, threads=threads)
    changes = int(previous[CHANGES][0]) + sum(changed) - zeros
    return (index, changes) if changes <= _MOST_CHANGES * sum(map(len, layers)) else None
