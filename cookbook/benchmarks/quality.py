"""Recall of every method on every corpus at hand, beside the baselines.

usage: python cookbook/benchmarks/quality.py FOLDER... [--methods lshtree,ppr,dense,bm25] [--cache FOLDER]

Each FOLDER is a corpus with questions (see `stratagraph.eval.load_dataset`); without any it is the demo
corpus.
A cell holds recall at 2 and at 5 passages; `~` marks a recall at 5 that is within noise of the reference's.
"""

from __future__ import annotations

import argparse

from stratagraph.eval import Evaluation, evaluate, load_dataset
from stratagraph.methods import NAMES

METHODS = (*NAMES, "ppr", "raptor", "hybrid", "dense", "bm25")


def cell(found: Evaluation, name: str) -> str:
    two, five = (found.mean(name, f"recall@{k}") for k in (2, 5))
    if two is None or five is None:
        return found.row(name).error[:20] or "no gold"
    difference = found.row(name).differences.get("recall@5")
    return f"{two:.3f} / {five:.3f} {'~' if difference and difference.is_noise else ' '}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", default=["demo"])
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--cache", help="keeps the vectors from run to run")
    given = parser.parse_args()
    names = given.methods.split(",")
    found = []
    for folder in given.folders:
        dataset = load_dataset(folder)
        found.append(evaluate(dataset, names, k=(2, 5), budgets=(), cache=given.cache, progress=True))
    widths = [max(18, len(each.dataset)) for each in found]
    print(" " * 12 + "".join(f"{each.dataset:>{w}}  " for each, w in zip(found, widths, strict=True)))
    for row in found[0].rows:
        cells = "".join(f"{cell(each, row.name):>{w}}  " for each, w in zip(found, widths, strict=True))
        print(f"{row.name:12}{cells}")
    print("\n\n".join(str(each) for each in found))


if __name__ == "__main__":
    main()
