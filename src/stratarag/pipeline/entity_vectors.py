"""Vectors of the entities, which the methods that cluster and search them share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stratarag.models.gate import Gate
from stratarag.protocols import Stored, Vectors
from stratarag.records import Node

STAGE = "embed entities"


async def embed_entities(
    nodes: Sequence[Node], gate: Gate, *, dimension: int, previous: Stored | None
) -> Vectors:
    """A vector for the text of every entity, shape (entities, dimension).

    Those whose text is the same as in the `previous` graph are taken over from it, if it has vectors.
    """
    vectors = np.zeros((len(nodes), dimension), np.float32)
    fresh = np.ones(len(nodes), np.bool_)
    if previous is not None and "vectors" in previous.arrays:
        known = previous.rows([node.id for node in nodes])
        texts = {node.id: node.text for node in previous.nodes(list(known.values()))}
        for row, node in enumerate(nodes):
            if texts.get(node.id) == node.text:
                vectors[row] = previous.arrays["vectors"][known[node.id]]
                fresh[row] = False
    rows = np.flatnonzero(fresh)
    if rows.size:
        with gate.stage(STAGE, len(rows)):
            vectors[rows] = await gate.embed(STAGE, [nodes[row].text for row in rows.tolist()])
    return vectors
