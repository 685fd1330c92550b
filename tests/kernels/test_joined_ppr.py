from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stratagraph.kernels.joined_ppr import JoinedGraph, joined_pagerank
from stratagraph.kernels.ppr import shallow_pagerank, transition_matrix

NODES = 60


def cut(seed: int, parts: int = 3) -> tuple[Any, JoinedGraph]:
    """A random graph, and the same in parts that have nodes in common."""
    rng = np.random.default_rng(seed)
    ends, weights = rng.integers(0, NODES, (300, 2)), rng.uniform(0.1, 3, 300)
    owner = rng.integers(0, parts, len(ends))
    matrices, numbers, strengths = [], [], []
    for part in range(parts):
        own, heavy = ends[owner == part], weights[owner == part]
        nodes = np.arange(NODES) if part == 0 else np.unique(own)
        local = np.searchsorted(nodes, own)
        proper = own[:, 0] != own[:, 1]
        total = np.bincount(local[proper].ravel(), np.repeat(heavy[proper], 2), len(nodes))
        matrices.append(transition_matrix(len(nodes), local, heavy))
        numbers.append(nodes.astype(np.int32))
        strengths.append(np.maximum(total, 1e-12))
    return transition_matrix(NODES, ends, weights), JoinedGraph.of(matrices, numbers, strengths, NODES)


def dense(walk: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    scores = np.zeros(NODES)
    scores[walk[0]] = walk[1]
    return scores


@pytest.mark.parametrize(("steps", "seed"), [(0, 0), (1, 1), (9, 0)])
def test_a_walk_over_parts_is_the_walk_over_the_whole(seed: int, steps: int) -> None:
    whole, parts = cut(seed)
    entries, weights = np.array([3, 5, 41]), np.array([1.0, 2.0, 0.5])
    given = {"weights": weights, "restart": 0.2, "steps": steps}
    expected = dense(shallow_pagerank(whole, entries, **given))
    np.testing.assert_allclose(dense(joined_pagerank(parts, entries, **given)), expected, atol=1e-6)


def test_a_node_without_edges_gives_its_mass_back() -> None:
    matrices = [
        transition_matrix(2, np.array([[0, 1]]), np.ones(1)),
        transition_matrix(1, np.zeros((0, 2), int), np.ones(0)),
    ]
    parts = JoinedGraph.of(
        matrices, [np.array([0, 1], np.int32), np.array([2], np.int32)], [np.ones(2), np.ones(1)], 3
    )
    nodes, mass = joined_pagerank(parts, np.array([2]), steps=3)
    assert dict(zip(nodes.tolist(), mass.tolist(), strict=True)) == {2: 1.0}


def test_a_damaged_part_is_an_error() -> None:
    _, parts = cut(3)
    parts.matrices[1].indices[:] = 10_000
    with pytest.raises(ValueError, match="damaged"):
        joined_pagerank(parts, np.arange(NODES), steps=2)
