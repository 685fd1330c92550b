"""Which entities get attributes (paper 001, 2.3 and Algorithm 1; ERRATA N1-N3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.centrality import Centrality, centrality
from stratagraph.methods.base import Stored
from stratagraph.methods.noderag.config import NodeRAGConfig
from stratagraph.methods.noderag.inputs import BuildInputs
from stratagraph.pipeline.carryover import Keys, lookup
from stratagraph.protocols import Rows

SLACK = 0.5
"""An important entity stays important while it reaches this share of a threshold.

Every insert moves the thresholds a little; without slack, unchanged entities would gain and lose attributes.
"""
_ODD = 0x9E3779B97F4A7C15


class Important(NamedTuple):
    """Rows of important entities, ascending, and the keys of the nodes from which paths were counted."""

    rows: Rows
    sources: Keys


def important_entities(
    inputs: BuildInputs,
    ends: Rows,
    config: NodeRAGConfig,
    previous: Stored | None,
    *,
    measure: bool = True,
) -> Important:
    """Entities that occur more than once and are in the core of the graph or high in betweenness.

    Parameters
    ----------
    ends
        The edges among entities, relations and units (2.2), as rows of the graph.
    previous
        The previous index: its sample is kept, and so are its important entities, with some `SLACK`.
    measure
        Whether centrality is measured, by one pass over the graph per source. Without it the previous
        important entities stay (`pipeline.drift.Drift.due`).
    """
    entities = inputs.graph.entities
    before = np.zeros(entities, np.bool_)
    if previous is not None:
        before = lookup(inputs.keys[:entities], previous.arrays["important.keys"]) >= 0
        if not measure:
            rows = np.flatnonzero(before & _repeated(inputs))
            return Important(rows, np.asarray(previous.arrays["important.sources"]))
    sample = _sample(inputs.keys, config, previous)
    found = centrality(ends, inputs.size, sample)
    chosen = _high(found, 1.0)[:entities] | (before & _high(found, SLACK)[:entities])
    rows = np.flatnonzero(chosen & _repeated(inputs))
    return Important(rows.astype(np.int64), inputs.keys[sample])


def _high(found: Centrality, share: float) -> NDArray[np.bool_]:
    core = found.cores >= max(1.0, share * found.core_threshold)
    bridge = found.betweenness > share * found.bridge_threshold
    return np.asarray(core | (bridge & (found.betweenness > 0)))


def _repeated(inputs: BuildInputs) -> NDArray[np.bool_]:
    """Entities that several units name, or several texts (N3)."""
    graph = inputs.graph
    named = np.bincount(graph.unit_entities[1], minlength=graph.entities)
    return np.asarray((named > 1) | (np.diff(graph.sources[0][: graph.entities + 1]) > 1))


def _sample(keys: Keys, config: NodeRAGConfig, previous: Stored | None) -> Rows:
    """Rows of the sampled sources: those of the previous index that still exist, then others by key."""
    mixed = (keys ^ np.uint64(config.seed)) * np.uint64(_ODD)
    first = np.argpartition(mixed, config.sources)[: config.sources] if len(keys) > config.sources else None
    order = np.arange(len(keys)) if first is None else first
    order = order[np.argsort(mixed[order], kind="stable")]
    if previous is None:
        return order
    kept = lookup(previous.arrays["important.sources"], keys)
    kept = kept[kept >= 0]
    return np.concatenate([kept, order[~np.isin(order, kept)]])[: config.sources]
