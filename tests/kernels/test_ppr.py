from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.kernels.ppr import JoinedGraph, joined_pagerank, shallow_pagerank, transition_matrix


def random_graph(nodes: int, edges: int, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, nodes, (edges, 2))
    weights = rng.uniform(0.1, 3, edges)
    return transition_matrix(nodes, ends, weights), ends, weights


def dense(walk: tuple[np.ndarray, np.ndarray], nodes: int) -> np.ndarray:
    scores = np.zeros(nodes)
    scores[walk[0]] = walk[1]
    return scores


def recurrence(transition: Any, p: np.ndarray, restart: float, steps: int) -> np.ndarray:
    """The printed recurrence by dense matrices; a dangling node returns its mass to p (ERRATA N4)."""
    matrix = transition.toarray().astype(np.float64)
    matrix[matrix.sum(axis=1) == 0] = p
    pi = p
    for _ in range(steps):
        pi = restart * p + (1 - restart) * matrix.T @ pi
    return pi


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 30), st.integers(0, 60), st.integers(0, 6), st.floats(0.05, 0.95), st.integers(0, 10**6)
)
def test_it_is_the_printed_recurrence(nodes: int, edges: int, steps: int, restart: float, seed: int) -> None:
    transition, _, _ = random_graph(nodes, edges, seed)
    rng = np.random.default_rng(seed)
    entries = rng.choice(nodes, size=min(3, nodes), replace=False)
    shares = rng.uniform(0.1, 1, len(entries))
    p = np.zeros(nodes)
    p[entries] = shares / shares.sum()
    walk = shallow_pagerank(transition, entries, weights=shares, restart=restart, steps=steps)
    np.testing.assert_allclose(dense(walk, nodes), recurrence(transition, p, restart, steps), atol=1e-6)
    assert walk[1].sum() == pytest.approx(1, abs=1e-5)
    assert len(set(walk[0].tolist())) == len(walk[0])


def test_converged_it_is_networkx_pagerank() -> None:
    transition, ends, weights = random_graph(200, 600, 1)
    graph = nx.Graph()
    graph.add_nodes_from(range(200))
    for (a, b), weight in zip(ends.tolist(), weights.tolist(), strict=True):
        if a != b:
            before = graph.get_edge_data(a, b, {"weight": 0.0})["weight"]
            graph.add_edge(a, b, weight=before + weight)
    person = {3: 1.0, 77: 2.0}
    expected = nx.pagerank(
        graph, alpha=0.6, personalization=person, dangling=person, tol=1e-12, max_iter=1000
    )
    walk = shallow_pagerank(
        transition, np.array([3, 77]), weights=np.array([1.0, 2.0]), restart=0.4, steps=None, tolerance=1e-10
    )
    np.testing.assert_allclose(dense(walk, 200), [expected[node] for node in range(200)], atol=1e-6)


def test_parallel_edges_add_up_and_loops_do_not_count() -> None:
    ends = np.array([[0, 1], [1, 0], [0, 2], [0, 0]])
    transition = transition_matrix(3, ends, np.array([1.0, 2.0, 1.0, 9.0]))
    assert transition.toarray()[0].tolist() == [0.0, 0.75, 0.25]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entries": np.zeros(0, dtype=np.int64)}, "at least one entry"),
        ({"entries": np.array([7])}, "nodes 0 to 3"),
        ({"entries": np.array([-1])}, "nodes 0 to 3"),
        ({"restart": 0.0}, "restart"),
        ({"restart": 1.0}, "restart"),
        ({"steps": -1}, "steps"),
        ({"weights": np.array([0.0])}, "above 0"),
        ({"weights": np.array([1.0, 1.0])}, "as many"),
        ({"weights": np.array([np.nan])}, "finite"),
        ({"per_edge": 1.0}, "per_edge"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    transition = transition_matrix(4, np.array([[0, 1]]), np.ones(1))
    arguments: dict[str, Any] = {"entries": np.array([0])} | change
    with pytest.raises(ValueError, match=message):
        shallow_pagerank(transition, **arguments)


def test_bad_edges_are_named() -> None:
    with pytest.raises(ValueError, match="nodes 0 to 1"):
        transition_matrix(2, np.array([[0, 2]]), np.ones(1))
    with pytest.raises(ValueError, match="above 0"):
        transition_matrix(2, np.array([[0, 1]]), np.array([-1.0]))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(1, 120), st.floats(0, 0.05), st.integers(0, 10**6))
