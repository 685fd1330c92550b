"""Flat sets of vectors: the sketch of `ingest.nearest` beside hnswlib, by recall and CPU.

    python cookbook/benchmarks/flat.py [--sizes 10000,40000] [--vectors FILE.npy]

Clustered random vectors of 384 dimensions, or the rows of a file of unit vectors; one thread. Needs
hnswlib (`pip install hnswlib`).
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import hnswlib
import numpy as np

from stratagraph.kernels.topk import Sketch, top_k

QUERIES = 60


def made(count: int, dimension: int = 384) -> np.ndarray:
    random = np.random.default_rng(0)
    centres = random.normal(size=(max(count // 50, 1), dimension))
    rows = centres[random.integers(0, len(centres), count)] + 0.9 * random.normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def asked(vectors: np.ndarray) -> np.ndarray:
    random = np.random.default_rng(1)
    near = vectors[random.integers(0, len(vectors), QUERIES)]
    near = near + 0.6 * random.normal(size=near.shape) / np.sqrt(vectors.shape[1])
    return (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)


def measured(search: Callable[[np.ndarray], Any], queries: np.ndarray, exact: Sequence[np.ndarray]) -> str:
    began = time.process_time()
    found = [search(query) for query in queries]
    spent = 1e3 * (time.process_time() - began) / len(queries)
    recall = np.mean([len(np.intersect1d(*pair)) / len(pair[0]) for pair in zip(exact, found, strict=True)])
    return f"{spent:.2f} ms, recall {recall:.3f}"


def compare(vectors: np.ndarray) -> None:
    queries = asked(vectors)
    began = time.process_time()
    sketch = Sketch.build(vectors)
    print(f"{len(vectors)} vectors; sketch: build {time.process_time() - began:.1f} CPU-s")
    began = time.process_time()
    graph = hnswlib.Index("ip", vectors.shape[1])
    graph.init_index(len(vectors), M=16, ef_construction=200, random_seed=1)
    graph.add_items(vectors, num_threads=1)
    links = graph.index_file_size() / len(vectors) - vectors[0].nbytes
    print(f"  hnswlib: build {time.process_time() - began:.1f} CPU-s, {links:.0f} bytes a vector beside it")
    for k in (10, 100):
        exact = [top_k(vectors, query, k)[0] for query in queries]
        told = [f"sketch {measured(lambda q, k=k: sketch.search(q, k, vectors=vectors)[0], queries, exact)}"]
        for breadth in (100, 200, 400):
            graph.set_ef(breadth)
            found = measured(lambda q, k=k: graph.knn_query(q, k, num_threads=1)[0][0], queries, exact)
            told.append(f"hnswlib ef {breadth} {found}")
        print(f"  k {k}: {'; '.join(told)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default="10000,40000")
    parser.add_argument("--vectors", default=None)
    options = parser.parse_args()
    if options.vectors:
        compare(np.load(options.vectors).astype(np.float32))
        return
    for size in map(int, options.sizes.split(",")):
        compare(made(size))


if __name__ == "__main__":
    main()
