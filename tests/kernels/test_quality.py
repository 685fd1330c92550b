from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from sklearn.metrics import calinski_harabasz_score
from sklearn.metrics.pairwise import cosine_similarity as cosines

from stratagraph.kernels.quality import calinski_harabasz, cosine_similarity, modularity


@pytest.fixture
def clustered():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 9, 200)
    vectors = (rng.standard_normal((9, 12))[labels] + rng.standard_normal((200, 12))).astype(np.float32)
    return vectors, labels


class TestCalinskiHarabasz:
    def test_agrees_with_scikit_learn(self, clustered):
        vectors, labels = clustered
        assert calinski_harabasz(vectors, labels * 5 - 3) == pytest.approx(
            calinski_harabasz_score(vectors, labels), rel=1e-5
        )

    def test_equal_members_are_perfect(self):
        assert calinski_harabasz(np.repeat(np.eye(3), 2, axis=0), np.repeat(range(3), 2)) == float("inf")

    @pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2]])
    def test_needs_something_to_compare(self, labels):
        with pytest.raises(ValueError, match="2 to 2 communities"):
            calinski_harabasz(np.eye(3), np.array(labels))

    def test_a_vector_that_is_not_finite_is_named(self, clustered):
        vectors, labels = clustered
        vectors[17, 3] = np.inf
        with pytest.raises(ValueError, match="vector 17"):
            calinski_harabasz(vectors, labels)

    def test_shapes_must_fit(self, clustered):
        with pytest.raises(ValueError, match="do not fit"):
            calinski_harabasz(clustered[0], clustered[1][:-1])


class TestCosineSimilarity:
    def test_agrees_with_scikit_learn(self, clustered):
        vectors, labels = clustered
        means = np.stack([vectors[labels == label].mean(axis=0) for label in range(9)])
        expected = np.mean(cosines(vectors, means)[np.arange(200), labels])
        assert cosine_similarity(vectors, labels) == pytest.approx(expected, rel=1e-5)

    def test_length_does_not_count_and_zeros_count_as_zero(self):
        vectors = np.array([[1.0, 0], [9, 0], [0, 3], [0, 0]])
        assert cosine_similarity(vectors, np.array([0, 0, 1, 2])) == pytest.approx(0.75)

    def test_no_vectors(self):
        with pytest.raises(ValueError, match="no vector"):
            cosine_similarity(np.zeros((0, 3)), np.zeros(0, dtype=np.int64))


class TestModularity:
    @pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0])
    def test_agrees_with_networkx(self, resolution):
        graph = nx.karate_club_graph()
        ends = np.array(graph.edges())
        weights = np.array([graph[a][b]["weight"] for a, b in ends.tolist()], dtype=float)
        labels = np.random.default_rng(0).integers(0, 4, 34)
        expected = nx.community.modularity(
            graph, [set(np.flatnonzero(labels == each)) for each in range(4)], resolution=resolution
        )
        assert modularity(ends, weights, labels, resolution=resolution) == pytest.approx(expected)

    def test_no_edges(self):
        assert modularity(np.zeros((0, 2), dtype=np.int64), None, np.arange(3)) == 0
