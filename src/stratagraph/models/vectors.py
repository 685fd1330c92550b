"""Checks on what embedders return, and unit length for all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stratagraph.errors import EmbedderError
from stratagraph.protocols import Vectors

EXCERPT = 60
Label = Callable[[int], str]


def excerpt(text: str) -> str:
    """The beginning of a text, for messages."""
    line = " ".join(text.split())
    return repr(line if len(line) <= EXCERPT else line[:EXCERPT] + "...")


def unit_rows(
    returned: Sequence[Any], texts: Sequence[str], *, label: Label, dimension: int | None
) -> tuple[Vectors, list[int]]:
    """What an embedder returned, checked and scaled to unit length.

    Parameters
    ----------
    returned
        Should be one vector per text.
    texts
        What was embedded.
    label
        What messages call the text at an index of `texts`.
    dimension
        What earlier vectors had; None if these are the first.

    Returns
    -------
    Float32 rows of unit length, shape (len(texts), dimension), and which of them are zero, and stay so.

    Raises
    ------
    EmbedderError
        Naming the first item whose vector is missing, not a vector, not finite or of another dimension.
    """
    if not hasattr(returned, "__len__") or len(returned) != len(texts):
        count = len(returned) if hasattr(returned, "__len__") else type(returned).__name__
        raise EmbedderError(
            f"the embedder returned {count} vectors for {len(texts)} texts "
            f"({label(0)} to {label(len(texts) - 1)}, the first: {excerpt(texts[0])})"
        )
    rows = _matrix(returned, dimension)
    if rows is None:
        raise _first_fault(returned, texts, label, dimension)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    zero = largest[:, 0] == 0
    # Scaled by the largest entry first: the squares of very large or small entries would not fit.
    scaled = rows / np.where(largest == 0, 1, largest)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit = (scaled / np.where(length == 0, 1, length)).astype(np.float32, copy=False)
    return unit, np.flatnonzero(zero).tolist()


def _matrix(returned: Sequence[Any], dimension: int | None) -> Vectors | None:
    """The rows, or None if anything about them is wrong."""
    try:
        with np.errstate(over="ignore"):
            rows = np.asarray(returned, dtype=np.float32)
    except (TypeError, ValueError):
        return None
    if rows.ndim != 2 or rows.shape[1] == 0 or not np.isfinite(rows).all():
        return None
    return rows if dimension is None or rows.shape[1] == dimension else None


def _first_fault(
    returned: Sequence[Any], texts: Sequence[str], label: Label, dimension: int | None
) -> EmbedderError:
    for index, (vector, text) in enumerate(zip(returned, texts, strict=True)):
        fault, length = _fault(vector, dimension)
        if fault is not None:
            return EmbedderError(f"the embedder returned {fault} for {label(index)}: {excerpt(text)}")
        dimension = length
    return EmbedderError(f"the embedder returned {type(returned).__name__}, not one vector per text")


def _fault(vector: Any, dimension: int | None) -> tuple[str | None, int]:
    try:
        with np.errstate(over="ignore"):
            row = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError):
        return f"{type(vector).__name__} that is not a vector of numbers", 0
    if row.ndim != 1 or row.size == 0:
        return f"an array of shape {row.shape}", 0
    if not np.isfinite(row).all():
        return "a vector with NaN or infinite entries", 0
    if dimension is not None and row.size != dimension:
        return f"{row.size} dimensions, where earlier vectors have {dimension},", 0
    return None, row.size
