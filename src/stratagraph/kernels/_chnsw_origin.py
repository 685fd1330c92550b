"""What vectors of C-HNSW are kept less of, where Euclidean distances are computed from inner products.

|x - y|^2 = |x|^2 - 2 x y + |y|^2 loses all digits that |x|^2 has beside the distance; codes of int8, with one
scale for a vector, lose them sooner. Less one origin for all, distances stay the same and lengths become
small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stratagraph.errors import Damaged
from stratagraph.kernels._chnsw_checks import LARGEST
from stratagraph.kernels._chnsw_layer import Array, Matrix
from stratagraph.kernels.checks import check_finite, check_layout
from stratagraph.kernels.halves import blocks

_BLOCK = 16_384


def origin_of(layers: Sequence[Matrix]) -> Matrix:
    """The mean of all vectors, each value rounded to a power of two at most its standard deviation.

    So rounded, whole numbers less it are still exact, and it is 0 where the mean is small beside the
    deviation.

    Parameters
    ----------
    layers
        Arrays of shape (n, dimension), of which some may be empty.

    Returns
    -------
    Shape (dimension,), finite if the vectors are; zeros if there are none.
    """
    sums = np.zeros((2, layers[0].shape[1]))
    for layer in layers:
        for _, block in blocks(layer, _BLOCK):
            sums += block.sum(axis=0, dtype=np.float64), np.einsum("ij,ij->j", block, block, dtype=np.float64)
    mean, square = sums / max(1, sum(map(len, layers)))
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    told = deviation > 1e-7 * np.abs(mean)  # else the values are equal, or float64 does not tell them apart
    grid = np.exp2(np.floor(np.log2(np.where(told, deviation, 1))))
    origin: Matrix = np.where(told, np.rint(mean / grid) * grid, mean).astype(np.float32)
    return origin


def stored_origin(arrays: Mapping[str, Array], dimension: int, *, wanted: bool) -> Matrix:
    """The origin among arrays from a file, none of them trusted; zeros where an index has none.

    Raises
    ------
    Damaged
        If it is missing, is there and should not be, has another shape or type, or holds values that no mean
        of vectors has.
    """
    if not wanted:
        if "origin" in arrays:
            raise Damaged("array 'origin' is there, and these options tell of none")
        return np.zeros(dimension, np.float32)
    if "origin" not in arrays:
        raise Damaged("array 'origin' is missing")
    origin: Matrix = arrays["origin"]
    try:
        check_layout(origin, "origin", np.float32, (dimension,))
        check_finite(origin, "origin")
    except ValueError as error:
        raise Damaged(str(error)) from error
    if not (np.abs(origin) <= LARGEST).all():
        raise Damaged(f"array 'origin' holds values above {LARGEST:g}")
    return origin
