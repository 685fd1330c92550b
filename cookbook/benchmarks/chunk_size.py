"""How much the size of chunks matters: quality and build time over sizes (paper 004, Figure 5).

usage: python cookbook/benchmarks/chunk_size.py FOLDER [--sizes 100,200,...] [--pack N] [--methods A,B]
           [--extraction FILE] [--questions N] [--embedder minilm] [--cache FOLDER] [--small]

FOLDER is a corpus with questions (see `papers/layouts.py`). Corpora of short passages have
nothing
to split: `--pack N` joins N passages at a time into one document. The paper's accuracy and recall are of a
model's answers; these here are of contexts of a fixed number of tokens, so that large chunks are not given
more room than small ones: how often a gold answer stands in them, and which gold documents they hold (not
told where documents are packed). Embedding is not in the build times. No language model.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from corpora import read

import stratagraph as sg
from stratagraph.eval import Dataset, Evaluation, evaluate

PAPER = "the paper, 400 to 1,400 tokens: accuracy 65 to 67.5 %, recall 30.3 to 33.4 %, build 54.93 to 43.17 s"
BUDGETS = (1000, 2000, 5000)


def packed(dataset: Dataset, count: int) -> Dataset:
    """The corpus as documents of `count` passages each; gold ids no longer mean anything then."""
    items = dataset.documents
    documents = tuple(
        sg.Document(f"volume {start}", "\n\n".join(item.text for item in items[start : start + count]))
        for start in range(0, len(items), count)
    )
    questions = tuple(replace(question, supporting_ids=()) for question in dataset.questions)
    return Dataset(f"{dataset.name}, {count} passages a document", documents, questions)


def measured(dataset: Dataset, methods: Sequence[str], size: int, embedder: Any, cache: str) -> Evaluation:
    config = {"chunking": {"size": size, "overlap": size // 6}}
    return evaluate(
        dataset, methods, k=(5,), budgets=BUDGETS, embedder=embedder, config=config, cache=cache, resamples=1
    )


def line(found: Evaluation, name: str, size: int) -> str:
    row = found.row(name)
    if row.error:
        return f"{size:>6} {name:14} failed: {row.error}"
    cells = [found.mean(name, f"{metric}") for metric in metrics()]
    shown = " ".join("     -" if cell is None else f"{cell:6.3f}" for cell in cells)
    made = row.indexing
    spent = f"{made.seconds:8.1f} {made.cpu_seconds:8.1f}" if made else ""
    return f"{size:>6} {name:14} {found.settings['passages']:>7,} {shown} {spent}"


def metrics() -> list[str]:
    return [f"answer@{budget}" for budget in BUDGETS] + [f"recall@{budget}t" for budget in BUDGETS]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--sizes", default="100,200,400,600,800,1000,1200,1400")
    parser.add_argument("--pack", type=int, default=1)
    parser.add_argument("--methods", default="lshtree/chunks,dense")
    parser.add_argument("--extraction", help="entities and triples of the passages")
    parser.add_argument("--questions", type=int, help="the first so many")
    parser.add_argument("--embedder", choices=("minilm", "hashing"), default="minilm")
    parser.add_argument("--cache", help="keeps the vectors from run to run")
    parser.add_argument("--small", action="store_true", help="three sizes, 20 questions, hashed vectors")
    given = parser.parse_args()
    sizes = [200, 600, 1400] if given.small else [int(size) for size in given.sizes.split(",")]
    dataset = read(given.folder, extraction=given.extraction)
    if given.pack > 1:
        dataset = packed(dataset, given.pack)
    if given.small or given.questions:
        dataset = dataset.head(20 if given.small else given.questions)
    hashing = given.small or given.embedder == "hashing"
    embedder = sg.HashingEmbedder() if hashing else None
    methods = given.methods.split(",")
    print(f"{dataset.name}: {len(dataset.documents)} documents, {len(dataset.questions)} questions")
    print("answer in context, and recall of gold documents, at 1,000, 2,000 and 5,000 tokens")
    headings = " ans@1k ans@2k ans@5k   R@1k   R@2k   R@5k   build s    CPU-s"
    print(f"{'size':>6} {'method':10} {'chunks':>7}{headings}")
    for size in sizes:
        found = measured(dataset, methods, size, embedder, given.cache)
        for name in methods:
            print(line(found, name, size), flush=True)
    print(PAPER)


if __name__ == "__main__":
    main()
