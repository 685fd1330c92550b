"""Bringing C-HNSW up to date with other layers: what is the same keeps its links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels._chnsw_layer import Array, Layer, Matrix, Nodes, encode
from stratarag.kernels._chnsw_links import Linked

_MIX = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 16_384

Places = NDArray[np.int64]


def revise(index: Linked, layers: Sequence[Matrix], links: Sequence[Array], threads: int) -> list[int]:
    """Let an index hold these layers, of which many nodes are in it, under other numbers.

    Parameters
    ----------
    layers
        As many as the index has, normalised as its own vectors are.
    links
        For each layer but the lowest its links to the layer below, as pairs (node, child).

    Returns
    -------
    For each layer how many nodes were deleted or added.
    """
    kept = [_matched(layer, vectors) for layer, vectors in zip(index._layers, layers, strict=True)]
    changed: list[int] = []
    for level, (layer, places) in enumerate(zip(index._layers, kept, strict=True)):
        gone = np.setdiff1d(layer.rows, places)
        changed.append(len(gone) + int(np.count_nonzero(places < 0)))
        if len(gone):
            index._remove(level, gone)
    added: list[Nodes] = []
    below: Nodes = np.zeros(0, np.int32)
    for layer, places, vectors in zip(index._layers, kept, layers, strict=True):
        known, new = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        below = layer.keep(places[known], below)
        added.append(layer.append(vectors[new]))
        layer.renumber(np.concatenate([known, new]))
    for here, under, pairs in zip(index._layers[1:], index._layers, links, strict=False):
        here.set_children(np.stack([here.places[pairs[:, 0]], under.places[pairs[:, 1]]], axis=1))
    index._flat = [None] * len(layers)
    index._settle(range(len(layers)), threads, new=dict(enumerate(added)))
    return changed


def _matched(layer: Layer, vectors: Matrix) -> Places:
    """The place of the living node that has each vector, or -1; of equal ones each has another."""
    living = layer.rows
    if not len(living) or not len(vectors):
        return np.full(len(vectors), -1, np.int64)
    if len(layer.vectors):
        before, after = _words(layer.vectors[living]), _words(vectors)
    else:
        scales = layer.scales[living] if len(layer.scales) else layer.scales
        before, after = _words(layer.codes[living], scales), _words(*encode(vectors, layer.kind))
    keys_before, keys = _keys(before), _keys(after)
    order = np.argsort(keys_before, kind="stable")
    found = order[np.minimum(np.searchsorted(keys_before[order], keys), len(order) - 1)]
    same = keys_before[found] == keys
    for start in range(0, len(vectors), _BLOCK):  # keys are hashes: two may be equal by chance
        rows = slice(start, start + _BLOCK)
        same[rows] &= (before[found[rows]] == after[rows]).all(axis=1)
    return np.where(same, living[found], -1)


def _words(*parts: Array) -> NDArray[np.uint64]:
    """The bytes of each row of some arrays, such as codes and their scales, as numbers of 64 bits."""
    rows = [np.ascontiguousarray(each).view(np.uint8).reshape(len(parts[0]), -1) for each in parts]
    width = sum(each.shape[1] for each in rows)
    found = np.zeros((len(parts[0]), -(-width // 8) * 8), np.uint8)
    np.concatenate(rows, axis=1, out=found[:, :width])
    return found.view(np.uint64)


def _keys(rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each row and of how many equal rows precede it."""
    factors = np.cumprod(np.full(rows.shape[1], _MIX)) | np.uint64(1)
    keys: NDArray[np.uint64] = np.einsum("ij,j->i", rows ^ (rows >> np.uint64(31)), factors)
    keys ^= keys >> np.uint64(29)
    order = np.argsort(keys, kind="stable")
    first = np.concatenate([[True], keys[order][1:] != keys[order][:-1]])
    starts = np.flatnonzero(first)
    preceding = np.empty(len(rows), np.uint64)
    preceding[order] = np.arange(len(rows)) - starts[np.cumsum(first) - 1]
    return keys * _MIX + preceding
