"""Which communities are those of the previous index, with all that their reports are made of."""

from __future__ import annotations

import numpy as np

from stratagraph.methods.hirag.clusters import TEXT_SETTINGS, text_settings
from stratagraph.methods.hirag.context import BuildContext
from stratagraph.methods.hirag.entities import Entities
from stratagraph.pipeline.before import recognised
from stratagraph.pipeline.carryover import Labels
from stratagraph.pipeline.kept_nodes import BY_MODEL
from stratagraph.protocols import Rows


class Unchanged:
    """Finds the previous rows of communities that are as they were.

    One whose report no model wrote is none if there is a model now, so that it is written.
    """

    def __init__(self, context: BuildContext, entities: Entities) -> None:
        previous = context.previous
        usable = previous is not None and context.graph.before is not None
        if previous is not None and usable:
            usable = previous.arrays[TEXT_SETTINGS].tolist() == text_settings(context.config)
        self._arrays = previous.arrays if previous is not None and usable else {}
        self._entities = entities
        self._asks = context.gate.has_llm

    def rows(self, level: int, labels: Labels, count: int) -> Rows:
        """The previous row of each community of a level, or -1, shape (count,).

        Parameters
        ----------
        labels
            The community of each entity, or -1, shape (entities,).
        """
        found = np.full(count, -1, np.int64)
        if not self._arrays or level >= len(self._arrays["communities.labels"]):
            return found
        before = self._arrays["communities.labels"][level].astype(np.int64)
        same = recognised(labels, self._entities.origin, self._entities.same, before, count)
        kept = np.flatnonzero(same >= 0)
        rows = same[kept] + int(self._arrays["counts"][0])
        found[kept] = np.where(self._arrays[BY_MODEL][rows], rows, -1) if self._asks else rows
        return found
