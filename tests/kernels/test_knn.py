"""The nearest of some vectors: exactly, by hnswlib; links that replace lost ones."""

from __future__ import annotations

import numpy as np
import pytest

from stratagraph.kernels import hnswlib
from stratagraph.kernels.knn import nearest_of, nearest_others, relinked


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


def test_each_node_takes_as_many_of_the_nearest_as_it_lost() -> None:
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(40, 8)).astype(np.float32)
    gone = [3, 11, 29]
    now = np.full(43, -1, np.int64)
    now[np.delete(np.arange(43), gone)] = np.arange(40)
    links = np.array([[one, two] for one in range(43) for two in range(one) if rng.random() < 0.3])
    found = relinked(links, now, vectors)
    scores = vectors @ vectors.T
    for row in range(40):
        near, lost = set[int](), 0
        for went in gone:
            ends = {int(end) for link in links if went in link for end in now[link] if end >= 0}
            if row in ends:
                near, lost = near | ends - {row}, lost + 1
        best = sorted(near, key=lambda other: -scores[row, other])[:lost]
        assert set(found[found[:, 0] == row, 1].tolist()) == set(best)


def test_without_lost_links_or_neighbours_nothing_is_linked_again() -> None:
    vectors = np.eye(3, dtype=np.float32)
    assert len(relinked(np.array([[0, 1], [1, 2]]), np.arange(3), vectors)) == 0
    assert len(relinked(np.array([[0, 3], [1, 2]]), np.array([0, 1, 2, -1]), vectors)) == 0
    assert len(relinked(np.zeros((0, 2), np.int64), np.zeros(0, np.int64), vectors[:0])) == 0


def test_hnswlib_finds_nearly_all_that_an_exact_comparison_finds_and_the_same_again() -> None:
    pytest.importorskip("hnswlib")
    vectors = np.random.default_rng(3).normal(size=(1500, 24)).astype(np.float32)
    vectors[5] = vectors[6]
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    exact = np.argsort(-scores, axis=1)[:, :10]
    found = hnswlib.nearest_others(vectors, 10, M=24, threads=2)
    assert found.shape == (1500, 10)
    assert not (found == np.arange(1500)[:, None]).any()
    recall = {ef: shared(exact, hnswlib.nearest_others(vectors, 10, M=24, ef=ef)) for ef in (10, 400)}
    assert recall[400] > 0.99 > recall[10]
    np.testing.assert_array_equal(found, hnswlib.nearest_others(vectors, 10, M=24))
    few = hnswlib.nearest_others(vectors[:4], 3)
    np.testing.assert_array_equal(np.sort(few), [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])


def shared(exact: np.ndarray, found: np.ndarray) -> float:
    return float(np.mean([len({*one} & {*two}) / len(one) for one, two in zip(exact, found, strict=True)]))


def test_a_search_that_gives_something_else_is_named() -> None:
    vectors = np.eye(5, dtype=np.float32)
    assert nearest_others(vectors, 9, lambda vectors, k: np.zeros((5, k), int)).shape == (5, 4)
    with pytest.raises(ValueError, match=r"shape \(5, 2\), not float64 of shape \(5, 1\)"):
        nearest_others(vectors, 2, lambda vectors, k: np.zeros((5, 1)))
    with pytest.raises(ValueError, match="not 7 to 7"):
        nearest_others(vectors, 2, lambda vectors, k: np.full((5, k), 7))
