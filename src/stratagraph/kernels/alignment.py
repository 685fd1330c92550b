"""Common runs of two nearly equal sequences, by a greedy comparison.

Where the sequences differ, the nearest place at which they agree again is looked for. The description of the
second by the first is short, seldom the shortest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels import _native

Spans = NDArray[np.int64]
"""For each common run its start in the first sequence, its length, and how many new items follow it in the
second, shape (runs, 3). Runs do not overlap and are in the order of both."""

_REACH = 4096  # items that may be skipped or new at one place; after more, the comparison ends
_CORNER = 48  # items up to which any number of skipped and of new ones is tried together
_AGREEING = 32  # bytes that must be the same before two places are taken to be one
_LEAST = 8  # items of these at least


def aligned(before: NDArray[Any], after: NDArray[Any], *, most: int, tolerance: int = 0) -> Spans | None:
    """The runs of a sequence that another sequence has too.

    Parameters
    ----------
    before, after
        Integers of one type, shapes (n,) and (m,).
    most
        Limit on the number of new items plus three for each run.
    tolerance
        Items that differ by no more than this count as equal.

    Returns
    -------
    The runs; None if `most` is exceeded.
    """
    window = max(_LEAST, _AGREEING // before.itemsize)
    runs = _native.aligned(before, after, tolerance, most, window, _REACH, _CORNER)
    return None if runs is None else np.array(runs, np.int64).reshape(-1, 3)


def shifts(before: NDArray[np.integer], after: NDArray[np.integer], spans: Spans) -> NDArray[np.int64]:
    """For each value of `before` the most frequent difference to the item in its place in `after`.

    `before` and `after` are int32 or int64; negative values are left out. `spans` are runs of `aligned`.

    Returns
    -------
    Differences, shape (largest value + 1,); a value in no run has that of the last smaller one in a run.
    """
    count = int(before.max(initial=-1)) + 1
    differences, votes = np.zeros(count, np.int64), np.zeros(count, np.int32)
    _native.shifts(before, after, np.ascontiguousarray(spans).reshape(-1), differences, votes)
    last = np.maximum.accumulate(np.where(votes > 0, np.arange(count), -1))
    return np.where(last >= 0, differences[last], 0)
