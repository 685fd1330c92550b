"""Mixtures and the clusters made of them, and k-means by inner products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_info, threadpool_limits

from stratagraph.kernels.float16 import stacked
from stratagraph.kernels.mixture import project, soft_clusters, sparsity
from stratagraph.kernels.spherical_kmeans import assigned, spherical_kmeans


def blobs(count: int, per_blob: int, dimension: int = 24, spread: float = 0.25, seed: int = 0):
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((count, dimension))
    labels = np.repeat(np.arange(count), per_blob)
    points = centres[labels] + spread * chance.standard_normal((len(labels), dimension))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points.astype(np.float32), labels


def test_clusters_do_not_depend_on_the_threads_of_blas_and_leave_them() -> None:
    def threads() -> list[int]:
        return [each["num_threads"] for each in threadpool_info()]

    vectors = np.random.default_rng(0).normal(size=(700, 80)).astype(np.float32)
    found = []
    for count in (1, 2):
        with threadpool_limits(count):
            before = threads()
            found.append(soft_clusters(vectors))
            assert threads() == before
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize(("count", "dimension", "least"), [(30, 24, 0.8), (300, 48, 0.7)])
def test_blobs_are_found_and_coarse_parts_keep_them_together(count, dimension, least):
    points, labels = blobs(count, 8, dimension)
    homes = np.full(len(points), -1)
    for number, rows in enumerate(soft_clusters(points, target=8, max_size=16, most=1)):
        homes[rows] = number
    assert adjusted_rand_score(labels, homes) > least


def test_between_two_is_in_both():
    chance = np.random.default_rng(3)
    centres = np.eye(2, 6)
    points = np.concatenate([centre + 0.05 * chance.standard_normal((6, 6)) for centre in centres])
    points = np.concatenate([points, [centres.mean(axis=0)]]).astype(np.float32)
    found = soft_clusters(points, target=6, max_size=10, threshold=0.01, most=2)
    assert max(sum(12 in rows for rows in found), 1) <= 2
    alone = soft_clusters(points, target=6, max_size=10, threshold=1.0, most=2)
    assert sum(map(len, alone)) <= sum(map(len, found))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 120),
    st.integers(1, 12),
    st.integers(2, 9),
    st.integers(0, 8),
    st.integers(1, 3),
    st.sampled_from(["normal", "equal", "two", "zero"]),
    st.integers(0, 5),
)
def test_every_row_has_a_home_and_every_bound_holds(count, dimension, target, room, most, kind, seed):
    chance = np.random.default_rng(seed)
    points = chance.standard_normal((count, dimension))
    if kind == "equal":
        points[:] = 1.0
    elif kind == "two":
        points = np.where(np.arange(count)[:, None] % 2, 1.0, -1.0) * np.ones((count, dimension))
    elif kind == "zero":
        points[:] = 0.0
    found = soft_clusters(points, target=target, max_size=target + room, most=most, seed=seed)
    belongs = np.bincount(np.concatenate([np.zeros(0, np.int64), *found]), minlength=count)
    assert ((belongs >= 1) & (belongs <= most)).all()
    assert all(0 < len(rows) <= target + room and (np.diff(rows) > 0).all() for rows in found)


def test_sparsity_is_the_formula():
    assert sparsity([3, 2, 1], 6) == pytest.approx(1 - (3 * 2 + 2 * 1) / (6 * 5))
    assert sparsity([1] * 5, 5) == 1.0
    assert sparsity([5], 5) == 0.0
    assert sparsity([4, 4, 4], 5) == 0.0  # overlapping clusters exceed the denominator (H2)
    assert sparsity([1], 1) == sparsity([], 0) == 0.0


@pytest.mark.parametrize(("count", "dimension"), [(30, 200), (200, 30), (1100, 1200)])
def test_projection_keeps_the_largest_variances(count, dimension):
    chance = np.random.default_rng(0)
    vectors = chance.standard_normal((count, dimension)) * 0.7 ** np.arange(dimension)
    exact = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False)[:5]
    assert np.linalg.norm(project(vectors, 5), axis=0) == pytest.approx(exact, rel=1e-3)


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


def test_new_vectors_join_the_nearest_of_the_clusters_there_are() -> None:
    vectors = np.array([[1, 0], [0, 1], [0.8, 0.6], [0, 0], [0.1, 0.99]], np.float32)
    assert assigned(vectors, np.array([0, 1, -1, -1, -1])).tolist() == [0, 1, 0, -1, 1]
    assert assigned(vectors, np.full(5, -1)).tolist() == [-1] * 5
