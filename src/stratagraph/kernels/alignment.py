"""Common runs of two nearly equal sequences, by a greedy comparison; native and numpy give equal results.

Where the sequences differ, the nearest place at which they agree again is looked for. The description of the
second by the first is short, seldom the shortest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.hamming import native_available

if native_available():
    from stratagraph.kernels import _native

Spans = NDArray[np.int64]
"""For each common run its start in the first sequence, its length, and how many new items follow it in the
second, shape (runs, 3). Runs do not overlap and are in the order of both."""

_REACH = 4096  # items that may be skipped or new at one place; with more, nothing is in common
_CORNER = 48  # items up to which any number of skipped and of new ones is tried together
_AGREEING = 32  # bytes that must be the same before two places are taken to be one
_LEAST = 8  # items of these at least
_SPAN = 3  # what a run costs, in items


def aligned(before: NDArray[Any], after: NDArray[Any], *, most: int, tolerance: int = 0) -> Spans | None:
    """The runs of a sequence that another sequence has too.

    Parameters
    ----------
    before, after
        Integers of one type, shapes (n,) and (m,).
    most
        Limit of the number of new items and three for each run.
    tolerance
        Items that differ by no more than this count as equal.

    Returns
    -------
    The runs; None if `most` is exceeded.
    """
    window = max(_LEAST, _AGREEING // before.itemsize)
    if native_available():
        found = _native.aligned(before, after, tolerance, most, window, _REACH, _CORNER)
        return None if found is None else np.array(found, np.int64).reshape(-1, 3)
    return _Aligner(before, after, tolerance, window).spans(most)


class _Aligner:
    """The numpy twin."""

    def __init__(self, before: NDArray[Any], after: NDArray[Any], tolerance: int, window: int) -> None:
        self._before, self._after = before, after
        self._tolerance = tolerance
        self._window = window

    def spans(self, most: int) -> Spans | None:
        found: list[tuple[int, int, int]] = []
        i = j = fresh = 0
        while j < len(self._after):
            run = self._same(i, j)
            skipped, added = self._resumed(i + run, j + run)
            fresh += added
            found.append((i, run, added))
            if fresh + _SPAN * len(found) > most:
                return None
            i, j = i + run + skipped, j + run + added
        return np.array(found, np.int64).reshape(-1, 3)

    def _near(self, before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.bool_]:
        near: NDArray[np.bool_]
        if not self._tolerance:
            near = before == after
            return near
        apart = after.astype(np.int64).view(np.uint64) - before.astype(np.int64).view(np.uint64)
        near = apart + np.uint64(self._tolerance) <= np.uint64(2 * self._tolerance)
        return near

    def _same(self, i: int, j: int) -> int:
        run, step, most = 0, 64, min(len(self._before) - i, len(self._after) - j)
        while run < most:
            size = min(step, most - run)
            near = self._near(self._before[i + run :][:size], self._after[j + run :][:size])
            if not near.all():
                return run + int(np.argmin(near))
            run, step = run + size, 2 * step
        return run

    def _resumed(self, i: int, j: int) -> tuple[int, int]:
        if j == len(self._after):
            return 0, 0
        size = _REACH + self._window
        before, after = self._before[i : i + size].tolist(), self._after[j : j + size].tolist()
        ends = len(self._before) - i, len(self._after) - j

        def agrees(skipped: int, added: int) -> bool:
            left, right = ends[0] - skipped, ends[1] - added
            if min(left, right) < 0 or (min(left, right) < self._window and left != right):
                return False
            length = min(self._window, left)
            return all(
                abs(one - other) <= self._tolerance
                for one, other in zip(
                    before[skipped : skipped + length], after[added : added + length], strict=True
                )
            )

        for step in range(1, _REACH + 1):
            for skipped, added in ((0, step), (step, 0), (step, step)):
                if agrees(skipped, added):
                    return skipped, added
            for less in range(1, step) if step <= _CORNER else ():
                for skipped, added in ((less, step), (step, less)):
                    if agrees(skipped, added):
                        return skipped, added
        added = min(_REACH, ends[1])
        return min(added, ends[0]), added


def shifts(before: NDArray[np.integer], after: NDArray[np.integer], spans: Spans) -> NDArray[np.int64]:
    """For each value of `before` the most frequent difference to the item in its place in `after`.

    `before` and `after` are int32 or int64; negative values are left out. `spans` are runs of `aligned`.

    Returns
    -------
    Differences, shape (largest value + 1,); a value in no run has that of the last smaller one in a run.
    """
    count = int(before.max(initial=-1)) + 1
    found, votes = np.zeros(count, np.int64), np.zeros(count, np.int32)
    if native_available():
        _native.shifts(before, after, np.ascontiguousarray(spans).reshape(-1), found, votes)
    else:
        _vote(before, after, spans, found, votes)
    last = np.maximum.accumulate(np.where(votes > 0, np.arange(count), -1))
    return np.where(last >= 0, found[last], 0)


def _vote(
    before: NDArray[np.integer],
    after: NDArray[np.integer],
    spans: Spans,
    found: NDArray[np.int64],
    votes: NDArray[np.int32],
) -> None:
    """The majority vote of Boyer and Moore for each value."""
    j = 0
    for begin, run, added in spans.tolist():
        pairs = zip(before[begin : begin + run].tolist(), after[j : j + run].tolist(), strict=True)
        for value, became in pairs:
            if value < 0:
                continue
            if votes[value] == 0:
                found[value], votes[value] = became - value, 1
            else:
                votes[value] += 1 if found[value] == became - value else -1
        j += run + added
