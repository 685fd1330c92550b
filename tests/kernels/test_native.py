"""The native functions, handed what no caller of theirs would hand over: an error, and nothing else."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tests.kernels.test_chnsw import built

from stratagraph.kernels import _native

INTS = [
    np.array(values, np.int32)
    for values in (
        [],
        [0],
        [0, 2, 4],
        [-1, -1, -1],
        [2, 1, 0],
        [0, 2**31 - 1, 3],
        [0, 1, 2, 3],
        [1, 0, 1, 0],
        [-(2**31), 2**31 - 1],
    )
]
MASKS = [np.zeros(0, np.bool_), np.ones(2, np.bool_), np.ones(3, np.bool_)]
PAIRS = [
    np.array(values, np.int64).reshape(-1, 2)
    for values in ([], [0, 1], [1, 1], [-1, 0], [0, 2**62], [0, 2**32])
]


@pytest.mark.parametrize("offsets", INTS)
def test_paths_through_what_is_no_graph(offsets: np.ndarray) -> None:
    for targets, edges, pairs, nodes, allowed in itertools.product(INTS, INTS, PAIRS, MASKS, MASKS):
        try:
            ends, found = _native.shortest_paths(offsets, targets, edges, pairs, nodes, allowed)
        except ValueError:
            continue
        assert len(ends) == len(pairs)
        assert all(0 <= node < len(offsets) - 1 for node in found.tolist())


LAYER: dict[str, Any] = {
    "codes": np.zeros((3, 64), np.uint8),
    "scales": np.ones(3, np.float32),
    "vectors": np.zeros((3, 8), np.float32),
    "links": np.full((3, 4), -1, np.int32),
    "down": np.full(3, -1, np.int32),
    "child_from": np.zeros(4, np.int64),
    "children": np.zeros(0, np.int32),
    "alive": np.ones(3, np.uint8),
    "pilots": np.zeros(1, np.int32),
    "ids": np.arange(3, dtype=np.int32),
    "max_scale": 1.0,
    "max_norm": 1.0,
    "scanned": False,
}


def graph() -> Any:
    return _native.Graph(1, 8, 2, 10, False, "auto")


@pytest.mark.parametrize(
    "name",
    [name for name in LAYER if isinstance(LAYER[name], np.ndarray) and name not in ("children", "pilots")],
)
def test_layers_whose_arrays_do_not_fit(name: str) -> None:
    index = graph()
    index.set_layer(0, **LAYER)
    wrong = np.zeros((len(LAYER[name]) + 1, *LAYER[name].shape[1:]), LAYER[name].dtype)
    with pytest.raises(ValueError, match="arrays of a layer do not fit each other"):
        index.set_layer(0, **LAYER | {name: wrong})


def test_changes_of_rows_and_layers_that_are_not_there() -> None:
    index, rows = graph(), np.array([3], np.int32)
    index.set_layer(0, **LAYER)
    index.set_layer(1, **LAYER | {"links": np.zeros((0, 4), np.int32), "scanned": True})
    wide, far = (np.zeros((3, 2), np.int32), np.zeros((3, 2), np.float32)), np.array([-1], np.int32)
    for attempt in (
        lambda: index.insert(0, rows, 2, 8, 1),
        lambda: index.insert(0, far, 2, 8, 1),
        lambda: index.insert(0, rows[:0], 5, 8, 1),
        lambda: index.insert(1, rows[:0], 2, 8, 1),
        lambda: index.insert(7, rows[:0], 2, 8, 1),
        lambda: index.remove(0, rows, 2, 1),
        lambda: index.remove(0, rows[:0], 5, 1),
        lambda: index.repair(1),
        lambda: index.repair(2),
        lambda: index.link_down(0, rows[:0], 4, 1),
        lambda: index.link_down(1, rows, 4, 1),
        lambda: index.link_down(2, rows[:0], 4, 1),
        lambda: index.neighbours(0, 3, 4, 1, *wide),
        lambda: index.neighbours(1, 2, 4, 1, *wide),
    ):
        with pytest.raises(
            ValueError, match=r"no such layer|not one of|nothing lies below|do not fit the layer"
        ):
            attempt()
    with pytest.raises(IndexError):
        index.set_layer(2, **LAYER)


def test_searches_whose_arrays_do_not_fit() -> None:
    index = built([np.eye(8, dtype=np.float32)], scan_limit=0)._graph
    query, ef = np.ones((1, 8), np.float32), np.full(1, 4, np.int32)
    rows, scores = np.zeros((1, 1, 3), np.int32), np.zeros((1, 1, 3), np.float32)
    index.search(query, 3, ef, 0, 1, rows, scores)
    for wrong in (
        (query[:, :7].copy(), 3, ef, 0, 1, rows, scores),
        (query, 2, ef, 0, 1, rows, scores),
        (query, 3, ef[:0], 0, 1, rows, scores),
        (query, 3, ef, 0, 1, rows[:, :0], scores),
        (query, 3, ef, 0, 1, rows, scores.reshape(3, 1, 1)),
        (query, 0, ef, 0, 1, rows[:, :, :0], scores[:, :, :0]),
    ):
        with pytest.raises(ValueError, match="do not fit each other"):
            index.search(*wrong)
    for pool in (-1, 0, -(2**31), 2**31 - 1):
        index.search(query, 3, np.full(1, pool, np.int32), 0, 1, rows, scores)
        assert set(rows.ravel().tolist()) <= {-1, *range(8)}
    index.search(query, 3, ef, 5, 1, rows, scores)


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
