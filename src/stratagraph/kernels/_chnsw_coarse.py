"""Codes by which layers of float32 and float16 are linked: int8, of the vectors less their mean."""

from __future__ import annotations

import numpy as np

from stratagraph.kernels._chnsw_layer import Array, Layer, Matrix, aligned, decode, encode
from stratagraph.kernels._chnsw_options import Metric

_BLOCK = 16_384
_SAME = 1e-3


def by_distance(layer: Layer, metric: Metric) -> bool:
    """Whether to be near by a metric is to be near by distance, from which a mean may be taken off.

    So it is of inner products where all vectors have one length, those of zeros aside.
    """
    if metric != "ip":
        return True
    least, most = np.inf, 0.0
    for at in range(0, layer.count, _BLOCK):
        block = layer.floats(slice(at, at + _BLOCK))
        lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
        lengths = lengths[lengths > 0]
        least, most = min(least, lengths.min(initial=np.inf)), max(most, lengths.max(initial=0))
    return bool(most <= least * (1 + _SAME))


def centred_codes(layer: Layer) -> tuple[Array, Matrix, Matrix]:
    """Int8 codes of a layer's vectors less their mean, their scales, and their rounded squared lengths.

    A mean that is longer than the vectors are apart would leave few of int8's steps to tell them apart.
    """
    mean = layer.mean()
    codes = aligned((layer.count, coarse_bytes(layer)), np.uint8)
    scales, norms = np.empty(layer.count, np.float32), np.empty(layer.count, np.float32)
    for at in range(0, layer.count, _BLOCK):
        part = slice(at, at + _BLOCK)
        codes[part], scales[part] = encode(layer.floats(part) - mean, "int8")
        rounded = decode(codes[part], scales[part], "int8", layer.dimension)
        norms[part] = np.einsum("ij,ij->i", rounded, rounded)
    return codes, scales, norms


def no_codes(layer: Layer) -> tuple[Array, Matrix, Matrix]:
    """What stands in for the codes of a layer that is not searched, of the same shapes."""
    zeros = np.zeros(layer.count, np.float32)
    return np.zeros((layer.count, coarse_bytes(layer)), np.uint8), zeros, zeros


def coarse_bytes(layer: Layer) -> int:
    """Bytes of a node's int8 code."""
    codes, _ = encode(np.zeros((0, layer.dimension), np.float32), "int8")
    return int(codes.shape[1])
