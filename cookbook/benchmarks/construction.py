"""Time to build a tree: LSH, balanced clusters, Gaussian mixtures (paper 004, Table 1).

usage: python cookbook/benchmarks/construction.py [FOLDER...] [--cache FOLDER] [--limit SECONDS] [--small]

Each FOLDER is a corpus (see `papers/layouts.py`); its passages are embedded by the local model.
The
other corpora are synthetic. All builders get the same unit vectors and group level after level until fewer
than eight nodes are left or there are five levels; a summary's vector is the mean of its members', since
writing summaries costs every builder the same per group. Those that spend more CPU-seconds than the limit on
a corpus are stopped, and not tried on larger ones.

    lsh        this package's LSH tree, groups of 4 to 12
    balanced   2-means, cut at the median, again and again until a group has at most 12 members
    mixture    this package's RAPTOR-style baseline: diagonal mixtures of a size that is set, not searched
    raptor     as RAPTOR describes it: full covariances, the number of components by BIC over 1 to 50, first
               for all, then in each cluster; ten principal components where RAPTOR has UMAP
    random     groups of at most 12 at random

`cosine` is the mean similarity of a passage and its group's mean: what a grouping is worth. Compare it with
that of `random`: the smaller the groups, the higher it is whatever they hold.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from corpora import SHARED, clusters, halves, read

from stratagraph.eval.embedding import shared_embedder
from stratagraph.kernels.buckets import group
from stratagraph.kernels.knn import knn_graph
from stratagraph.kernels.lsh import hash_codes, hyperplanes
from stratagraph.methods.lshtree.build import NEIGHBOURS

MINIMUM, MAXIMUM, FEWEST, LEVELS, BITS = 4, 12, 8, 5, 512
COMPONENTS, DIMENSIONS = 50, 10
SIZES = (2_000, 20_000, 100_000)
PAPER = {
    "lsh": "72 / 867 / 2443 / 1979",
    "balanced": "104 / 1062 / 3204 / 2918",
    "raptor": "945 / - / - / -",
}
"""Seconds of the paper's rows on MultiHop-RAG, MuSiQue, ALCE and HotpotQA, with model calls, on an A100."""
Groups = list[np.ndarray]


def by_lsh(vectors: np.ndarray) -> Groups:
    codes = hash_codes(vectors, hyperplanes(BITS, vectors.shape[1], seed=0))
    ties = np.arange(len(vectors), dtype=np.uint64)
    neighbours, _ = knn_graph(vectors, NEIGHBOURS)
    return group(codes, neighbours, minimum=MINIMUM, maximum=MAXIMUM, ties=ties).members


def by_halving(vectors: np.ndarray) -> Groups:
    return [np.array(members) for members in halves(vectors, MAXIMUM)]


def by_mixture(vectors: np.ndarray) -> Groups:
    return [np.array(members) for members in clusters(vectors)]


def by_raptor(vectors: np.ndarray) -> Groups:
    found: Groups = []
    for part in soft(vectors):
        found += [part[inner] for inner in soft(vectors[part])]
    return found


def soft(vectors: np.ndarray) -> Groups:
    """Members of the components of the mixture with the least BIC."""
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    if len(vectors) <= DIMENSIONS + 1:
        return [np.arange(len(vectors))]
    points = PCA(DIMENSIONS, random_state=0).fit_transform(vectors.astype(np.float64))
    fitted = [
        GaussianMixture(count, random_state=0).fit(points) for count in range(1, min(COMPONENTS, len(points)))
    ]
    best = min(fitted, key=lambda mixture: mixture.bic(points))
    belongs = best.predict_proba(points) > SHARED
    return [np.flatnonzero(column) for column in belongs.T if column.any()]


