"""Hashing, grouping and searching at scale: CPU seconds, memory, recall.

python cookbook/benchmarks/lsh.py [--small]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np

from stratagraph.kernels.buckets import group
from stratagraph.kernels.hamming import native_available
from stratagraph.kernels.knn import knn_graph
from stratagraph.kernels.lsh import hash_codes, hyperplanes
from stratagraph.kernels.topk import Sketch, top_k
from stratagraph.methods.lshtree.build import NEIGHBOURS

DIMENSION, MINIMUM, MAXIMUM, BITS = 384, 4, 12, 512
QUERIES = 200


def clustered(count: int, clusters: int, seed: int) -> np.ndarray:
    """Unit vectors around topics that lie around themes, with a part common to all, as embeddings have."""
    rng = np.random.default_rng(seed)
    themes = rng.standard_normal((clusters // 20 + 1, DIMENSION), dtype=np.float32)
    topics = rng.standard_normal((clusters, DIMENSION), dtype=np.float32)
    topics += 0.7 * themes[rng.integers(0, len(themes), clusters)] + 0.3
    vectors = np.empty((count, DIMENSION), dtype=np.float32)
    for start in range(0, count, 50_000):
        part = vectors[start : start + 50_000]
        part[:] = topics[rng.integers(0, clusters, len(part))]
        part += 0.8 * rng.standard_normal(part.shape, dtype=np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return vectors


def peak() -> float:
    """Most memory the process has held, in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def grouping(count: int) -> None:
    before = peak()
    vectors = clustered(count, count // 100, seed=0)
    ties = np.random.default_rng(1).integers(0, 2**64, count, dtype=np.uint64)
    planes = hyperplanes(BITS, DIMENSION, seed=0)
    start = time.process_time()
    codes = hash_codes(vectors, planes)
    hashed = time.process_time()
    neighbours, _ = knn_graph(vectors, NEIGHBOURS)
    compared = time.process_time()
    found = group(codes, neighbours, minimum=MINIMUM, maximum=MAXIMUM, ties=ties)
    grouped = time.process_time()
    sizes = np.array([len(rows) for rows in found.members])
    print(f"hash  {count:,} x {DIMENSION} to {len(planes)} bits: {hashed - start:.2f} CPU-seconds")
    print(f"{NEIGHBOURS} neighbours of each: {compared - hashed:.2f} CPU-seconds")
    print(
        f"group into {len(sizes):,} of {sizes.min()} to {sizes.max()} (mean {sizes.mean():.1f}): "
        f"{grouped - compared:.2f} CPU-seconds; at most "
        f"{peak() - before - vectors.nbytes / 1e9:.2f} GB beyond the input for all three"
    )


def searching(count: int) -> None:
    vectors = clustered(count + QUERIES, max(count // 100, 1), seed=2)
    vectors, queries = vectors[:count], vectors[count:]
    start = time.process_time()
    sketch = Sketch.build(vectors)
    print(f"sketch of {count:,} x {DIMENSION}: {time.process_time() - start:.2f} CPU-seconds")
    exact = [timed(top_k, vectors, query, 10) for query in queries]
    found = [timed(sketch.search, query, 10, vectors=vectors) for query in queries]
    hits = [len(set(a[0]) & set(b[0])) / 10 for (_, a), (_, b) in zip(exact, found, strict=True)]
    for name, results in (("exact", exact), ("sketch", found)):
        times = [seconds * 1000 for seconds, _ in results]
        print(f"top-10, {name}: {np.median(times):.2f} ms (95th percentile {np.percentile(times, 95):.2f})")
    print(f"recall@10 of the sketch: {np.mean(hits):.3f}")


def timed(call, *arguments, **keywords):
    """Seconds and result of a call."""
    start = time.perf_counter()
    result = call(*arguments, **keywords)
    return time.perf_counter() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="about a tenth, for a quick look")
    share = 10 if parser.parse_args().small else 1
    print(f"native kernels: {'yes' if native_available() else 'no, numpy'}")
    grouping(1_000_000 // share)
    searching(max(100_000 // share, 30_000))


if __name__ == "__main__":
    main()
