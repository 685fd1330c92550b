"""Reads nodes for many groups at once, in the order in which they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np

from stratagraph.types.protocols import Rows, Stored

T = TypeVar("T")
_AT_ONCE = 4096  # nodes


def read_lists(read: Callable[[Sequence[int]], Sequence[T]], lists: Sequence[Sequence[int]]) -> list[list[T]]:
    """What `read` returns for each list of rows, by one call for all of them."""
    rows = sorted(set(chain.from_iterable(lists)))
    found = dict(zip(rows, read(rows), strict=True)) if rows else {}
    return [[found[row] for row in own] for own in lists]


def as_they_lie(stored: Stored, rows: Sequence[int]) -> Iterator[tuple[Rows, list[int]]]:
    """Rows of a part in stored order, in batches: their places among those given, and the rows.

    Nodes are stored by their first chunk and compressed together, so that another order decompresses blocks
    often.
    """
    wanted, indices = np.asarray(rows, np.int64), stored.arrays["sources.indices"]
    starts = stored.arrays["sources.indptr"][wanted]
    order = np.argsort(np.append(indices, -1)[starts], kind="stable")
    for start in range(0, len(order), _AT_ONCE):
        places = order[start : start + _AT_ONCE]
        yield places, wanted[places].tolist()
