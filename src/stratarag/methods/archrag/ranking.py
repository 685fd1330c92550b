"""One ranking of several levels, in which none crowds out the others.

Similarities of two levels cannot be compared: reports are longer and more alike than entities, and of many
nodes the best is good by chance. So a similarity s counts by how far it stands out of its level,

    score = weight * (s - mean) / (deviation * sqrt(2 ln n)),

with the mean of the question's similarities to the level's n nodes, and their deviation in a fixed sample of
these. Of n independent normal values the largest is near sqrt(2 ln n) deviations above the mean: 1 is what
the best of a level would have by chance. A score below 0 is divided by the weight.

Each level has a share of the results in proportion to its weight. It gets half of that share first, and
more than twice as much only where the others have nothing left. Scores decide the rest, and the order; of
equal scores that of the level of more weight comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.protocols import Rows, Vectors

Weights = NDArray[np.float64]
SAMPLE = 128
"""Nodes of a level that stand for it."""
TILT = 0.5
"""How far an abstract question raises the highest level and lowers the lowest, and the other way round."""
_LEAST_UNIT = 1e-6


@dataclass(frozen=True, slots=True)
class Calibration:
    """What similarities to the nodes of each level are measured by.

    Parameters
    ----------
    means
        The mean vector of each level, shape (levels, dimension).
    sample
        Vectors of the samples of all levels, one after the other.
    borders
        Where each level's sample begins in them, and the end, shape (levels + 1,).
    sizes
        Nodes of each level, shape (levels,).
    """

    means: Vectors
    sample: Vectors
    borders: Rows
    sizes: Rows

    @classmethod
    def of(cls, layers: Sequence[Vectors], seed: int) -> Calibration:
        """Of levels with these vectors; zero vectors are in no sample."""
        rows = [_sampled(layer, seed) for layer in layers]
        return cls(
            np.stack([layer.mean(axis=0, dtype=np.float64) for layer in layers]).astype(np.float32),
            np.concatenate([layer[chosen] for layer, chosen in zip(layers, rows, strict=True)]),
            np.cumsum([0, *map(len, rows)], dtype=np.int64),
            np.array([len(layer) for layer in layers], np.int64),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is kept of it."""
        return {f"calibration.{item.name}": getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Calibration:
        """The same, in memory."""
        return cls(*(np.array(arrays[f"calibration.{item.name}"]) for item in fields(cls)))

    def measures(self, query: Vectors) -> tuple[Weights, Weights]:
        """Mean of the similarities of a level's nodes, and what one unit of the score is, by level."""
        mean = (self.means @ query).astype(np.float64)
        background = (self.sample @ query).astype(np.float64)
        counts = np.diff(self.borders)
        level = np.repeat(np.arange(len(counts)), counts)
        around = background - (np.bincount(level, background, len(counts)) / np.maximum(counts, 1))[level]
        deviation = np.sqrt(np.bincount(level, around**2, len(counts)) / np.maximum(counts, 1))
        return mean, deviation * np.sqrt(2 * np.log(np.maximum(self.sizes, 2)))


def calibrated(similarities: NDArray[np.float32], mean: Weights, unit: Weights, weights: Weights) -> Weights:
    """The score of each similarity by its level's measures, all of shape (n,); 0 where all are alike."""
    far = unit > _LEAST_UNIT
    raised = np.where(far, (similarities - mean) / np.where(far, unit, 1.0), 0.0)
    return np.where(raised > 0, raised * weights, raised / weights)


def _sampled(vectors: Vectors, seed: int) -> Rows:
    rows = np.flatnonzero(vectors.any(axis=1))
    if len(rows) > SAMPLE:
        rows = np.sort(np.random.default_rng(seed).choice(rows, SAMPLE, replace=False))
    return rows


def level_weights(
    levels: Sequence[int], top: int, abstractness: float | None, factors: Mapping[int, float]
) -> list[float]:
    """The weight of each level: its factor, tilted towards higher levels by how abstract a question is.

    With h the height of a level, from 0 to 1 at the `top`, and a the abstractness, the tilt is
    1 + TILT * (2a - 1) * (2h - 1).
    """
    lean = 0.0 if abstractness is None else TILT * (2 * abstractness - 1)
    return [factors.get(level, 1.0) * (1 + lean * (2 * level / top - 1 if top else 0.0)) for level in levels]


def select(
    scores: NDArray[np.float32], groups: NDArray[np.integer], weights: Sequence[float], k: int
) -> Rows:
    """The places of the best `k` candidates under the rule above, best first.

    Parameters
    ----------
    scores
        Shape (n,).
    groups
        The level of each candidate as a place in `weights`, shape (n,).
    """
    shares = k * np.asarray(weights) / sum(weights)
    order = np.lexsort((-shares[groups], -scores))
    if len(order) <= k:
        return order
    ranked = list(zip(order.tolist(), groups[order].tolist(), strict=True))
    chosen: set[int] = set()
    taken = [0] * len(weights)
    for bounds in (np.floor(shares / 2).tolist(), np.ceil(2 * shares).tolist(), [float(k)] * len(weights)):
        for place, group in ranked:
            if len(chosen) == k:
                break
            if taken[group] < bounds[group] and place not in chosen:
                chosen.add(place)
                taken[group] += 1
    return np.array([place for place, _ in ranked if place in chosen], np.int64)
