"""How C-HNSW grows: 10,000 to 300,000 leaves, a million, and what an index takes in memory.

python cookbook/benchmarks/chnsw_scale.py [--million] [--growth 10000 ...] [--embeddings A.npy ...]

Leaves are made from real embeddings as in chnsw.py, 20 to a topic, and the topics are the communities of
the first layer above them; without files of embeddings they are Gaussian. Time is the least CPU time of
short pieces on one thread, at the pool for which mean recall over the layers reaches .98.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from chnsw import POOLS, ROUNDS, Ours, Run, Timer, at_recall, blended, exact, hierarchy, recalls, unit

from stratagraph.kernels.chnsw import CHNSW

TOPIC = 20
QUERIES = 200
Hierarchy = tuple[list[np.ndarray], list[np.ndarray]]


def made(real: np.ndarray, leaves: int) -> tuple[Hierarchy, np.ndarray]:
    """A hierarchy whose first communities are known, and queries."""
    data, of = blended(real, leaves, QUERIES)
    queries, of = data[leaves:].copy(), of[:leaves]
    sums = np.zeros((leaves // TOPIC, data.shape[1]), np.float32)
    np.add.at(sums, of, data[:leaves])
    used, of = np.unique(of, return_inverse=True)
    layers, links = hierarchy(unit(sums[used]))
    return ([data[:leaves], *layers], [np.stack([of, np.arange(leaves)], axis=1), *links]), queries


def bytes_of(index: CHNSW) -> int:
    return sum(array.nbytes for array in index.arrays().values())


def measured(real: np.ndarray, leaves: int, threads: int) -> float:
    """Build, search, print; the time at recall .98."""
    (layers, links), queries = made(real, leaves)
    start, wall = time.process_time(), time.perf_counter()
    index = CHNSW.build(layers, links, threads=threads)
    spent, wall = time.process_time() - start, time.perf_counter() - wall
    truth = exact(queries, layers)
    rival = Ours(index)
    timers = [Timer(rival.search, pool, queries) for pool in POOLS[:9]]
    for _ in range(ROUNDS):
        for timer in timers:
            timer.round()
    runs: list[Run] = []
    for timer in timers:
        reached = recalls(rival.search(queries, timer.pool), truth)
        work = rival.evaluations(queries, timer.pool)
        runs.append((float(np.mean(reached)), reached[0], timer.micros, work))
    micros = at_recall(runs, 0.98, 2, 0)
    print(
        f"{leaves:,} leaves, layers {[len(layer) for layer in layers]}: built in {spent:.0f} CPU-seconds "
        f"({wall:.0f} on the clock, {threads} threads), {bytes_of(index) / 2**20:,.0f} MiB; "
        f"{micros:.0f} us and {at_recall(runs, 0.98, 3, 0):,.0f} evaluations at mean recall .98, "
        f"{at_recall(runs, 0.98, 2, 1):.0f} us at .98 in layer 0; pools {POOLS[0]} to {POOLS[8]} reach "
        f"{runs[0][0]:.3f} to {runs[-1][0]:.3f}; default pools {index.ef}; "
        f"peak memory of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB",
        flush=True,
    )
    return micros


def memory(real: np.ndarray, leaves: int = 10_000) -> None:
    (layers, links), _ = made(real, leaves)
    sizes = {
        (kind, keep): bytes_of(CHNSW.build(layers, links, codes=kind, keep_vectors=keep))  # type: ignore[arg-type]
        for kind, keep in [("float32", True), ("int8", True), ("int8", False)]
    }
    whole = sizes["float32", True]
    print(
        f"bytes against float32: int8 with vectors {sizes['int8', True] / whole:.2f}, "
        f"codes alone {sizes['int8', False] / whole:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--embeddings", nargs="*", default=[], help="files of real unit vectors, .npy")
    parser.add_argument("--growth", nargs="*", type=int, default=[10_000, 300_000])
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--threads", type=int, default=2, help="of the build")
    arguments = parser.parse_args()
    if arguments.embeddings:
        real = np.concatenate([np.load(path) for path in arguments.embeddings]).astype(np.float32)
    else:
        real = unit(np.random.default_rng(0).standard_normal((5_000, 384), dtype=np.float32))
    memory(real)
    times = [measured(real, leaves, arguments.threads) for leaves in arguments.growth]
    if len(times) > 1:
        print(f"the last takes {times[-1] / times[0]:.2f} times as long as the first")
    if arguments.million:
        measured(real, 1_000_000, arguments.threads)


if __name__ == "__main__":
    main()
