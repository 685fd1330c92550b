from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.errors import Damaged
from stratagraph.kernels import topk as kernel
from stratagraph.kernels.topk import Sketch, top_k

KERNEL = "topk"


def unit(rng, *shape):
    vectors = rng.standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def clustered(rng, count, dimension, clusters=60):
    vectors = unit(rng, clusters, dimension)[rng.integers(0, clusters, count)] + 0.8 * unit(
        rng, count, dimension
    )
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def brute_force(vectors, query, k, mask=None):
    scores = vectors.astype(np.float64) @ query.astype(np.float64)
    rows = [row for row in range(len(vectors)) if mask is None or mask[row]]
    return sorted(rows, key=lambda row: (-np.float32(scores[row]), row))[:k]


@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 70), st.booleans())
@settings(deadline=None)
def test_agrees_with_brute_force(seed, count, k, masked):
    rng = np.random.default_rng(seed)
    vectors, query = unit(rng, count, 8), unit(rng, 8)
    mask = rng.random(count) < 0.5 if masked else None
    rows, scores = top_k(vectors, query, k, mask=mask)
    assert rows.tolist() == brute_force(vectors, query, k, mask)
    assert scores == pytest.approx(vectors[rows] @ query, abs=1e-6)
    assert scores.dtype == np.float32


@pytest.mark.parametrize("k", [1, 5, 40])
def test_equal_vectors_are_ranked_by_row(k):
    rng = np.random.default_rng(0)
    vectors = np.repeat(unit(rng, 5, 37), 8, axis=0)[rng.permutation(40)]
    rows, scores = top_k(vectors, unit(rng, 37), k)
    for (row, score), (next_row, next_score) in zip(
        zip(rows, scores, strict=True), zip(rows[1:], scores[1:], strict=True), strict=False
    ):
        assert score > next_score or (score == next_score and row < next_row)


@pytest.mark.parametrize("k", [10**9, 2**70])
def test_a_huge_k_is_all_rows(k):
    rng = np.random.default_rng(7)
    vectors, query, mask = unit(rng, 90, 8), unit(rng, 8), rng.random(90) < 0.5
    sketch = Sketch.build(vectors)
    for found, _ in (top_k(vectors, query, k), sketch.search(query, k, vectors=vectors)):
        assert found.tolist() == brute_force(vectors, query, 90)
    assert top_k(vectors, query, k, mask=mask)[0].tolist() == brute_force(vectors, query, 90, mask)


@pytest.mark.parametrize(("value", "count"), [(np.nan, 1), (np.inf, 60)])
def test_vectors_that_are_not_numbers_are_named(value, count):
    vectors, query = unit(np.random.default_rng(0), 60, 8), np.ones(8, np.float32)
    vectors[-count:, 3] = value
    sketch = Sketch.build(np.zeros_like(vectors))
    for search in (top_k, lambda v, q, k: sketch.search(q, k, vectors=v)):
        for k in (1, 5, 60):
            with pytest.raises(Damaged, match=f"row {60 - count} of the vectors"):
                search(vectors, query, k)


@pytest.mark.parametrize(
    ("k", "query", "mask", "reason"),
    [
        (0, np.zeros(4, np.float32), None, "k must be at least 1"),
        (1, np.zeros(5, np.float32), None, "does not fit"),
        (1, np.zeros(4, np.float32), np.ones(2, np.bool_), "one boolean per row"),
        (1, np.zeros(4, np.float32), np.ones(3, np.int64), "one boolean per row"),
    ],
)
def test_bad_arguments(k, query, mask, reason):
    vectors = np.zeros((3, 4), np.float32)
    with pytest.raises(ValueError, match=reason):
        top_k(vectors, query, k, mask=mask)
    with pytest.raises(ValueError, match=reason):
        Sketch.build(vectors).search(query, k, vectors=vectors, mask=mask)


