from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.test_chnsw import built, hierarchy

from stratagraph.errors import Damaged, FormatMismatch, StoreError
from stratagraph.kernels.chnsw import CHNSW


@pytest.fixture
def index() -> CHNSW:
    layers, children = hierarchy([80, 9], 12, seed=1)
    return built(layers, children, scan_limit=20)


def new(*counts: int) -> list[np.ndarray]:
    """Rows of which none is known."""
    return [np.full(count, -1) for count in counts]


@pytest.mark.parametrize("layers", [[np.eye(4), np.eye(3)], [], [np.zeros((3, 0))]])
def test_layers_have_one_dimension(layers: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="one dimension, at least 1"):
        built(layers)


@pytest.mark.parametrize(
    "wrong",
    [
        {"codes": "int4"},
        {"links": 1},
        {"ef_construction": 0},
        {"recall": 0},
        {"seed": -1},
        {"mode": "x"},
        {"breadth": 0},
    ],
)
def test_wrong_options_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        built([np.eye(3)], **wrong)


def test_wrong_queries(index: CHNSW) -> None:
    query = np.ones(12)
    with pytest.raises(ValueError, match="shape"):
        index.search_all(np.ones(11), 3)
    with pytest.raises(ValueError, match="k must be"):
        index.search_all(query, 0)
    with pytest.raises(ValueError, match="at least k = 5"):
        index.search_all(query, 5, ef=4)
    with pytest.raises(ValueError, match="2 layers"):
        index.search_all(query, 5, ef=[5])
    query[3] = np.inf
    with pytest.raises(ValueError, match="query 0"):
        index.search_all(query, 5)


def test_a_huge_k_is_all_nodes_and_takes_the_room_of_all_nodes() -> None:
    vectors = np.random.default_rng(0).normal(size=(1500, 8)).astype(np.float32)
    index = built([vectors, vectors[:40]], scan_limit=0)
    for k, ef in ((10**9, None), (10**9, 10**9), (2**70, None)):
        for (rows, scores), size in zip(index.search_all(vectors[0], k, ef=ef), (1500, 40), strict=True):
            assert sorted(rows.tolist()) == list(range(size))
            assert (np.diff(scores) <= 0).all()
        rows, _ = index.search_many(vectors[:3], k, ef=ef)[0]
        assert rows.shape == (3, 1500)


def test_wrong_changes_change_nothing(index: CHNSW) -> None:
    for error, change in [
        (IndexError, lambda: index.delete(0, np.array([3, 80]))),
        (ValueError, lambda: index.revised([np.ones((1, 12))], None, new(1))),
        (ValueError, lambda: index.revised([np.ones((1, 5)), np.ones((1, 5))], None, new(1, 1))),
    ]:
        with pytest.raises(error):
            change()
    assert index.sizes == [80, 9]
    for _ in range(2):
        index.delete(0, np.array([3]))
        assert index.sizes == [79, 9]


def test_damage_is_named(index: CHNSW) -> None:
    sound = {name: array.copy() for name, array in index.arrays().items()}

    def spoil(name: str, change: Any, blamed: str | None = None) -> None:
        arrays = dict(sound)
        spoilt = change(sound[name].copy())
        if spoilt is None:
            del arrays[name]
        else:
            arrays[name] = spoilt
        with pytest.raises(Damaged, match=blamed or name):
            CHNSW.from_arrays(arrays)

    def put(value: int) -> Any:
        def change(array: np.ndarray) -> np.ndarray:
            array.reshape(-1)[0] = value
            return array

        return change

    for name in sound:
        spoil(name, lambda array: None)
        if sound[name].size and name != "options":
            if not name.endswith("pilots"):  # fewer of them are as sound
                spoil(name, lambda array: array[:-1], "layer")
            spoil(name, lambda array: array.astype(np.complex128), name[:6])
    spoil("layer0.pilots", put(80))
    spoil("layer1.children", put(-1))
    spoil("layer1.child_from", put(5))
    spoil("layer0.alive", put(2))
    spoil("layer0.scales", lambda a: np.full_like(a, np.nan))
    spoil("options", lambda a: a[: len(a) // 2])
    fewer = re.sub(rb'"(ef|changes)": \[\d+, ', rb'"\1": [', bytes(sound["options"]))
    spoil("options", lambda _: np.frombuffer(fewer, np.uint8), "tells of 1 layers")
    for wrong in (b"[-1, ", b"7, [", b"[0.5, ", b"[0, 0, "):
        changes = re.sub(rb'"changes": \[0, ', b'"changes": ' + wrong, bytes(sound["options"]))
        spoil("options", lambda _, changes=changes: np.frombuffer(changes, np.uint8))
    if sound["layer0.links"].size:
        spoil("layer0.links", put(80))
        spoil("layer1.down", put(1000))
    newer = bytes(sound["options"]).replace(b'"format": 1', b'"format": 9')
    with pytest.raises(FormatMismatch, match="format 9"):
        CHNSW.from_arrays({**sound, "options": np.frombuffer(newer, np.uint8)})
    older = bytes(sound["options"]).replace(b'"format": 1', b'"format": 0')
    with pytest.raises(FormatMismatch, match="format 0"):
        CHNSW.from_arrays({**sound, "options": np.frombuffer(older, np.uint8)})


def test_a_stored_link_to_a_deleted_node_is_named(index: CHNSW) -> None:
    gone = np.array([7])
    index.delete(0, gone)
    sound = {name: array.copy() for name, array in index.arrays().items()}
    CHNSW.from_arrays(sound)
    for name in ("layer0.links", "layer0.pilots", "layer1.down", "layer1.children"):
        spoilt = sound[name].copy()
        if spoilt.size:
            spoilt.reshape(-1)[0] = 7
            with pytest.raises(Damaged, match=f"{name}' names deleted nodes"):
                CHNSW.from_arrays({**sound, name: spoilt})


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_fuzzed_file_never_crashes(data: Any) -> None:
    layers, children = hierarchy([60, 8], 6, seed=2)
    index = built(layers, children, scan_limit=10, codes=data.draw(st.sampled_from(["int8", "float32"])))
    arrays = {name: array.copy() for name, array in index.arrays().items()}
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(sorted(name for name in arrays if arrays[name].size)))
        raw = bytearray(arrays[name].tobytes())
        for _ in range(data.draw(st.integers(1, 4))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        arrays[name] = np.frombuffer(bytes(raw), arrays[name].dtype).reshape(arrays[name].shape)
    try:
        opened = CHNSW.from_arrays(arrays)
    except StoreError:
        return
    try:
        opened.search_all(np.ones(opened.dimension), 5)
        opened.revised([np.ones((3, opened.dimension))] * len(opened), None, new(*[3] * len(opened)))
        opened.delete(0, np.array([0]))
    except (StoreError, IndexError):
        return
