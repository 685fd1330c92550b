"""Where a search of C-HNSW ends: data on which distances say little, against exact search."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from stratarag.kernels import CHNSW
from stratarag.kernels.hamming import native_available

pytestmark = pytest.mark.skipif(not native_available(), reason="installed without the native kernels")

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


def two_far() -> np.ndarray:
    return around(50 * np.eye(1, DIMENSION) * np.array([[1], [-1]]), np.sqrt(DIMENSION))


def one_long() -> np.ndarray:
    vectors = unit(around(topics(50), 0.8))
    vectors[7] *= 100
    return vectors


def asked(vectors: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(2)
    noise = 0.3 * vectors.std(axis=0).mean() * rng.normal(size=(40, DIMENSION))
    return (vectors[rng.choice(N, 40)] + noise).astype(np.float32)


def reached(index: CHNSW, vectors: np.ndarray, queries: np.ndarray, k: int, **how: Any) -> float:
    """The share of results that score as one of the exact best k; of equal ones any will do."""
    exact = vectors.astype(np.float64)
    found, _ = index.search_many(queries, k, **how)[0]
    shares = []
    for query, rows in zip(queries.astype(np.float64), found, strict=True):
        scores = -((exact - query) ** 2).sum(axis=1) if index.options.metric == "l2" else exact @ query
        assert len(set(rows.tolist())) == k
        shares.append((scores[rows] >= np.sort(scores)[-k] - 1e-6 * np.abs(scores).max()).mean())
    return float(np.mean(shares))


@pytest.mark.parametrize("codes", ["int8", "float16", "float32"])
@pytest.mark.parametrize(
    ("metric", "vectors", "least"),
    [
        ("ip", unit(around(topics(1), 0.05)), 0.95),
        ("ip", unit(around(topics(20), 0.1)), 0.93),
        ("l2", 5 + around(topics(1), 1.0), 0.95),
        ("l2", two_far(), 0.95),
        ("ip", one_long(), 0.95),
        ("ip", np.repeat(topics(40), N // 40, axis=0), 0.99),
        ("ip", np.repeat(topics(1), N, axis=0), 1.0),
    ],
    ids=["alike", "topics alike", "far from the origin", "two far", "one long", "copies", "all equal"],
)
def test_recall_is_as_promised_where_distances_say_little(
    codes: Any, metric: Any, vectors: np.ndarray, least: float
) -> None:
    vectors = vectors.astype(np.float32)
    index = CHNSW.build([vectors], metric=metric, codes=codes, scan_limit=0)
    assert reached(index, vectors, asked(vectors), 10) >= least


@pytest.mark.parametrize("codes", ["int8", "float32"])
def test_more_is_looked_at_as_ef_grows_until_results_are_exact(codes: Any) -> None:
    vectors = unit(around(topics(20), 0.5)).astype(np.float32)
    index = CHNSW.build([vectors], codes=codes, scan_limit=0)
    queries, spent, recalls = asked(vectors), [], []
    for ef in (10, 11, 20, 80, 320, N):
        before = index.stats().distances
        recalls.append(reached(index, vectors, queries, 10, ef=ef))
        spent.append(index.stats().distances - before)
    assert spent == sorted(spent)
    assert all(wider >= narrow - 0.02 for narrow, wider in pairwise(recalls))
    assert recalls[-1] == 1


@pytest.mark.parametrize("k", [1, N - 1, N])
def test_one_result_and_nearly_all_are_exact_with_all_as_pool(k: int) -> None:
    vectors = unit(around(topics(20), 0.5)).astype(np.float32)
    index = CHNSW.build([vectors], scan_limit=0)
    assert reached(index, vectors, asked(vectors), k, ef=N) == 1
