"""Quality of communities: Leiden alone against every augmentation with every clustering (paper 000, Table 7).

usage: python cookbook/benchmarks/communities.py FOLDER... [--cache FOLDER] [--small]

Each FOLDER holds a graph: entities.jsonl and relationships.jsonl, or openie.jsonl with triples. Entities are
embedded by name by the local model.
CHI is the Calinski-Harabasz index, Sim the cosine to the community's mean; more is better. Times are
CPU-seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from corpora import clusterings
from sklearn.metrics import calinski_harabasz_score

from stratagraph import HashingEmbedder
from stratagraph.eval.embedding import shared_embedder
from stratagraph.kernels.leiden import leiden, modularity
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.archrag.levels import augmented, clustered

AUGMENTATIONS = ("none", "knn", "custom:codicil")
CLUSTERINGS = ("leiden", "leidenalg", "custom:spectral", "custom:scan", "custom:node2vec")
MAX_SIZE = 15


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
            config = ArchRAGConfig(augmentation=augmentation, clustering=clustering, max_community=MAX_SIZE)
            joined = augmented(vectors, ends, np.ones(len(ends)), config)
            labels = clustered(vectors, *joined, config)
            seconds = time.process_time() - start
            name = f"{clustering} + {augmentation}".replace("custom:", "")
            print(line(name, vectors, ends, labels, seconds), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path, help="keeps the vectors from run to run")
    parser.add_argument("--small", action="store_true", help="hashed words instead of the local model")
    given = parser.parse_args()
    clusterings.register()
    for folder in given.folders:
        if not any((folder / name).exists() for name in ("relationships.jsonl", "openie.jsonl")):
            parser.error(f"'{folder}' holds no graph: neither relationships.jsonl nor openie.jsonl is in it")
    for folder in given.folders:
        names, ends = read_graph(folder)
        with shared_embedder(given.cache, HashingEmbedder() if given.small else None) as embedder:
            vectors = embedder.documents(names)
        compare(folder.name, vectors, ends)


if __name__ == "__main__":
    main()
