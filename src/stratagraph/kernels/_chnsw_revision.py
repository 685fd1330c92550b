"""Bringing C-HNSW up to date with other layers: what is the same keeps its links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels._chnsw_layer import Array, Layer, Matrix, Nodes, encode
from stratagraph.kernels._chnsw_links import Linked

_MIX = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 16_384

Places = NDArray[np.int64]
Read = Callable[[Places], Matrix]


def revise(
    index: Linked,
    layers: Sequence[Read],
    rows: Sequence[Places],
    links: Sequence[Array],
    threads: int,
) -> list[int]:
    """Let an index hold these layers, of which many nodes are in it, under other numbers.

    Parameters
    ----------
    layers
        As many as the index has: what reads vectors by row, normalised as its own vectors are.
    rows
        The number in the index of each node that is known to be there, or -1; others are recognised by what
        is kept of their vectors.
    links
        For each layer but the lowest its links to the layer below, as pairs (node, child).

    Returns
    -------
    For each layer how many nodes were deleted or added.
    """
    kept = [_placed(*each) for each in zip(index._layers, layers, rows, strict=True)]
    changed: list[int] = []
    for level, (layer, places) in enumerate(zip(index._layers, kept, strict=True)):
        stays = np.zeros(layer.count, np.bool_)
        stays[places[places >= 0]] = True
        gone = np.flatnonzero(~stays & (layer.alive == 1)).astype(np.int32)
        changed.append(len(gone) + int(np.count_nonzero(places < 0)))
        if len(gone):
            index._remove(level, gone, threads)
    added: list[Nodes] = []
    below: Nodes = np.zeros(0, np.int32)
    for layer, places, read in zip(index._layers, kept, layers, strict=True):
        known, new = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        known = known[_settled(places[known])]
        below = layer.keep(places[known], below, len(new))
        added.append(layer.append(read(new)))
        layer.renumber(np.concatenate([known, new]))
    for here, under, pairs in zip(index._layers[1:], index._layers, links, strict=False):
        here.set_children(np.stack([here.places[pairs[:, 0]], under.places[pairs[:, 1]]], axis=1))
    index._flat = [None] * len(layers)
    index._settle(range(len(layers)), threads, new=dict(enumerate(added)))
    return changed


def _placed(layer: Layer, read: Read, rows: Places) -> Places:
    """The place of the living node that is each node, or has its vector, or -1."""
    places = np.full(len(rows), -1, np.int64)
    if layer.count:
        told = rows >= 0
        places[told] = layer.places[rows[told]]
        places[told & (layer.alive[places] == 0)] = -1
    left = np.ones(layer.count, np.bool_)
    left[places[places >= 0]] = False
    living, others = np.flatnonzero(left & (layer.alive == 1)), np.flatnonzero(places < 0)
    if len(living) and len(others):
        places[others] = _matched(layer, living, read(others))
    return places


def _settled(places: Places) -> Places:
    """The order of nodes in which as many as can be stay in their places; the last fill those left free.

    Arrays are then stored as they were but for few rows.
    """
    count = len(places)
    order = np.full(count, -1, np.int64)
    early = np.flatnonzero(places < count)
    order[places[early]] = early
    late = np.flatnonzero(places >= count)
    order[order < 0] = late[np.argsort(places[late])]
    return order


def _matched(layer: Layer, living: Places, vectors: Matrix) -> Places:
    """The place of the node among some living ones that has each vector, or -1; each has another."""
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
