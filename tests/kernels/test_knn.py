"""The nearest of some vectors: exactly, and through hnswlib; links that replace lost ones."""

from __future__ import annotations

import numpy as np
import pytest

from stratagraph.kernels.knn import Hnswlib, hnswlib_graph, knn_graph, nearest_of, relinked


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


def test_links_to_nodes_that_went_are_replaced_by_the_nearest_of_their_neighbours() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9], [0.6, 0.4]], np.float32)
    now = np.array([0, 1, -1, 2, 3, 4])  # node 2 went
    links = np.array([[0, 2], [2, 1], [3, 2], [2, 4], [0, 5]])
    found = relinked(links, now, vectors).tolist()
    assert found == [[0, 1], [1, 0], [2, 3], [3, 2]]  # each lost one, and takes the nearest of the others


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


def vectors_of(count: int, dimension: int = 24) -> np.ndarray:
    vectors = np.random.default_rng(3).standard_normal((count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_finds_what_a_scan_finds():
    pytest.importorskip("hnswlib")
    vectors, queries = vectors_of(600), vectors_of(40)[::-1]
    rows, scores = Hnswlib(vectors, m=16, ef_construction=100, ef=200).search(queries, 10)
    products = queries @ vectors.T
    exact = np.argsort(-products, axis=1)[:, :10]
    assert np.mean([np.isin(a, b).mean() for a, b in zip(rows, exact, strict=True)]) > 0.97
    assert np.allclose(scores, np.take_along_axis(products, rows, axis=1), atol=1e-5)


def test_graph_has_the_shape_of_our_own_and_nobody_is_their_own_neighbour():
    pytest.importorskip("hnswlib")
    vectors = vectors_of(300)
    rows, scores = hnswlib_graph(vectors, 6, ef=100)
    own_rows, own_scores = knn_graph(vectors, 6, ef=100)
    assert rows.shape == own_rows.shape == scores.shape == (300, 6)
    assert rows.dtype == own_rows.dtype
    assert (rows != np.arange(300)[:, None]).all()
    assert np.abs(scores - own_scores).mean() < 0.01


def test_equal_input_gives_equal_neighbours():
    pytest.importorskip("hnswlib")
    vectors = vectors_of(500)
    one, other = (hnswlib_graph(vectors, 5, m=4, ef_construction=10, ef=6, seed=7) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_others_where_there_are_fewer_than_k(count):
    pytest.importorskip("hnswlib")
    rows, _ = hnswlib_graph(vectors_of(count), 9)
    assert [sorted(each) for each in rows.tolist()] == [
        [other for other in range(count) if other != one] for one in range(count)
    ]
