"""What the groups of an LSH tree are worth: similarity of their members, and gold documents gathered.

usage: python cookbook/benchmarks/groups.py FOLDER... [--cache FOLDER] [--bits 512] [--seeds 3] [--retrieval]

Each FOLDER is a corpus with questions (see `stratagraph.eval.load_dataset`), whose documents are embedded
whole by the local model. Groups have 4 to 12 members. Figures are means over seeds of hyperplanes and orders.

    ours       `kernels.buckets.group`
    updated    ours of 70 % of the documents; `kernels.buckets.place` adds the others, which are as many as
               updates add before groups are made anew
    paper      as printed (paper 004, 4.2): as many bits as dimensions; the smallest bucket merges with the
               nearest of all that has room, until none is too small
    2-means    halves at the median, again and again
    random

`cosine` is the mean over all pairs within groups, `gold` the share of a question's gold documents in the five
groups whose means are nearest to it, and `seconds` are CPU time from vectors to groups. With --retrieval,
trees are built without a model and searched. Printed is the share of answers in the first tokens.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from corpora import halves

from stratagraph.eval import Dataset, evaluate, load_dataset
from stratagraph.eval.embedding import SharedEmbedder, shared_embedder
from stratagraph.eval.metrics import mean
from stratagraph.kernels.buckets import group, place
from stratagraph.kernels.knn import knn_graph
from stratagraph.kernels.lsh import hash_codes, hyperplanes
from stratagraph.methods.lshtree.build import NEIGHBOURS, REGROUP_SHARE

MINIMUM, MAXIMUM, NEAREST = 4, 12, 5
TOKENS = (1000, 2000)
BOUNDS = {"minimum": MINIMUM, "maximum": MAXIMUM}
Groups = list[np.ndarray]


def ours(vectors: np.ndarray, bits: int, seed: int) -> Groups:
    return _grouped(vectors, hash_codes(vectors, hyperplanes(bits, vectors.shape[1], seed))).members


def updated(vectors: np.ndarray, bits: int, seed: int) -> Groups:
    order = np.random.default_rng(seed).permutation(len(vectors))
    codes = hash_codes(vectors[order], hyperplanes(bits, vectors.shape[1], seed))
    first = int((1 - REGROUP_SHARE) * len(vectors)) + 1
    before = _grouped(vectors[order[:first]], codes[:first])
    new = np.arange(first, len(vectors))
    found = place(before.members, before.representatives, new, lambda rows: codes[rows], changed=[], **BOUNDS)
    return [order[rows] for rows in found.members]


def _grouped(vectors: np.ndarray, codes: np.ndarray):
    ties = np.arange(len(codes), dtype=np.uint64)
    return group(codes, knn_graph(vectors, NEIGHBOURS)[0], ties=ties, **BOUNDS)


def paper(vectors: np.ndarray, bits: int, seed: int) -> Groups:
    codes = hash_codes(vectors, hyperplanes(vectors.shape[1], vectors.shape[1], seed))
    ones = np.unpackbits(codes.astype(">u8").view(np.uint8), axis=1).astype(np.int32)
    members: list[list[int]] = [[row] for row in range(len(codes))]
    sizes = np.ones(len(codes), np.int64)
    chance = np.random.default_rng(seed).permutation(len(codes)).tolist()  # orders buckets of one size
    waiting = [(1, chance[bucket], bucket) for bucket in range(len(codes))]
    heapq.heapify(waiting)
    while waiting:
        size, _, small = heapq.heappop(waiting)
        if size != sizes[small] or size >= MINIMUM:
            continue
        apart = np.bitwise_count(codes ^ codes[small]).sum(axis=1, dtype=np.int64)
        apart[(sizes == 0) | (sizes + size > MAXIMUM)] = 2**30
        apart[small] = 2**30
        host = int(apart.argmin())
        members[host] += members[small]
        ones[host] += ones[small]
        sizes[host], sizes[small], members[small] = sizes[host] + size, 0, []
        codes[host] = np.packbits(2 * ones[host] > sizes[host]).view(">u8").astype(np.uint64)
        heapq.heappush(waiting, (int(sizes[host]), chance[host], host))
    return [np.array(rows) for rows in members if rows]


def two_means(vectors: np.ndarray, bits: int, seed: int) -> Groups:
    return [np.array(rows) for rows in halves(vectors, MAXIMUM)]


def chance(vectors: np.ndarray, bits: int, seed: int) -> Groups:
    order = np.random.default_rng(seed).permutation(len(vectors))
    return np.array_split(order, round(2 * len(vectors) / (MINIMUM + MAXIMUM)))


BUILDERS: dict[str, Callable[[np.ndarray, int, int], Groups]] = {
    "ours": ours,
    "updated": updated,
    "paper": paper,
    "2-means": two_means,
    "random": chance,
}


def measured(groups: Groups, vectors: np.ndarray, questions: np.ndarray, gold: Groups) -> tuple[float, float]:
    """The mean cosine of pairs within groups, and the share of gold rows in the nearest groups."""
    sums = np.stack([vectors[rows].sum(axis=0) for rows in groups])
    sizes = np.array([len(rows) for rows in groups])
    inside = (sums**2).sum() - (vectors**2).sum()
    means = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    best = np.argsort(-questions @ means.T, axis=1)[:, :NEAREST]
    shares = [
        np.isin(rows, np.concatenate([groups[number] for number in nearest])).mean()
        for rows, nearest in zip(gold, best, strict=True)
    ]
    return float(inside / (sizes * (sizes - 1)).sum()), float(np.mean(shares))


def retrieval(data: Dataset, embedder: SharedEmbedder) -> None:
    """Print how many answers the nodes of a tree hold, beside passages."""
    found = evaluate(data, ["dense", "walk", "lshtree"], embedder=embedder, resamples=10)
    for row in found.rows:
        shares = [mean(row.scores[f"answer@{tokens}"]) for tokens in TOKENS]
        print(f"{data.name:20} {row.name:16}" + "".join(f"{share:9.3f}" for share in shares), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path, help="keeps the vectors from run to run")
    parser.add_argument("--bits", type=int, nargs="+", default=[512], help="of ours")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--retrieval", action="store_true", help="also of trees, without a model")
    given = parser.parse_args()
    print(f"{'corpus':20} {'groups by':12} {'cosine':>7} {'gold':>6} {'groups':>7} {'seconds':>8}")
    for folder in given.folders:
        data = load_dataset(folder)
        asked = [question for question in data.questions if question.supporting_ids]
        with shared_embedder(given.cache) as embedder:
            embedder.learn([item.text for item in data.documents], [question.question for question in asked])
            vectors = embedder.documents([item.text for item in data.documents])
            questions = np.stack([embedder.question(question.question) for question in asked])
        rows = {item.id: row for row, item in enumerate(data.documents)}
        gold = [np.array([rows[each] for each in question.supporting_ids]) for question in asked]
        for name, build in BUILDERS.items():
            for bits in given.bits if name in ("ours", "updated") else given.bits[:1]:
                found = []
                for seed in range(given.seeds):
                    began = time.process_time()
                    groups = build(vectors, bits, seed)
                    seconds = time.process_time() - began
                    found.append((*measured(groups, vectors, questions, gold), len(groups), seconds))
                cosine, share, count, seconds = np.mean(found, axis=0)
                label = f"{name} {bits}" if name in ("ours", "updated") else name
                print(f"{folder.name:20} {label:12} {cosine:7.3f} {share:6.3f} {count:7.0f} {seconds:8.2f}")
    if given.retrieval:
        print(f"\n{'corpus':20} {'answer in tokens':16}" + "".join(f"{tokens:9,}" for tokens in TOKENS))
        for folder in given.folders:
            with shared_embedder(given.cache) as embedder:
                retrieval(load_dataset(folder), embedder)


if __name__ == "__main__":
    main()
