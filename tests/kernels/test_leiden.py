from __future__ import annotations

import random
from functools import partial
from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from stratagraph.kernels.edges import Edges, community_graph
from stratagraph.kernels.leiden import hierarchical_leiden, leiden, modularity, split_large
from stratagraph.kernels.leidenalg import QUALITIES, communities


def rows(graph):
    return np.array(graph.edges(), dtype=np.int64).reshape(-1, 2)


def planted(groups=20, size=10, inside=0.7, outside=0.01, seed=1):
    graph = nx.planted_partition_graph(groups, size, inside, outside, seed=seed)
    return rows(graph), np.repeat(np.arange(groups), size)


def members(labels):
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


def connected(ends, labels):
    graph = nx.Graph(ends.tolist())
    graph.add_nodes_from(range(len(labels)))
    return all(nx.is_connected(graph.subgraph(community)) for community in members(labels))


graphs = st.integers(1, 14).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40)
    )
)


class TestLeiden:
    def test_is_as_good_as_louvain_of_networkx(self):
        graph = nx.karate_club_graph()
        found = leiden(rows(graph), None, 34)
        theirs = nx.community.louvain_communities(graph, weight=None, seed=0)
        ours = nx.community.modularity(graph, members(found), weight=None)
        assert ours >= nx.community.modularity(graph, theirs, weight=None) - 1e-9
        assert ours == pytest.approx(0.4198, abs=0.002)

    def test_order_direction_and_multiplicity_of_edges_do_not_matter(self):
        ends, _ = planted()
        rng = np.random.default_rng(0)
        weights = rng.random(len(ends))
        once = leiden(ends, weights, 200, max_size=6)
        twice = np.concatenate([ends, ends[:, ::-1], [[3, 3]]])
        halves = np.concatenate([weights / 2, weights / 2, [9.0]])
        order = rng.permutation(len(twice))
        assert np.array_equal(leiden(twice[order], halves[order], 200, max_size=6), once)

    def test_is_repeatable_and_leaves_the_callers_random_numbers_alone(self):
        ends, _ = planted(outside=0.1)
        random.seed(7)
        expected = random.random()
        random.seed(7)
        first = leiden(ends, None, 200, max_size=8, seed=3)
        assert random.random() == expected
        random.seed(99)
        assert np.array_equal(leiden(ends, None, 200, max_size=8, seed=3), first)

    @settings(max_examples=60, deadline=None)
    @given(graphs, st.integers(1, 5))
    def test_communities_are_connected_and_bounded(self, graph, bound):
        count, pairs = graph
        ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        assert connected(ends, leiden(ends, None, count))
        labels = leiden(ends, None, count, max_size=bound)
        assert labels.shape == (count,)
        assert np.bincount(labels).max() <= bound
        assert np.array_equal(np.unique(labels), np.arange(labels.max() + 1))

    @pytest.mark.parametrize(
        ("ends", "weights", "message"),
        [
            ([[0, 1], [1, 4]], None, "edge 1 joins .*nodes are 0 to 3"),
            ([[0, 1], [1, 2]], [1.0, np.nan], "edge 1 has the weight nan"),
            ([[0, 1], [1, 2]], [-1.0, 1.0], "edge 0 has the weight -1"),
            ([[0, 1]], [1.0, 2.0], "1 edges have as many weights"),
            ([[0.5, 1]], None, "rows of two integers"),
        ],
    )
    def test_bad_input_is_named(self, ends, weights, message):
        weights = None if weights is None else np.array(weights)
        with pytest.raises(ValueError, match=message):
            leiden(np.array(ends), weights, 4)


