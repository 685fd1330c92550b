"""Euclidean distances of C-HNSW far from zero: nothing is lost there, in any form of search."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.kernels.chnsw_oracle import exact

from stratagraph.errors import Damaged
from stratagraph.kernels import CHNSW
from stratagraph.kernels.hamming import native_available
from stratagraph.kernels.knn import knn_graph

SIZES, DIMENSION, K = (1500, 120), 24, 10
OFFSETS = (0, 300, 1_000, 10_000)
native = pytest.mark.skipif(not native_available(), reason="installed without the native kernels")


def layers_at(offset: float, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(size, DIMENSION)) + offset).astype(np.float32) for size in SIZES]


def asked(offset: float) -> np.ndarray:
    return layers_at(offset, seed=1)[0][:40]


def recall(index: CHNSW, layers: list[np.ndarray], queries: np.ndarray, **how: Any) -> float:
    """Of the exact best k of each layer, by float64."""
    shares = [
        len(set(rows) & set(exact(layer, query, K, "l2")[0])) / K
        for layer, (found, _) in zip(layers, index.search_many(queries, K, **how), strict=True)
        for rows, query in zip(found.tolist(), queries, strict=True)
    ]
    return float(np.mean(shares))


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=native)])
def test_an_exact_search_is_exact_wherever_the_vectors_are(offset: float, backend: str) -> None:
    layers = layers_at(offset)
    index = CHNSW.build(layers, metric="l2", codes="float32", scan_limit=10_000, backend=backend)
    assert recall(index, layers, asked(offset)) == 1
    query = asked(offset)[0]
    for layer, (rows, scores), many in zip(
        layers, index.search_all(query, K), index.search_many(query[None], K), strict=True
    ):
        truth, how = exact(layer, query, K, "l2")
        assert rows.tolist() == truth.tolist() == many[0][0].tolist()
        np.testing.assert_allclose(scores, how, rtol=1e-3)


@native
@pytest.mark.parametrize("codes", ["int8", "float16", "float32"])
@pytest.mark.parametrize("offset", OFFSETS)
def test_a_graph_is_searched_as_widely_and_finds_as_much_far_from_zero(offset: float, codes: str) -> None:
    def built(at: float) -> CHNSW:
        return CHNSW.build(layers_at(at), metric="l2", codes=codes, scan_limit=0)

    index = built(offset)
    assert recall(index, layers_at(offset), asked(offset)) > 0.96
    assert max(index.ef) <= 1.5 * max(built(0).ef)


@native
def test_what_is_added_deleted_stored_and_revised_is_around_the_same_origin() -> None:
    layers, queries = layers_at(10_000), asked(10_000)
    index = CHNSW.build([layer[: len(layer) // 2] for layer in layers], metric="l2", scan_limit=0)
    for level, layer in enumerate(layers):
        index.add(level, layer[len(layer) // 2 :])
    assert recall(index, layers, queries) > 0.96
    opened = CHNSW.from_arrays(index.arrays())
    assert opened.search_many(queries, K)[0][0].tolist() == index.search_many(queries, K)[0][0].tolist()
    other = [np.concatenate([layers_at(10_000, seed=2)[0][:50], layers[0][50:]]), layers[1]]
    revised, changed = opened.revised(other)
    assert changed == [100, 0], "what is the same is known again"
    assert recall(revised, other, queries) > 0.96


@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=native)])
def test_an_index_that_began_empty_is_around_the_first_vectors(backend: str) -> None:
    layers = layers_at(10_000)
    nothing = [layer[:0] for layer in layers]
    added = CHNSW.build(nothing, metric="l2", codes="float32", backend=backend)
    for level, layer in enumerate(layers):
        added.add(level, layer)
    revised, _ = CHNSW.build(nothing, metric="l2", codes="float32", backend=backend).revised(layers)
    for index in (added, revised):
        assert recall(index, layers, asked(10_000), ef=400) > 0.99


@native
def test_calibration_by_a_sample_is_the_same_far_from_zero() -> None:
    layers, queries = layers_at(1_000), asked(1_000)
    index = CHNSW.build(layers, metric="l2", codes="float32", scan_limit=0)
    near = CHNSW.build([layer - 1_000 for layer in layers], metric="l2", codes="float32", scan_limit=0)
    assert max(index.calibrate(queries)) <= 1.5 * max(near.calibrate(queries - 1_000))


@pytest.mark.parametrize("many", [40, 1500])
@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=native)])
def test_neighbours_are_those_that_they_are_near_zero(many: int, backend: str) -> None:
    vectors = layers_at(1_000)[0][:many]
    rows, scores = knn_graph(vectors, 5, metric="l2", ef=200, backend=backend)
    shares = []
    for node in range(0, many, 20):
        truth = [row for row in exact(vectors, vectors[node], 6, "l2")[0] if row != node][:5]
        shares.append(len(set(truth) & set(rows[node].tolist())) / 5)
        distances = -((vectors[rows[node]].astype(np.float64) - vectors[node]) ** 2).sum(axis=1)
        np.testing.assert_allclose(scores[node], distances, rtol=0.05)
    assert np.mean(shares) > 0.95


def test_whole_numbers_keep_their_ties() -> None:
    whole = np.random.default_rng(0).integers(1_000, 1_004, size=(200, 3)).astype(np.float32)
    index = CHNSW.build([whole], metric="l2", codes="float32", backend="numpy")
    for query in whole[:20]:
        rows, scores = index.search_all(query, 30)[0]
        truth, how = exact(whole, query, 30, "l2")
        assert rows.tolist() == truth.tolist(), "of equal scores the lower row first"
        assert scores.tolist() == how.tolist()


def earlier(index: CHNSW) -> dict[str, np.ndarray]:
    """Arrays as they were before there was an origin."""
    arrays = index.arrays()
    assert not arrays.pop("origin").any()
    told = json.loads(bytes(arrays["options"])) | {"format": 3}
    return arrays | {"options": np.frombuffer(json.dumps(told).encode(), np.uint8)}


@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=native)])
def test_an_index_of_an_earlier_format_opens_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    layers, queries = layers_at(5), asked(5)
    with monkeypatch.context() as patch:
        patch.setattr(CHNSW, "_place_origin", lambda *_: None)
        before = CHNSW.build(layers, metric="l2", codes="float32", backend=backend)
    opened = CHNSW.from_arrays(earlier(before), backend=backend)
    for (rows, scores), (found, how) in zip(
        before.search_many(queries, K), opened.search_many(queries, K), strict=True
    ):
        assert rows.tolist() == found.tolist()
        assert scores.tolist() == how.tolist()
    opened.add(0, queries)
    again = CHNSW.from_arrays(opened.arrays(), backend=backend)
    assert recall(again, [np.concatenate([layers[0], queries]), layers[1]], queries, ef=400) > 0.99


def test_an_index_without_euclidean_distances_is_written_as_before() -> None:
    arrays = CHNSW.build([unit for unit in layers_at(0)], metric="cosine", backend="numpy").arrays()
    assert "origin" not in arrays
    assert json.loads(bytes(arrays["options"]))["format"] == 3


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (None, "'origin' is missing"),
        (np.full(DIMENSION, np.nan, np.float32), "origin"),
        (np.full(DIMENSION, np.inf, np.float32), "origin"),
        (np.full(DIMENSION, 1e30, np.float32), "above 1e"),
        (np.zeros(DIMENSION + 1, np.float32), "origin"),
        (np.zeros((DIMENSION, 1), np.float32), "origin"),
        (np.zeros(DIMENSION, np.float64), "origin"),
    ],
)
def test_a_hostile_origin_is_refused(origin: np.ndarray | None, said: str) -> None:
    arrays = CHNSW.build(layers_at(300), metric="l2", backend="numpy").arrays()
    spoilt = {name: array for name, array in arrays.items() if name != "origin"}
    if origin is not None:
        spoilt["origin"] = origin
    with pytest.raises(Damaged, match=said):
        CHNSW.from_arrays(spoilt, backend="numpy")


def test_an_origin_that_the_options_do_not_tell_of_is_refused() -> None:
    arrays = CHNSW.build(layers_at(0), metric="ip", backend="numpy").arrays()
    with pytest.raises(Damaged, match="'origin' is there"):
        CHNSW.from_arrays({**arrays, "origin": np.zeros(DIMENSION, np.float32)}, backend="numpy")