def test_what_a_bounded_walk_lacks_is_its_distance_to_the_whole_one(
    nodes: int, edges: int, per_edge: float, seed: int
) -> None:
    transition, _, _ = random_graph(nodes, edges, seed)
    entries = np.random.default_rng(seed).choice(nodes, size=min(3, nodes), replace=False)
    whole = dense(shallow_pagerank(transition, entries, steps=4), nodes)
    bounded = dense(shallow_pagerank(transition, entries, steps=4, per_edge=per_edge), nodes)
    assert np.all(bounded <= whole + 1e-6)
    assert np.abs(whole - bounded).sum() == pytest.approx(1 - bounded.sum(), abs=1e-5)


def test_a_bounded_walk_does_not_spread_over_a_hub() -> None:
    spokes = np.column_stack([np.zeros(5000, np.int64), np.arange(1, 5001)])
    transition = transition_matrix(5002, np.vstack([spokes, [[1, 5001]]]), np.ones(5001))
    near, _ = shallow_pagerank(transition, np.array([5001]), steps=4, per_edge=1e-3)
    assert sorted(near.tolist()) == [0, 1, 5001]
    everywhere, _ = shallow_pagerank(transition, np.array([5001]), steps=4)
    assert len(everywhere) == 5002


def damaged(what: str, value: float) -> Any:
    transition = transition_matrix(4, np.array([[0, 1], [1, 2], [2, 3]]), np.ones(3))
    getattr(transition, what)[1] = value
    return transition


@pytest.mark.parametrize(
    ("what", "value"),
    [
        *(("indptr", value) for value in (-1, 2**31 - 1, 7, 5)),
        *(("indices", value) for value in (-1, 4, 2**31 - 1)),
        *(("data", value) for value in (np.nan, np.inf, -1.0, 2.0)),
    ],
)
def test_a_damaged_matrix_is_an_error_and_nothing_outside_is_read(what: str, value: float) -> None:
    with pytest.raises(ValueError, match="damaged"):
        shallow_pagerank(damaged(what, value), np.array([0, 1]), steps=4)


NODES = 60


def cut(seed: int, parts: int = 3) -> tuple[Any, JoinedGraph]:
    """A random graph, and the same in parts that have nodes in common."""
    rng = np.random.default_rng(seed)
    ends, weights = rng.integers(0, NODES, (300, 2)), rng.uniform(0.1, 3, 300)
    owner = rng.integers(0, parts, len(ends))
    matrices, numbers, strengths = [], [], []
    for part in range(parts):
        own, heavy = ends[owner == part], weights[owner == part]
        nodes = np.arange(NODES) if part == 0 else np.unique(own)
        local = np.searchsorted(nodes, own)
        proper = own[:, 0] != own[:, 1]
        total = np.bincount(local[proper].ravel(), np.repeat(heavy[proper], 2), len(nodes))
        matrices.append(transition_matrix(len(nodes), local, heavy))
        numbers.append(nodes.astype(np.int32))
        strengths.append(np.maximum(total, 1e-12))
    return transition_matrix(NODES, ends, weights), JoinedGraph.of(matrices, numbers, strengths, NODES)


@pytest.mark.parametrize(("steps", "seed"), [(0, 0), (1, 1), (9, 0)])
def test_a_walk_over_parts_is_the_walk_over_the_whole(seed: int, steps: int) -> None:
    whole, parts = cut(seed)
    entries, weights = np.array([3, 5, 41]), np.array([1.0, 2.0, 0.5])
    given = {"weights": weights, "restart": 0.2, "steps": steps}
    expected = dense(shallow_pagerank(whole, entries, **given), NODES)
    np.testing.assert_allclose(dense(joined_pagerank(parts, entries, **given), NODES), expected, atol=1e-6)


def test_a_damaged_part_is_an_error() -> None:
    _, parts = cut(3)
    parts.matrices[1].indices[:] = 10_000
    with pytest.raises(ValueError, match="damaged"):
        joined_pagerank(parts, np.arange(NODES), steps=2)
