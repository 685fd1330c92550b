from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score

from stratagraph.kernels.augment import augment
from stratagraph.kernels.edges import Edges
from stratagraph.kernels.partition import cluster, community_graph, core_clusters, scan
from stratagraph.kernels.spectral import DIMENSION, embed_nodes, random_walks, spectral

METHODS = ["leiden", "spectral", "scan", "node2vec"]
NONE = np.zeros((0, 2), dtype=np.int64)


def rows(graph):
    return np.array(graph.edges(), dtype=np.int64).reshape(-1, 2)


def planted(groups=20, size=10, inside=0.8, outside=0.01):
    graph = nx.planted_partition_graph(groups, size, inside, outside, seed=1)
    return rows(graph), np.repeat(np.arange(groups), size)


@pytest.mark.parametrize("method", METHODS)
class TestCluster:
    def test_finds_what_was_planted(self, method):
        ends, groups = planted()
        assert adjusted_rand_score(groups, cluster(ends, None, 200, method=method)) > 0.9

    def test_is_repeatable_whatever_the_order_of_edges(self, method):
        ends, _ = planted(outside=0.05)
        first = cluster(ends, None, 200, method=method, seed=5)
        shuffled = np.random.default_rng(0).permutation(ends)[:, ::-1]
        assert np.array_equal(cluster(shuffled, None, 200, method=method, seed=5), first)

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
    def test_every_node_is_in_one_bounded_community(self, method, graph, count):
        labels = cluster(rows(graph), None, count, method=method, max_size=15)
        assert labels.shape == (count,)
        assert np.bincount(labels, minlength=1).max() <= 15
        assert np.array_equal(np.unique(labels), np.arange(labels.max(initial=-1) + 1))

    @settings(max_examples=15, deadline=None)
    @given(st.integers(1, 20), st.data())
    def test_any_graph(self, method, count, data):
        node = st.integers(0, count - 1)
        pairs = data.draw(st.lists(st.tuples(node, node), max_size=60))
        weights = data.draw(st.lists(st.floats(0, 10), min_size=len(pairs), max_size=len(pairs)))
        ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        labels = cluster(ends, np.array(weights), count, method=method, max_size=4)
        assert labels.shape == (count,)
        assert np.bincount(labels).max() <= 4


