"""Neighbours through the package hnswlib, beside a scan of all vectors."""

import numpy as np
import pytest

from stratagraph.kernels.knn import Hnswlib, hnswlib_graph, knn_graph


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
