"""The arrays of a hierarchy, checked once when it is opened."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stratagraph.ingest.checks import Checks
from stratagraph.ingest.graph.checks import check_vectors
from stratagraph.ingest.graph.stage import Graph
from stratagraph.methods.archrag.build import ADDED, ADDED_ABOVE
from stratagraph.methods.archrag.index import CHANGES, INDEX
from stratagraph.methods.archrag.ranking import SAMPLED
from stratagraph.methods.drift import check_drift
from stratagraph.methods.groups import check_nodes


def check_arrays(checks: Checks, graph: Graph, chunks: int, dimension: int) -> None:
    """Check that the arrays fit each other, the graph, and the number of chunks.

    Those of C-HNSW are checked by `CHNSW.from_arrays`; here, that they are of these layers.
    """
    check_vectors(graph.stored.arrays)
    check_drift(checks)
    communities = check_nodes(checks, chunks, dimension)
    checks.rows("parents", communities, (communities,), start=-1)
    checks.rows("entities.parents", communities, (graph.entities,), start=-1)
    if checks.has(ADDED):
        checks.rows(ADDED, graph.entities, (None, 2), dtype=np.int32)
    if checks.has(ADDED_ABOVE):
        checks.rows(ADDED_ABOVE, communities, (None, 2), dtype=np.int32)
    layers = [graph.entities, *_joined(checks, communities)]
    if graph.entities:
        _check_layers(checks, layers, dimension)
        checks.rows(CHANGES, np.iinfo(np.int64).max, (1,))


def _joined(checks: Checks, communities: int) -> list[int]:
    """Communities of several members in each level; they are the first of their level."""
    starts = checks.rows("levels.starts", communities, (None,))
    borders = np.append(starts, communities)
    if len(starts) and (starts[0] != 0 or (np.diff(borders) <= 0).any()):
        raise ValueError(f"array 'levels.starts' holds {starts.tolist()}, of {communities} communities")
    joined = checks.rows("levels.joined", communities + 1, starts.shape)
    if (joined > np.diff(borders)).any():
        raise ValueError(f"array 'levels.joined' holds {joined.tolist()}, more than the levels have")
    counts: list[int] = joined.tolist()
    return counts


def _check_layers(checks: Checks, layers: Sequence[int], dimension: int) -> None:
    found = checks.layers(INDEX)
    if found != len(layers):
        raise ValueError(f"array '{INDEX}layer{min(found, len(layers))}.alive' is missing, or one too many")
    for level, size in enumerate(layers):
        checks.of(f"{INDEX}layer{level}.alive", np.uint8, (size,))
        checks.of(f"{INDEX}layer{level}.vectors", np.float32, (None, dimension))
        checks.rows(f"zeros{level}", size, (None,))
    count = len(layers)
    samples = checks.rows(SAMPLED, sum(layers), (None,))
    checks.borders("calibration.borders", len(samples), count)
    sizes = checks.of("calibration.sizes", np.int64, (count,)).tolist()
    if sizes != list(layers):
        raise ValueError(f"array 'calibration.sizes' holds {sizes}, not {list(layers)}")
