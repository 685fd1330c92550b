"""Core numbers and sampled betweenness, against networkx; the thresholds of NodeRAG's Algorithm 1."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.kernels.centrality import centrality


def ends_of(graph: nx.Graph) -> np.ndarray:
    return np.array(list(graph.edges()), dtype=np.int64).reshape(-1, 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.integers(0, 90), st.integers(0, 10_000))
def test_parity_with_networkx(nodes: int, edges: int, seed: int) -> None:
    graph = nx.gnm_random_graph(nodes, edges, seed=seed)
    sources = list(range(0, nodes, 3))
    found = centrality(ends_of(graph), nodes, np.array(sources))
    cores = nx.core_number(graph)
    between = nx.betweenness_centrality_subset(graph, sources, list(graph), normalized=False)
    assert found.cores.tolist() == [cores[node] for node in range(nodes)]
    assert found.betweenness == pytest.approx([between[node] for node in range(nodes)])


def test_thresholds_are_those_of_algorithm_1() -> None:
    graph = nx.gnm_random_graph(1200, 3000, seed=1)
    found = centrality(ends_of(graph), 1200, np.arange(10))
    assert found.core_threshold == math.floor(math.log(1200) * math.sqrt(2 * 3000 / 1200))
    assert found.bridge_threshold == pytest.approx(3 * found.betweenness.mean())


def test_the_core_is_no_degree_filter() -> None:
    """ERRATA N1: the centre of a star has a high degree and core number 1."""
    star = np.array([[0, leaf] for leaf in range(1, 50)])
    found = centrality(star, 50, np.arange(50))
    assert found.cores.tolist() == [1] * 50
    assert found.betweenness.argmax() == 0
    assert found.betweenness[0] > found.bridge_threshold


def test_parallel_edges_and_self_loops_change_nothing() -> None:
    plain = np.array([[0, 1], [1, 2], [2, 0], [2, 3]])
    noisy = np.concatenate([plain, plain[:, ::-1], [[1, 1], [3, 3]]])
    one, two = (centrality(ends, 4, np.arange(4)) for ends in (plain, noisy))
    assert one.cores.tolist() == two.cores.tolist() == [2, 2, 2, 1]
    assert one.betweenness.tolist() == two.betweenness.tolist()
    assert one.core_threshold == two.core_threshold


@pytest.mark.parametrize("nodes", [0, 1, 7])
def test_isolated_nodes_are_neither_core_nor_bridge(nodes: int) -> None:
    found = centrality(np.zeros((0, 2), np.int64), nodes, np.arange(min(nodes, 3)))
    assert found.cores.tolist() == [0] * nodes
    assert found.betweenness.tolist() == [0.0] * nodes
    assert found.core_threshold == 1


def test_a_source_that_is_no_node() -> None:
    with pytest.raises(ValueError, match="sources are nodes 0 to 3, not 1 to 4"):
        centrality(np.array([[0, 1]]), 4, np.array([1, 4]))
