"""One ranking of several levels, in which none crowds out the others.

Similarities of two levels are not comparable: reports are longer and more alike than entities, and the best
of many nodes is good by chance. So a similarity s is scored by how far it exceeds its background,

    score = (s - mean) / (deviation * sqrt(2 ln n)),

with the mean and deviation of the question's similarities to a background of `SAMPLE` nodes, for a level of n
nodes. The background is a fixed sample of the level; a smaller level is completed by a sample of the levels
below. The largest of n independent normal values is near sqrt(2 ln n) deviations above the mean: the best
node of a level scores 1 by chance.

Each level has an equal share of the results. It gets half of that share first (one result at least, where
there are as many results as levels), and more than twice as much only where the others have nothing left.
Scores decide the rest, and the order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.topk import products
from stratagraph.types.protocols import Rows, Vectors

Weights = NDArray[np.float64]
SAMPLE = 128
"""Nodes of a background, where there are as many."""
SAMPLED = "calibration.rows"
"""The array of the nodes in the backgrounds of all levels, counted through these."""
LEAST_SAMPLE = 16
"""A smaller background is completed with texts that have nothing to do with any question (a cosine of 0)."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Backgrounds of all levels: their mean vectors, and their vectors one after the other.

    The background of level i is `sample[borders[i]:borders[i + 1]]`; `sizes` are the nodes of each level.
    """

    means: Vectors
    sample: Vectors
    borders: Rows
    sizes: Rows

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], layers: Sequence[Vectors]) -> Calibration:
        """From `calibration_arrays` and the vectors of the levels."""
        borders, sizes = np.array(arrays["calibration.borders"]), np.array(arrays["calibration.sizes"])
        rows, starts = arrays[SAMPLED], np.cumsum([0, *sizes])
        levels = np.searchsorted(starts, rows, "right") - 1
        sample = np.empty((len(rows), layers[0].shape[1]), np.float32)
        for level in np.unique(levels).tolist():
            own = levels == level
            sample[own] = layers[level][rows[own] - starts[level]]
        samples = np.split(sample, borders[1:-1])
        means = np.stack([each.sum(axis=0) / max(len(each), LEAST_SAMPLE) for each in samples])
        return cls(means.astype(np.float32), sample, borders, sizes)

    def measures(self, query: Vectors) -> tuple[Weights, Weights]:
        """For each level the mean similarity to its background, and the similarity of one unit of the score.

        A deviation is at least that of directions drawn at random, 1 / sqrt(dimension).
        """
        mean = _cosines(self.means, query)  # not by a library of linear algebra, whose threads would wait
        background = _cosines(self.sample, query)
        counts = np.diff(self.borders)
        total = np.maximum(counts, LEAST_SAMPLE)
        level = np.repeat(np.arange(len(counts)), counts)
        squares = np.bincount(level, background**2, len(counts)) / total
        variance = np.maximum(squares - mean**2, 1 / len(query))
        return mean, np.sqrt(variance) * np.sqrt(2 * np.log(np.maximum(self.sizes, 2)))


def _cosines(vectors: Vectors, query: Vectors) -> Weights:
    return products(vectors, query, np.arange(len(vectors))).astype(np.float64)


def calibration_arrays(sizes: Sequence[int], zeros: Sequence[Rows], seed: int) -> dict[str, NDArray[Any]]:
    """The arrays of a `Calibration`: the nodes in the backgrounds, counted through all levels.

    `sizes` are those of the levels, and `zeros` the rows of their zero vectors.
    """
    starts = np.cumsum([0, *sizes])
    layers = [np.delete(np.arange(size), rows) for size, rows in zip(sizes, zeros, strict=True)]
    samples = [_background(layers[: level + 1], starts, seed) for level in range(len(layers))]
    return {
        SAMPLED: np.concatenate(samples),
        "calibration.borders": np.cumsum([0, *map(len, samples)], dtype=np.int64),
        "calibration.sizes": np.array(sizes, np.int64),
    }


def _background(layers: Sequence[Rows], starts: Rows, seed: int) -> Rows:
    """The background of the last level: its own nodes, and where these are few, also those below."""
    parts: list[Rows] = []
    missing = SAMPLE
    for layer, start in zip(reversed(layers), starts[len(layers) - 1 :: -1], strict=True):
        rows = layer
        if len(rows) > missing:
            rows = np.sort(np.random.default_rng(seed).choice(rows, missing, replace=False))
        parts.append(start + rows)
        missing -= len(rows)
        if missing <= 0:
            break
    return np.concatenate(parts)


def select(scores: NDArray[np.float32], groups: NDArray[np.integer], levels: int, k: int) -> Rows:
    """The places of the best `k` candidates under the rule above, best first.

    `groups` are the levels of the candidates as places among the `levels` that are searched, shape (n,).
    """
    share = k / max(levels, 1)
    order = np.argsort(-scores, kind="stable")
    if len(order) <= k:
        return order
    ranked = list(zip(order.tolist(), groups[order].tolist(), strict=True))
    chosen: set[int] = set()
    taken = [0] * levels
    for bound in (max(math.floor(share / 2), int(k >= levels)), math.ceil(2 * share), k):
        for place, group in ranked:
            if len(chosen) == k:
                break
            if taken[group] < bound and place not in chosen:
                chosen.add(place)
                taken[group] += 1
    return np.array([place for place, _ in ranked if place in chosen], np.int64)