class TestFront:
    def test_a_clustering_of_ones_own_is_bounded_too(self):
        ends, groups = planted()
        labels = cluster(ends, None, 200, method=lambda ends, weights, nodes: -7 * (groups // 2), max_size=10)
        assert adjusted_rand_score(groups, labels) == 1

    @pytest.mark.parametrize(
        ("mode", "method"),
        [("knn", "leiden"), ("codicil", "spectral"), ("codicil", "scan"), ("knn", "node2vec")],
    )
    def test_attributes_make_communities_alike(self, mode, method):
        """Table 7: attributed clusterings beat Leiden alone on both measures."""
        rng = np.random.default_rng(0)
        topics = np.repeat(np.arange(30), 10)
        vectors = rng.standard_normal((30, 24))[topics] + 0.6 * rng.standard_normal((300, 24))
        ends = rng.integers(0, 300, (400, 2))
        alone = cluster(*augment(vectors, ends, mode="none"), 300)
        found = cluster(*augment(vectors, ends, mode=mode), 300, method=method)
        assert np.bincount(found).max() <= 15
        better, plain = (calinski_harabasz_score(vectors, each) for each in (found, alone))
        assert better > 1.5 * plain

    def test_the_next_level_counts_crossing_edges(self):
        ends = np.array([[0, 1], [0, 2], [1, 2], [1, 3], [3, 2], [4, 4]])
        above, weights = community_graph(ends, None, np.array([0, 0, 1, 1, 2]))
        assert above.tolist() == [[0, 1]]
        assert weights.tolist() == [3.0]


class TestSpectral:
    def test_communities_do_not_cross_connected_parts(self):
        graph = nx.disjoint_union_all([nx.cycle_graph(30), nx.cycle_graph(30), nx.cycle_graph(3)])
        labels = spectral(rows(graph), None, 63, max_size=10)
        for label in np.unique(labels):
            assert len(np.unique(np.searchsorted([29, 59], np.flatnonzero(labels == label)))) == 1

    def test_large_graphs_are_divided_by_a_sparse_solver(self):
        ends, groups = planted(groups=60, size=10, outside=0.002)
        assert adjusted_rand_score(groups, spectral(ends, None, 600)) > 0.8


class TestScan:
    def test_clusters_agree_with_the_definitions_by_brute_force(self):
        graph = nx.gnp_random_graph(60, 0.08, seed=3)
        eps, mu = 0.55, 3
        around = {node: {node, *graph[node]} for node in graph}
        near = {
            node: {
                other
                for other in around[node]
                if len(around[node] & around[other]) / np.sqrt(len(around[node]) * len(around[other])) >= eps
            }
            for node in graph
        }
        core = {node for node in graph if len(near[node]) >= mu}
        cores = nx.Graph()
        cores.add_nodes_from(core)
        cores.add_edges_from((a, b) for a in core for b in near[a] & core if a != b)
        clusters = core_clusters(Edges.of(rows(graph), None, 60), eps, mu)
        for members in nx.connected_components(cores):
            assert len({int(clusters[node]) for node in members}) == 1
        assert len(set(clusters[sorted(core)].tolist())) == nx.number_connected_components(cores)
        for node in graph:
            reached = [int(clusters[other]) for other in near[node] & core]
            assert (clusters[node] >= 0) == bool(reached)
            assert not reached or clusters[node] in reached

    def test_hubs_go_where_most_weight_leads_and_outliers_follow(self):
        two = nx.disjoint_union(nx.complete_graph(5), nx.complete_graph(5))
        two.add_edges_from([(10, 0), (10, 5), (10, 11), (11, 12)])
        ends = rows(two)
        weights = np.array([3.0 if set(edge) == {10, 5} else 1.0 for edge in ends.tolist()])
        assert (core_clusters(Edges.of(ends, weights, 13), 0.7, 3)[10:] == -1).all()
        labels = scan(ends, weights, 13, eps=0.7, mu=3)
        assert labels[10] == labels[11] == labels[12] == labels[5]
        assert labels.max() == 1


class TestNode2vec:
    def test_steps_are_second_order(self):
        """From 0 by 1 the walk may go back to 0, to 2 (a neighbour of 0), or on to 3: 1/p, 1 and 1/q."""
        edges = Edges.of(np.array([[0, 1], [1, 2], [0, 2], [1, 3]]), None, 4)
        walks = random_walks(edges, np.random.default_rng(0), per_node=20_000, length=3, back=0.5)
        seen = walks[(walks[:, 0] == 0) & (walks[:, 1] == 1), 2]
        shares = np.bincount(seen, minlength=4) / len(seen)
        assert shares == pytest.approx(np.array([0.5, 0, 1, 2]) / 3.5, abs=0.02)

    def test_first_steps_follow_weights(self):
        edges = Edges.of(np.array([[0, 1], [0, 2]]), np.array([3.0, 1.0]), 3)
        walks = random_walks(edges, np.random.default_rng(0), per_node=20_000, length=2)
        assert (walks[walks[:, 0] == 0, 1] == 1).mean() == pytest.approx(0.75, abs=0.02)

    def test_neighbours_are_near_and_lonely_nodes_nowhere(self):
        ends, groups = planted(groups=6)
        embedding = embed_nodes(Edges.of(ends, None, 61))
        assert embedding.shape == (61, DIMENSION)
        assert not embedding[60].any()
        similar = embedding[:60] @ embedding[:60].T
        same = groups[:, None] == groups
        assert similar[same].mean() > similar[~same].mean() + 0.5
