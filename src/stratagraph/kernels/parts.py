"""Rows of several tables in one numbering, one table after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Rows = NDArray[np.int64]


class Parts:
    """The first row of each table and the number of all rows: `starts`, shape (tables + 1,)."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.starts: Rows = np.cumsum([0, *sizes], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def size(self) -> int:
        """Rows of all tables."""
        return int(self.starts[-1])

    def of(self, part: int) -> slice:
        """The rows of a table."""
        return slice(int(self.starts[part]), int(self.starts[part + 1]))

    def split(self, rows: Sequence[int] | Rows) -> Iterator[tuple[int, NDArray[np.intp], Rows]]:
        """Each table that has some of the rows, their places in `rows`, and their numbers in the table.

        Raises
        ------
        IndexError
            If a row is in no table.
        """
        wanted = np.asarray(rows, np.int64)
        if len(wanted) and not (wanted.min() >= 0 and wanted.max() < self.size):
            raise IndexError(f"rows are 0 to {self.size - 1}, not {wanted.min()} to {wanted.max()}")
        owners = np.searchsorted(self.starts, wanted, "right") - 1
        for part in np.unique(owners).tolist():
            places = np.flatnonzero(owners == part)
            yield part, places, wanted[places] - self.starts[part]

    def read(self, rows: Sequence[int] | Rows, reader: Callable[[int, list[int]], Sequence[T]]) -> list[T]:
        """The values of rows, in their order; `reader(table, rows of the table)` gives those of one table."""
        found: dict[int, T] = {}
        for part, places, own in self.split(rows):
            found.update(zip(places.tolist(), reader(part, own.tolist()), strict=True))
        return [found[place] for place in range(len(found))]
