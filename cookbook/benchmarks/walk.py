"""What a question costs on the walk to passages.

    python cookbook/benchmarks/walk.py FOLDER [FOLDER ...] [--passages 2000 20000]

It joins the corpora of the folders (each as `stratagraph.eval.load_dataset` reads it), cuts them into
passages of about 60 tokens, and builds an index of each size with the hashing embedder; it tells the CPU time
that a question takes in all, and in each part.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import stratagraph as sg
from stratagraph.eval import load_dataset
from stratagraph.ingest.chunk import ChunkConfig, split
from stratagraph.ingest.names import linking
from stratagraph.models.hashing import HashingEmbedder
from stratagraph.search import walk
from stratagraph.text.tokens import TokenEstimate

QUESTIONS = 100
REPEATS = 3


def milliseconds(task: Callable[[Any], Any], items: list[Any]) -> tuple[float, float]:
    """Median and 95th percentile of the CPU time of one item, the best of three runs each."""
    best = np.full(len(items), np.inf)
    for _ in range(REPEATS):
        for place, item in enumerate(items):
            began = time.thread_time()
            task(item)
            best[place] = min(best[place], 1000 * (time.thread_time() - began))
    return float(np.median(best)), float(np.percentile(best, 95))


def real(folders: list[str], sizes: list[int]) -> None:
    sets = [load_dataset(folder) for folder in folders]
    config = ChunkConfig(60, 10)
    questions = [
        each.question for data in sets for each in data.questions[:: max(1, len(data.questions) // 20)]
    ]
    for size in sizes:
        pieces = (
            sg.Chunk(chunk.text, f"{data.name}/{chunk.document_id}", chunk.ordinal)
            for data in sets
            for document in data.documents
            for chunk in split(document, config, TokenEstimate())
        )
        with tempfile.TemporaryDirectory() as folder:
            chunks = list(islice(pieces, size))
            index = sg.build_index(chunks, path=Path(folder) / "idx", embedder=HashingEmbedder(384))
            report(index, questions[:QUESTIONS], len(chunks))
            index.close()


def report(index: sg.Index, questions: list[str], passages: int) -> None:
    """Times of one index; the walk is that of a search."""
    reader = index._reader  # the parts have no public names
    passage_walk = reader._walk
    embedder = HashingEmbedder(384)
    vectors = {question: np.asarray(embedder.embed_query(question), np.float32) for question in questions}
    ground = passage_walk._ground
    parts: dict[str, Callable[[str], Any]] = {
        "walk to passages": lambda q: passage_walk.rank(q, vectors[q], 10),
        "of it: names": lambda q: linking.link(q, ground.names),
        "of it: words": lambda q: ground.lexical.scores(q),
        "of it: similar": lambda q: passage_walk._nearest.search(vectors[q], walk.CONSIDERED),
        "whole walk, unbounded": lambda q: unbounded(passage_walk, q, vectors[q]),
    }
    nodes, edges = ground.matrix.shape[0], len(ground.matrix.indices)
    print(f"{passages} passages, {nodes} nodes, {edges} edges; CPU ms (p50, p95)")
    for name, task in parts.items():
        median, slow = milliseconds(task, questions)
        print(f"  {name:24} {median:7.2f} {slow:7.2f}")


def unbounded(passage_walk: walk.PassageWalk, question: str, vector: Any) -> None:
    """The same with all mass passed on."""
    bound, walk.PER_EDGE = walk.PER_EDGE, 0.0
    try:
        passage_walk.rank(question, vector, 10)
    finally:
        walk.PER_EDGE = bound


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--passages", nargs="+", type=int, default=[2000, 20_000])
    given = parser.parse_args()
    real(given.folders, given.passages)
