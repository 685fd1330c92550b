"""When an update should compute communities anew instead of bringing the previous ones up to date.

usage: python cookbook/benchmarks/reclustering.py FOLDER... [--passages N] [--shares 0.25,0.5,...]

Each FOLDER is a corpus (see `stratagraph.eval.load_dataset`). A share of its passages is inserted into an
index of the others, once with the previous communities and once with communities computed anew. Everything is
without a model. `new` is the share of entities that the insert brought, `mod.` the modularity of the finest
communities in the graph of entities, `made` the nodes of the method that the index before did not have.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
from pathlib import Path

import numpy as np

import stratagraph as sg
from stratagraph.eval import load_dataset
from stratagraph.ingest import carryover
from stratagraph.kernels.leiden import modularity
from stratagraph.models.local import HashingEmbedder
from stratagraph.store.folder import IndexFolder

LABELS = {"archrag": "entities.parents", "noderag": "communities.labels", "hirag": "communities.labels"}
ALWAYS, NEVER = 0.0, 1.0


def measured(path: Path) -> dict[str, tuple[float, set[str]]]:
    """By method: the modularity of the finest communities, and the ids of the nodes."""
    folder = IndexFolder.open(path)
    snapshot = folder.snapshot()
    graph = snapshot.part("graph")
    entities = int(graph.arrays["counts"][0])
    found = {}
    for method, array in LABELS.items():
        part = snapshot.part(method)
        labels = np.atleast_2d(part.arrays[array])[0][:entities]
        _, labels = np.unique(labels, return_inverse=True)
        value = modularity(graph.arrays["relations.ends"], graph.arrays["relations.weights"], labels)
        found[method] = value, {node.id for node in part.nodes(range(part.size))}
    found["entities"] = 0.0, {node.id for node in graph.nodes(range(entities))}
    folder.close()
    return found


def updated(base: Path, path: Path, documents: list[sg.Document], share: float) -> dict:
    """What is measured after an insert with this threshold."""
    shutil.copytree(base, path)
    carryover.RECLUSTER_SHARE = share
    with sg.open_index(path, embedder=HashingEmbedder()) as index:
        index.insert(documents)
    return measured(path)


def compare(name: str, documents: list[sg.Document], share: float, scratch: Path) -> None:
    first = round((1 - share) * len(documents))
    base = scratch / "base"
    sg.build_index(
        documents[:first], method=list(LABELS), path=base, embedder=HashingEmbedder(), progress=False
    ).close()
    before = measured(base)
    kept = updated(base, scratch / "kept", documents[first:], NEVER)
    anew = updated(base, scratch / "anew", documents[first:], ALWAYS)
    ids = kept["entities"][1]
    new = len(ids - before["entities"][1]) / len(ids)
    for method in LABELS:
        made = [len(each[method][1] - before[method][1]) for each in (kept, anew)]
        print(
            f"{name:18} {share:6.2f} {new:5.2f} {method:8} {kept[method][0]:8.3f} {anew[method][0]:6.3f} "
            f"{made[0]:10} {made[1]:6}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--passages", type=int, default=1000)
    parser.add_argument("--shares", default="0.2,0.35,0.5,0.65")
    given = parser.parse_args()
    print(f"{'corpus':18} insert   new method   mod. kept, anew  made kept, anew")
    for folder in given.folders:
        dataset = load_dataset(folder)
        documents = list(dataset.documents)
        random.Random(0).shuffle(documents)
        for share in map(float, given.shares.split(",")):
            with tempfile.TemporaryDirectory() as scratch:
                compare(dataset.name, documents[: given.passages], share, Path(scratch))


if __name__ == "__main__":
    main()
