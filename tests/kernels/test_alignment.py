"""Runs that two sequences share, and by how much numbers moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stratagraph.kernels import alignment as kernel

TYPES = ["u1", "u8", "i4"]


def rebuilt(before: NDArray[Any], after: NDArray[Any], spans: kernel.Spans) -> NDArray[Any]:
    """What the spans say `after` is."""
    pieces, j = [], 0
    for begin, run, added in spans.tolist():
        pieces += [before[begin : begin + run], after[j + run : j + run + added]]
        j += run + added
    return np.concatenate(pieces) if pieces else after[:0]


def changed(random: np.random.Generator, before: NDArray[Any], edits: int) -> NDArray[Any]:
    """A sequence with some items taken out, put in, or put in the place of others."""
    after = before.copy()
    for _ in range(edits):
        at, size = int(random.integers(len(after) + 1)), int(random.integers(1, 40))
        new = random.integers(0, 200, size).astype(before.dtype)
        how = random.integers(3)
        after = np.concatenate([after[:at], new if how else new[:0], after[at + (size if how != 1 else 0) :]])
    return after


@pytest.mark.parametrize("kind", TYPES)
def test_runs_and_new_items_give_the_second_sequence(kind: str) -> None:
    random = np.random.default_rng(3)
    for edits in range(8):
        before = random.integers(0, 200, 5000).astype(kind)
        after = changed(random, before, edits)
        spans = kernel.aligned(before, after, most=2000)
        assert spans is not None
        assert np.array_equal(rebuilt(before, after, spans), after)
        assert (spans[1:, 0] >= spans[:-1, :2].sum(axis=1)).all()
        assert spans[:, 2].sum() <= 40 * edits


def test_what_stays_is_found_again_behind_what_came_and_went() -> None:
    before = np.random.default_rng(4).integers(0, 1 << 40, 9000)
    after = np.concatenate([before[:100], [-1, -2], before[100:4000], before[4300:], [-3]])
    spans = kernel.aligned(before, after, most=100)
    assert spans is not None
    assert spans.tolist() == [[0, 100, 2], [100, 3900, 0], [4300, 4700, 1]]


def test_sequences_with_little_in_common_are_given_up() -> None:
    random = np.random.default_rng(5)
    one, other = random.integers(0, 1 << 40, (2, 20_000))
    assert kernel.aligned(one, other, most=2500) is None
    assert kernel.aligned(one[:0], one[:0], most=0) is not None
    empty = kernel.aligned(one[:0], one[:5], most=100)
    assert empty is not None
    assert empty.tolist() == [[0, 0, 5]]


def test_numbers_of_rows_that_moved_are_told_by_most_of_what_they_became() -> None:
    random = np.random.default_rng(6)
    before = random.integers(-1, 3000, 20_000).astype(np.int32)
    after = np.where(before < 0, before, before + (before >= 1000) + 2 * (before >= 2000)).astype(np.int32)
    after = np.insert(after, [50, 9000], [7, 1])
    spans = kernel.aligned(before, after, most=2000, tolerance=16)
    assert spans is not None
    by = kernel.shifts(before, after, spans)
    seen = np.unique(before[before >= 0])
    assert by[seen].tolist() == [int(each >= 1000) + 2 * int(each >= 2000) for each in seen.tolist()]


def test_values_that_nothing_is_known_of_move_as_those_before_them() -> None:
    before, after = np.array([3, 9]), np.array([3, 11])
    spans = np.array([[0, 2, 0]])
    assert kernel.shifts(before, after, spans).tolist() == [0] * 9 + [2]
    assert kernel.shifts(before[:0], after[:0], spans[:0]).tolist() == []


def test_extremes_do_not_overflow() -> None:
    ends = np.iinfo(np.int64)
    before = np.array([ends.min, ends.max, 0] * 20)
    spans = kernel.aligned(before, before[::-1].copy(), most=1000, tolerance=64)
    assert spans is not None
    assert kernel.aligned(before, before, most=1000, tolerance=64) is not None
