"""Mixtures and the clusters made of them: recovery of blobs, bounds, and always an end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_info, threadpool_limits

from stratagraph.kernels.mixture import project, soft_clusters, sparsity


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
