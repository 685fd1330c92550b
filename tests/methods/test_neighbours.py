"""Neighbours of entities through the C-HNSW of the index before: what a comparison with all finds."""

from __future__ import annotations

import numpy as np
import pytest

from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.knn import nearest_of
from stratagraph.methods.archrag.index import Neighbours

K = 4


@pytest.mark.parametrize("stayed", [3000, 40, 1, 0])
def test_neighbours_are_those_of_a_comparison_with_all(stayed: int) -> None:
    chance = np.random.default_rng(0)
    before = _units(chance, 3000)
    came = _units(chance, 60)
    came[5] = 0
    kept = np.sort(chance.permutation(3000)[:stayed])
    vectors = np.concatenate([before[kept], came])
    order = chance.permutation(len(vectors))
    place = np.argsort(order)
    now = np.full(3000, -1)
    now[kept] = place[:stayed]
    index = CHNSW.build([before], keep_vectors=False)
    found = Neighbours(vectors[order], index, now, np.sort(place[stayed:]))
    rows = np.sort(np.concatenate([place[stayed:], place[: stayed // 10]]))
    own = found.nearest(rows, K)
    wanted = nearest_of(vectors[order], rows, K)
    assert len(own) == len(wanted)
    assert place[stayed + 5] not in own
    assert np.array_equal(np.unique(own[:, 0]), np.unique(wanted[:, 0]))
    same = {*map(tuple, own.tolist())} & {*map(tuple, wanted.tolist())}
    assert len(same) > 0.95 * len(wanted)


def _units(chance: np.random.Generator, count: int) -> np.ndarray:
    """Vectors of length 1 around a few centres."""
    points = np.eye(8, 32)[chance.integers(0, 8, count)] + 0.2 * chance.standard_normal((count, 32))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
