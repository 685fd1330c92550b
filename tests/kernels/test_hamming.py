from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.errors import NativeUnavailable
from stratagraph.kernels import hamming as module
from stratagraph.kernels.hamming import hamming, native_available, pack

BACKENDS = [
    "numpy",
    pytest.param("native", marks=pytest.mark.skipif(not native_available(), reason="no native")),
]


def by_characters(query, codes):
    return [sum(int(a ^ b).bit_count() for a, b in zip(query, code, strict=True)) for code in codes]


@pytest.mark.parametrize("backend", BACKENDS)
@given(seed=st.integers(0, 2**32), count=st.integers(0, 40), words=st.integers(0, 5))
def test_agrees_with_counting_bits_one_by_one(backend, seed, count, words):
    codes = np.random.default_rng(seed).integers(0, 2**64, size=(count + 1, words), dtype=np.uint64)
    assert hamming(codes[0], codes[1:], backend=backend).tolist() == by_characters(codes[0], codes[1:])


@pytest.mark.parametrize("backend", BACKENDS)
def test_extremes_and_blocks(backend):
    codes = np.zeros((70_000, 1023), dtype=np.uint64)[:, :3].copy()
    codes[-1] = np.uint64(2**64 - 1)
    distances = hamming(codes[0], codes, backend=backend)
    assert distances[-1] == 192
    assert not distances[:-1].any()
    wide = np.full((1, 1023), 2**64 - 1, dtype=np.uint64)
    assert hamming(np.zeros(1023, np.uint64), wide, backend=backend).tolist() == [1023 * 64]


@pytest.mark.parametrize(
    ("query", "codes"),
    [((2,), (4, 3)), ((2, 2), (4, 2)), ((2,), (4,)), ((1024,), (1, 1024))],
)
def test_shapes_are_checked(query, codes):
    with pytest.raises(ValueError, match=r"expected a code of shape"):
        hamming(np.zeros(query, np.uint64), np.zeros(codes, np.uint64))


@pytest.mark.skipif(not native_available(), reason="no native")
def test_native_checks_its_own_arguments():
    code, codes = np.zeros(2, np.uint64), np.zeros((3, 2), np.uint64)
    for bad in [(code[:1], codes, np.zeros(3, np.uint16)), (code, codes, np.zeros(2, np.uint16))]:
        with pytest.raises(ValueError, match=r"must|differ"):
            module._native.hamming(*bad)
    for wrong_type in [
        (code.astype(np.int64), codes),
        (code, codes[:, ::-1]),
        (code, codes.astype(np.float64)),
    ]:
        with pytest.raises(TypeError):
            module._native.hamming(*wrong_type, np.zeros(3, np.uint16))


def test_without_native_kernels(monkeypatch):
    monkeypatch.setattr(module, "_native", None)
    codes = np.arange(6, dtype=np.uint64).reshape(3, 2)
    assert not native_available()
    assert hamming(codes[0], codes).tolist() == by_characters(codes[0], codes)
    with pytest.raises(NativeUnavailable, match="compiler"):
        hamming(codes[0], codes, backend="native")


def test_pack_puts_the_first_bit_highest():
    bits = np.zeros((2, 70), dtype=np.bool_)
    bits[0, 0] = bits[1, 69] = True
    assert pack(bits).tolist() == [[2**63, 0], [0, 2**58]]
