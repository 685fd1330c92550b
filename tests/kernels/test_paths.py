"""Shortest paths: parity with networkx, ties, masks."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.kernels.paths import Adjacency, shortest_paths


def graph_of(nodes: int, ends: list[tuple[int, int]]) -> Adjacency:
    return Adjacency(**Adjacency.build(nodes, np.array(ends, np.int64).reshape(-1, 2)))


def expected(graph: nx.Graph, source: int, target: int) -> list[int] | None:
    """The first in order of all shortest paths."""
    if source not in graph or target not in graph or not nx.has_path(graph, source, target):
        return None
    return min(nx.all_shortest_paths(graph, source, target))


EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(EDGES, st.sets(st.integers(0, 11)), st.sets(st.integers(0, 29)))
def test_paths_are_those_of_networkx(ends, hidden, closed):
    adjacency = graph_of(12, ends)
    open_nodes = np.array([node not in hidden for node in range(12)])
    open_edges = np.array([edge not in closed for edge in range(30)])
    whole, part = nx.Graph(), nx.Graph()
    whole.add_nodes_from(range(12))
    part.add_nodes_from(node for node in range(12) if node not in hidden)
    first: dict[frozenset[int], int] = {}
    for edge, (one, two) in enumerate(ends):
        if one != two:
            whole.add_edge(one, two)
            first.setdefault(frozenset((one, two)), edge)
    part.add_edges_from(
        tuple(pair) for pair, edge in first.items() if edge not in closed and not pair & hidden
    )
    pairs = [(source, target) for source in range(12) for target in range(12)]
    assert shortest_paths(adjacency, pairs) == [expected(whole, *pair) for pair in pairs]
    masked = shortest_paths(adjacency, pairs, nodes=open_nodes, edges=open_edges)
    assert masked == [expected(part, *pair) for pair in pairs]


def test_of_edges_between_the_same_two_the_first_counts_both_ways():
    adjacency = graph_of(4, [(2, 1), (0, 1), (1, 2), (3, 3)])
    assert adjacency.indices.tolist() == [1, 0, 2, 1]
    assert adjacency.edges.tolist() == [1, 1, 0, 0]


def test_what_does_not_fit_is_named() -> None:
    adjacency = Adjacency(**Adjacency.build(3, np.array([[0, 1], [1, 2]])))
    with pytest.raises(ValueError, match=r"\(0, 3\) is not of nodes from 0 to 2"):
        shortest_paths(adjacency, [(0, 3)])
    with pytest.raises(ValueError, match="nodes marks 2 nodes of 3"):
        shortest_paths(adjacency, [(0, 2)], nodes=np.ones(2, np.bool_))
    with pytest.raises(ValueError, match="edges marks 1 edges"):
        shortest_paths(adjacency, [(0, 2)], edges=np.ones(1, np.bool_))


@pytest.mark.parametrize("name", ["indptr", "indices", "edges"])
@pytest.mark.parametrize("value", [-1, 2**31 - 1, -(2**31)])
def test_arrays_altered_under_a_search_end_it_with_an_error(name: str, value: int) -> None:
    """Nothing is read outside the arrays, whatever stands in them."""
    ends = np.array([[i, (7 * i + 1) % 40] for i in range(40)])
    for place in range(len(getattr(Adjacency(**Adjacency.build(40, ends)), name))):
        adjacency = Adjacency(**Adjacency.build(40, ends))
        getattr(adjacency, name)[place] = value
        adjacency.numbered = 40
        try:
            found = shortest_paths(
                adjacency,
                [(0, 20), (5, 39), (17, 3)],
                edges=np.ones(40, np.bool_),
                nodes=np.ones(40, np.bool_),
            )
        except (ValueError, IndexError):
            continue
        assert all(0 <= node < 40 for path in found if path for node in path)


def test_arrays_that_are_no_rows_are_named() -> None:
    arrays = Adjacency.build(3, np.array([[0, 1], [1, 2]]))
    with pytest.raises(ValueError, match="'indptr' divides 0 to 4, not 0 to 3"):
        Adjacency(arrays["indptr"], arrays["indices"][:-1], arrays["edges"][:-1])
    with pytest.raises(ValueError, match="'edges' has shape"):
        Adjacency(arrays["indptr"], arrays["indices"], arrays["edges"][:-1])
