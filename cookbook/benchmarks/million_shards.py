"""A million made-up passages in shards on this machine: time, CPU, memory, disk, opening, questions.

usage: python cookbook/benchmarks/million_shards.py [--passages 1000000] [--shards 64] [--method lshtree]
           [--mapper processes] [--workers 2] [--path FOLDER]

Each document is one passage of five sentences, made when it is read: the corpus is never held. Workers build
whole shards, so that memory is that of `--workers` shards and of a list of ids. The same command with the
same --path goes on where one that was stopped ended; its times are then those of the rest. A question asks
what a passage says, in half of the words of one of its sentences; `found` is how often that passage is among
ten. Without --path everything is removed at the end. Of the LSH tree, 3 CPU-ms and 6 KB of disk a passage.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import stratagraph as sg

SYLLABLES = ["an", "bel", "cor", "dal", "er", "fin", "gor", "hath", "il", "jun", "kel", "lor", "mar", "nex"]
VERBS = ["founded", "visited", "described", "rebuilt", "left", "painted", "sold", "governed"]
QUESTIONS = 100
EMBEDDER = 384


def word(number: int) -> str:
    """A word of two to four syllables for each number."""
    rng = random.Random(number)
    return "".join(rng.choices(SYLLABLES, k=rng.randint(2, 4)))


def name(number: int) -> str:
    return f"{word(2 * number).title()} {word(2 * number + 1).title()}"


def sentences(number: int, passages: int) -> list[str]:
    """What a passage says. People come back in about ten passages, places in a hundred."""
    rng = random.Random(number)

    def sentence() -> str:
        people = [name(rng.randrange(max(10, passages))) for _ in range(2)]
        nouns = [word(-rng.randrange(1, 3000)) for _ in range(3)]
        place = word(rng.randrange(max(10, passages // 10))).title()
        return (
            f"{people[0]} {rng.choice(VERBS)} the {nouns[0]} {nouns[1]} of {place} with {people[1]} and the "
            f"{nouns[2]}."
        )

    return [sentence() for _ in range(5)]


def text(number: int, passages: int) -> Iterator[str]:
    yield " ".join(sentences(number, passages))


def documents(passages: int) -> Iterator[sg.StreamedDocument]:
    for number in range(passages):
        yield sg.StreamedDocument(f"d{number}", partial(text, number, passages))


class Lines:
    """Tells when each shard was done."""

    def __init__(self) -> None:
        self.done, self.total, self.began = 0, 0, time.perf_counter()

    def start(self, stage: str, total: int | None) -> None:
        self.total = total or 0

    def advance(self, stage: str, count: int = 1) -> None:
        self.done += count
        if stage == "shards":
            print(
                f"{self.done} of {self.total} shards after {time.perf_counter() - self.began:.0f} s",
                flush=True,
            )

    def finish(self, stage: str) -> None:
        return


def used() -> tuple[float, float, float]:
    """CPU seconds of this process and its children that have ended, and the most bytes of each."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = sum(each.ru_utime + each.ru_stime for each in (own, others))
    return seconds, own.ru_maxrss * 1024, others.ru_maxrss * 1024


def asked(index: sg.Index, passages: int) -> None:
    rng = random.Random(1)
    milliseconds, cpu, found = [], [], 0
    for at in range(QUESTIONS + 5):
        number = rng.randrange(passages)
        words = rng.choice(sentences(number, passages)).rstrip(".").split()
        question = "What of " + " ".join(words[: len(words) // 2]) + "?"
        began, worked = time.perf_counter(), time.process_time()
        hits = index.retrieve(question, k=10, method="walk").hits
        if at >= 5:
            milliseconds.append(1000 * (time.perf_counter() - began))
            cpu.append(1000 * (time.process_time() - worked))
            found += any(f"d{number}" in hit.documents for hit in hits)
    print(
        f"a question: {statistics.median(milliseconds):.1f} ms ({statistics.median(cpu):.1f} CPU-ms), "
        f"slowest of {QUESTIONS} {max(milliseconds):.1f} ms; found {found / QUESTIONS:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--method", default="lshtree", help="or several, joined by +")
    parser.add_argument("--mapper", default="processes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--path", type=Path)
    given = parser.parse_args()
    path = given.path or Path(tempfile.mkdtemp(prefix="million-")) / "index"
    embedder = sg.HashingEmbedder(EMBEDDER)
    began = time.perf_counter()
    workers = sg.mapper(given.mapper, given.workers)
    with sg.build_shards(
        documents(given.passages),
        path,
        shards=given.shards,
        method=given.method.split("+"),
        embedder=embedder,
        mapper=workers,
        progress=Lines(),
    ) as index:
        workers.close()
        seconds, (cpu, own, others) = time.perf_counter() - began, used()
        size = index.stats()["bytes"]
    print(
        f"{given.passages:,} passages, {given.method}, {given.shards} shards, {given.mapper} x "
        f"{given.workers}: {seconds:.0f} s, {cpu:.0f} CPU-s ({1000 * cpu / given.passages:.2f} ms each), "
        f"{size / 1e9:.2f} GB ({size / given.passages / 1000:.1f} KB each), {own / 1e9:.2f} GB here and "
        f"{others / 1e9:.2f} GB in the largest worker held"
    )
    began = time.perf_counter()
    with sg.open_index(path, embedder=embedder) as index:
        opened = time.perf_counter() - began
        index.warm()
        print(f"opened in {opened:.1f} s, warm after {time.perf_counter() - began:.1f} s")
        asked(index, given.passages)
        print(f"memory of the process that answers: {used()[1] / 1e9:.2f} GB")
    if given.path is None:
        shutil.rmtree(path.parent)


if __name__ == "__main__":
    main()
