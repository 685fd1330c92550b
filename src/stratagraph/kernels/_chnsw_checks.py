"""Checks of what callers give to C-HNSW: errors name the row and the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels._chnsw_layer import Array, Layer, Matrix
from stratagraph.kernels.halves import Stored, blocks

_BLOCK = 16_384
LARGEST = np.float32(1e15)
"""Values are below, so that no sum of products goes beyond float32."""


def checked_vectors(
    vectors: NDArray[np.floating], what: str, rows: NDArray[np.int64] | None = None
) -> Matrix:
    """Vectors in float32, row by row in memory, finite and below 1e15; copied only where they were not.

    Those that lie elsewhere (`halves.Stored`) are read a block at a time, and stay there.

    `rows` are how the rows are called in errors, if not by their places.
    """
    there = isinstance(vectors, Stored)
    checked = cast(Matrix, vectors) if there else np.ascontiguousarray(vectors, dtype=np.float32)
    if checked.ndim != 2:
        raise ValueError(f"{what} must have shape (n, dimension), not {checked.shape}")
    for at, block in blocks(checked, _BLOCK):
        fits = (np.abs(block) < LARGEST).all(axis=1)
        if not fits.all():
            row = at + int(np.argmin(fits))
            wrong = "larger than 1e15" if np.isfinite(checked[row]).all() else "that are not finite"
            raise ValueError(f"{what}: row {row if rows is None else rows[row]} holds values {wrong}")
    return checked


def checked_children(children: Sequence[NDArray[np.integer]] | None, sizes: Sequence[int]) -> list[Array]:
    """For each layer but the lowest, of these sizes, its links to the layer below; none if none are told."""
    if children is None:
        return [np.zeros((0, 2), np.int64)] * (len(sizes) - 1)
    if len(children) != len(sizes) - 1:
        raise ValueError(f"expected links to children for {len(sizes) - 1} layers, not for {len(children)}")
    return [
        checked_links(pairs, sizes[level], level, sizes[level - 1]) for level, pairs in enumerate(children, 1)
    ]


def checked_links(pairs: NDArray[np.integer], nodes: int, level: int, below: int) -> Array:
    """Links from `nodes` nodes of a layer to `below` nodes of the layer below."""
    checked = np.asarray(pairs)
    if checked.size == 0:
        return np.zeros((0, 2), np.int64)
    if checked.ndim != 2 or checked.shape[1] != 2 or not np.issubdtype(checked.dtype, np.integer):
        raise ValueError(
            f"links to children are integers of shape (links, 2), not {checked.dtype} {checked.shape}"
        )
    for column, end, what in [
        (0, nodes, f"nodes of layer {level}"),
        (1, below, f"children in layer {level - 1}"),
    ]:
        wrong = (checked[:, column] < 0) | (checked[:, column] >= end)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(f"{what} are 0 to {end - 1}, not {checked[row, column]} (pair {row})")
    return checked.astype(np.int64)


def checked_pairs(pairs: NDArray[np.integer], nodes: int, level: int, below: Layer | None) -> Array:
    """Links from `nodes` nodes of a layer to the places of living nodes below."""
    checked = checked_links(pairs, nodes, level, below.count if below else 0)
    if below is not None:
        children = below.places[checked[:, 1]]
        dead = below.alive[children] == 0
        if dead.any():
            raise ValueError(f"child {checked[np.argmax(dead), 1]} in layer {level - 1} was deleted")
        checked[:, 1] = children
    return checked


def checked_parents(parents: NDArray[np.integer], n: int, level: int, above: Layer | None) -> Array:
    """The place of a living node of the layer above, or -1, for each of n nodes of a layer."""
    checked = np.asarray(parents).reshape(-1)
    if above is None or len(checked) != n or not np.issubdtype(checked.dtype, np.integer):
        raise ValueError(
            f"expected {n} integers, parents in layer {level + 1} or -1, not {len(checked)} {checked.dtype}"
        )
    checked = checked.astype(np.int64)
    known = (checked >= -1) & (checked < above.count)
    places = np.full(n, -1, np.int64)
    real = known & (checked >= 0)
    places[real] = above.places[checked[real]]
    known[real] = above.alive[places[real]] == 1
    if not known.all():
        raise ValueError(f"layer {level + 1} has no node {checked[~known][0]} to be a parent")
    return places


def checked_gone(rows: NDArray[np.integer], level: int, layer: Layer) -> Array:
    """The places of what is to be deleted, each once; all must be alive."""
    gone = np.unique(np.asarray(rows).reshape(-1))
    if gone.size and not np.issubdtype(gone.dtype, np.integer):
        raise TypeError(f"rows must be integers, not {gone.dtype}")
    known = (gone >= 0) & (gone < layer.count)
    places = layer.places[gone[known].astype(np.int64)]
    known[known] = layer.alive[places] == 1
    if not known.all():
        raise KeyError(f"layer {level} has no node {int(gone[~known][0])}")
    return places
