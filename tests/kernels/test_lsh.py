"""Hashing by hyperplanes, and the distances of codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.kernels.lsh import hamming, hash_codes, hyperplanes, pack


def by_characters(query, codes):
    return [sum(int(a ^ b).bit_count() for a, b in zip(query, code, strict=True)) for code in codes]


@given(seed=st.integers(0, 2**32), count=st.integers(0, 40), words=st.integers(0, 5))
def test_agrees_with_counting_bits_one_by_one(seed, count, words):
    codes = np.random.default_rng(seed).integers(0, 2**64, size=(count + 1, words), dtype=np.uint64)
    assert hamming(codes[0], codes[1:]).tolist() == by_characters(codes[0], codes[1:])


def test_pack_puts_the_first_bit_highest():
    bits = np.zeros((2, 70), dtype=np.bool_)
    bits[0, 0] = bits[1, 69] = True
    assert pack(bits).tolist() == [[2**63, 0], [0, 2**58]]


def unit(rng, *shape):
    vectors = rng.standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


class TestHyperplanes:
    def test_a_prefix_does_not_depend_on_the_number(self):
        assert np.array_equal(hyperplanes(100, 33, seed=7)[:64], hyperplanes(64, 33, seed=7))

    def test_components_are_standard_normal(self):
        planes = hyperplanes(200, 501, seed=0).ravel().astype(np.float64)
        assert abs(planes.mean()) < 0.01
        assert abs(planes.std() - 1) < 0.01
        assert abs((np.abs(planes) < 1).mean() - 0.6827) < 0.01
        assert abs(np.corrcoef(planes[:-1], planes[1:])[0, 1]) < 0.01


class TestHashCodes:
    @pytest.mark.parametrize("bits", [7, 64, 130])
    def test_agrees_with_signs_one_by_one(self, bits):
        rng = np.random.default_rng(bits)
        vectors, planes = unit(rng, 50, 20), hyperplanes(bits, 20, seed=3)
        codes = hash_codes(vectors, planes, batch=7)
        for vector, code in zip(vectors.astype(np.float64), codes, strict=True):
            text = "".join(f"{word:064b}" for word in code)
            assert text == "".join("1" if plane @ vector > 0 else "0" for plane in planes).ljust(
                len(text), "0"
            )

    def test_a_code_does_not_depend_on_the_batch(self):
        rng = np.random.default_rng(0)
        planes = hyperplanes(64, 48, seed=0)
        vectors = unit(rng, 64, 48)
        # Vectors that lie in one of the planes, up to rounding: any product may come out on either side.
        for row in range(64):
            normal = planes[row] / np.linalg.norm(planes[row])
            vectors[row] -= (vectors[row] @ normal) * normal
        whole = hash_codes(vectors, planes)
        for batch in (1, 3, 17, 63):
            assert np.array_equal(hash_codes(vectors, planes, batch=batch), whole)
        shuffled = rng.permutation(64)
        assert np.array_equal(hash_codes(vectors[shuffled], planes), whole[shuffled])

    @pytest.mark.parametrize("degrees", [5, 60, 150])
    def test_collision_probability_is_one_minus_angle_over_pi(self, degrees):
        """ERRATA L1, and not the paper's (1 + cos) / 2."""
        rng = np.random.default_rng(degrees)
        theta = np.radians(degrees)
        a = unit(rng, 300, 32)
        b = unit(rng, 300, 32)
        b -= (a * b).sum(axis=1, keepdims=True) * a
        b = np.cos(theta) * a + np.sin(theta) * b / np.linalg.norm(b, axis=1, keepdims=True)
        planes = hyperplanes(512, 32, seed=1)
        pairs = zip(hash_codes(a, planes), hash_codes(b.astype(np.float32), planes), strict=True)
        differing = np.mean([hamming(x, y[None])[0] for x, y in pairs]) / 512
        assert 1 - differing == pytest.approx(1 - theta / np.pi, abs=0.012)

    def test_a_zero_vector_and_no_vector(self):
        planes = hyperplanes(64, 5, seed=0)
        assert hash_codes(np.zeros((2, 5), np.float32), planes).tolist() == [[0], [0]]
        assert hash_codes(np.zeros((0, 5), np.float32), planes).shape == (0, 1)
