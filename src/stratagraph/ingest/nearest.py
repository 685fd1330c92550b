"""Nearest vectors of one flat set: by a scan, or through a sketch where there are many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.float16 import chosen, nonzero_rows
from stratagraph.kernels.topk import SCAN_LIMIT, Sketch, top_k
from stratagraph.types.built import Arrays, Holds
from stratagraph.types.protocols import Rows, Vectors


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
        vectors: Vectors,
        name: str,
        before: tuple[Mapping[str, NDArray[Any]], Rows] | None = None,
        *,
        steady: bool = False,
    ) -> Arrays:
        """The arrays to store: rows of zero vectors, and a sketch from `SCAN_LIMIT` vectors on.

        `before` are the previous arrays, and the previous row of each unchanged vector, or -1. If `steady`,
        a sketch may differ from that of a build, as `Sketch.build` says.
        """
        previous, rows_before = before or ({}, np.full(len(vectors), -1, np.int64))
        zeros = zero_rows(vectors, rows_before, previous.get(f"{name}.zeros"))
        arrays = Holds.ROWS.of({f"{name}.zeros": zeros})
        if len(vectors) > SCAN_LIMIT:
            sketched = None
            if f"{name}.codes" in previous:
                sketched = Sketch(previous[f"{name}.mean"], previous[f"{name}.codes"]), rows_before
            sketch = Sketch.build(vectors, previous=sketched, steady=steady)
            arrays |= Holds.CONTENT.of({f"{name}.mean": sketch.mean, f"{name}.codes": sketch.codes})
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


def zero_rows(vectors: Vectors, rows_before: Rows, zeros_before: Rows | None) -> Rows:
    """Rows of zero vectors, ascending.

    `rows_before` is the previous row of each unchanged vector, or -1, and `zeros_before` are the rows of zero
    vectors then; only other vectors are read.
    """
    if zeros_before is None:
        rows_before, zeros_before = np.full(len(vectors), -1, np.int64), rows_before[:0]
    zero, new = np.isin(rows_before, zeros_before), np.flatnonzero(rows_before < 0)
    zero[new] = True
    zero[new[nonzero_rows(chosen(vectors, new))]] = False
    return np.flatnonzero(zero)