class TestBound:
    @pytest.mark.parametrize(
        ("graph", "pieces"),
        [(nx.star_graph(100), 7), (nx.complete_graph(40), 3), (nx.empty_graph(31), 3)],
        ids=["star", "clique", "no edges"],
    )
    def test_what_leiden_leaves_whole_is_cut_into_as_few_equal_pieces_as_will_do(self, graph, pieces):
        edges = Edges.of(rows(graph), None, len(graph))
        labels = split_large(edges, np.zeros(len(graph), dtype=np.int64), 15, 0)
        sizes = np.bincount(labels)
        assert len(sizes) == pieces
        assert sizes.max() <= 15
        assert sizes.max() - sizes.min() <= 1

    def test_pieces_follow_heavy_edges(self):
        graph = nx.complete_graph(12)
        weights = np.array([1.0 if a // 4 == b // 4 else 0.99 for a, b in graph.edges()])
        labels = split_large(Edges.of(rows(graph), weights, 12), np.zeros(12, dtype=np.int64), 4, 0)
        assert members(labels) == members(np.repeat(range(3), 4))


class TestUpdate:
    def test_fixed_nodes_keep_company_and_new_ones_find_theirs(self):
        ends, groups = planted()
        before = groups.copy()
        new = np.arange(0, 200, 10)
        before[new] = -1
        after = leiden(ends, None, 200, initial=before, movable=before < 0, max_size=15)
        assert members(after) == members(groups)

    def test_far_communities_do_not_change(self):
        ends, _ = planted(groups=40, outside=0.005)
        before = leiden(ends, None, 400, max_size=8)
        movable = np.zeros(400, dtype=bool)
        movable[:3] = True
        after = leiden(ends, None, 400, max_size=8, initial=before, movable=movable)
        assert len(members(after) - members(before)) <= 6

    def test_moves_never_lose_quality(self):
        ends, _ = planted(outside=0.08)
        rng = np.random.default_rng(0)
        before = rng.integers(0, 20, 200)
        movable = rng.random(200) < 0.3
        after = leiden(ends, None, 200, initial=before, movable=movable)
        graph = nx.Graph(ends.tolist())
        assert nx.community.modularity(graph, members(after)) > nx.community.modularity(
            graph, members(before)
        )
        fixed = ~movable
        assert members(np.where(fixed, after, -1)) - members(after) <= members(np.where(fixed, before, -1))

    @settings(max_examples=60, deadline=None)
    @given(graphs, st.integers(1, 5), st.randoms(use_true_random=False))
    def test_any_update_is_a_partition_within_the_bound(self, graph, bound, chance):
        count, pairs = graph
        ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        before = leiden(ends, None, count, max_size=bound)
        before[[chance.random() < 0.2 for _ in range(count)]] = -1
        movable = np.array([chance.random() < 0.3 for _ in range(count)])
        after = leiden(ends, None, count, max_size=bound, initial=before, movable=movable)
        assert np.bincount(after).max() <= bound
        kept = ~movable & (before >= 0)
        for label in np.unique(before[kept]):
            assert len(np.unique(after[kept & (before == label)])) == 1


class TestHierarchy:
    def test_levels_are_nested_and_end_within_the_bound(self):
        ends, _ = planted(groups=60, outside=0.02)
        levels = hierarchical_leiden(ends, None, 600, max_size=8, max_levels=10)
        assert len(levels) > 1
        assert np.bincount(levels[-1]).max() <= 8
        for coarse, fine in pairwise(levels):
            assert fine.max() > coarse.max()
            assert all(len(np.unique(coarse[list(each)])) == 1 for each in members(fine))

    def test_the_number_of_levels_is_bounded(self):
        ends = rows(nx.path_graph(500))
        levels = hierarchical_leiden(ends, None, 500, max_size=2, max_levels=2)
        assert len(levels) == 2
        assert np.bincount(levels[-1]).max() > 2


def test_the_next_level_counts_crossing_edges():
    ends = np.array([[0, 1], [0, 2], [1, 2], [1, 3], [3, 2], [4, 4]])
    above, weights = community_graph(ends, None, np.array([0, 0, 1, 1, 2]))
    assert above.tolist() == [[0, 1]]
    assert weights.tolist() == [3.0]


class TestModularity:
    def test_agrees_with_networkx(self):
        graph = nx.karate_club_graph()
        ends = np.array(graph.edges())
        weights = np.array([graph[a][b]["weight"] for a, b in ends.tolist()], dtype=float)
        labels = np.random.default_rng(0).integers(0, 4, 34)
        expected = nx.community.modularity(graph, [set(np.flatnonzero(labels == each)) for each in range(4)])
        assert modularity(ends, weights, labels) == pytest.approx(expected)


class TestLeidenalg:
    @pytest.fixture(autouse=True)
    def installed(self):
        pytest.importorskip("leidenalg")

    @pytest.mark.parametrize("quality", QUALITIES)
    def test_no_partition_of_a_small_graph_is_better(self, quality):
        """Against all partitions, by the formulas of the papers."""
        ends = np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [4, 5], [3, 5], [5, 6], [4, 6]])
        weights = np.ones(9) if quality == "significance" else np.array([1, 0.9, 1, 0.5, 1, 1, 0.8, 0.7, 1])
        resolution = 0.4 if quality == "CPM" else 1.0
        value = partial(value_of, quality, ends, weights, resolution)
        best = max(value(np.array(labels)) for labels in product(range(3), repeat=7))
        found = communities(ends, weights, 7, quality=quality, resolution=resolution)
        assert value(found) == pytest.approx(best)
        assert 1 < found.max() + 1 < 7

    def test_bounds_hold_after_it_and_edges_may_come_in_any_order(self):
        ends, truth = planted(groups=10, outside=0.004)
        found = communities(ends, None, 100)
        assert members(found) == members(truth)
        assert np.array_equal(communities(ends[::-1, ::-1], None, 100), found)
        bounded = split_large(Edges.of(ends, None, 100), found, 6, 0)
        assert np.bincount(bounded).max() <= 6
        assert connected(ends, bounded)
        assert communities(ends[:0], None, 3).tolist() == [0, 1, 2]


def value_of(quality, ends, weights, resolution, labels):
    """The quality of a partition, which leidenalg maximises."""
    nodes, total = len(labels), weights.sum()
    inside = np.array([weights[(labels[ends] == one).all(axis=1)].sum() for one in np.unique(labels)])
    sizes = np.bincount(labels)[np.unique(labels)]
    pairs, density = sizes * (sizes - 1) / 2, 2 * total / nodes / (nodes - 1)
    match quality:
        case "modularity":
            return modularity(ends, weights, labels)
        case "CPM":
            return (inside - resolution * pairs).sum()
        case "RBER":
            return (inside - resolution * density * pairs).sum()
        case "significance":
            whole = pairs > 0
            return (pairs[whole] * divergence(inside[whole] / pairs[whole], density)).sum()
        case "surprise":
            return total * divergence(inside.sum() / total, 2 * pairs.sum() / nodes / (nodes - 1))


def divergence(one, other):
    """Kullback and Leibler's, between two coins."""
    return rel_entr(one, other) + rel_entr(1 - one, 1 - other)
