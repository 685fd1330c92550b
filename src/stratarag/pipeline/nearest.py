"""Nearest vectors of one flat set: scanned exactly while small, through a sketch when large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.topk import SCAN_LIMIT, Sketch, top_k
from stratarag.protocols import Rows, Vectors


class Nearest:
    """Top-k by inner product over unit vectors; arrays of a `name` are kept beside the vectors.

    Zero vectors (texts for which the embedder had nothing to say) are never returned.
    """

    def __init__(self, vectors: Vectors, arrays: Mapping[str, NDArray[Any]], name: str) -> None:
        self._vectors = vectors
        codes = arrays.get(f"{name}.codes")
        self._sketch = None if codes is None else Sketch(arrays[f"{name}.mean"], codes)
        zeros = arrays[f"{name}.zeros"]
        self._zeros = zeros if len(zeros) else None

    @staticmethod
    def index(
        vectors: Vectors, name: str, before: tuple[Mapping[str, NDArray[Any]], Rows] | None = None
    ) -> dict[str, NDArray[Any]]:
        """The arrays to keep: rows of zero vectors, and a sketch from `SCAN_LIMIT` vectors on.

        `before` are the previous arrays, and the row there of each vector that is the same, or -1: these are
        not sketched again.
        """
        rows = np.flatnonzero(vectors[:, 0] == 0) if len(vectors) else np.zeros(0, np.int64)
        zeros = rows[~np.any(vectors[rows], axis=1)]
        arrays: dict[str, NDArray[Any]] = {f"{name}.zeros": zeros.astype(np.int64)}
        if len(vectors) > SCAN_LIMIT:
            known = None
            if before is not None and f"{name}.codes" in before[0]:
                known = Sketch(before[0][f"{name}.mean"], before[0][f"{name}.codes"]), before[1]
            sketch = Sketch.build(vectors, known=known)
            arrays |= {f"{name}.mean": sketch.mean, f"{name}.codes": sketch.codes}
        return arrays

    def search(
        self, query: Vectors, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Rows and similarities of the `k` nearest admitted vectors, nearest first."""
        if self._zeros is not None:
            allowed = np.ones(len(self._vectors), np.bool_) if allowed is None else allowed.copy()
            allowed[self._zeros] = False
        if self._sketch is None:
            return top_k(self._vectors, query, k, mask=allowed)
        return self._sketch.search(query, k, vectors=self._vectors, mask=allowed)
