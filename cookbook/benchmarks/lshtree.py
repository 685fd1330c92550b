"""The LSH tree at size: cost of an insert, time to open, time to retrieve, time to import.

usage: python cookbook/benchmarks/lshtree.py [--small]

The corpus is synthetic: documents of 20 chunks whose vectors lie around their document's direction,
which lies around its topic's (cosine about 0.7 between chunks of a document); a `manual` is one long document
whose chunks are nearly alike (cosine about 0.97). The chat model answers at once and counts.

What an insert must cost at least: each new chunk changes the group it comes into, and every summary above
it. Chunks that are spread over many groups change as many, however the groups are made.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import stratagraph as sg

DIMENSION = 384
PER_DOCUMENT = 20
TOPICS = 200
MANUAL = 1_000_000


class Synthetic:
    """Embeds `chunk d i` near the direction of document d; other texts near those they name."""

    name = "synthetic-384"

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._topics = rng.standard_normal((TOPICS, DIMENSION)).astype(np.float32)

    def embed_documents(self, texts: list[str]) -> Any:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Any:
        words = text.split()
        document, chunk = int(words[1]), int(words[2])
        spread = 0.8 if document < MANUAL else 0.2
        rng = np.random.default_rng([document, 1])
        direction = 0.7 * self._topics[document % TOPICS] + rng.standard_normal(DIMENSION, dtype=np.float32)
        noise = np.random.default_rng([document, chunk, 2]).standard_normal(DIMENSION, dtype=np.float32)
        return direction + spread * noise


class Counter:
    """A chat model that repeats the first chunk it is shown, and counts."""

    name = "counter"

    def __init__(self) -> None:
        self.calls = 0

    async def acomplete(self, prompt: str, *, schema: Any = None) -> str:
        self.calls += 1
        start = prompt.index("chunk ")
        return prompt[start : prompt.index("\n", start)]


def corpus(documents: range) -> Iterator[sg.Chunk]:
    for document in documents:
        for chunk in range(PER_DOCUMENT):
            yield sg.Chunk(f"chunk {document} {chunk} .", f"doc-{document:06}", chunk)


def insert_cost(chunks: int) -> None:
    documents = chunks // PER_DOCUMENT
    share = max(1, documents // 100)
    arrivals = {
        "one manual": [
            sg.Chunk(f"chunk {MANUAL} {number} .", "manual", number) for number in range(share * PER_DOCUMENT)
        ],
        "whole new documents": list(corpus(range(documents, documents + share))),
        "single chunks, each of another document": [
            sg.Chunk(f"chunk {number * 7 % documents} {PER_DOCUMENT + number} .", f"new-{number}", 0)
            for number in range(share * PER_DOCUMENT)
        ],
    }
    model = Counter()
    for name, coming in arrivals.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            sg.build_index(
                corpus(range(documents)), "lshtree", folder, model, Synthetic(), progress=False
            ) as index,
        ):
            built, model.calls = model.calls, 0
            began = time.perf_counter()
            index.insert(coming)
            seconds = time.perf_counter() - began
        print(
            f"insert of {len(coming)} chunks ({name}) into {documents * PER_DOCUMENT}: "
            f"{model.calls} calls, {100 * model.calls / built:.1f} % of the build's {built}; {seconds:.1f} s"
        )
        model.calls = 0


def serving(chunks: int, questions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        sg.build_index(
            corpus(range(chunks // PER_DOCUMENT)),
            "lshtree",
            path=folder,
            llm=Counter(),
            embedder=Synthetic(),
            progress=False,
        ).close()
        print(f"build of {chunks} chunks: {time.perf_counter() - began:.1f} s")
        opened, first = [], []
        for _ in range(7):
            began = time.perf_counter()
            index = sg.open_index(folder, embedder=Synthetic())
            opened.append(time.perf_counter() - began)
            index.retrieve("chunk 5 3", k=10)
            first.append(time.perf_counter() - began)
            index.close()
        nodes = chunks + _summaries(folder)
        print(f"open of {nodes} nodes: {_ms(opened)}; with the first question: {_ms(first)}")
        with sg.open_index(folder, embedder=Synthetic()) as index:
            for name, way in {"nodes": {"fill": False}, "walk": {"method": "walk"}}.items():
                spent = []
                for number in range(questions):
                    began = time.perf_counter()
                    index.retrieve(f"chunk {number * 37 % (chunks // PER_DOCUMENT)} 99", k=10, **way)
                    spent.append(time.perf_counter() - began)
                p95 = sorted(spent)[int(0.95 * len(spent))]
                shape = f"{nodes} nodes x {DIMENSION}"
                print(f"retrieve, {name}, {shape}: {_ms(spent)}, p95 {1000 * p95:.2f} ms")


def _summaries(folder: str) -> int:
    with sg.open_index(folder, embedder=Synthetic()) as index:
        return int(index.stats()["methods"]["lshtree"]["nodes"]["summaries"])


def _ms(seconds: list[float]) -> str:
    return f"median {1000 * statistics.median(seconds):.2f} ms"


def import_time() -> None:
    spent = []
    for statement in ("pass", "import stratagraph"):
        runs = []
        for _ in range(9):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            runs.append(time.perf_counter() - began)
        spent.append(statistics.median(runs))
    print(f"import stratagraph: {1000 * (spent[1] - spent[0]):.0f} ms over an empty interpreter")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="a tenth of the size, under a minute")
    small = parser.parse_args().small
    import_time()
    insert_cost(2_000 if small else 20_000)
    serving(10_000 if small else 100_000, 100 if small else 300)
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
