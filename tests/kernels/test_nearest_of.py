"""The nearest of some vectors, exactly."""

from __future__ import annotations

import numpy as np

from stratarag.kernels.knn import nearest_of


def test_they_are_those_of_an_exact_comparison() -> None:
    vectors = np.random.default_rng(4).normal(size=(300, 16)).astype(np.float32)
    vectors[7] = 0
    rows = np.arange(290)
    pairs = nearest_of(vectors, rows, 5)
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    for row in rows.tolist():
        found = set(pairs[pairs[:, 0] == row, 1].tolist())
        assert found == (set() if row == 7 else set(np.argsort(-scores[row])[:5].tolist()))
    assert len(nearest_of(vectors[:1], np.array([0]), 5)) == 0
