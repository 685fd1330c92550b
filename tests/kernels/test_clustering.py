from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score

from stratagraph.kernels.augment import augment
from stratagraph.kernels.partition import cluster, community_graph


def rows(graph):
    return np.array(graph.edges(), dtype=np.int64).reshape(-1, 2)


def planted(groups=20, size=10, inside=0.8, outside=0.01):
    graph = nx.planted_partition_graph(groups, size, inside, outside, seed=1)
    return rows(graph), np.repeat(np.arange(groups), size)


class TestCluster:
    def test_finds_what_was_planted(self):
        ends, groups = planted()
        assert adjusted_rand_score(groups, cluster(ends, None, 200)) > 0.9

    def test_is_repeatable_whatever_the_order_of_edges(self):
        ends, _ = planted(outside=0.05)
        first = cluster(ends, None, 200, seed=5)
        shuffled = np.random.default_rng(0).permutation(ends)[:, ::-1]
        assert np.array_equal(cluster(shuffled, None, 200, seed=5), first)

    @pytest.mark.parametrize(
        ("graph", "count"),
        [
            (nx.star_graph(400), 401),
            (nx.complete_graph(40), 40),
            (nx.empty_graph(20), 20),
            (nx.empty_graph(0), 0),
            (nx.path_graph(3), 3),
            (nx.disjoint_union_all([nx.complete_graph(4), nx.path_graph(50), nx.empty_graph(3)]), 57),
        ],
        ids=["star", "clique", "no edges", "nothing", "three", "pieces"],
    )
    def test_every_node_is_in_one_bounded_community(self, graph, count):
        labels = cluster(rows(graph), None, count, max_size=15)
        assert labels.shape == (count,)
        assert np.bincount(labels, minlength=1).max() <= 15
        assert np.array_equal(np.unique(labels), np.arange(labels.max(initial=-1) + 1))

    @settings(max_examples=15, deadline=None)
    @given(st.integers(1, 20), st.data())
    def test_any_graph(self, count, data):
        node = st.integers(0, count - 1)
        pairs = data.draw(st.lists(st.tuples(node, node), max_size=60))
        weights = data.draw(st.lists(st.floats(0, 10), min_size=len(pairs), max_size=len(pairs)))
        ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        labels = cluster(ends, np.array(weights), count, max_size=4)
        assert labels.shape == (count,)
        assert np.bincount(labels).max() <= 4


class TestFront:
    def test_a_clustering_of_ones_own_is_bounded_too(self):
        ends, groups = planted()
        labels = cluster(ends, None, 200, method=lambda ends, weights, nodes: -7 * (groups // 2), max_size=10)
        assert adjusted_rand_score(groups, labels) == 1

    def test_attributes_make_communities_alike(self):
        """Table 7: attributed clusterings beat Leiden alone on both measures."""
        rng = np.random.default_rng(0)
        topics = np.repeat(np.arange(30), 10)
        vectors = rng.standard_normal((30, 24))[topics] + 0.6 * rng.standard_normal((300, 24))
        ends = rng.integers(0, 300, (400, 2))
        alone = cluster(ends, None, 300)
        found = cluster(*augment(vectors, ends), 300)
        assert np.bincount(found).max() <= 15
        better, plain = (calinski_harabasz_score(vectors, each) for each in (found, alone))
        assert better > 1.5 * plain

    def test_the_next_level_counts_crossing_edges(self):
        ends = np.array([[0, 1], [0, 2], [1, 2], [1, 3], [3, 2], [4, 4]])
        above, weights = community_graph(ends, None, np.array([0, 0, 1, 1, 2]))
        assert above.tolist() == [[0, 1]]
        assert weights.tolist() == [3.0]
