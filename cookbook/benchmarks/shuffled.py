"""Builds the demo's index with the members of all groups exchanged at random, before a model writes any text.

    python cookbook/benchmarks/shuffled.py EXPORT FOLDER SEED --llm MODEL

EXPORT is an export of the demo's index with its extraction. Communities, clusters and the tree's groups keep
their number and sizes. Without SEED's permutation (`-`) the groups are those of a usual build.
`cookbook/benchmarks/nuggets.py` then tells what contexts from either index hold, and so whether a method's
structure decides anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

import stratagraph as sg

METHODS = ("archrag", "noderag", "hirag", "lshtree")


def replaced(module: str, name: str, change: Callable[[Any], Any]) -> None:
    """Let `change` see what a function of `stratagraph.methods` returns."""
    owner = import_module(f"stratagraph.methods.{module}")
    given = getattr(owner, name)
    setattr(owner, name, lambda *args, **kwargs: change(given(*args, **kwargs)))


def shuffle(seed: int) -> None:
    """Exchange members of the groups that builds of this process make from now on."""
    rng = np.random.default_rng(seed)

    def rows(groups: list[np.ndarray]) -> list[np.ndarray]:
        order = rng.permutation(1 + max(int(group.max()) for group in groups))
        return [np.sort(order[group]) for group in groups]

    def levels(labels: list[np.ndarray]) -> list[np.ndarray]:
        order = rng.permutation(len(labels[0]))  # one for all levels, so that communities stay nested
        return [each[order] for each in labels]

    replaced("archrag.levels", "clustered", rng.permutation)
    replaced("noderag.build", "detect_communities", rng.permutation)
    replaced("hirag.clusters", "_mixture", rows)
    replaced("hirag.communities", "_partition", levels)
    replaced("lshtree.build", "partition", lambda found: replace(found, members=rows(found.members)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export")
    parser.add_argument("folder")
    parser.add_argument("seed", help="a number, or - for the usual groups")
    parser.add_argument("--llm", required=True, help="a model's name, such as openai:gpt-4o-mini")
    given = parser.parse_args()
    if given.seed != "-":
        shuffle(int(given.seed))
    read = sg.read_extraction(given.export)
    index = sg.build_index(
        read.documents, method=METHODS, path=given.folder, llm=given.llm, extraction=read.extractions
    )
    print(index.last_report)


if __name__ == "__main__":
    main()
