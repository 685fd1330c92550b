"""Where a search of C-HNSW ends: data on which distances say little, against exact search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kernels.test_chnsw import built

from stratagraph.kernels.chnsw import CHNSW, Options

N, DIMENSION = 2000, 64


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def around(centres: np.ndarray, spread: float, seed: int = 0) -> np.ndarray:
    """Vectors at about `spread` from one of the centres each."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(N, DIMENSION)) * spread / np.sqrt(DIMENSION)
    return centres[rng.integers(0, len(centres), N)] + noise


def topics(count: int) -> np.ndarray:
    return unit(np.random.default_rng(1).normal(size=(count, DIMENSION)))


def one_long() -> np.ndarray:
    vectors = unit(around(topics(50), 0.8))
    vectors[7] *= 100
    return vectors


def asked(vectors: np.ndarray, seed: int = 2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = 0.3 * vectors.std(axis=0).mean() * rng.normal(size=(40, DIMENSION))
    return (vectors[rng.choice(N, 40)] + noise).astype(np.float32)


def reached(index: CHNSW, vectors: np.ndarray, queries: np.ndarray, k: int, **how: Any) -> float:
    """The share of results that score as one of the exact best k; of equal ones any will do."""
    exact = vectors.astype(np.float64)
    found, _ = index.search_many(queries, k, **how)[0]
    shares = []
    for query, rows in zip(queries.astype(np.float64), found, strict=True):
        scores = exact @ query
        assert len(set(rows.tolist())) == k
        shares.append((scores[rows] >= np.sort(scores)[-k] - 1e-6 * np.abs(scores).max()).mean())
    return float(np.mean(shares))


@pytest.mark.parametrize(
    ("vectors", "codes", "least"),
    [
        (unit(around(topics(1), 0.05)), "int8", 0.95),
        (unit(around(topics(20), 0.1)), "float32", 0.93),
        (one_long(), "int8", 0.95),
        (np.repeat(topics(40), N // 40, axis=0), "float32", 0.99),
        (np.repeat(topics(1), N, axis=0), "int8", 1.0),
    ],
    ids=["alike", "topics alike", "one long", "copies", "all equal"],
)
def test_recall_is_as_promised_where_distances_say_little(
    vectors: np.ndarray, codes: Any, least: float
) -> None:
    vectors = vectors.astype(np.float32)
    index = built([vectors], codes=codes, scan_limit=0)
    assert reached(index, vectors, asked(vectors), 10) >= least


def flat(dimensions: int, seed: int) -> np.ndarray:
    """Vectors in a subspace, the easier to find the fewer its dimensions are."""
    axes = np.random.default_rng(6).normal(size=(dimensions, DIMENSION))
    return unit(np.random.default_rng(seed).normal(size=(N, dimensions)) @ axes)


def test_ef_is_chosen_again_where_half_is_replaced_by_what_is_harder_to_find() -> None:
    easy, hard = flat(12, seed=4), flat(32, seed=5)
    rows = np.random.default_rng(3).permutation(N)[: N // 2]
    half = easy.astype(np.float32)
    index = built([half], scan_limit=0, keep_vectors=False)
    before, at_once, half = index.ef, index, half.copy()
    for part in np.array_split(rows, 10):
        half[part] = hard[part]
        index, _ = index.revised([half], None, [np.where(np.isin(np.arange(N), part), -1, np.arange(N))])
    fresh = built([half], scan_limit=0, keep_vectors=False)
    at_once, _ = at_once.revised([half], None, [np.where(np.isin(np.arange(N), rows), -1, np.arange(N))])
    queries = np.concatenate([asked(half, seed) for seed in range(10)])
    truth = [np.argsort(-(half @ query), kind="stable")[:10] for query in queries]

    def recall(which: CHNSW, **how: Any) -> float:
        found = which.search_many(queries, 10, **how)[0][0]
        return float(np.mean([np.isin(t, r).mean() for t, r in zip(truth, found, strict=True)]))

    best = recall(fresh)
    assert recall(index, ef=before) < best - 0.015  # else this would show nothing
    for which in (index, at_once):
        assert recall(which) >= best - 0.01
        again = CHNSW.from_arrays(which.arrays())
        assert again.ef == which.ef
        assert recall(again) == recall(which)


def test_the_ef_that_a_caller_gave_stays() -> None:
    vectors = unit(around(topics(20), 0.5)).astype(np.float32)
    index = built([vectors], scan_limit=0, ef=33)
    hard = unit(around(topics(1), 30.0)).astype(np.float32)
    index, changed = CHNSW.from_arrays(index.arrays()).revised([hard], None, [np.full(N, -1)])
    assert changed == [2 * N]
    assert index.ef == [33]


def test_of_equal_nodes_any_will_do() -> None:
    vectors = np.repeat(np.random.default_rng(0).standard_normal((500, 32)).astype(np.float32), 6, axis=0)
    assert CHNSW.build([vectors], options=Options(scan_limit=64)).ef[0] < 100
