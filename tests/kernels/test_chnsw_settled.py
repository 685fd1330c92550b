"""Where a search of C-HNSW ends: data on which distances say little, against exact search."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from stratagraph.kernels import CHNSW
from stratagraph.kernels.hamming import native_available

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


def flat(dimensions: int, seed: int) -> np.ndarray:
    """Vectors in a subspace, the easier to find the fewer its dimensions are."""
    axes = np.random.default_rng(6).normal(size=(dimensions, DIMENSION))
    return unit(np.random.default_rng(seed).normal(size=(N, dimensions)) @ axes)


def replaced(index: CHNSW, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Replace nodes in small steps; which row of `vectors` each node has."""
    for part in np.array_split(rows, 10):
        index.delete(0, part)
        index.add(0, vectors[part])
    return np.concatenate([np.arange(len(vectors)), rows])


@pytest.mark.parametrize("keep_vectors", [True, False])
def test_ef_is_settled_again_where_half_is_replaced_by_what_is_harder_to_find(keep_vectors: bool) -> None:
    easy, hard = flat(12, seed=4), flat(32, seed=5)
    rows = np.random.default_rng(3).permutation(N)[: N // 2]
    half = easy.astype(np.float32)
    index = CHNSW.build([half], scan_limit=0, keep_vectors=keep_vectors)
    before = index.ef
    half = half.copy()
    half[rows] = hard[rows]
    fresh = CHNSW.build([half], scan_limit=0, keep_vectors=keep_vectors)
    revised, _ = index.revised([half])
    known = replaced(index, half, rows)
    queries = np.concatenate([asked(half, seed) for seed in range(10)])
    truth = [np.argsort(-(half @ query), kind="stable")[:10] for query in queries]

    def recall(which: CHNSW, of: np.ndarray, **how: Any) -> float:
        found = of[which.search_many(queries, 10, **how)[0][0]]
        return float(np.mean([np.isin(t, r).mean() for t, r in zip(truth, found, strict=True)]))

    best = recall(fresh, np.arange(N))
    assert recall(index, known, ef=before) < best - 0.015  # else this would show nothing
    for which, of in [(index, known), (revised, np.arange(N))]:
        assert recall(which, of) >= best - 0.01
        again = CHNSW.from_arrays(which.arrays())
        assert again.ef == which.ef
        assert recall(again, of) == recall(which, of)


def test_a_few_changes_settle_nothing_and_many_in_small_steps_do() -> None:
    vectors = unit(around(topics(20), 0.5)).astype(np.float32)
    new = unit(around(topics(20), 0.5, seed=9)).astype(np.float32)
    index = CHNSW.build([vectors], scan_limit=0)
    asked_so_far = index.stats().queries
    for at in range(N // 5):
        assert index.stats().queries == asked_so_far
        index.add(0, new[at : at + 1])
        if at % 100 == 0:  # what is counted is kept
            index = CHNSW.from_arrays(index.arrays())
            asked_so_far = 0
    index.add(0, new[N // 5 : N // 2])
    assert index.stats().queries > asked_so_far


@pytest.mark.parametrize("how", ["ef", "recall", "queries"])
def test_what_the_caller_settled_stays(how: str) -> None:
    vectors = unit(around(topics(20), 0.5)).astype(np.float32)
    hard = unit(around(topics(1), 30.0)).astype(np.float32)
    index = CHNSW.build([vectors], scan_limit=0, ef=33 if how == "ef" else None)
    if how == "recall":
        index.calibrate(recall=0.5)
    if how == "queries":
        index.calibrate(vectors[:50])
    before = index.ef
    index = CHNSW.from_arrays(index.arrays())
    index.add(0, hard)
    index.delete(0, np.arange(N))
    assert index.ef == before
    if how != "ef":
        assert index.calibrate() != before
        index.delete(0, np.arange(N, 2 * N))  # of nothing there is nothing to settle
