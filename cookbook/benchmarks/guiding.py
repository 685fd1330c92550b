"""What a guided question costs beside its model calls: CPU of a choice, of two, and of an overview.

    python cookbook/benchmarks/guiding.py FOLDER [FOLDER ...] [--passages 20000] [--index FOLDER]
        [--questions 60]

The index is that of `retrieving.py`: passages of about 500 characters, made without a model, over hashed
vectors. A stand-in for a model answers at once: it chooses three hits and asks for more, or writes queries
of other questions. Each question is asked once in each way, so that no answer is cached. Printed are the
median and the 95th percentile of the CPU of the whole process, in milliseconds, the search alone first.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from retrieving import opened

import stratagraph as sg
from stratagraph.eval import load_dataset
from stratagraph.testing import ScriptedChatModel

WARM = 5
QUERIES = 8


def measured(ask: Callable[[str], object], questions: Sequence[str]) -> str:
    """Median and 95th percentile of the CPU of a question."""
    spent = []
    for question in questions:
        began = time.process_time()
        ask(question)
        spent.append(1e3 * (time.process_time() - began))
    return f"{np.median(spent[WARM:]):6.1f} {np.percentile(spent[WARM:], 95):6.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--questions", type=int, default=60)
    given = parser.parse_args()
    everything = [each.question for folder in given.folders for each in load_dataset(folder).questions]
    questions = everything[:: max(1, len(everything) // given.questions)][: given.questions]
    queries = iter(everything * 100)

    def choice(prompt: object) -> str:
        return json.dumps({"needed": [1, 5, 3], "missing": next(queries)})

    def overview(prompt: object) -> str:
        return json.dumps({"kind": "overview", "queries": [next(queries) for _ in range(QUERIES)]})

    folder = given.index or Path(tempfile.mkdtemp(prefix="guiding-"))
    with opened(folder, given.folders, given.passages, []) as index:
        print(f"{index.stats()['chunks']:,} passages, {len(questions)} questions, CPU in ms", flush=True)
        path = index.path
    for name, reply, options in (
        ("search, k = 20", choice, {}),
        ("one choice", choice, {"guided": "choice", "guided_steps": 1}),
        ("two choices", choice, {"guided": "choice"}),
        (f"overview, {QUERIES} queries", overview, {"guided": "overview"}),
    ):
        cache = Path(tempfile.mkdtemp(prefix="guiding-")) / "calls.sqlite"
        model = ScriptedChatModel(reply)
        with sg.open_index(path, embedder=sg.HashingEmbedder(384), llm=model, cache=cache) as index:
            told = measured(partial(index.retrieve, k=20, **options), questions)
            print(f"{name:20} {told}", flush=True)


if __name__ == "__main__":
    main()
