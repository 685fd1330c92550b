from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import calinski_harabasz_score

from stratagraph.kernels.augment import augment
from stratagraph.kernels.leiden import leiden

NONE = np.zeros((0, 2), dtype=np.int64)


def unit(seed, *shape):
    vectors = np.random.default_rng(seed).standard_normal(shape)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def edge_set(ends):
    return {tuple(row) for row in ends.tolist()}


def random_graph(nodes, edges, seed=0):
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, nodes, (edges, 2)), axis=1)
    return np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)


class TestKnn:
    def test_agrees_with_the_rule_by_brute_force(self):
        vectors, ends = unit(0, 80, 6), random_graph(80, 100)
        cosines = vectors @ vectors.T
        degrees = np.bincount(ends.ravel(), minlength=80)
        k = round(degrees[degrees > 0].mean())
        threshold = np.quantile(cosines[ends[:, 0], ends[:, 1]], 0.8)
        expected = edge_set(ends)
        for node in range(80):
            others = np.argsort(-cosines[node])
            for other in others[others != node][:k]:
                if cosines[node, other] >= threshold or not degrees[node]:
                    expected.add((min(node, other), max(node, other)))
        found, weights = augment(vectors * 7, ends)
        assert edge_set(found) == expected
        assert weights == pytest.approx(np.maximum(cosines[found[:, 0], found[:, 1]], 1e-3), abs=1e-5)

    def test_large_graphs_find_their_neighbours_approximately(self):
        centres = unit(3, 300, 16)
        vectors = np.repeat(centres, 10, axis=0) + 0.05 * unit(4, 3000, 16)
        found, _ = augment(vectors, random_graph(3000, 2000), threads=2)
        again, _ = augment(vectors, random_graph(3000, 2000), threads=1)
        assert np.array_equal(found, again)
        added = found[found[:, 0] // 10 == found[:, 1] // 10]
        assert len(added) > 3000

    @pytest.mark.parametrize("count", [0, 1, 2, 3])
    def test_few_nodes(self, count):
        found, weights = augment(np.ones((count, 4)), NONE, neighbours=2)
        assert len(found) == len(weights) == count * (count - 1) // 2

    def test_zero_vectors_gain_no_edge(self):
        vectors = np.ones((30, 4))
        vectors[:5] = 0
        found, _ = augment(vectors, np.array([[0, 1], [10, 11]]))
        assert edge_set(found[(found < 5).any(axis=1)]) <= {(0, 1)}
        assert len(found) > 10

    def test_a_vector_that_is_not_finite_is_named(self):
        vectors = np.ones((4, 2))
        vectors[2, 1] = np.nan
        with pytest.raises(ValueError, match="vector 2 is not finite"):
            augment(vectors, NONE)


def test_attributes_make_communities_alike():
    """Table 7: attributed clusterings beat Leiden alone on both measures."""
    rng = np.random.default_rng(0)
    topics = np.repeat(np.arange(30), 10)
    vectors = rng.standard_normal((30, 24))[topics] + 0.6 * rng.standard_normal((300, 24))
    ends = rng.integers(0, 300, (400, 2))
    alone, found = leiden(ends, None, 300, max_size=15), leiden(*augment(vectors, ends), 300, max_size=15)
    better, plain = (calinski_harabasz_score(vectors, each) for each in (found, alone))
    assert better > 1.5 * plain
