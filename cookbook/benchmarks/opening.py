"""What opening an index costs: CPU time, median of several runs in one process.

    python cookbook/benchmarks/opening.py FOLDER [FOLDER ...] [--passages 20000] [--index FOLDER] [--runs 15]

FOLDER is a corpus with questions (see `stratagraph.eval.load_dataset`); its documents are cut into passages
as in `updates.py`. An index of all methods, without a model and over hashed vectors, is built in `--index`
once. Printed are the milliseconds of opening it with each check, and of the first question to each method,
which checks the arrays that it reads.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from updates import passages

import stratagraph as sg
from stratagraph.methods import NAMES


def main() -> None:
    """Print a line for each check and method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--runs", type=int, default=15)
    given = parser.parse_args()
    folder = given.index or Path(tempfile.mkdtemp(prefix="opening-"))
    embedder = sg.HashingEmbedder(384)
    if not (folder / "CURRENT").exists():
        documents = passages(given.folders, given.passages)
        sg.build_index(documents, NAMES, path=folder, embedder=embedder, progress=False).close()
    times: dict[str, list[float]] = {}
    for _ in range(given.runs):
        for check in ("sizes", "sampled", "full"):
            began = time.process_time()
            with sg.open_index(folder, embedder=embedder, check=check) as index:
                times.setdefault(f"open, check={check}", []).append(time.process_time() - began)
                for method in NAMES if check == "sampled" else ():
                    began = time.process_time()
                    index.retrieve("Who founded the company?", method=method)
                    times.setdefault(f"first question, {method}", []).append(time.process_time() - began)
    for name, spent in times.items():
        print(f"{name:26} {1e3 * statistics.median(spent):8.1f} ms CPU")


if __name__ == "__main__":
    main()
