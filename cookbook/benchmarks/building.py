"""What a build costs beside embedding its passages: time, CPU, texts embedded, size, memory.

usage: python cookbook/benchmarks/building.py [FOLDER...] [--passages N,N] [--methods A,B] [--hashed]
           [--synthetic N]

FOLDERs are corpora with questions (see `stratagraph.eval.load_dataset`); their passages are put together,
long ones in windows of 110 words, and the first N are built without a language model: each method alone, and
all of them together, each in a process of its own. `x passages` is the CPU time against that of embedding the
passages, which is what a plain vector index costs. With --hashed, vectors are of 384 hashed words, so that
what is left is the CPU of the build itself; give several N to see how it grows. --synthetic makes up the
passages, for memory and opening at sizes that no corpus here has.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from million_shards import SYLLABLES, VERBS

import stratagraph as sg
from stratagraph.eval import load_dataset
from stratagraph.methods import NAMES
from stratagraph.models.local import MiniLMEmbedder

WINDOW, LONG = 110, 220  # words
PLAIN = "passages"


def passages(folders: list[str], count: int) -> list[sg.Document]:
    """The first passages of all corpora."""
    found: list[sg.Document] = []
    for folder in folders:
        for document in load_dataset(folder).documents:
            words = document.text.split()
            step = WINDOW if len(words) > LONG else max(len(words), 1)
            for start in range(0, len(words), step):
                text = document.text if step != WINDOW else " ".join(words[start : start + step])
                name = f"{Path(folder).name}-{document.id}-{start}"
                found.append(sg.Document(name, text, dict(document.metadata)))
    if len(found) < count:
        print(f"only {len(found):,} passages", file=sys.stderr)
    return found[:count]


def synthetic(count: int) -> list[sg.Document]:
    """Passages of five sentences about names that return, as those of a real corpus do."""
    rng = random.Random(0)

    def word() -> str:
        return "".join(rng.choices(SYLLABLES, k=rng.randint(2, 3)))

    people = [f"{word().title()} {word().title()}" for _ in range(max(10, count))]
    places = [word().title() for _ in range(max(10, count // 10))]
    nouns = [word() for _ in range(3_000)]
    documents = []
    for number in range(count):
        sentences = [
            f"{rng.choice(people)} {rng.choice(VERBS)} the {rng.choice(nouns)} {rng.choice(nouns)} of "
            f"{rng.choice(places)} with {rng.choice(people)} and the {rng.choice(nouns)}."
            for _ in range(5)
        ]
        documents.append(sg.Document(f"d{number}", " ".join(sentences), {}))
    return documents


def measured(given: argparse.Namespace) -> dict[str, float]:
    """Build, or only embed, in this process."""
    documents = synthetic(given.count) if given.synthetic else passages(given.folders, given.count)
    embedder = sg.HashingEmbedder(384) if given.hashed else MiniLMEmbedder()
    embedder.embed_query("loads the model")
    before, began, worked = peak(), time.perf_counter(), time.process_time()
    if given.alone == PLAIN:
        texts = [document.text for document in documents]
        for start in range(0, len(texts), 64):
            embedder.embed_documents(texts[start : start + 64])
        found = {"texts": len(texts), "bytes": 0, "opening": 0.0}
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "index"
            with sg.build_index(
                documents, given.alone.split("+"), path=path, embedder=embedder, progress=False
            ) as index:
                seconds, cpu = time.perf_counter() - began, time.process_time() - worked
                stages = index.last_report.stages
                found = {
                    "texts": sum(usage.embedded_texts for usage in stages.values()),
                    "bytes": index.stats()["bytes"],
                }
            opened = time.perf_counter()
            with sg.open_index(path, embedder=embedder):
                found["opening"] = time.perf_counter() - opened
    return found | {"seconds": seconds, "cpu": cpu, "peak": peak(), "before": before, "count": len(documents)}


def peak() -> int:
    """Most bytes the process has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def alone(method: str, count: int) -> dict[str, float]:
    """`measured` in a process of its own."""
    parts = [sys.executable, __file__, *sys.argv[1:], "--alone", method, "--count", str(count)]
    done = subprocess.run(parts, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--passages", default="600", help="how many, or several numbers with commas")
    parser.add_argument(
        "--methods", default=",".join((*NAMES, "+".join(NAMES))), help="joined by +: together"
    )
    parser.add_argument("--hashed", action="store_true", help="vectors of hashed words instead of a model's")
    parser.add_argument("--synthetic", type=int, default=0, help="make up so many passages")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        print(json.dumps(measured(given)))
        return
    print(
        f"{'passages':>9} {'method':32} {'seconds':>8} {'CPU-s':>7} {'ms CPU each':>11} {'x passages':>10} "
        f"{'texts each':>10} {'KB each':>8} {'peak MB':>8} {'opens ms':>9}"
    )
    counts = [given.synthetic] if given.synthetic else [int(each) for each in given.passages.split(",")]
    for count in counts:
        plain = alone(PLAIN, count)
        for method in (PLAIN, *given.methods.split(",")):
            found = plain if method == PLAIN else alone(method, count)
            each = max(found["count"], 1)
            print(
                f"{found['count']:9,} {method:32} {found['seconds']:8.1f} {found['cpu']:7.1f} "
                f"{1000 * found['cpu'] / each:11.2f} {found['cpu'] / max(plain['cpu'], 1e-9):10.2f} "
                f"{found['texts'] / each:10.2f} {found['bytes'] / 1000 / each:8.1f} "
                f"{found['peak'] / 1e6:8.0f} {1000 * found['opening']:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
