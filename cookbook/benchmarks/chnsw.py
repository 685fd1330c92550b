"""C-HNSW beside Base-HNSW (one index per layer) and an exact scan, compared at equal recall.

python cookbook/benchmarks/chnsw.py [--small] [--leaves N] [--texts DATA] [--data real random]
    [--libraries hnswlib faiss_sq8 usearch_i8 svs ngt] [--instructions auto avx2]

The data are, in turn:

- `real`, if a folder of corpora is named, whose texts are embedded (chnsw_vectors.py; kept in --cache).
  Queries are held out of them.
- `random`: no structure at all, the paper's own synthetic test; there no entry into a layer can help.

All run in one process on one thread, in turn for every size of the result pool, in short pieces of which
the least CPU time counts. Time at a recall is interpolated between the two pools around it. The pool is of
one size for all layers, and in a second row of its own size for each: the least that reaches a recall on
other queries. Base-HNSW's distance evaluations are FAISS's count, since hnswlib keeps none for Python.
`svs` (scalable-vs) is Vamana over float32: its LVQ codes end the process where the processor is not Intel's.
`ngt` is ANNG, asked one by one, its range grown with the logarithm of the pool: its QG is made by a program
that the wheel does not hold. glass is on no package index.
Memory is what the process holds more once a peer is built, and of ours the bytes of all arrays; peers that
search codes need the vectors besides.
Peers that search codes rank three times as many results again by their vectors. C-HNSW is measured with each
set of instructions that is named, as on a processor that has no others: with the widest that there is, and
with AVX2, if none is. Peers choose theirs themselves, hnswlib when it is compiled; what its module tells of
that is printed.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from chnsw_peers import Base, K, Pool, compiled
from chnsw_vectors import PART, chosen, vectors

from stratagraph.kernels import _native
from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.chnsw_options import Options

POOLS = [5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320]
RECALLS = (0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.985, 0.99, 0.995)
"""Of each layer, for pools of their own."""
ROUNDS = 6
PIECE = 20  # queries that are timed together
RATIO = 6
Run = tuple[float, float, float, float]  # recall over layers, at layer 0, microseconds, evaluations


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def hierarchy(leaves: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Communities of about six by nearness to sampled members, up to ten; a mean stands for each."""
    rng, layers, links = np.random.default_rng(0), [leaves], []
    while len(layers[-1]) > 10:
        here = layers[-1]
        centres = here[rng.choice(len(here), max(1, len(here) // RATIO), replace=False)]
        of = np.concatenate([(here[i : i + 4096] @ centres.T).argmax(1) for i in range(0, len(here), 4096)])
        sums = centres * 1e-6
        np.add.at(sums, of, here)
        layers.append(unit(sums))
        links.append(np.stack([of, np.arange(len(here))], axis=1))
    return layers, links


Search = Callable[[np.ndarray, Any], list[np.ndarray]]


def recalls(found: list[np.ndarray], truth: list[np.ndarray]) -> list[float]:
    """The mean recall in each layer."""
    return [
        float(np.mean([np.isin(want, rows).mean() for want, rows in zip(t, f, strict=True)]))
        for t, f in zip(truth, found, strict=True)
    ]


class Timer:
    """The least CPU time of each piece of the queries, over several rounds."""

    def __init__(self, search: Search, pool: Pool, queries: np.ndarray) -> None:
        self.search, self.pool = search, pool
        self.pieces = [np.ascontiguousarray(queries[i : i + PIECE]) for i in range(0, len(queries), PIECE)]
        self.best = np.full(len(self.pieces), np.inf)

    def round(self) -> None:
        for i, piece in enumerate(self.pieces):
            self.best[i] = min(self.best[i], cpu(lambda p=piece: self.search(p, self.pool)))  # type: ignore[misc]

    @property
    def micros(self) -> float:
        return float(self.best.sum() / sum(map(len, self.pieces)) * 1e6)


def own_pools(search: Search, queries: np.ndarray, truth: list[np.ndarray]) -> list[Pool]:
    """For every recall the least pool of each layer that reaches it; layers are taken as independent."""
    reached = [recalls(search(queries, pool), truth) for pool in POOLS]
    pools: list[Pool] = []
    for target in RECALLS:
        each = [
            next((pool for pool, r in zip(POOLS, reached, strict=True) if r[layer] >= target), POOLS[-1])
            for layer in range(len(truth))
        ]
        if each not in pools:
            pools.append(each)
    return pools


def at_recall(runs: list[Run], target: float, measured: int, recall: int) -> float:
    """Time (2) or evaluations (3) at a recall over layers (0) or at layer 0 (1); NaN outside the sweep."""
    for before, after in itertools.pairwise(runs):
        if before[recall] < target <= after[recall]:
            share = (target - before[recall]) / (after[recall] - before[recall])
            return float(np.exp((1 - share) * np.log(before[measured]) + share * np.log(after[measured])))
    return runs[0][measured] if runs and runs[0][recall] >= target else float("nan")


class Ours:
    """C-HNSW, searched and counted as the others are."""

    def __init__(self, index: CHNSW) -> None:
        self.index = index

    def search(self, queries: np.ndarray, pool: Pool) -> list[np.ndarray]:
        return [rows for rows, _ in self.index.search_many(queries, K, ef=pool)]

    def evaluations(self, queries: np.ndarray, pool: Pool) -> float:
        before = self.index.stats()
        self.search(queries, pool)
        after = self.index.stats()
        return (after.distances - before.distances + after.reranked - before.reranked) / len(queries)


def exact(queries: np.ndarray, layers: list[np.ndarray]) -> list[np.ndarray]:
    def of(layer: np.ndarray, some: np.ndarray) -> np.ndarray:
        scores = -(some @ layer.T)
        best = np.argpartition(scores, min(K, len(layer)) - 1, axis=1)[:, :K]
        return np.take_along_axis(best, np.take_along_axis(scores, best, 1).argsort(axis=1), axis=1)

    return [
        np.concatenate([of(layer, queries[at : at + PIECE]) for at in range(0, len(queries), PIECE)])
        for layer in layers
    ]


def compare(
    name: str,
    layers: list[np.ndarray],
    children: list[np.ndarray],
    queries: np.ndarray,
    codes: list[str],
    libraries: list[str],
    instructions: list[str],
) -> None:
    """Build all, sweep, print; the first half of the queries chooses pools, the second is measured."""
    chosen, asked = np.array_split(queries, 2)
    hints, truth = exact(chosen, layers), exact(asked, layers)
    print(
        f"\n{name}: layers {[len(x) for x in layers]} x {layers[0].shape[1]}, {len(asked)} queries, top {K}"
    )
    widest = _native.simd_levels()[0]
    print(
        f"measured: CPU time, one thread; recall is the mean over {len(layers)} layers; C-HNSW in {widest} "
        f"where nothing else is named{compiled() if 'hnswlib' in libraries else ''}"
    )
    spent = cpu(
        lambda: [np.argpartition(-(layer @ asked[:20].T), min(K, len(layer) - 1), 0) for layer in layers]
    )
    print(f"exact scan by numpy: {spent / 20 * 1e6:,.0f} us a query (in blocks of 20)")
    rivals: dict[str, Base | Ours] = {}
    for library in libraries:
        base = Base(library, layers)
        rivals[base.name] = base
        print(f"build {base.name}: {base.built:.1f} CPU-seconds, {base.memory:,.0f} MiB", flush=True)
    for mode, kind in [*(("fast", each) for each in codes), ("paper", "float32")]:
        index = built(layers, children, kind, mode)
        per = index.stats().distances / sum(map(len, layers))
        memory = sum(array.nbytes for array in index.arrays().values()) / 2**20
        print(f", {memory:,.0f} MiB; {per:,.0f} evaluations a node, default ef {index.ef}", flush=True)
        for name in instructions if mode == "fast" else instructions[:1]:
            label = f"C-HNSW, {kind}" if mode == "fast" else "C-HNSW as printed"
            label += "" if name == "auto" else f", {name}"
            rivals[label] = Ours(CHNSW.from_arrays(index.arrays(), instructions=name))
    sweeps: dict[str, list[Run]] = {}
    timers: list[tuple[str, Base | Ours, list[Timer]]] = []
    for label, rival in rivals.items():
        pools = {"": list(POOLS), ", ef per layer": own_pools(rival.search, chosen, hints)}
        for kind, each in pools.items():
            timers.append((label + kind, rival, [Timer(rival.search, pool, asked) for pool in each]))
    for turn in range(ROUNDS):
        for _, _, each in timers:
            for timer in each:
                # Once is enough for pools that are slow and of no use.
                if turn == 0 or timer.micros < 1000:
                    timer.round()
    for label, rival, each in timers:
        sweeps[label] = []
        for timer in each:
            r = recalls(rival.search(asked, timer.pool), truth)
            sweeps[label].append(
                (float(np.mean(r)), r[0], timer.micros, rival.evaluations(asked, timer.pool))
            )
        sweeps[label].sort()
    table(sweeps)
    first = next(rival for rival in rivals.values() if isinstance(rival, Ours))
    threads(first.index, queries)


def built(layers: list[np.ndarray], children: list[np.ndarray], kind: str, mode: str = "fast") -> CHNSW:
    start = time.process_time()
    index = CHNSW.build(layers, children, Options(codes=kind, mode=mode, ef_construction=100))  # type: ignore[arg-type]
    print(f"build C-HNSW, {kind}, {mode}: {time.process_time() - start:.1f} CPU-seconds", end="", flush=True)
    return index


def table(sweeps: dict[str, list[Run]]) -> None:
    targets = (0.95, 0.98, 0.99)
    print(
        f"{'CPU us (evaluations) at recall':34}"
        + "".join(f"{t:>15} mean" for t in targets)
        + f"{0.98:>15} low"
    )
    for label, runs in sweeps.items():
        cells = [(at_recall(runs, t, 2, 0), at_recall(runs, t, 3, 0)) for t in targets]
        cells.append((at_recall(runs, 0.98, 2, 1), at_recall(runs, 0.98, 3, 1)))
        print(f"{label:34}" + "".join(f"{micros:>10,.0f} ({spent:>6,.0f})" for micros, spent in cells))
    base = next(iter(sweeps.values()))
    for label, runs in sweeps.items():
        times = [at_recall(base, t, 2, 0) / at_recall(runs, t, 2, 0) for t in targets]
        print(f"  {label}: {' / '.join(f'{each:.1f}' for each in times)} times the first")
    print("mean recall in us, pool by pool:")
    for label, runs in sweeps.items():
        print(f"  {label}: {', '.join(f'{run[0]:.4f} in {run[2]:.1f}' for run in runs)}")


def threads(index: CHNSW, queries: np.ndarray) -> None:
    """Batches on two threads, and calls one by one."""
    many = np.tile(queries, (max(1, 4000 // len(queries)), 1))
    took = {1: np.inf, 2: np.inf}
    for count in (1, 2) * 5:
        start = time.perf_counter()
        index.search_many(many, K, threads=count)
        took[count] = min(took[count], time.perf_counter() - start)
    one_by_one = Timer(lambda piece, _: [index.search_all(query, K) for query in piece], 0, queries)  # type: ignore[misc]
    batches = Timer(lambda piece, _: index.search_many(piece, K), 0, queries)  # type: ignore[arg-type, return-value]
    for _ in range(4 * ROUNDS):
        one_by_one.round()
        batches.round()
    print(
        f"two threads: {took[1] / took[2]:.2f} x one; a call from Python: "
        f"{one_by_one.micros - batches.micros:.1f} us over a batch's {batches.micros:.1f}"
    )


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="3,000 leaves, under 50 seconds")
    parser.add_argument("--leaves", type=int, default=100_000)
    parser.add_argument("--texts", type=Path, help="a folder of corpora whose texts are embedded")
    parser.add_argument("--cache", type=Path, default=Path("cache"), help="keeps their vectors")
    parser.add_argument("--codes", nargs="*", default=["int8", "float32"])
    parser.add_argument("--libraries", nargs="*", default=["hnswlib", "faiss_sq8", "usearch_i8"])
    both = ["auto", *(name for name in _native.simd_levels()[1:] if name == "avx2")]
    parser.add_argument("--instructions", nargs="*", default=both, help="such as: auto avx2")
    parser.add_argument("--data", nargs="*", default=["real", "random"])
    arguments = parser.parse_args()
    leaves, queries = (3_000, 200) if arguments.small else (arguments.leaves, 800)
    rivals = arguments.codes, arguments.libraries, arguments.instructions

    def run(name: str, data: np.ndarray, asked: np.ndarray) -> None:
        compare(name, *hierarchy(data), asked, *rivals)

    if arguments.texts and "real" in arguments.data:
        some = chosen(arguments.texts)[: -(-(leaves + queries) // PART) * PART]
        real = vectors(some, arguments.cache / "chnsw")
        data = real[np.random.default_rng(0).permutation(len(real))[: leaves + queries]]
        run("real", data[:leaves], data[leaves:])
    if "random" in arguments.data:
        data = unit(np.random.default_rng(0).standard_normal((leaves + queries, 384), dtype=np.float32))
        run("random", data[:leaves], data[leaves:])
    print(
        "\nthe paper, on random data: 3.5 x faster on average and 5.4 x at best, at recall .554 against "
        "Base-HNSW's .606"
    )


if __name__ == "__main__":
    main()
