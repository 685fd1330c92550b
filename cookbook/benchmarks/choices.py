"""leidenalg beside igraph's Leiden, and hnswlib beside C-HNSW: what a build may choose.

usage: python cookbook/benchmarks/choices.py DATA... [--nodes 20000] [--texts 20000]

Communities are planted: groups of 20 to 60 nodes, six weighted edges for each node, four of five inside its
group. `found` is the adjusted Rand index to what was planted, and `most` the largest community; sizes are not
bounded yet. Neighbours are those of the sentences of data sets, by their vectors; recall is that of the ten
nearest others. Times are CPU-seconds of one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from stratagraph.eval.datasets import load_dataset
from stratagraph.kernels import hnswlib
from stratagraph.kernels.knn import knn_graph
from stratagraph.kernels.leiden import leiden, modularity
from stratagraph.kernels.leidenalg import QUALITIES, communities
from stratagraph.models.local import default_embedder
from stratagraph.text.sentences import sentences

K = 10
OPTIONS = ({"M": 12, "ef_construction": 40, "ef": 32}, {}, {"ef": 400})


def planted(nodes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends and weights of the edges, and the group of each node."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(20, 61, nodes // 20)
    group = np.repeat(np.arange(len(sizes)), sizes)[:nodes]
    starts = np.searchsorted(group, np.arange(group[-1] + 2))
    one = rng.integers(0, nodes, 6 * nodes)
    first, end = starts[group[one]], starts[group[one] + 1]
    inside = (first + rng.random(len(one)) * (end - first)).astype(np.int64)
    two = np.where(rng.random(len(one)) < 0.8, inside, rng.integers(0, nodes, len(one)))
    return np.column_stack([one, two]), rng.uniform(0.5, 1, len(one)), group


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    return function(), time.process_time() - began


def compare_communities(nodes: int) -> None:
    ends, weights, group = planted(nodes)
    print(f"{nodes:,} nodes, {len(ends):,} edges, {group[-1] + 1:,} groups")
    print(f"{'':26} {'number':>7} {'most':>5} {'mod.':>6} {'found':>6} {'CPU-s':>7}")
    ways = {"leiden (igraph)": partial(leiden, ends, weights, nodes)}
    for quality in QUALITIES:
        resolution = 0.05 if quality == "CPM" else 1.0
        ways[f"leidenalg, {quality}"] = partial(
            communities, ends, weights, nodes, quality=quality, resolution=resolution
        )
    communities(ends[:1], None, nodes)  # imports igraph and leidenalg
    for name, way in ways.items():
        labels, seconds = timed(way)
        quality, rand = modularity(ends, weights, labels), adjusted_rand_score(group, labels)
        numbers = f"{labels.max() + 1:7,} {np.bincount(labels).max():5,} {quality:6.3f} {rand:6.3f}"
        print(f"{name:26} {numbers} {seconds:7.2f}", flush=True)


def vectors_of(data: list[str], count: int) -> np.ndarray:
    """Unit vectors of different sentences of data sets."""
    texts = [document.text for each in data for document in load_dataset(each).documents]
    found = list(dict.fromkeys(text[start:end] for text in texts for start, end in sentences(text)))[:count]
    vectors = np.asarray(default_embedder().embed_documents(found), np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def compare_neighbours(vectors: np.ndarray) -> None:
    exact = []
    for start in range(0, len(vectors), 1000):
        scores = vectors[start : start + 1000] @ vectors.T
        scores[np.arange(len(scores)), np.arange(start, start + len(scores))] = -np.inf
        exact += [set(row.tolist()) for row in np.argpartition(-scores, K, axis=1)[:, :K]]
    print(f"\n{len(vectors):,} vectors of {vectors.shape[1]} dimensions, {K} nearest others")
    print(f"{'':50} {'recall':>6} {'CPU-s':>7}")
    ways: dict[str, Callable[[], Any]] = {"chnsw": lambda: knn_graph(vectors, K, ef=32)[0]}
    for options in OPTIONS:
        said = ", ".join(f"{name}={value}" for name, value in options.items()) or "defaults"
        ways[f"hnswlib, {said}"] = partial(hnswlib.nearest_others, vectors, K, **options)
    for name, way in ways.items():
        rows, seconds = timed(way)
        shared = [len(one & {*two}) for one, two in zip(exact, rows.tolist(), strict=True)]
        print(f"{name:50} {np.mean(shared) / K:6.3f} {seconds:7.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+", help="data sets: their folders, or demo")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--texts", type=int, default=20_000)
    given = parser.parse_args()
    compare_communities(given.nodes)
    compare_neighbours(vectors_of(given.data, given.texts))


if __name__ == "__main__":
    main()
