"""What a retrieval costs beside the model: CPU of the walk, and of each method with and without passages.

    python cookbook/benchmarks/retrieving.py FOLDER [FOLDER ...] [--passages 20000] [--index FOLDER]
        [--questions 100] [--k 10] [--methods lshtree,archrag,noderag,hirag]

FOLDER is a corpus with questions (see `stratagraph.eval.load_dataset`); its documents are cut into passages
of about 500 characters, each a document of its own, as in `updates.py`. An index without a model, over hashed
vectors of 384 dimensions, is built in `--index` once and opened after that. Each question is embedded before,
and asked three times in each way; the least CPU of the asking thread counts, so that other work on the
machine shows as little as it can. Printed are the median and the 95th percentile in milliseconds.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from updates import passages

import stratagraph as sg
from stratagraph.eval import load_dataset
from stratagraph.methods import NAMES
from stratagraph.operations.reader import Answering
from stratagraph.operations.search_options import check_search_options
from stratagraph.types.question import WALK, Question

WARM, ROUNDS = 10, 3


def opened(folder: Path, corpora: Sequence[str], count: int, methods: Sequence[str]) -> sg.Index:
    """The index in a folder, built where there is none."""
    embedder = sg.HashingEmbedder(384)
    if (folder / "CURRENT").exists():
        return sg.open_index(folder, embedder=embedder)
    documents = passages(corpora, count)
    return sg.build_index(documents, methods or None, path=folder, embedder=embedder, progress=False)


def measured(reader: Answering, asked: Sequence[Question]) -> list[float]:
    """The least CPU of some runs of each question, in milliseconds."""
    for question in asked[:WARM]:
        reader.search(question)
    least = []
    for question in asked:
        spent = []
        for _ in range(ROUNDS):
            began = time.thread_time()
            reader.search(replace(question, _found={}))
            spent.append(1e3 * (time.thread_time() - began))
        least.append(min(spent))
    return least


def main() -> None:
    """Print a line for the walk, and two for each method: what it returns by default, and its own ranking."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--methods", default=",".join(NAMES))
    given = parser.parse_args()
    everything = [each.question for folder in given.folders for each in load_dataset(folder).questions]
    questions = everything[:: max(1, len(everything) // given.questions)][: given.questions]
    methods = given.methods.split(",")
    folder = given.index or Path(tempfile.mkdtemp(prefix="retrieving-"))
    with opened(folder, given.folders, given.passages, methods) as index:
        embedder = sg.HashingEmbedder(384)
        vectors = np.asarray([embedder.embed_query(each) for each in questions], np.float32)
        print(f"{index.stats()['chunks']:,} passages, {len(questions)} questions, k = {given.k}")
        ways = [(WALK, True), *((method, fill) for method in methods for fill in (True, False))]
        for way, fill in ways:
            options = check_search_options(way, {})
            asked = [
                Question(text, vector, given.k, way, options, fill=fill)
                for text, vector in zip(questions, vectors, strict=True)
            ]
            spent = measured(index._reader, asked)
            median, high = np.percentile(spent, [50, 95])
            name = way if fill else f"{way}, fill=False"
            print(f"{name:20} p50 {median:6.2f}  p95 {high:6.2f} ms", flush=True)


if __name__ == "__main__":
    main()
