"""Random-hyperplane hashing, and Hamming distances of packed codes (paper 004, 4.1; ERRATA L1)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.blas import one_thread

Matrix = NDArray[np.float32]
Codes = NDArray[np.uint64]

WORD = 64
_NEAR_ZERO = 1e-4


@lru_cache(maxsize=4)
def hyperplanes(bits: int, dimension: int, seed: int) -> Matrix:
    """Normals of random hyperplanes with Gaussian components, shape (bits, dimension) (paper 004, 4.1).

    The array is read-only. The first planes do not depend on `bits`. They are drawn from the raw stream of
    PCG64, which is the same in all versions of numpy.
    """
    pairs = (dimension + 1) // 2
    raw = np.random.PCG64(seed).random_raw(bits * pairs * 2).reshape(bits, 2, pairs)
    uniform = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    radius, angle = np.sqrt(-2.0 * np.log(uniform[:, 0])), 2.0 * np.pi * uniform[:, 1]
    normals = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    planes = np.ascontiguousarray(normals[:, :dimension], dtype=np.float32)
    planes.flags.writeable = False
    return planes


def hash_codes(vectors: Matrix, planes: Matrix, *, batch: int = 8192) -> Codes:
    """The side of each hyperplane on which each vector lies, packed, shape (n, ceil(bits / 64)).

    Two unit vectors at angle theta agree in a bit with probability 1 - theta/pi (ERRATA L1). A bit is 1 where
    the inner product is positive. Plane 0 is the highest bit of word 0; spare bits are 0.

    A code depends on its vector alone: matrix products differ in their last digits with the size of the
    batch, so products near zero are computed again.

    `vectors` have shape (n, dimension) and `planes` (bits, dimension); `batch` rows are hashed at once.
    """
    codes = np.empty((len(vectors), math.ceil(len(planes) / WORD)), dtype=np.uint64)
    transposed = np.ascontiguousarray(planes.T)
    for start in range(0, len(vectors), batch):
        rows = np.asarray(vectors[start : start + batch], dtype=np.float32)
        with one_thread():
            products = rows @ transposed
        codes[start : start + batch] = pack(_positive(rows, planes, products))
    return codes


def _positive(rows: Matrix, planes: Matrix, products: Matrix) -> NDArray[np.bool_]:
    """Signs of `rows @ planes.T`; those near zero are computed again in float64."""
    positive = products > 0
    distances = np.abs(products, out=products)
    near = np.flatnonzero(distances <= _NEAR_ZERO * distances.max(initial=0.0))
    for part in range(0, len(near), len(rows)):
        i, j = np.divmod(near[part : part + len(rows)], len(planes))
        positive[i, j] = (rows[i].astype(np.float64) * planes[j]).sum(axis=1) > 0
    return positive


def pack(bits: NDArray[np.bool_]) -> Codes:
    """Bits, shape (n, length), as words of 64, shape (n, ceil(length / 64)).

    Bit 0 is the most significant of word 0; spare bits are 0.
    """
    packed = np.packbits(bits, axis=1)
    spare = -packed.shape[1] % 8
    if spare:
        packed = np.pad(packed, ((0, 0), (0, spare)))
    return packed.view(">u8").astype(np.uint64)


def hamming(query: Codes, codes: Codes) -> NDArray[np.uint16]:
    """Number of bits in which a code, shape (words,), differs from each of some codes, shape (n, words)."""
    return np.asarray(np.bitwise_count(codes ^ query).sum(axis=1, dtype=np.uint16))
