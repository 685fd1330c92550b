"""Packed codes of bits, their Hamming distances, and whether the native kernels are installed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

try:
    from stratagraph.kernels import _native
except ImportError:  # installed without a compiler
    _native = None  # type: ignore[assignment]

Codes = NDArray[np.uint64]
Distances = NDArray[np.uint16]

WORD = 64
_BLOCK = 65_536


def native_available() -> bool:
    """Whether the compiled kernels are there."""
    return _native is not None


def pack(bits: NDArray[np.bool_]) -> Codes:
    """Bits, shape (n, length), as words of 64, shape (n, ceil(length / 64)).

    Bit 0 is the most significant of word 0; spare bits are 0.
    """
    packed = np.packbits(bits, axis=1)
    spare = -packed.shape[1] % 8
    if spare:
        packed = np.pad(packed, ((0, 0), (0, spare)))
    return packed.view(">u8").astype(np.uint64)


def hamming(query: Codes, codes: Codes) -> Distances:
    """Number of bits in which a code, shape (words,), differs from each of some codes, shape (n, words)."""
    distances = np.empty(len(codes), dtype=np.uint16)
    for start in range(0, len(codes), _BLOCK):
        block = np.bitwise_count(codes[start : start + _BLOCK] ^ query)
        distances[start : start + _BLOCK] = block.sum(axis=1, dtype=np.uint16)
    return distances
