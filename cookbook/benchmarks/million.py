"""What a whole walk costs over a million passages: names, words, similar passages and PageRank.

    python cookbook/benchmarks/million.py [--passages 1000000] [--entities 1000000]

The corpus is synthetic, and made as arrays alone: vectors around 2,000 centres, in a memory-mapped file in a
temporary folder; a passage has twenty words and names five entities, both by Zipf's law, the most common in
every twelfth passage. A question names two entities and has six words of a passage. Vectors of questions are
given: nothing is embedded. Tells the CPU time of a walk and of its parts, the largest resident memory (pages
of the mapped vectors among it), and the time on the clock of many questions by one thread and by all.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from walk import milliseconds

from stratagraph.ingest.lexical import LexicalIndex, norms_of
from stratagraph.ingest.names.index import NameIndex
from stratagraph.ingest.names.linking import link
from stratagraph.ingest.nearest import Nearest
from stratagraph.kernels.ppr import transition_matrix
from stratagraph.search import walk
from stratagraph.types.records import content_keys

DIMENSION = 384
WORDS = 20
MENTIONS = 5
VOCABULARY = 300_000
QUESTIONS = 100
_BATCH = 50_000


def zipf(rng: np.random.Generator, size: int, count: int) -> NDArray[np.int64]:
    """Numbers below `count`, the first in every twelfth place or so."""
    drawn = np.exp(rng.uniform(np.log(5), np.log(count + 5), size)).astype(np.int64) - 5
    return np.minimum(drawn, count - 1)


def vectors(rng: np.random.Generator, path: Path, passages: int) -> NDArray[np.float32]:
    """Unit vectors around centres, written a batch at a time."""
    centres = rng.standard_normal((2000, DIMENSION), np.float32)
    written = np.lib.format.open_memmap(path, "w+", np.float32, (passages, DIMENSION))
    for start in range(0, passages, _BATCH):
        size = min(_BATCH, passages - start)
        batch = centres[rng.integers(0, 2000, size)] + 0.8 * rng.standard_normal(
            (size, DIMENSION), np.float32
        )
        written[start : start + size] = batch / np.linalg.norm(batch, axis=1, keepdims=True)
    written.flush()
    del written
    mapped: NDArray[np.float32] = np.load(path, mmap_mode="r")
    return mapped


def postings(rng: np.random.Generator, passages: int) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """The arrays of a `LexicalIndex`, and the words of each passage, shape (passages, WORDS)."""
    drawn = zipf(rng, passages * WORDS, VOCABULARY).reshape(passages, WORDS)
    keys = content_keys([f"w{number}" for number in range(VOCABULARY)])
    place = np.argsort(keys)
    rank = np.empty(VOCABULARY, np.int64)
    rank[place] = np.arange(VOCABULARY)
    pairs = np.sort(rank[drawn].ravel() * passages + np.repeat(np.arange(passages), WORDS))
    fresh = np.flatnonzero(np.diff(pairs, prepend=-1))
    counts = np.minimum(np.diff(fresh, append=len(pairs)), 255).astype(np.uint8)
    pairs = pairs[fresh]
    return {
        "language": np.frombuffer(b"none", np.uint8),
        "norms": norms_of(np.full(passages, float(WORDS))),
        "keys": keys[place],
        "starts": np.searchsorted(pairs, np.arange(VOCABULARY + 1) * passages),
        "rows": (pairs % passages).astype(np.int32),
        "counts": counts,
    }, drawn


def name_of(entity: int) -> str:
    """A name of two words, of which others share each."""
    return f"Fo{entity % 30_011} La{entity * 7919 % 60_013}"


def made(folder: Path, passages: int, entities: int) -> tuple[walk.PassageWalk, list[tuple[str, Any]], Any]:
    """The walk over a synthetic corpus, questions with their vectors, and its parts."""
    rng = np.random.default_rng(0)
    dense = vectors(rng, folder / "vectors.npy", passages)
    words, spoken = postings(rng, passages)
    named = zipf(rng, passages * MENTIONS, entities)
    ends = np.column_stack([np.repeat(np.arange(passages), MENTIONS), passages + named])
    matrix = transition_matrix(passages + entities, ends, np.ones(len(ends)))
    frequency = np.diff(matrix.indptr)[passages:]
    graph = SimpleNamespace(
        stored=SimpleNamespace(
            arrays={f"walk.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        ),
        entities=entities,
        sources=(np.concatenate([[0], np.cumsum(frequency)]), None),
        names=NameIndex(NameIndex.build([name_of(entity) for entity in range(entities)])),
        lexical=LexicalIndex(words),
    )
    corpus = SimpleNamespace(
        size=passages, vectors=dense, chunk_documents=lambda: np.arange(passages, dtype=np.int32) // 3
    )
    arrays = {name: each.values for name, each in Nearest.index(dense, "chunks").items()}
    nearest = Nearest(dense, arrays, "chunks")
    questions = []
    for row in rng.integers(0, passages, QUESTIONS).tolist():
        both = [name_of(int(each)) for each in named[row * MENTIONS : row * MENTIONS + 2]]
        said = " ".join(f"w{word}" for word in spoken[row, :6])
        noise = dense[row] + 0.03 * rng.standard_normal(DIMENSION).astype(np.float32)
        questions.append((f"Did {both[0]} meet {both[1]} {said}?", noise / np.linalg.norm(noise)))
    edges, hub = len(matrix.indices), frequency.max()
    print(f"{passages} passages, {entities} entities, {edges} edges, largest hub {hub}")
    ground = walk.Provenance(graph, corpus.size)  # type: ignore[arg-type]
    return walk.PassageWalk(corpus, ground, nearest), questions, (graph, nearest)  # type: ignore[arg-type]


def main(passages: int, entities: int) -> None:
    """Build, time, print."""
    with tempfile.TemporaryDirectory() as folder:
        passage_walk, questions, (graph, nearest) = made(Path(folder), passages, entities)
        tasks = {
            "whole walk": lambda q: passage_walk.rank(q[0], q[1], 10),
            "of it: names": lambda q: link(q[0], graph.names),
            "of it: words": lambda q: graph.lexical.scores(q[0]),
            "of it: similar": lambda q: nearest.search(q[1], walk.CONSIDERED),
        }
        print("CPU ms (p50, p95)")
        for name, task in tasks.items():
            median, slow = milliseconds(task, questions)
            print(f"  {name:16} {median:7.2f} {slow:7.2f}")
        for threads in (1, os.cpu_count() or 1):
            began = time.perf_counter()
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(tasks["whole walk"], questions))
            clock = 1000 * (time.perf_counter() - began) / len(questions)
            print(f"  on the clock, {threads} threads: {clock:.2f} ms a question")
    print(f"largest resident memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--entities", type=int, default=1_000_000)
    given = parser.parse_args()
    main(given.passages, given.entities)
