from __future__ import annotations

import numpy as np
import pytest

from stratagraph.kernels import float16 as kernel
from stratagraph.kernels.float16 import HalfVectors, blocks, chosen, nonzero_rows, pair_products, stacked


@pytest.mark.parametrize("dimension", [1, 16, 401])
def test_halves_in_segments(dimension: int) -> None:
    rng = np.random.default_rng(3)
    segments = [rng.standard_normal((size, dimension)).astype(np.float16) for size in (5, 0, 300, 1)]
    segments[0][0, :] = np.float16(6e-8)  # below the least normal number
    segments[3][0, 0] = np.float16(np.inf)
    query = rng.standard_normal(dimension).astype(np.float32)
    slots = np.append(rng.permutation(306), [0, 5, 305])
    whole = np.concatenate(segments)
    found = HalfVectors([each.view(np.uint16) for each in segments], dimension)
    products = whole.astype(np.float64)[slots] @ query
    np.testing.assert_allclose(found.products(query, slots), products, rtol=1e-4, atol=1e-4)
    one, two = slots[slots != 305], slots[slots != 305][::-1].copy()
    pairs = np.einsum("ij,ij->i", whole.astype(np.float64)[one], whole.astype(np.float64)[two])
    np.testing.assert_allclose(found.pair_products(one, two), pairs, rtol=1e-4, atol=1e-4)
    rows = found.rows(slots)
    assert rows.dtype == np.float32
    assert np.array_equal(rows, whole.astype(np.float32)[slots])
    room = np.zeros((400, dimension), np.float32)
    assert np.array_equal(found.rows(slots, room), rows)
    assert np.array_equal(room[: len(slots)], rows)
    none = np.zeros(0, np.int64)
    assert found.products(query, none).shape == found.pair_products(none, none).shape == (0,)
    assert found.rows(none).shape == (0, dimension)
    for wrong in (np.array([-1]), np.array([306])):
        with pytest.raises(ValueError, match="slot"):
            found.products(query, wrong)
        with pytest.raises(ValueError, match="slot"):
            found.rows(wrong)
        for pair in ((wrong, np.array([0])), (np.array([0]), wrong)):
            with pytest.raises(ValueError, match="slot"):
                found.pair_products(*pair)


def test_blocks_and_pairs_of_an_array() -> None:
    vectors = np.random.default_rng(4).standard_normal((2500, 8)).astype(np.float32)
    parts = list(blocks(vectors, 1000))
    assert [start for start, _ in parts] == [0, 1000, 2000]
    assert np.array_equal(np.concatenate([each for _, each in parts]), vectors)
    one, two = np.random.default_rng(5).integers(0, 2500, (2, 3000))
    expected = (vectors[one] * vectors[two]).sum(axis=1)
    np.testing.assert_allclose(pair_products(vectors, one, two), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["stacked", "chosen"])
def test_vectors_that_are_read_when_asked_for_are_as_one_array(kind: str) -> None:
    rng = np.random.default_rng(6)
    whole = rng.standard_normal((47, 5)).astype(np.float32)
    vectors = stacked([whole[:11], whole[:0], whole[11:]])
    if kind == "chosen":
        numbers = rng.integers(0, 47, 47)
        whole, vectors = whole[numbers], chosen(vectors, numbers)
    assert (len(vectors), vectors.shape) == (47, (47, 5))
    assert np.array_equal(np.asarray(vectors), whole)
    rows = rng.integers(0, 47, 100)
    for some in (rows, rows.tolist(), slice(38, 43), np.arange(47) % 2 == 0, (rows, slice(1, 3)), 41):
        assert np.array_equal(vectors[some], whole[some])
    assert np.array_equal(np.concatenate([block.copy() for _, block in blocks(vectors, 16)]), whole)
    expected = (whole[rows] * whole[rows[::-1]]).sum(axis=1)
    np.testing.assert_allclose(pair_products(vectors, rows, rows[::-1]), expected, rtol=1e-4, atol=1e-4)


def test_rows_that_are_not_zero_are_found_in_all_blocks() -> None:
    vectors = np.zeros((2 * kernel.BLOCK + 5, 2), np.float32)
    there = [0, 3, kernel.BLOCK, 2 * kernel.BLOCK + 4]
    vectors[there, 1] = 1
    assert nonzero_rows(vectors).tolist() == there
    assert nonzero_rows(vectors[:0]).tolist() == []
