"""Hamming distances over packed codes: native where it was compiled, numpy elsewhere, with equal results."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import NativeUnavailable

try:
    from stratagraph.kernels import _native
except ImportError:  # installed without a compiler
    _native = None  # type: ignore[assignment]

Codes = NDArray[np.uint64]
Distances = NDArray[np.uint16]

WORD = 64
_BLOCK = 65_536
_MAX_WORDS = 1023


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


def hamming(query: Codes, codes: Codes, *, backend: Literal["auto", "native", "numpy"] = "auto") -> Distances:
    """Number of bits in which one code differs from each of many.

    Parameters
    ----------
    query
        One packed code, shape (words,).
    codes
        Packed codes, shape (n, words), at most 1,023 words of 64 bits.
    backend
        `auto` takes the native kernel where there is one.

    Returns
    -------
    Distances, shape (n,).

    Raises
    ------
    ValueError
        If the shapes do not fit each other.
    NativeUnavailable
        If `backend` is `native` and the package was installed without it.
    """
    query = np.ascontiguousarray(query, dtype=np.uint64)
    codes = np.ascontiguousarray(codes, dtype=np.uint64)
    if query.ndim != 1 or codes.ndim != 2 or codes.shape[1] != len(query) or len(query) > _MAX_WORDS:
        raise ValueError(
            f"expected a code of shape (words,) and codes of shape (n, words) with at most {_MAX_WORDS} "
            f"words, not {query.shape} and {codes.shape}"
        )
    if backend == "native" and _native is None:
        raise NativeUnavailable(
            "the native kernels are missing; reinstall stratagraph with a C++ compiler, "
            "or use backend='numpy'"
        )
    out = np.empty(len(codes), dtype=np.uint16)
    if _native is not None and backend != "numpy":
        _native.hamming(query, codes, out)
    else:
        _hamming_numpy(query, codes, out)
    return out


def _hamming_numpy(query: Codes, codes: Codes, out: Distances) -> None:
    for start in range(0, len(codes), _BLOCK):
        block = np.bitwise_count(codes[start : start + _BLOCK] ^ query)
        out[start : start + _BLOCK] = block.sum(axis=1, dtype=np.uint16)
