from __future__ import annotations

import networkx as nx
import numpy as np
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score

from stratagraph.kernels.augment import augment
from stratagraph.kernels.partition import cluster, community_graph


def rows(graph):
    return np.array(graph.edges(), dtype=np.int64).reshape(-1, 2)


def planted(groups=20, size=10, inside=0.8, outside=0.01):
    graph = nx.planted_partition_graph(groups, size, inside, outside, seed=1)
    return rows(graph), np.repeat(np.arange(groups), size)


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
