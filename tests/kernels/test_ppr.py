from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratarag.kernels import ppr
from stratarag.kernels.ppr import shallow_pagerank, shallow_pagerank_many, transition_matrix


@pytest.fixture(params=["native", "numpy"], autouse=True)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(ppr, "native_available", lambda: False)
    elif not ppr.native_available():
        pytest.skip("installed without the native kernels")


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


def test_mass_stays_near_the_entries() -> None:
    path = np.array([[i, i + 1] for i in range(99)])
    transition = transition_matrix(100, path, np.ones(99))
    nodes, _ = shallow_pagerank(transition, np.array([50]), steps=2)
    assert sorted(nodes.tolist()) == [48, 49, 50, 51, 52]


def test_many_equal_one_by_one_on_any_number_of_threads() -> None:
    transition, _, _ = random_graph(500, 2000, 3)
    rng = np.random.default_rng(0)
    entries = [rng.choice(500, size=rng.integers(1, 9)) for _ in range(40)]
    single = [shallow_pagerank(transition, each) for each in entries]
    for threads in (1, 2, 5):
        many = shallow_pagerank_many(transition, entries, threads=threads)
        for (nodes, scores), (expected_nodes, expected_scores) in zip(many, single, strict=True):
            assert np.array_equal(nodes, expected_nodes)
            assert np.array_equal(scores, expected_scores)
    assert shallow_pagerank_many(transition, []) == []


def test_parallel_edges_add_up_and_loops_do_not_count() -> None:
    ends = np.array([[0, 1], [1, 0], [0, 2], [0, 0]])
    transition = transition_matrix(3, ends, np.array([1.0, 2.0, 1.0, 9.0]))
    assert transition.toarray()[0].tolist() == [0.0, 0.75, 0.25]


def test_a_graph_without_edges_keeps_all_mass_where_it_was() -> None:
    transition = transition_matrix(4, np.zeros((0, 2), dtype=np.int64), np.zeros(0))
    nodes, scores = shallow_pagerank(transition, np.array([2]), steps=5)
    assert nodes.tolist() == [2]
    assert scores.tolist() == [1.0]


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
