"""What an update takes over from the index before it."""

from __future__ import annotations

from collections.abc import Sequence

from stratarag.models.gate import Gate
from stratarag.pipeline.summarize import MODEL
from stratarag.protocols import Stored, Vectors
from stratarag.records import Node


class CarryOver:
    """Nodes of the previous index that need not be made again.

    A node qualifies by its id alone, so an id must be derived from all that the node is made of
    (`records.content_id` of its inputs' texts). One that names its maker in `extra["by"]` is made again
    if that was not a model and there is one now.

    Parameters
    ----------
    previous
        The previous index of the method; None in a first build.
    gate
        Tells whether there is a model.
    vectors
        Name of the array that holds a vector for each of its nodes.
    """

    def __init__(self, previous: Stored | None, gate: Gate, vectors: str = "vectors") -> None:
        self._previous = previous
        self._has_llm = gate.has_llm
        self._vectors = vectors

    def take(self, ids: Sequence[str]) -> dict[str, tuple[Node, Vectors]]:
        """Those of these nodes that can be taken over, with their vectors, by id."""
        if self._previous is None:
            return {}
        rows = self._previous.rows(ids)
        nodes = self._previous.nodes(list(rows.values()))
        vectors = self._previous.arrays[self._vectors]
        return {
            identity: (node, vectors[row])
            for (identity, row), node in zip(rows.items(), nodes, strict=True)
            if not self._has_llm or node.extra.get("by", MODEL) == MODEL
        }
