"""Checks of stored arrays, after which native code follows them without bounds tests.

Every check raises a `ValueError` that names the array, the value and its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

Array = NDArray[Any]


def check_layout(array: Array, what: str, dtype: DTypeLike, shape: tuple[int | None, ...]) -> None:
    """Check dtype and shape; None is any length, and `np.integer` is int32 or int64."""
    wanted = (np.int32, np.int64) if dtype is np.integer else (dtype,)
    if not any(array.dtype == np.dtype(each) for each in wanted):
        names = " or ".join(np.dtype(each).name for each in wanted)
        raise ValueError(f"array '{what}' has dtype {array.dtype}, not {names}")
    fits = array.ndim == len(shape) and all(
        length is None or length == size for length, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        lengths = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"array '{what}' has shape {array.shape}, not ({lengths})")


def check_range(array: Array, what: str, end: int, *, start: int = 0) -> None:
    """Check that integers are from `start` to `end - 1`."""
    if not array.size or (array.min() >= start and array.max() < end):
        return
    place = int(np.argmax(((array < start) | (array >= end)).ravel()))
    raise ValueError(
        f"array '{what}' holds {array.ravel()[place]} at place {place}, outside {start} to {end - 1}"
    )


def check_finite(array: Array, what: str, *, least: float = -np.inf, most: float = np.inf) -> None:
    """Check that numbers are finite and from `least` to `most`."""
    if not array.size:
        return
    low, high = float(array.min()), float(array.max())  # NaN comes through both
    if np.isfinite(low) and np.isfinite(high) and least <= low and high <= most:
        return
    place = int(np.argmin((np.isfinite(array) & (array >= least) & (array <= most)).ravel()))
    limits = "" if np.isinf(least) and np.isinf(most) else f" from {least:g} to {most:g}"
    raise ValueError(
        f"array '{what}' holds {array.ravel()[place]} at place {place}, not a finite number{limits}"
    )


def check_ascending(array: Array, what: str, *, strictly: bool = False) -> None:
    """Check that no element is smaller than the one before, or `strictly` none equal to it."""
    ordered = array[1:] > array[:-1] if strictly else array[1:] >= array[:-1]
    if not ordered.all():
        place = int(np.argmin(ordered)) + 1
        raise ValueError(
            f"array '{what}' does not ascend: {array[place]} at place {place} follows {array[place - 1]}"
        )


def check_borders(borders: Array, what: str, count: int, rows: int | None = None) -> None:
    """Check that `borders`, shape (rows + 1,), cut 0 to `count` into rows; None: any number of rows."""
    check_layout(borders, what, np.integer, (None if rows is None else rows + 1,))
    if not len(borders) or borders[0] != 0 or borders[-1] != count:
        ends = f"{borders[0]} to {borders[-1]}" if len(borders) else "nothing"
        raise ValueError(f"array '{what}' divides {ends}, not 0 to {count}")
    check_ascending(borders, what)


def check_csr(
    indptr: Array,
    indices: Array,
    columns: int,
    what: str,
    *,
    rows: int | None = None,
    ascending: bool = False,
) -> None:
    """Check that two arrays, `what.indptr` and `what.indices`, are compressed rows of a matrix.

    Parameters
    ----------
    columns
        Number of columns; every index is below it.
    rows
        Number of rows; None: any.
    ascending
        Whether the columns of a row must ascend, each once.
    """
    check_layout(indices, f"{what}.indices", np.integer, (None,))
    check_borders(indptr, f"{what}.indptr", len(indices), rows)
    check_range(indices, f"{what}.indices", columns)
    if ascending and len(indices) > 1:
        ordered = indices[1:] > indices[:-1]
        first = indptr[1:-1]
        ordered[first[(first > 0) & (first < len(indices))] - 1] = True  # a row's first has none before it
        if not ordered.all():
            place = int(np.argmin(ordered)) + 1
            raise ValueError(
                f"array '{what}.indices' holds {indices[place]} at place {place}, after {indices[place - 1]} "
                "in the same row"
            )


def check_symmetric(indptr: Array, indices: Array, values: Array, what: str) -> None:
    """Check that ascending compressed rows (`check_csr`) are those of a symmetric matrix."""
    size = len(indptr) - 1
    matrix = csr_array((values, indices, indptr), shape=(size, size))
    turned = matrix.T.tocsr()
    for one, other in ((matrix.indptr, turned.indptr), (matrix.indices, turned.indices)):
        if not np.array_equal(one, other):
            raise ValueError(f"array '{what}.indices' does not hold each edge in the rows of both its ends")
    if not np.array_equal(matrix.data, turned.data):
        raise ValueError(f"an edge of '{what}.indices' has another value in the row of its other end")
