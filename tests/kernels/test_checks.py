"""Checks of arrays that were not made here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from stratagraph.kernels.checks import (
    check_ascending,
    check_borders,
    check_csr,
    check_finite,
    check_layout,
    check_range,
    check_symmetric,
)

INDPTR = np.array([0, 2, 2, 3], np.int32)
INDICES = np.array([1, 2, 0], np.int32)


def test_sound_arrays_pass() -> None:
    check_csr(INDPTR, INDICES, 3, "walk", rows=3)
    check_csr(INDPTR.astype(np.int64), INDICES.astype(np.int64), 3, "walk")
    check_csr(np.zeros(1, np.int64), np.zeros(0, np.int64), 0, "empty", rows=0)
    check_layout(np.zeros((0, 4), np.float32), "vectors", np.float32, (None, 4))
    check_finite(np.array([0.0, 1.0]), "scores", least=0.0, most=1.0)
    check_finite(np.zeros(0), "scores")
    check_ascending(np.array([1, 2, 2]), "keys")
    check_ascending(np.zeros(0, np.uint64), "keys", strictly=True)


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        (np.array([0, 2, 1, 3], np.int32), INDICES, "'walk.indptr' does not ascend: 1 at place 2 follows 2"),
        (np.array([1, 2, 2, 3], np.int32), INDICES, "'walk.indptr' divides 1 to 3, not 0 to 3"),
        (np.array([0, 2, 2, 4], np.int32), INDICES, "'walk.indptr' divides 0 to 4, not 0 to 3"),
        (np.array([0, 3], np.int32), INDICES, r"'walk.indptr' has shape \(2,\), not \(4\)"),
        (np.array(0, np.int32), INDICES, r"'walk.indptr' has shape \(\)"),
        (INDPTR.astype(np.float64), INDICES, "'walk.indptr' has dtype float64, not int32 or int64"),
        (INDPTR.astype(">i4"), INDICES, "'walk.indptr' has dtype >i4"),
        (INDPTR, np.array([1, -1, 0], np.int32), "'walk.indices' holds -1 at place 1, outside 0 to 2"),
        (INDPTR, np.array([1, 2, 3], np.int32), "'walk.indices' holds 3 at place 2, outside 0 to 2"),
        (INDPTR, INDICES[None], r"'walk.indices' has shape \(1, 3\)"),
        (INDPTR, INDICES.astype(np.uint32), "'walk.indices' has dtype uint32"),
    ],
)
def test_unsound_rows_are_named(indptr: np.ndarray, indices: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_csr(indptr, indices, 3, "walk", rows=3)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_finite(np.array([1.0, np.nan]), "data"), "'data' holds nan at place 1"),
        (lambda: check_finite(np.array([-np.inf, 1.0]), "data"), "'data' holds -inf at place 0"),
        (
            lambda: check_finite(np.array([0.5, 2.0]), "data", least=0, most=1),
            "holds 2.0 at place 1.* 0 to 1",
        ),
        (lambda: check_range(np.array([[5], [4]]), "ends", 6, start=5), "'ends' holds 4 at place 1"),
        (lambda: check_ascending(np.array([1, 1]), "keys", strictly=True), "1 at place 1 follows 1"),
        (lambda: check_borders(np.zeros(0, np.int64), "starts", 0), "'starts' divides nothing"),
    ],
)
def test_unsound_values_are_named(check: Callable[[], None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check()


def test_columns_of_a_row_ascend_and_those_of_the_next_begin_anew() -> None:
    indptr = np.array([0, 2, 2, 4, 4])
    check_csr(indptr, np.array([1, 3, 0, 2]), 4, "sources", ascending=True)
    for indices in ([3, 1, 0, 2], [1, 3, 2, 2]):
        with pytest.raises(
            ValueError, match=r"'sources.indices' holds . at place ., after . in the same row"
        ):
            check_csr(indptr, np.array(indices), 4, "sources", ascending=True)


def test_a_symmetric_matrix_has_each_entry_twice() -> None:
    indptr, indices, numbers = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1]), np.array([7, 7, 9, 9])
    check_symmetric(indptr, indices, numbers, "layered")
    with pytest.raises(ValueError, match="in the rows of both its ends"):
        check_symmetric(np.array([0, 1, 2, 4]), np.array([1, 2, 0, 1]), numbers, "layered")
    with pytest.raises(ValueError, match="another value in the row of its other end"):
        check_symmetric(indptr, indices, np.array([7, 7, 9, 8]), "layered")
