"""k-means by inner products."""

from __future__ import annotations

import numpy as np

from stratagraph.kernels.float16 import stacked
from stratagraph.kernels.spherical_kmeans import assigned, spherical_kmeans


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_directions_apart_are_clusters_apart() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 50)
    vectors = unit(np.eye(8)[groups] + 0.05 * rng.standard_normal((200, 8)))
    labels = spherical_kmeans(vectors, 24, seed=3)
    for label in range(24):
        assert len(np.unique(groups[labels == label])) == 1
    assert np.array_equal(labels, spherical_kmeans(vectors, 24, seed=3))


def test_vectors_that_are_read_in_blocks_are_clustered_as_an_array_is() -> None:
    vectors = unit(np.random.default_rng(2).standard_normal((9000, 6)))
    vectors[[4, 8500]] = 0
    expected = spherical_kmeans(vectors, 30, seed=1)
    assert expected[[4, 8500]].tolist() == [-1, -1]
    assert np.array_equal(spherical_kmeans(stacked([vectors[:5000], vectors[5000:]]), 30, seed=1), expected)


def test_every_vector_is_in_the_cluster_whose_direction_it_shares_most() -> None:
    vectors = unit(np.random.default_rng(1).standard_normal((60, 5)))
    labels = spherical_kmeans(vectors, 3, seed=0)
    sums = unit(np.stack([vectors[labels == label].sum(axis=0) for label in range(3)]))
    assert np.array_equal(labels, np.argmax(vectors @ sums.T, axis=1))


def test_zero_vectors_are_in_no_cluster() -> None:
    vectors = unit(np.random.default_rng(0).standard_normal((40, 16)))
    vectors[[3, 17]] = 0
    labels = spherical_kmeans(vectors, 5, seed=1)
    assert np.flatnonzero(labels < 0).tolist() == [3, 17]
    assert len(np.unique(labels)) == 6
    assert spherical_kmeans(np.zeros((3, 4), np.float32), 2, 0).tolist() == [-1, -1, -1]


def test_there_are_no_more_clusters_than_vectors() -> None:
    assert sorted(spherical_kmeans(np.eye(3, dtype=np.float32), 9, 0).tolist()) == [0, 1, 2]


def test_new_vectors_join_the_nearest_of_the_clusters_there_are() -> None:
    vectors = np.array([[1, 0], [0, 1], [0.8, 0.6], [0, 0], [0.1, 0.99]], np.float32)
    assert assigned(vectors, np.array([0, 1, -1, -1, -1])).tolist() == [0, 1, 0, -1, 1]
    assert assigned(vectors, np.full(5, -1)).tolist() == [-1] * 5
