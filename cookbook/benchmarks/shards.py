"""One index beside shards of the same passages: recall, and the CPU that fan-out adds to a question.

    python cookbook/benchmarks/shards.py DATA_FOLDER [--shards 4,16] [--embedder minilm|hashing]
        [--indexes FOLDER] [--methods lshtree,archrag,noderag,hirag] [--questions 100]

DATA_FOLDER holds `corpus.jsonl` and `questions.jsonl` (ids of gold passages in `supporting_ids`). Indexes are
built in FOLDER once and opened after that. R@5 counts gold documents among those of five hits; a hit of more
than three documents counts none. Times are CPU of the process, each question in turn on all indexes.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import stratagraph as sg
from stratagraph.models.named import as_embedder

WARM = 10
FOCUSED = 3


def read(folder: Path, questions: int) -> tuple[list[sg.Document], list[dict[str, Any]]]:
    lines = [json.loads(line) for line in (folder / "corpus.jsonl").open()]
    documents = [sg.Document(str(each["id"]), f"{each.get('title') or ''}\n{each['text']}") for each in lines]
    asked = [json.loads(line) for line in (folder / "questions.jsonl").open()]
    return documents, [each for each in asked if each.get("supporting_ids")][:questions]


def opened(path: Path, shards: int, documents: list[sg.Document], **given: Any) -> sg.Index:
    if path.exists():
        return sg.open_index(path, embedder=given["embedder"])
    if shards == 1:
        return sg.build_index(documents, path=path, progress=False, **given)
    return sg.build_shards(documents, path, shards=shards, progress=False, **given)


def recall(found: sg.Retrieval, gold: set[str]) -> float:
    met = {name for hit in found.hits if len(hit.documents) <= FOCUSED for name in hit.documents}
    return len(gold & met) / len(gold)


def compare(indexes: dict[int, sg.Index], questions: list[dict[str, Any]], **search: Any) -> None:
    for index in indexes.values():
        for each in questions[:WARM]:
            index.retrieve(each["question"], 5, **search)
    scores: dict[int, list[float]] = {shards: [] for shards in indexes}
    spent: dict[int, list[float]] = {shards: [] for shards in indexes}
    for each in questions:
        gold = set(map(str, each["supporting_ids"]))
        for shards, index in indexes.items():
            began = time.process_time()
            found = index.retrieve(each["question"], 5, **search)
            spent[shards].append(1e3 * (time.process_time() - began))
            scores[shards].append(recall(found, gold))
    told = [
        f"{shards}: R@5 {np.mean(scores[shards]):.3f}, {np.median(spent[shards]):.1f} ms "
        f"(+{np.median(np.subtract(spent[shards], spent[1])):.1f})"
        for shards in indexes
    ]
    name = search["method"] if search["fill"] else f"{search['method']}, fill=False"
    print(f"{name:20} {'; '.join(told)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--shards", default="4,16")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--methods", default="lshtree,archrag,noderag,hirag")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--indexes", type=Path, default=None)
    options = parser.parse_args()
    documents, questions = read(options.data, options.questions)
    folder = options.indexes or Path(tempfile.mkdtemp(prefix="shards-"))
    given = {"method": options.methods.split(","), "embedder": as_embedder(options.embedder)}
    indexes = {}
    for shards in (1, *map(int, options.shards.split(","))):
        began = time.process_time()
        path = folder / f"{options.data.name}-{options.embedder}-{shards}"
        indexes[shards] = opened(path, shards, documents, **given)
        counts = indexes[shards].stats()
        print(
            f"{shards} shards: {counts['chunks']} passages, {time.process_time() - began:.0f} CPU-s",
            flush=True,
        )
    compare(indexes, questions, method="walk", fill=True)
    for method in indexes[1].methods:
        for fill in (True, False):
            compare(indexes, questions, method=method, fill=fill)


if __name__ == "__main__":
    main()
