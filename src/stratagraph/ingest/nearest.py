"""Nearest vectors of one flat set: by a scan, or through a sketch where there are many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.float16 import chosen, nonzero_rows
from stratagraph.kernels.topk import SCAN_LIMIT, Sketch, top_k
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
    ) -> dict[str, NDArray[Any]]:
        """The arrays to store: rows of zero vectors, and a sketch from `SCAN_LIMIT` vectors on.

        `before` are the previous arrays, and the previous row of each unchanged vector, or -1. If `steady`,
        a sketch may differ from that of a build, as `Sketch.build` says.
        """
        arrays: dict[str, NDArray[Any]] = {f"{name}.zeros": _zeros(vectors, name, before)}
        if len(vectors) > SCAN_LIMIT:
            previous = None
            if before is not None and f"{name}.codes" in before[0]:
                previous = Sketch(before[0][f"{name}.mean"], before[0][f"{name}.codes"]), before[1]
            sketch = Sketch.build(vectors, known=previous, steady=steady)
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


def _zeros(vectors: Vectors, name: str, before: tuple[Mapping[str, NDArray[Any]], Rows] | None) -> Rows:
    """Rows of zero vectors, ascending; unchanged vectors are not read."""
    if before is None or f"{name}.zeros" not in before[0]:
        return _zero_rows(vectors, np.arange(len(vectors)))
    arrays, origin = before
    were = np.zeros(int(origin.max(initial=-1)) + 1, np.bool_)
    zeros_before = arrays[f"{name}.zeros"]
    were[zeros_before[zeros_before < len(were)]] = True
    carried = np.flatnonzero(origin >= 0)
    zeros = [carried[were[origin[carried]]], _zero_rows(vectors, np.flatnonzero(origin < 0))]
    return np.sort(np.concatenate(zeros))


def _zero_rows(vectors: Vectors, rows: Rows) -> Rows:
    zeros = np.ones(len(rows), np.bool_)
    zeros[nonzero_rows(chosen(vectors, rows))] = False
    return rows[zeros].astype(np.int64)
