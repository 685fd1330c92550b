"""NodeRAG: the paper's Table 2, Figure 4 and Table 4 on a corpus, without a model.

usage: python cookbook/benchmarks/noderag.py FOLDER [--extraction FILE] [--cache FOLDER] [--small]

It asks all questions of a corpus folder (see `papers/layouts.py`) and prints for each setting in how many
retrieved contexts a gold answer stands, how many tokens there were, and the time per question.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpora import read

import stratagraph as sg
from stratagraph.eval.embedding import shared_embedder


def tables(folder: str, extraction: str | None, cache: str | None, k: int, *, small: bool) -> None:
    dataset = read(folder, extraction=extraction)
    dataset = dataset.head(10) if small else dataset
    inner = sg.HashingEmbedder() if small else None
    with tempfile.TemporaryDirectory() as path, shared_embedder(cache, inner) as embedder:
        index = sg.build_index(
            dataset.documents,
            method="noderag",
            path=Path(path, "index"),
            embedder=embedder,
            extraction=dataset.extractions or None,
            progress=False,
        )
        with index:
            print("Table 4:", index.stats()["methods"]["noderag"])
            ablations(index, dataset.questions, k)


def settings() -> Iterator[tuple[str, dict[str, Any], int | None]]:
    """Name, options and number of hits (None: the default) of each row."""
    yield "NodeRAG", {}, None
    yield "w/o HNSW", {"semantic_edges": False}, None
    yield "w/o dual search", {"names": False}, None
    for k in (10, 20, 30):
        every = {"entry_types": ("T", "S", "A", "H"), "types": ("T", "S", "A", "H")}
        yield f"w/o cross nodes, k = {k}", {"mode": "entry", "names": False, **every}, k
    for k in (20, 30):
        units = {"types": ("S",), "similar": k, "limits": {"S": k}}
        yield f"semantic units alone, k = {k}", units, k
    for steps in range(1, 11):
        yield f"PPR, {steps} step{'s' if steps > 1 else ''}", {"steps": steps}, None
    yield "PPR to convergence", {"steps": None}, None
    yield "passages by similarity, k = 10", {}, -10


def ablations(index: sg.Index, questions: Any, default: int) -> None:
    print(f"{'setting':32} {'answer in context':>18} {'tokens':>8} {'ms':>7}")
    for name, options, k in settings():
        found, tokens, spent = [], [], []
        for question in questions:
            began = time.perf_counter()
            got = _ask(index, question.question, options, k, default)
            spent.append(time.perf_counter() - began)
            context = got.context(100_000)
            text = context.text.casefold()
            found.append(any(answer.casefold() in text for answer in question.answers))
            tokens.append(context.tokens)
        print(
            f"{name:32} {statistics.mean(found):18.3f} {statistics.mean(tokens):8.0f} "
            f"{1000 * statistics.median(spent):7.2f}"
        )


def _ask(index: sg.Index, question: str, options: dict[str, Any], k: int | None, default: int) -> Any:
    if k is not None and k < 0:  # a walk of no steps over no names: passages by similarity
        own = {"mode": "entry", "names": False, "entry_types": ("T",), "types": ("T",)}
        return index.retrieve(question, -k, fill=False, **own)
    return index.retrieve(question, default if k is None else k, fill=False, **options)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--extraction", help="entities and triples of the passages, such as openie.jsonl")
    parser.add_argument("--cache", help="keeps the vectors from run to run")
    parser.add_argument("--small", action="store_true", help="10 questions, hashed words")
    parser.add_argument("-k", type=int, default=30, help="hits per question")
    given = parser.parse_args()
    tables(given.folder, given.extraction, given.cache, given.k, small=given.small)


if __name__ == "__main__":
    main()
