"""Which communities are those of the previous index, with all that their reports are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.archrag.levels import Level, Partition
from stratagraph.methods.base import Graph, Stored
from stratagraph.models.gate import Gate
from stratagraph.pipeline.before import recognised
from stratagraph.pipeline.carryover import Labels
from stratagraph.pipeline.kept_nodes import BY_MODEL
from stratagraph.protocols import Rows

SETTINGS = "report_settings"
"""The array of the settings that reports depend on."""


class Unchanged:
    """Finds the previous rows of communities that are as they were.

    One whose report no model wrote is none if there is a model now, so that it is written.
    """

    def __init__(self, graph: Graph, gate: Gate, previous: Stored | None, config: ArchRAGConfig) -> None:
        self._graph = graph
        self._asks = gate.has_llm
        usable = previous is not None and graph.before is not None
        self._previous = previous if usable else None
        if self._previous is not None and self._previous.arrays[SETTINGS].tolist() != _settings(config):
            self._previous = None

    def rows(self, level: Level, partition: Partition) -> Rows:
        """The previous row of each community of a level, or -1."""
        if self._previous is None:
            return np.full(partition.count, -1, np.int64)
        labels, before = partition.labels, self._parents(level.number)
        if level.number == 0:
            labels = np.concatenate([labels, partition.of_edges(level.ends)])
        found = recognised(labels, level.before.origin, level.before.same, before, partition.count)
        if self._asks:
            kept = found >= 0
            found[kept] = np.where(self._previous.arrays[BY_MODEL][found[kept]], found[kept], -1)
        return found

    def _parents(self, number: int) -> Labels:
        """The community of each node that there was, and at level 0 of each relation inside of one."""
        assert self._previous is not None
        assert self._graph.before is not None
        if number > 0:
            return np.asarray(self._previous.arrays["parents"])
        parents: Labels = np.asarray(self._previous.arrays["entities.parents"])
        own = parents[self._graph.before.stored.arrays["relations.ends"]]
        return np.concatenate([parents, np.where(own[:, 0] == own[:, 1], own[:, 0], -1)])


def arrays(by_model: Sequence[NDArray[np.bool_]], config: ArchRAGConfig) -> dict[str, NDArray[Any]]:
    """What the next update reads; `by_model` is of each level's communities."""
    return {
        BY_MODEL: np.concatenate([np.zeros(0, np.bool_), *by_model]),
        SETTINGS: np.array(_settings(config), np.int64),
    }


def _settings(config: ArchRAGConfig) -> list[int]:
    return [config.summary_tokens]
