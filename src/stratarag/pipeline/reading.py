"""Reading of the corpus for many groups at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeVar

T = TypeVar("T")


def read_lists(read: Callable[[Sequence[int]], Sequence[T]], lists: Sequence[Sequence[int]]) -> list[list[T]]:
    """What `read` gives of each list of rows; it is asked once, for every row that is in any of them."""
    rows = sorted(set(chain.from_iterable(lists)))
    found = dict(zip(rows, read(rows), strict=True)) if rows else {}
    return [[found[row] for row in own] for own in lists]
