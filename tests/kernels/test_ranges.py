"""Runs of consecutive numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.kernels.edges import number
from stratagraph.kernels.ranges import by_label, distinct, order, ranges


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 9))))
def test_runs_follow_one_another(runs: list[tuple[int, int]]) -> None:
    starts, counts = (np.array([run[i] for run in runs], np.int64) for i in range(2))
    assert ranges(starts, counts).tolist() == [start + step for start, count in runs for step in range(count)]


def test_borders_of_32_bits_do_not_overflow() -> None:
    starts, counts = np.array([2**31 - 3], np.int32), np.array([3], np.int32)
    assert ranges(starts, counts).tolist() == [2**31 - 3, 2**31 - 2, 2**31 - 1]


@given(st.lists(st.integers(-5, 2**62), max_size=20) | st.lists(st.integers(0, 9), max_size=60))
def test_distinct_values_ascend(values: list[int]) -> None:
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))


@given(st.lists(st.integers(-5, 2**62), max_size=20) | st.lists(st.integers(0, 90), max_size=60))
def test_labels_are_numbered_by_their_smallest_member(labels: list[int]) -> None:
    order = list(dict.fromkeys(labels))
    assert number(np.array(labels, np.int64)).tolist() == [order.index(label) for label in labels]


@given(st.integers(1, 3000), st.integers(1, 9000), st.integers(0, 9))
def test_counting_sorts_as_numpy_does(size: int, count: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, count, size)
    assert order(values, count).tolist() == np.argsort(values, kind="stable").tolist()
    groups = by_label(values - 1, count)
    assert [rows.tolist() for rows in groups[:3]] == [
        np.flatnonzero(values == k + 1).tolist() for k in range(min(3, count))
    ]
