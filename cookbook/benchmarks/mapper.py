"""How much faster workers build: stages that map, the whole build, and shards of the same passages.

usage: python cookbook/benchmarks/mapper.py [FOLDER...] [--passages 20000] [--synthetic] [--workers 1,2]
           [--kinds processes] [--methods archrag+noderag+hirag+lshtree] [--shards 4] [--small]

Passages are those of `building.py`, vectors of 384 hashed words. Each build runs in a process of its own, in
turn: without a mapper, then with each kind and number of workers, as one index and as --shards. `map` is the
wall time of the stages that map, `rest` that of all else; `x` compares with one worker of the same kind.
Workers are started and have imported everything before the time is taken. Wall times mean something only on a
machine that does nothing else. 20,000 passages take about 15 minutes, without shards (--shards 0) half of
that; --small, 1,000 made-up ones, one.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from building import passages, synthetic

import stratagraph as sg
from stratagraph.methods import NAMES

APART = ("merge", "important entities", "communities", "heterograph", "embed")
"""How stages that do not map are called; what has no stage does not either, and hashed words stay here."""


def warm(number: int) -> int:
    from stratagraph import index  # noqa: F401  # what a worker needs is imported now

    time.sleep(0.5)  # so that the other workers get one each
    return number


def measured(given: argparse.Namespace) -> dict[str, float]:
    """One build in this process."""
    documents = synthetic(given.passages) if given.synthetic else passages(given.folders, given.passages)
    mapper = sg.mapper(given.kind, given.count) if given.kind != "none" else None
    if mapper is not None:
        for future in [mapper.submit(warm, n) for n in range(mapper.workers)]:
            future.result()
    how = {"method": given.methods.split("+"), "embedder": sg.HashingEmbedder(384), "progress": False}
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        if given.shards:
            index = sg.build_shards(documents, Path(folder) / "i", shards=given.shards, mapper=mapper, **how)
        else:
            index = sg.build_index(documents, path=Path(folder) / "i", mapper=mapper, **how)
        seconds = time.perf_counter() - began
        stages = index.last_report.stages
        index.close()
    if mapper is not None:
        mapper.close()
    mapped = sum(usage.seconds for name, usage in stages.items() if not name.startswith(APART))
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "mapped": 0.0 if given.shards else mapped,
        "cpu": time.process_time(),
        "workers_cpu": children.ru_utime + children.ru_stime,
        "count": len(documents),
    }


def alone(kind: str, count: int, shards: int) -> dict[str, float]:
    """`measured` in a process of its own."""
    told = ["--kind", kind, "--count", str(count), "--shards", str(shards)]
    done = subprocess.run(
        [sys.executable, __file__, *sys.argv[1:], *told], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def shown(what: str, found: dict[str, float], one: dict[str, float] | None) -> None:
    faster = "" if one is None else f"{one['seconds'] / found['seconds']:6.2f}"
    mapped = rest = faster_mapped = ""
    if found["mapped"]:
        mapped, rest = f"{found['mapped']:.1f}", f"{found['seconds'] - found['mapped']:.1f}"
        faster_mapped = "" if one is None else f"{one['mapped'] / found['mapped']:6.2f}"
    print(
        f"{what:28} {found['seconds']:8.1f} {faster:>6} {mapped:>8} {faster_mapped:>6} {rest:>8} "
        f"{found['cpu']:8.1f} {found['workers_cpu']:10.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--synthetic", action="store_true", help="make up the passages")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--kinds", default="processes", help="of processes and ray, with commas")
    parser.add_argument("--methods", default="+".join(NAMES))
    parser.add_argument("--shards", type=int, default=4, help="0: one index alone")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.small:
        given.passages, given.synthetic = 1000, True
    given.synthetic = given.synthetic or not given.folders
    if given.kind:
        print(json.dumps(measured(given)))
        return
    print(
        f"{given.passages:,} passages, {given.methods}\n{'':28} {'seconds':>8} {'x':>6} {'map':>8} {'x':>6} "
        f"{'rest':>8} {'CPU here':>8} {'of workers':>10}"
    )
    for shards in dict.fromkeys((0, given.shards)):
        name = f"{shards} shards, " if shards else ""
        shown(f"{name}no mapper", alone("none", 0, shards), None)
        for kind in given.kinds.split(","):
            one = None
            for count in map(int, given.workers.split(",")):
                found = alone(kind, count, shards)
                shown(f"{name}{kind} x {count}", found, one)
                one = one or found


if __name__ == "__main__":
    main()
