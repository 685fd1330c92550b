"""What an update costs beside a build: CPU, bytes written and bytes on disk, by stage and by file.

usage: python cookbook/benchmarks/updates.py FOLDER [FOLDER ...] [--passages N[,N]] [--methods A,B] [--each]
           [--steps "build,insert 1,delete 1,delete built 1,insert 1 %,delete 1 %"] [--files]
           [--row N] [--recall]

FOLDER is a corpus with questions (see `stratagraph.eval.load_dataset`); its documents are cut into passages
of about 500 characters, each a document of its own, until there are N. No model; vectors are hashed words of
384 dimensions. CPU is that of the process, of all its threads. Bytes written are those of files that were not
there before the step, a hard link to an earlier file being the same file. The folder is a temporary one.
`delete built 1` is of a passage of the build, whose names and vectors lie scattered in the files, that in the
middle, `delete built .3` of that at 30 % of them; the other deletes are of what was inserted before them.
With several numbers of passages it tells how much more each step costs than with the first of them; with
--each all methods are measured in one index, then each alone. With --row so many further passages are
inserted one after the other instead, and it tells by hundreds what an insert takes and how large the folder
is, then after `regroup`, and of an index built of the same passages.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

import stratagraph as sg
from stratagraph.eval import load_dataset
from stratagraph.methods import NAMES
from stratagraph.models.local import MiniLMEmbedder

LENGTH = 500  # characters of a passage
STEPS = "build,insert 1,delete 1,delete built 1,insert 1 %,delete 1 %"
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def passages(folders: Sequence[str], count: int) -> list[sg.Document]:
    """The first passages of all corpora in turn."""
    found: list[str] = []
    for folder in folders:
        for document in load_dataset(folder).documents:
            found += _cut(document.text)
    if len(found) < count:
        raise SystemExit(f"these corpora have {len(found):,} passages, not {count:,}")
    step = len(found) / count
    return [sg.Document(f"p{at:06}", found[int(at * step)]) for at in range(count)]


def _cut(text: str) -> Iterator[str]:
    held = ""
    for sentence in _SENTENCE.split(text):
        if held and len(held) + len(sentence) > LENGTH:
            yield held
            held = ""
        held = f"{held} {sentence}".strip()
    if held:
        yield held


Files = dict[tuple[int, int, int], tuple[str, int]]


def files(folder: Path) -> Files:
    """The files of a folder: what tells one from another, with its name and the bytes it takes."""
    found: Files = {}
    for path in folder.rglob("*"):
        if path.is_file():
            status = path.stat()
            identity = (status.st_ino, status.st_mtime_ns, status.st_size)
            found[identity] = (_kind(path.relative_to(folder)), status.st_size)
    return found


def _kind(path: Path) -> str:
    return "/".join(re.sub(r"^(\d+|\d+-\d+|[0-9a-f]{16,})(?=\.|$)", "*", part) for part in path.parts[-2:])


def sizes(found: Files) -> Counter[str]:
    """Bytes by kind of file."""
    counted: Counter[str] = Counter()
    for name, size in found.values():
        counted[name] += size
    return counted


def measured(folder: Path, work: Callable[[], object]) -> tuple[float, Files]:
    """The CPU of a step in seconds, and the files that it wrote."""
    before = files(folder)
    began = time.process_time()
    work()
    spent = time.process_time() - began
    after = files(folder)
    return spent, {key: value for key, value in after.items() if key not in before}


def recall(folders: Sequence[str], count: int) -> None:
    """Print how many of the ten nearest passages stay so if vectors are rounded to float16."""
    embedder = MiniLMEmbedder()
    texts = [document.text for document in passages(folders, count)]
    questions = [each.question for folder in folders for each in load_dataset(folder).questions][:500]
    vectors, asked = (np.asarray(embedder.embed_documents(each), np.float32) for each in (texts, questions))
    rounded = vectors.astype(np.float16).astype(np.float32)
    best = [np.argsort(-(asked @ each.T), axis=1)[:, :10] for each in (vectors, rounded)]
    same = [len(set(one) & set(other)) for one, other in zip(*best, strict=True)]
    share = sum(same) / (10 * len(same))
    print(f"recall@10 of float16: {share:.4f}, {len(texts):,} passages, {len(asked)} questions")


def table(given: argparse.Namespace, count: int, methods: str) -> dict[str, float]:
    """Print a line for each step over so many passages; the CPU of each."""
    percent = max(1, count // 100)
    everything = passages(given.folders, count + 1 + percent)
    chosen = everything[:: max(1, len(everything) // (1 + percent))][: 1 + percent]  # scattered
    taken = {document.id for document in chosen}
    rest = [document for document in everything if document.id not in taken]
    one, many = chosen[:1], chosen[1:]
    costs: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "index"
        folder.mkdir()
        index = None

        def build() -> None:
            nonlocal index
            index = sg.build_index(
                rest,
                methods.split(","),
                path=folder,
                embedder=sg.HashingEmbedder(384),
                progress=False,
            )

        def delete_built(at: float) -> None:
            index.delete([rest[int(at * len(rest))].id])

        work: dict[str, Callable[[], object]] = {
            "build": build,
            "insert 1": lambda: index.insert(one),
            "delete 1": lambda: index.delete([one[0].id]),
            "delete built 1": lambda: delete_built(0.5),
            "insert 1 %": lambda: index.insert(many),
            "delete 1 %": lambda: index.delete([each.id for each in many]),
            "regroup": lambda: index.regroup(),
        }
        print(f"{len(rest):,} passages, {methods}")
        print(
            f"{'step':14} {'CPU-s':>8} {'of build':>9} {'MB written':>11} {'of index':>9} "
            f"{'KB a passage':>13}  stages"
        )
        for step in given.steps.split(","):
            if at := re.fullmatch(r"delete built (\.\d+)", step):
                work[step] = partial(delete_built, float(at[1]))
            spent, written = measured(folder, work[step])
            costs[step] = spent
            whole = next(iter(costs.values()))
            held = sum(sizes(files(folder)).values())
            new = sum(sizes(written).values())
            slow = {
                name: usage.seconds
                for name, usage in index.last_report.stages.items()
                if usage.seconds > 0.02
            }
            stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in slow.items())
            print(
                f"{step:14} {spent:8.2f} {spent / whole:9.1%} {new / 1e6:11.2f} {new / held:9.1%} "
                f"{held / 1e3 / len(rest):13.1f}  {stages}",
                flush=True,
            )
            if given.files:
                for name, size in sizes(written).most_common():
                    print(f"    {name:40} {size / 1e6:9.2f} MB {size / len(rest) / 1e3:9.2f} KB a passage")
        index.close()
    return costs


def row(given: argparse.Namespace, count: int, methods: str) -> None:
    """Print what single inserts take, one after the other, and how large the folder becomes."""
    everything = passages(given.folders, count + given.row)
    places = set(range(0, len(everything), len(everything) // given.row)[: given.row])  # scattered
    later = [each for place, each in enumerate(everything) if place in places]
    built = [each for place, each in enumerate(everything) if place not in places]

    def build(documents: Sequence[sg.Document], folder: Path) -> sg.Index:
        embedder = sg.HashingEmbedder(384)
        return sg.build_index(documents, methods.split(","), path=folder, embedder=embedder, progress=False)

    def told(what: str, folder: Path, began: float, times: int = 1) -> None:
        spent, held = (time.process_time() - began) / times, sum(sizes(files(folder)).values())
        print(f"{what:28} {1000 * spent:10.1f} CPU-ms {held / 1e6:10.2f} MB on disk", flush=True)

    print(f"{count:,} passages, then {given.row:,} inserts of one, {methods}")
    with tempfile.TemporaryDirectory() as made:
        updated, fresh = Path(made) / "updated", Path(made) / "fresh"
        began = time.process_time()
        with build(built, updated) as index:
            told("build", updated, began)
            for start in range(0, len(later), 100):
                some, began = later[start : start + 100], time.process_time()
                for document in some:
                    index.insert([document])
                told(f"insert {start + 1:,} to {start + len(some):,}, each", updated, began, len(some))
            began = time.process_time()
            index.regroup()
            told("regroup", updated, began)
        began = time.process_time()
        with build([*built, *later], fresh):
            told("a build of all", fresh, began)


def main() -> None:
    """Print a table for each number of passages and each choice of methods."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--passages", default="2000", help="a number, or several with commas between")
    parser.add_argument("--methods", default=",".join(NAMES))
    parser.add_argument("--each", action="store_true", help="after all methods each of them alone")
    parser.add_argument("--steps", default=STEPS)
    parser.add_argument("--recall", action="store_true", help="only what vectors lose as float16 (MiniLM)")
    parser.add_argument(
        "--row", type=int, help="insert so many passages one after the other, and nothing else"
    )
    parser.add_argument("--files", action="store_true", help="list what each step wrote, by file")
    given = parser.parse_args()
    counts = [int(each) for each in given.passages.split(",")]
    if given.recall:
        recall(given.folders, counts[0])
        return
    if given.row:
        row(given, counts[0], given.methods)
        return
    for methods in [given.methods, *(given.methods.split(",") if given.each else ())]:
        found = [table(given, count, methods) for count in counts]
        for count, costs in zip(counts[1:], found[1:], strict=True):
            growth = ", ".join(f"{step} {cost / found[0][step]:.2f}" for step, cost in costs.items())
            print(f"{count:,} against {counts[0]:,} passages, {methods}: {growth}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if os.uname().sysname == "Darwin" else 1024
    )
    print(f"peak memory {peak / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
