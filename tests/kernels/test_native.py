"""The native functions, handed what no caller of theirs would hand over: an error, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from stratagraph.kernels import _native


def test_shortlists_of_shapes_that_do_not_fit() -> None:
    code, codes, mask = np.zeros(2, np.uint64), np.zeros((3, 2), np.uint64), np.ones(3, np.bool_)
    assert _native.shortlist(code, codes, mask, 9).tolist() == [0, 1, 2]
    for wrong in (
        (code[:1], codes, mask, 1),
        (code, codes, mask[:2], 1),
        (np.zeros(1024, np.uint64), np.zeros((3, 1024), np.uint64), mask, 1),
    ):
        with pytest.raises(ValueError, match=r"differ|one element per code"):
            _native.shortlist(*wrong)


@pytest.mark.parametrize("rows", [[-1], [0, 3], [2**62]])
def test_products_with_rows_that_are_not_there(rows: list[int]) -> None:
    vectors, query = np.ones((3, 9), np.float32), np.ones(9, np.float32)
    assert _native.products(vectors, query, np.array([2, 0])).tolist() == [9, 9]
    with pytest.raises(ValueError, match="a row is not one of"):
        _native.products(vectors, query, np.array(rows))
    with pytest.raises(ValueError, match="dimension"):
        _native.products(vectors, query[:8], np.array([0]))


def test_postings_that_do_not_fit() -> None:
    rows, counts, norms = np.zeros(3, np.int32), np.ones(3, np.uint8), np.ones(2, np.float32)
    one, weight, mask = np.zeros(1, np.int64), np.ones(1, np.float32), np.ones(2, np.bool_)
    for wrong in (
        (rows, counts[:2], one, one, weight, norms, mask),
        (rows, counts, one, one[:0], weight, norms, mask),
        (rows, counts, one, one, weight[:0], norms, mask),
        (rows, counts, one, one, weight, norms, mask[:1]),
        (rows, counts, one + 2**62, one + 2**62, weight, norms, mask),
        (rows, counts, one, one + 4, weight, norms, mask),
    ):
        with pytest.raises(ValueError, match=r"fit|one element|out of bounds"):
            _native.bm25(*wrong)


def test_an_installation_without_the_kernels_says_what_to_do() -> None:
    code = "import sys; sys.modules['stratagraph.kernels._native'] = None; import stratagraph.kernels.topk"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "ImportError: stratagraph's compiled kernels are missing" in ran.stderr
    assert "pip install --force-reinstall stratagraph" in ran.stderr
