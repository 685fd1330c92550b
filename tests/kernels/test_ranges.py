"""Runs of consecutive numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratarag.kernels.ranges import ranges


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 9))))
def test_runs_follow_one_another(runs: list[tuple[int, int]]) -> None:
    starts, counts = (np.array([run[i] for run in runs], np.int64) for i in range(2))
    assert ranges(starts, counts).tolist() == [start + step for start, count in runs for step in range(count)]


def test_borders_of_32_bits_do_not_overflow() -> None:
    starts, counts = np.array([2**31 - 3], np.int32), np.array([3], np.int32)
    assert ranges(starts, counts).tolist() == [2**31 - 3, 2**31 - 2, 2**31 - 1]
