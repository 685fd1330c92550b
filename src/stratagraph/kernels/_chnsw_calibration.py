"""By what the `ef` of a layer of C-HNSW is settled, and for how long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stratagraph.kernels._chnsw_layer import Layer, Matrix

CALIBRATED_K = 10
EFS = [round(10 * 1.19**i) for i in range(25)]  # 10 to 650
SETTLED_FOR = 0.2
"""Additions and deletions, as a share of a layer's nodes, after which its `ef` is settled anew."""

_SAMPLE = 96
_FOR_MEAN = 1024


def blends(layers: Sequence[Layer], seed: int) -> Matrix:
    """Queries that are like the vectors of the lowest nodes, and like none of them too much."""
    layer = next(layer for layer in layers if len(layer.rows))
    rng = np.random.default_rng(seed)
    one, other = (rng.choice(layer.rows, _SAMPLE) for _ in range(2))
    mean = layer.floats(rng.choice(layer.rows, _FOR_MEAN)).mean(axis=0)
    queries: Matrix = layer.floats(one) + np.float32(0.5) * (layer.floats(other) - mean)
    return queries