class TestShortlist:
    @pytest.mark.parametrize(("words", "share"), [(1, None), (5, 0.0), (8, 0.02), (8, 0.6)])
    def test_the_nearest_codes_of_equals_the_lower_rows(self, words, share):
        rng = np.random.default_rng(words)
        codes = rng.integers(0, 2**64, (700, words), np.uint64)
        codes[rng.integers(0, 700, 300)] = codes[0]
        mask = None if share is None else rng.random(700) < share
        bits = np.unpackbits((codes ^ codes[0]).view(np.uint8), axis=1).sum(axis=1)
        admitted = [row for row in range(700) if mask is None or mask[row]]
        for size in (1, 50, 400, 700, 10**6):
            expected = sorted(sorted(admitted, key=lambda row: (bits[row], row))[:size])
            assert kernel.shortlist(codes[0], codes, size, mask=mask).tolist() == expected


class TestSketch:
    @pytest.fixture(autouse=True)
    def small_limits(self, monkeypatch):
        monkeypatch.setattr(kernel, "SCAN_LIMIT", 500)
        monkeypatch.setattr(kernel, "SHORTLIST", 200)

    @pytest.mark.parametrize("dimension", [48, 600])
    def test_finds_nearly_all_of_the_exact_result(self, dimension):
        rng = np.random.default_rng(dimension)
        vectors = clustered(rng, 5000, dimension)
        sketch, queries = Sketch.build(vectors), vectors[:40] + 0.3 * unit(rng, 40, dimension)
        found = 0
        for query in queries:
            rows, scores = sketch.search(query, 10, vectors=vectors)
            exact, _ = top_k(vectors, query, 10)
            found += len(set(rows.tolist()) & set(exact.tolist()))
            assert scores == pytest.approx(vectors[rows] @ query, abs=1e-6)
            assert (np.diff(scores) <= 0).all()
        assert found >= 0.97 * 400

    def test_a_mask_is_kept_to(self):
        rng = np.random.default_rng(3)
        vectors, query = clustered(rng, 4000, 32), unit(rng, 32)
        sketch = Sketch.build(vectors)
        for share in (0.0, 0.01, 0.5):
            mask = rng.random(4000) < share
            rows, _ = sketch.search(query, 10, vectors=vectors, mask=mask)
            assert mask[rows].all()
            assert len(rows) == min(10, mask.sum())
            if share < 0.1:
                assert rows.tolist() == brute_force(vectors, query, 10, mask)

    @pytest.mark.parametrize("gone", [slice(0, 5), slice(None, None, 10), slice(0, 0)])
    def test_an_updated_sketch_is_that_of_a_build(self, gone):
        before = clustered(np.random.default_rng(7), 600, 40)
        rows_before = np.concatenate([[-1], np.delete(np.arange(600), gone)])
        vectors = np.concatenate([np.zeros((1, 40), np.float32), before[rows_before[1:]]])
        updated, whole = (
            Sketch.build(vectors, previous=(Sketch.build(before), rows_before)),
            Sketch.build(vectors),
        )
        assert np.array_equal(updated.mean, whole.mean)
        assert np.array_equal(updated.codes, whole.codes)

    def test_a_steady_sketch_keeps_its_centre_while_that_is_as_good(self):
        vectors = unit(np.random.default_rng(7), 3000, 24)
        sketch, rows = Sketch.build(vectors), np.delete(np.arange(3000), slice(None, None, 10))
        assert not np.array_equal(Sketch.build(vectors[rows]).mean, sketch.mean)
        steady = Sketch.build(vectors[rows], previous=(sketch, rows), steady=True)
        assert np.array_equal(steady.mean, sketch.mean)
        assert np.array_equal(steady.codes, sketch.codes[rows])
        others = unit(np.random.default_rng(8), 3000, 24) + np.float32(0.5)
        others /= np.linalg.norm(others, axis=1, keepdims=True)
        again = Sketch.build(others, previous=(sketch, np.full(3000, -1)), steady=True)
        assert np.array_equal(again.mean, Sketch.build(others).mean)


@pytest.mark.parametrize("kind", ["random", "ties", "numbers and none"])
def test_the_kth_largest_is_that_of_a_sort(kind):
    rng = np.random.default_rng(4)
    scores = rng.random(5000, np.float32) if kind == "random" else rng.integers(0, 4, 5000).astype(np.float32)
    if kind == "numbers and none":
        scores[rng.integers(0, 5000, 60)] = np.nan
    for k in (1, 7, 100, 155, 4999, 5000):
        expected = np.sort(scores)[-k]
        assert np.array_equal(kernel.kth_largest(scores, k), expected, equal_nan=True)
