"""What an index of each method takes: time, calls, tokens, size, memory (papers' tables 3 and 5).

usage: python cookbook/benchmarks/indexing.py FOLDER [--methods A,B] [--extraction FILE] [--cache FOLDER]
           [--small]

FOLDER is a corpus with questions (see `stratagraph.eval.load_dataset`). Each method is built alone, then all
in one index, each time in a process of its own, without a language model; vectors come from the cache if
they are in it: run twice to time what is not embedding. Calls and tokens with a model are those of
`stratagraph.estimate`, which runs the build with a model that only counts; the graph's extraction, which all
methods share, is among them unless one is given. Peak memory is of the whole process, libraries included.
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

import stratagraph as sg
from stratagraph.eval import load_dataset
from stratagraph.eval.embedding import shared_embedder
from stratagraph.methods import NAMES
from stratagraph.models.local import MiniLMEmbedder
from stratagraph.testing import ScriptedChatModel

TOGETHER = "+"
"""Joins methods that are built in one index."""
WIDTH = len(TOGETHER.join(NAMES))


def built(given: argparse.Namespace, method: str) -> None:
    """Build one method, or several in one index, and print what it took as JSON."""
    methods = method.split(TOGETHER)
    dataset = load_dataset(given.folder, extraction=given.extraction)
    documents = dataset.documents[:200] if given.small else dataset.documents
    extraction = dataset.extractions or None
    inner = sg.HashingEmbedder() if given.small else MiniLMEmbedder()
    with (
        tempfile.TemporaryDirectory() as folder,
        shared_embedder(given.cache or folder, inner) as embedder,
    ):
        began, worked = time.perf_counter(), time.process_time()
        index = sg.build_index(
            documents,
            methods,
            path=Path(folder) / "index",
            embedder=embedder,
            extraction=extraction,
            progress=False,
        )
        with index:
            found = {
                "seconds": time.perf_counter() - began,
                "cpu": time.process_time() - worked,
                "bytes": index.stats()["bytes"],
                "peak": peak(),
                "stages": {
                    name: usage.seconds
                    for name, usage in index.last_report.stages.items()
                    if usage.seconds > 0.5
                },
            }
    estimate = sg.estimate(documents, methods, llm=ScriptedChatModel("never asked"), extraction=extraction)
    found["with a model"] = [estimate.calls, estimate.input_tokens, estimate.output_tokens]
    print(json.dumps(found))


def peak() -> int:
    """Most bytes the process has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def alone(method: str) -> dict | str:
    """`built` in a process of its own, or the last line of what went wrong."""
    parts = [sys.executable, __file__, *sys.argv[1:], "--alone", method]
    done = subprocess.run(parts, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no message"])[-1]
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--methods", default=",".join((*NAMES, TOGETHER.join(NAMES))))
    parser.add_argument("--extraction")
    parser.add_argument("--cache", help="keeps the vectors from run to run")
    parser.add_argument("--small", action="store_true", help="200 documents and hashed vectors")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        built(given, given.alone)
        return
    print(f"{'':{WIDTH}} {'without a language model':>41}   {'with one, estimated':>31}")
    print(
        f"{'method':{WIDTH}} {'seconds':>9} {'CPU-s':>9} {'MB on disk':>11} {'peak MB':>9}"
        f"   {'calls':>7} {'tokens in':>11} {'tokens out':>11}  stages"
    )
    for method in given.methods.split(","):
        found = alone(method)
        if isinstance(found, str):
            print(f"{method:{WIDTH}} failed: {found}", flush=True)
            continue
        calls, tokens_in, tokens_out = found["with a model"]
        stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found["stages"].items())
        print(
            f"{method:{WIDTH}} {found['seconds']:9.1f} {found['cpu']:9.1f} {found['bytes'] / 1e6:11.1f} "
            f"{found['peak'] / 1e6:9.0f}   {calls:7,} {tokens_in:11,} {tokens_out:11,}  {stages}",
            flush=True,
        )


if __name__ == "__main__":
    main()
