"""Checks of the stored arrays of one part of an index, when it is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stratagraph.errors import Damaged
from stratagraph.kernels.checks import check_borders, check_csr, check_finite, check_layout, check_range
from stratagraph.kernels.topk import SKETCH_BITS

Array = NDArray[Any]
Shape = tuple[int | None, ...]


@contextmanager
def damage(part: str, kinds: tuple[type[Exception], ...] = (ValueError,)) -> Iterator[None]:
    """Turn the `ValueError` of a check, or errors of some kinds, into `Damaged`, which names the part."""
    try:
        yield
    except kinds as error:
        raise Damaged(
            f"part '{part}' of the index is damaged: {error}. Restore the folder from a copy, or build again"
        ) from error


class Checks:
    """The arrays of one part, by name. Each method checks the array that it names, and returns it.

    A check raises `ValueError` with the array's name, its value and place; `damage` turns it into `Damaged`.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def has(self, name: str) -> bool:
        """Whether there is an array of this name."""
        return name in self._arrays

    def names(self, prefix: str) -> list[str]:
        """The names of arrays with this prefix."""
        return [name for name in self._arrays if name.startswith(prefix)]

    def any(self, name: str) -> Array:
        """An array that must exist."""
        if name not in self._arrays:
            raise ValueError(f"array '{name}' is missing")
        return self._arrays[name]

    def of(self, name: str, dtype: DTypeLike, shape: Shape) -> Array:
        """An array of this dtype and shape (None: any length); `np.integer` is int32 or int64."""
        array = self.any(name)
        check_layout(array, name, dtype, shape)
        return array

    def rows(
        self, name: str, end: int, shape: Shape, *, dtype: DTypeLike = np.int64, start: int = 0
    ) -> Array:
        """Integers from `start` to `end - 1`."""
        array = self.of(name, dtype, shape)
        check_range(array, name, end, start=start)
        return array

    def numbers(
        self, name: str, dtype: DTypeLike, shape: Shape, *, least: float = -np.inf, most: float = np.inf
    ) -> Array:
        """Finite numbers from `least` to `most`."""
        array = self.of(name, dtype, shape)
        check_finite(array, name, least=least, most=most)
        return array

    def borders(self, name: str, count: int, rows: int | None = None) -> Array:
        """Borders that cut 0 to `count` into rows."""
        array = self.any(name)
        check_borders(array, name, count, rows)
        return array

    def csr(self, name: str, columns: int, rows: int | None = None, *, ascending: bool = False) -> int:
        """Compressed rows `name.indptr` and `name.indices`; returns the number of rows."""
        indptr, indices = self.any(f"{name}.indptr"), self.any(f"{name}.indices")
        check_csr(indptr, indices, columns, name, rows=rows, ascending=ascending)
        return len(indptr) - 1

    def walk(self, nodes: int) -> None:
        """The transition matrix of a walk over this many nodes."""
        self.csr("walk", nodes, nodes)
        self.numbers("walk.data", np.float32, self.any("walk.indices").shape, least=0.0, most=1.001)

    def nearest(self, name: str, rows: int, dimension: int) -> None:
        """The arrays of `Nearest` for this many vectors."""
        self.rows(f"{name}.zeros", rows, (None,))
        if f"{name}.codes" in self._arrays:
            self.of(f"{name}.codes", np.uint64, (rows, SKETCH_BITS // 64))
            self.numbers(f"{name}.mean", np.float32, (dimension,))

    def layers(self, prefix: str) -> int:
        """The number of layers of a C-HNSW index."""
        level = 0
        while f"{prefix}layer{level}.alive" in self._arrays:
            level += 1
        return level
