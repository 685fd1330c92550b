"""Quality of communities: Leiden alone against every augmentation with every clustering (paper 000, Table 7).

usage: python cookbook/benchmarks/communities.py [FOLDER...] [--cache FOLDER] [--small]
           [--synthetic] [--large]

Each FOLDER holds a graph: entities.jsonl and relationships.jsonl, or openie.jsonl with triples. Entities are
embedded by name by the local model. --synthetic clusters all levels of 40,000 entities, --large of 650,000.
CHI is the Calinski-Harabasz index, Sim the cosine to the community's mean; more is better. Times are
CPU-seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import calinski_harabasz_score

from stratagraph import HashingEmbedder
from stratagraph.eval.embedding import kept_embedder
from stratagraph.kernels.augment import augment
from stratagraph.kernels.leiden import leiden, modularity
from stratagraph.kernels.partition import cluster, community_graph

AUGMENTATIONS = ("none", "knn", "codicil")
CLUSTERINGS = ("leiden", "spectral", "scan", "node2vec")
MAX_SIZE, FEWEST, MOST_LEVELS = 15, 10, 6


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_graph(folder: Path) -> tuple[list[str], np.ndarray]:
    """Names of the entities, and the rows of the relations between them."""
    if (folder / "relationships.jsonl").exists():
        names = [row["name"] for row in rows(folder / "entities.jsonl")]
        pairs = [(row["source"], row["target"]) for row in rows(folder / "relationships.jsonl")]
    else:
        triples = [t for row in rows(folder / "openie.jsonl") for t in row["triples"] if len(t) == 3]
        pairs = [(source.strip().lower(), target.strip().lower()) for source, _, target in triples]
        names = sorted({name for pair in pairs for name in pair if name})
    position = {name: i for i, name in enumerate(dict.fromkeys(names))}
    ends = [(position[a], position[b]) for a, b in pairs if a in position and b in position]
    return list(position), np.array(ends, dtype=np.int64).reshape(-1, 2)


def cosine_similarity(vectors: np.ndarray, labels: np.ndarray) -> float:
    """The mean cosine of each vector to the mean of its community (formulas 6 and 7)."""
    _, own = np.unique(labels, return_inverse=True)
    means = np.zeros((own.max() + 1, vectors.shape[1]))
    np.add.at(means, own, vectors)
    scale = np.linalg.norm(vectors, axis=1) * np.linalg.norm(means, axis=1)[own]
    return float((np.einsum("ij,ij->i", vectors, means[own]) / np.maximum(scale, 1e-12)).mean())


def line(name: str, vectors: np.ndarray, ends: np.ndarray, labels: np.ndarray, seconds: float) -> str:
    sizes = np.bincount(labels)
    return (
        f"{name:28} {len(sizes):7,} {np.count_nonzero(sizes == 1):7,} {sizes.max():4} "
        f"{calinski_harabasz_score(vectors, labels):7.2f} {cosine_similarity(vectors, labels):6.3f} "
        f"{modularity(ends, None, labels):6.3f} {seconds:7.2f}"
    )


def compare(title: str, vectors: np.ndarray, ends: np.ndarray) -> None:
    print(f"\n{title}: {len(vectors):,} entities, {len(ends):,} relations")
    print(f"{'':28} {'number':>7} {'single':>7} {'most':>4} {'CHI':>7} {'Sim':>6} {'mod.':>6} {'CPU-s':>7}")
    start = time.process_time()
    labels = leiden(ends, None, len(vectors))
    print(line("Leiden, unbounded", vectors, ends, labels, time.process_time() - start))
    labels = np.random.default_rng(0).permutation(len(vectors)) * -(-len(vectors) // MAX_SIZE) // len(vectors)
    print(line("random", vectors, ends, labels, 0.0))
    for clustering in CLUSTERINGS:
        for augmentation in AUGMENTATIONS:
            start = time.process_time()
            joined, similar = augment(vectors, ends, mode=augmentation)
            labels = cluster(joined, similar, len(vectors), method=clustering, max_size=MAX_SIZE)
            seconds = time.process_time() - start
            print(line(f"{clustering} + {augmentation}", vectors, ends, labels, seconds), flush=True)


def levels(title: str, vectors: np.ndarray, ends: np.ndarray) -> None:
    """Alg. 1 with the mean of the members' vectors in place of summaries."""
    print(f"\n{title}: {len(vectors):,} entities, {len(ends):,} relations, {vectors.shape[1]} dimensions")
    weights, begun = None, time.process_time()
    for level in range(MOST_LEVELS):
        start = time.process_time()
        joined, similar = augment(vectors, ends, weights, threads=2)
        middle = time.process_time()
        labels = cluster(joined, similar, len(vectors), max_size=MAX_SIZE)
        end = time.process_time()
        count = int(labels.max()) + 1
        print(
            f"level {level}: {len(vectors):8,} nodes, {len(joined):9,} edges to {count:7,} communities; "
            f"augment {middle - start:6.1f} s, cluster {end - middle:6.1f} s",
            flush=True,
        )
        ends, weights = community_graph(ends, weights, labels)
        order = np.argsort(labels, kind="stable")
        starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
        shrunk = count <= 0.9 * len(vectors)
        vectors = np.add.reduceat(vectors[order], starts, axis=0)
        if count < FEWEST or not shrunk:
            break
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
    print(
        f"all levels {time.process_time() - begun:.1f} CPU-seconds, peak {peak:.2f} GB (the input included)"
    )


def synthetic(entities: int, relations: int, dimension: int = 384) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around topics, and relations of which most join entities of one topic; a few are hubs."""
    rng = np.random.default_rng(0)
    count = entities // 20
    topics = rng.standard_normal((count, dimension), dtype=np.float32) + 0.3
    topic = np.sort(rng.integers(0, count, entities))
    vectors = np.empty((entities, dimension), dtype=np.float32)
    for start in range(0, entities, 50_000):
        part = slice(start, start + 50_000)
        noise = rng.standard_normal((len(topic[part]), dimension), dtype=np.float32)
        vectors[part] = topics[topic[part]] + 0.8 * noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    first = rng.integers(0, entities, relations)
    near = np.clip(first + rng.integers(-10, 11, relations), 0, entities - 1)
    far = (entities * rng.random(relations) ** 3).astype(np.int64)
    return vectors, np.column_stack([first, np.where(rng.random(relations) < 0.7, near, far)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--cache", type=Path, help="keeps the vectors from run to run")
    parser.add_argument("--small", action="store_true", help="hashed words instead of the local model")
    parser.add_argument("--synthetic", action="store_true", help="40,000 entities and 31,000 relations")
    parser.add_argument("--large", action="store_true", help="650,000 entities and 680,000 relations")
    given = parser.parse_args()
    for folder in given.folders:
        if not any((folder / name).exists() for name in ("relationships.jsonl", "openie.jsonl")):
            parser.error(f"'{folder}' holds no graph: neither relationships.jsonl nor openie.jsonl is in it")
    for folder in given.folders:
        names, ends = read_graph(folder)
        with kept_embedder(given.cache, HashingEmbedder() if given.small else None) as embedder:
            vectors = embedder.documents(names)
        compare(folder.name, vectors, ends)
    if given.synthetic or not (given.folders or given.large):
        levels("synthetic", *synthetic(40_000, 31_000))
    if given.large:
        levels("synthetic, large", *synthetic(650_000, 680_000))


if __name__ == "__main__":
    main()
