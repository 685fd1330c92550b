"""How far updates drift: groups after single inserts, beside those of a build from scratch.

usage: python cookbook/benchmarks/drift.py FOLDER... [--passages 1000] [--inserts 50] [--every 10]
           [--methods archrag,noderag,hirag] [--hashed]

Each FOLDER is a corpus (see `stratagraph.eval.load_dataset`), shuffled. An index of the first passages takes
the next ones in one at a time; every so many inserts its groups are compared with those of a copy whose
groups were all made anew (`Index.regroup`, which gives those of a build from scratch). No model. Printed
for each level: groups, and modularity in the graph of entities, with how far both are off. After the method
stands what `Index.stats` says was deferred. CPU is what the inserts took. At the end stand the groups of
all those made anew: they vary by themselves, since a passage more is another start for what is random in
them.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import stratagraph as sg
from stratagraph.eval import load_dataset
from stratagraph.kernels.leiden import modularity
from stratagraph.store.folder import IndexFolder

Labels = NDArray[np.integer]


def archrag(arrays: Mapping[str, Any], entities: int) -> Iterator[tuple[str, int, Labels | None]]:
    """Communities of each level; the label of an entity is its ancestor there."""
    starts = [*arrays["levels.starts"].tolist(), len(arrays["parents"])]
    labels = np.asarray(arrays["entities.parents"])
    for level, (first, last) in enumerate(pairwise(starts), 1):
        yield f"level {level}", last - first, labels
        labels = np.asarray(arrays["parents"])[labels]


def noderag(arrays: Mapping[str, Any], entities: int) -> Iterator[tuple[str, int, Labels | None]]:
    """The communities of the heterograph."""
    labels = np.asarray(arrays["communities.labels"])
    yield "communities", len(np.unique(labels)), labels[:entities]


def hirag(arrays: Mapping[str, Any], entities: int) -> Iterator[tuple[str, int, Labels | None]]:
    """The layers of entities, and the communities of each level."""
    levels = np.asarray(arrays["layers.levels"])
    for level in np.unique(levels).tolist():
        yield f"layer {level}", int((levels == level).sum()), None
    for level, labels in enumerate(np.asarray(arrays["communities.labels"])):
        yield f"communities {level}", len(np.unique(labels)), labels[:entities]


LEVELS = {"archrag": archrag, "noderag": noderag, "hirag": hirag}
Measured = dict[tuple[str, str], tuple[int, float]]


def measured(path: Path, methods: list[str]) -> Measured:
    """By method and level: how many groups there are, and their modularity (NaN where it means nothing)."""
    folder = IndexFolder.open(path)
    snapshot = folder.snapshot()
    graph = snapshot.part("graph")
    entities = int(graph.arrays["counts"][0])
    ends, weights = graph.arrays["relations.ends"], graph.arrays["relations.weights"]
    found: Measured = {}
    for method in methods:
        for name, size, labels in LEVELS[method](snapshot.part(method).arrays, entities):
            quality = float("nan")
            if labels is not None:
                quality = modularity(ends, weights, np.unique(labels, return_inverse=True)[1])
            found[method, name] = size, quality
    folder.close()
    return found


def off(now: float, wanted: float) -> str:
    """The difference as a share."""
    return f"{(now - wanted) / wanted:+7.1%}" if wanted else " " * 7


def compare(
    path: Path, embedder: Any, methods: list[str], inserts: int, spent: float, index: sg.Index
) -> Measured:
    """Print one comparison; returns what was made anew."""
    copy = path.with_name("anew")
    shutil.copytree(path, copy)
    with sg.open_index(copy, embedder=embedder) as other:
        for method in methods:
            other.regroup(method)
    kept, anew = measured(path, methods), measured(copy, methods)
    shutil.rmtree(copy)
    states = index.stats()["methods"]
    changed = ", ".join(f"{method} {states[method].get('changed', 0)}" for method in methods)
    print(f"after {inserts} inserts, {spent:.1f} CPU-s; {changed}")
    for key in sorted({*kept, *anew}):
        (size, quality), (wanted, best) = kept.get(key, (0, 0.0)), anew.get(key, (0, 0.0))
        print(
            f"  {' '.join(key):24} {size:6} {wanted:6} {off(size, wanted)}   "
            f"{quality:.3f} {best:.3f} {off(quality, best)}",
            flush=True,
        )
    return anew


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--passages", type=int, default=1000)
    parser.add_argument("--inserts", type=int, default=50)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--methods", default=",".join(LEVELS))
    parser.add_argument("--hashed", action="store_true", help="vectors of hashed words, of 384 dimensions")
    given = parser.parse_args()
    methods = given.methods.split(",")
    for folder in given.folders:
        dataset = load_dataset(folder)
        documents = random.Random(0).sample(list(dataset.documents), given.passages + given.inserts)
        embedder = sg.HashingEmbedder(384) if given.hashed else None
        print(f"{dataset.name}: {given.passages} passages", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "index"
            first, rest = documents[: given.passages], documents[given.passages :]
            with sg.build_index(first, methods, path=path, embedder=embedder, progress=False) as index:
                spent, made = 0.0, []
                for number, document in enumerate(rest, 1):
                    began = time.process_time()
                    index.insert([document])
                    spent += time.process_time() - began
                    if number % given.every == 0 or number == len(rest):
                        made.append(compare(path, embedder, methods, number, spent, index))
            for key in sorted({key for each in made for key in each}):
                print(f"  {' '.join(key):24} {[each.get(key, (0, 0.0))[0] for each in made]}", flush=True)


if __name__ == "__main__":
    main()
