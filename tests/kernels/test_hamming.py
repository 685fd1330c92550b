from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.kernels.hamming import hamming, pack


def by_characters(query, codes):
    return [sum(int(a ^ b).bit_count() for a, b in zip(query, code, strict=True)) for code in codes]


@given(seed=st.integers(0, 2**32), count=st.integers(0, 40), words=st.integers(0, 5))
def test_agrees_with_counting_bits_one_by_one(seed, count, words):
    codes = np.random.default_rng(seed).integers(0, 2**64, size=(count + 1, words), dtype=np.uint64)
    assert hamming(codes[0], codes[1:]).tolist() == by_characters(codes[0], codes[1:])


def test_extremes_and_blocks():
    codes = np.zeros((70_000, 3), dtype=np.uint64)
    codes[-1] = np.uint64(2**64 - 1)
    distances = hamming(codes[0], codes)
    assert distances[-1] == 192
    assert not distances[:-1].any()


def test_pack_puts_the_first_bit_highest():
    bits = np.zeros((2, 70), dtype=np.bool_)
    bits[0, 0] = bits[1, 69] = True
    assert pack(bits).tolist() == [[2**63, 0], [0, 2**58]]
