"""Which groups are those of the previous tree, with all that their summaries are made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratagraph.methods.base import Stored
from stratagraph.methods.lshtree.config import LSHTreeConfig
from stratagraph.models.gate import Gate
from stratagraph.pipeline.before import recognised
from stratagraph.pipeline.carryover import Labels
from stratagraph.pipeline.graph import Graph
from stratagraph.pipeline.kept_nodes import BY_MODEL
from stratagraph.protocols import Rows

TIES, CHUNK_TIES, SETTINGS = "ties", "chunks.ties", "summary_settings"
"""Arrays: what orders nodes of equal codes, and chunks; the settings that summaries depend on."""


class Unchanged:
    """Finds the previous rows of groups that have the same members as they were.

    One whose summary no model wrote is none if there is a model now, so that it is written.
    """

    def __init__(self, graph: Graph, gate: Gate, previous: Stored | None, summary_tokens: int) -> None:
        usable = previous is not None and graph.before is not None and CHUNK_TIES in previous.arrays
        if previous is not None and usable:
            usable = previous.arrays[SETTINGS].tolist() == [summary_tokens]
        self._arrays = previous.arrays if previous is not None and usable else {}
        self._asks = gate.has_llm

    def rows(self, level: int, labels: Labels, before: Rows, count: int) -> Rows:
        """The previous row of the summary of each group, or -1, shape (count,).

        Parameters
        ----------
        level
            Of the members; 0 for chunks.
        labels, before
            Of each member its group, and its previous row, or -1.
        """
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


def settings_array(config: LSHTreeConfig) -> dict[str, NDArray[np.int64]]:
    """What the next update compares."""
    return {SETTINGS: np.array([config.summary_tokens], np.int64)}