def at_random(vectors: np.ndarray) -> Groups:
    order = np.random.default_rng(0).permutation(len(vectors))
    return np.array_split(order, -(-len(vectors) // MAXIMUM))


BUILDERS: dict[str, Callable[[np.ndarray], Groups]] = {
    "lsh": by_lsh,
    "balanced": by_halving,
    "mixture": by_mixture,
    "raptor": by_raptor,
    "random": at_random,
}


def tree(vectors: np.ndarray, builder: Callable[[np.ndarray], Groups]) -> tuple[list[int], float]:
    """The sizes of the levels, and how close the passages are to their groups."""
    sizes, cosine = [len(vectors)], 0.0
    while len(sizes) <= LEVELS and len(vectors) >= FEWEST:
        groups = builder(vectors)
        if len(groups) >= len(vectors):
            break
        means = np.stack([vectors[rows].mean(axis=0) for rows in groups])
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        if len(sizes) == 1:
            close = [float((vectors[rows] @ mean).mean()) for rows, mean in zip(groups, means, strict=True)]
            cosine = float(np.average(close, weights=[len(rows) for rows in groups]))
        vectors = means.astype(np.float32)
        sizes.append(len(groups))
    return sizes, cosine


def measured(name: str, vectors: np.ndarray, limit: int, answer: multiprocessing.SimpleQueue) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    began, worked = time.perf_counter(), time.process_time()
    sizes, cosine = tree(vectors, BUILDERS[name])
    answer.put((time.perf_counter() - began, time.process_time() - worked, sizes, cosine))


def limited(name: str, vectors: np.ndarray, limit: int) -> tuple[float, float, list[int], float] | None:
    """What `measured` found, or None if the system ended it at the limit."""
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    child = context.Process(target=measured, args=(name, vectors, limit, answer))
    child.start()
    child.join()
    return None if answer.empty() else answer.get()


def passages(folder: str, cache: Path | None) -> np.ndarray:
    with shared_embedder(cache) as embedder:
        return embedder.documents([item.text for item in read(folder).documents])


def synthetic(count: int) -> np.ndarray:
    """Unit vectors around topics that lie around themes, as embeddings of passages do."""
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((count // 100, 384), dtype=np.float32) + 0.3
    topics += (
        0.7
        * rng.standard_normal((count // 2000, 384), dtype=np.float32)[
            rng.integers(0, count // 2000, len(topics))
        ]
    )
    vectors = topics[rng.integers(0, len(topics), count)]
    vectors += 0.8 * rng.standard_normal(vectors.shape, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def corpora(given: argparse.Namespace) -> Iterable[tuple[str, np.ndarray]]:
    for folder in given.folders:
        yield Path(folder).name, passages(folder, given.cache)
    for count in SIZES[:1] if given.small else SIZES:
        yield f"synthetic {count:,}", synthetic(count)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--cache", type=Path, help="keeps the vectors from run to run")
    parser.add_argument("--limit", type=int, default=300, help="CPU-seconds of one builder on one corpus")
    parser.add_argument("--small", action="store_true", help="one synthetic corpus, of 2,000")
    given = parser.parse_args()
    slow: set[str] = set()
    print(f"{'corpus':22} {'builder':9} {'seconds':>8} {'CPU-s':>8} {'x lsh':>7} {'cosine':>7}  levels")
    for corpus, vectors in sorted(corpora(given), key=lambda each: len(each[1])):
        least = None
        for name in BUILDERS:
            found = None if name in slow else limited(name, vectors, given.limit)
            if found is None:
                reason = (
                    "stopped on a smaller corpus" if name in slow else f"stopped at {given.limit} CPU-seconds"
                )
                print(f"{corpus:22} {name:9} {'-':>8}  {reason}", flush=True)
                slow.add(name)
                continue
            seconds, spent, sizes, cosine = found
            least = least or spent
            levels = " ".join(f"{size:,}" for size in sizes)
            ratio = spent / max(least, 1e-3)
            print(
                f"{corpus:22} {name:9} {seconds:8.2f} {spent:8.2f} {ratio:7.1f} {cosine:7.3f}  {levels}",
                flush=True,
            )
    print("\nthe paper's seconds (MultiHop-RAG / MuSiQue / ALCE / HotpotQA), with its model calls:")
    for name, row in PAPER.items():
        print(f"{'':22} {name:9} {row}")


if __name__ == "__main__":
    main()
