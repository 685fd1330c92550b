"""Nearest vectors of one flat set: by a scan, through a sketch where there are many, or through hnswlib."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.float16 import chosen, nonzero_rows
from stratagraph.kernels.knn import Hnswlib
from stratagraph.kernels.topk import SCAN_LIMIT, Sketch, top_k
from stratagraph.system.locks import cached_property
from stratagraph.types.protocols import Rows, Vectors

SHARE_SCANNED = 0.25
"""A search for a larger share of all vectors compares the question with each of them, also with hnswlib."""


@dataclass(frozen=True, slots=True)
class HnswlibConfig:
    """Settings of a graph of the package hnswlib (`pip install 'stratagraph[hnswlib]'`).

    Parameters
    ----------
    m
        Links that a vector sets in each level of the graph, from 2 to 512.
    ef_construction
        Candidates from which these links are chosen.
    ef
        Candidates that a search keeps; a search for more results keeps as many as these.
    """

    m: int = 16
    ef_construction: int = 200
    ef: int = 64

    def __post_init__(self) -> None:
        for item in fields(self):
            value, least, most = getattr(self, item.name), 1, 100_000
            if item.name == "m":
                least, most = 2, 512
            if type(value) is not int:
                raise TypeError(f"{item.name} of hnswlib must be a whole number, not {value!r}")
            if not least <= value <= most:
                raise ValueError(f"{item.name} of hnswlib must be from {least} to {most}, not {value}")

    @classmethod
    def of(cls, given: Any) -> HnswlibConfig | None:
        """The settings from a mapping of them, as JSON has it; None stays None.

        Raises
        ------
        TypeError, ValueError
            If a setting is unknown or not valid.
        """
        if given is None or isinstance(given, cls):
            return given
        known = [item.name for item in fields(cls)]
        if not isinstance(given, Mapping):
            raise TypeError(f"hnswlib must be None or have settings {', '.join(known)}, not {given!r}")
        if unknown := sorted(set(given) - set(known), key=str):
            raise TypeError(f"hnswlib has no setting {unknown[0]!r}; it has {', '.join(known)}")
        return cls(**given)


class Nearest:
    """Top-k by inner product over unit vectors; arrays of a `name` are kept beside the vectors.

    Zero vectors (texts for which the embedder had nothing to say) are never returned.

    Parameters
    ----------
    hnswlib
        Search through hnswlib, whose graph the first search makes in memory. A search under a filter, and
        one for a large share of the vectors (`SHARE_SCANNED`), compares vectors as without it.
    """

    def __init__(
        self,
        vectors: Vectors,
        arrays: Mapping[str, NDArray[Any]],
        name: str,
        hnswlib: HnswlibConfig | None = None,
    ) -> None:
        self._vectors = vectors
        self._hnswlib = hnswlib
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
            known = None
            if before is not None and f"{name}.codes" in before[0]:
                known = Sketch(before[0][f"{name}.mean"], before[0][f"{name}.codes"]), before[1]
            sketch = Sketch.build(vectors, known=known, steady=steady)
            arrays |= {f"{name}.mean": sketch.mean, f"{name}.codes": sketch.codes}
        return arrays

    def search(
        self, query: Vectors, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Rows and similarities of the `k` nearest admitted vectors, nearest first.

        Raises
        ------
        MissingExtra
            If hnswlib is to search and is not installed.
        """
        if self._hnswlib is not None and allowed is None:
            directed = len(self._vectors) - (0 if self._zeros is None else len(self._zeros))
            if 0 < k <= SHARE_SCANNED * directed:
                rows, graph = self._graph
                nearest, scores = graph.search(query[None], k)
                return rows[nearest[0]], scores[0]
        if self._zeros is not None:
            allowed = np.ones(len(self._vectors), np.bool_) if allowed is None else allowed.copy()
            allowed[self._zeros] = False
        if self._sketch is None:
            return top_k(self._vectors, query, k, mask=allowed)
        return self._sketch.search(query, k, vectors=self._vectors, mask=allowed)

    @cached_property
    def _graph(self) -> tuple[Rows, Hnswlib]:
        """The rows that are not zero, and hnswlib's graph over them, made by one thread: always the same."""
        assert self._hnswlib is not None
        settings = {item.name: getattr(self._hnswlib, item.name) for item in fields(HnswlibConfig)}
        none = np.zeros(0, np.int64)
        rows = np.setdiff1d(np.arange(len(self._vectors)), none if self._zeros is None else self._zeros)
        return rows, Hnswlib(chosen(self._vectors, rows), **settings)


def _zeros(vectors: Vectors, name: str, before: tuple[Mapping[str, NDArray[Any]], Rows] | None) -> Rows:
    """Rows of zero vectors, ascending; unchanged vectors are not read."""
    if before is None or f"{name}.zeros" not in before[0]:
        return _zero_rows(vectors, np.arange(len(vectors)))
    arrays, origin = before
    were = np.zeros(int(origin.max(initial=-1)) + 1, np.bool_)
    known = arrays[f"{name}.zeros"]
    were[known[known < len(were)]] = True
    kept = np.flatnonzero(origin >= 0)
    zeros = [kept[were[origin[kept]]], _zero_rows(vectors, np.flatnonzero(origin < 0))]
    return np.sort(np.concatenate(zeros))


def _zero_rows(vectors: Vectors, rows: Rows) -> Rows:
    zeros = np.ones(len(rows), np.bool_)
    zeros[nonzero_rows(chosen(vectors, rows))] = False
    return rows[zeros].astype(np.int64)
