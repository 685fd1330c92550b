"""HiRAG: the paper's figures on a data set.

    python cookbook/benchmarks/hirag.py DATASET [--extraction FILE] [--questions N] [--embedder NAME]
        [--cache FOLDER]

It prints, for a folder that `papers/layouts.py` reads: the sparsity of each layer's clusters and its
change (Figure 4), the global clustering coefficient of the graph with and without the hierarchy (Figure 5),
how many of the local and global part's words the bridge has (Table 7, and the same of as many random
relations), a shortest path (Figure 6), and what of the gold passages and answers the parts cover, with and
without the bridge. Without a model.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence
from typing import Any

import igraph
import numpy as np
from corpora import read

import stratagraph as sg
from stratagraph.eval.embedding import shared_embedder
from stratagraph.ingest.names.index import words
from stratagraph.testing.opened import snapshot_of


def figures(arguments: argparse.Namespace) -> None:
    dataset = read(arguments.dataset, extraction=arguments.extraction)
    inner = {"minilm": sg.MiniLMEmbedder, "hashing": sg.HashingEmbedder}[arguments.embedder]()
    given = {"extraction": dataset.extractions} if dataset.extractions else {}
    with (
        shared_embedder(arguments.cache, inner) as embedder,
        sg.build_index(dataset.documents, "hirag", embedder=embedder, progress=False, **given) as index,
    ):
        show(index, dataset.questions[: arguments.questions])


def show(index: sg.Index, questions: Sequence[Any]) -> None:
    """All figures of one index."""
    snapshot = snapshot_of(index)
    graph, own = snapshot.part("graph"), snapshot.part("hirag")
    layers(own.arrays)
    coefficients(graph.arrays, own.arrays)
    coverage(index, questions)
    shortcut(graph, own)
    evidence(index, questions)


def layers(arrays: Any) -> None:
    print("Figure 4: layer, entities, clusters, cluster sparsity, change")
    layer = zip(arrays["layers.sizes"], arrays["layers.sparsity"], strict=True)
    before = None
    for level, (size, value) in enumerate(layer):
        clusters = int((arrays["clusters.levels"] == level).sum())
        change = "" if before is None else f"{100 * (value - before) / before:+.1f} %"
        print(f"  {level}  {size:>7}  {clusters:>6}  {value:.4f}  {change}")
        before = value


def coefficients(graph: Any, own: Any) -> None:
    flat = igraph.Graph(n=int(graph["counts"][0]), edges=graph["relations.ends"]).simplify()
    indptr, indices = own["layered.indptr"], own["layered.indices"]
    tails = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    upper = tails < indices
    edges = np.column_stack([tails, indices])[upper]
    layered = igraph.Graph(n=len(indptr) - 1, edges=edges)
    print("Figure 5: graph, nodes, edges, global clustering coefficient, components")
    for name, each in (("flat", flat), ("layered", layered)):
        coefficient = each.transitivity_undirected(mode="zero")
        parts = len(each.connected_components())
        print(f"  {name:<8} {each.vcount():>7} {each.ecount():>8}  {coefficient:.4f}  {parts}")


def coverage(index: sg.Index, questions: Sequence[Any]) -> None:
    """Words of the local and the global part that the bridge has too (token-level recall)."""
    relations = [relation.text for relation in index.relations()]
    chance = random.Random(0)
    shared: dict[str, list[float]] = {"local": [], "global": [], "local, random": [], "global, random": []}
    for question in questions:
        texts = {}
        for mode in ("local", "global", "bridge"):
            found = index.retrieve(question.question, 30, fill=False, mode=mode)
            pairs = zip(found.hits, found.trace, strict=True)
            texts[mode] = [hit.text for hit, entry in pairs if entry.get("part") == mode]
        drawn = chance.sample(relations, min(len(texts["bridge"]), len(relations)))
        for suffix, bridge in (("", texts["bridge"]), (", random", drawn)):
            known = {word for text in bridge for word in words(text)}
            for part in ("local", "global"):
                spoken = [word for text in texts[part] for word in words(text)]
                if spoken:
                    shared[part + suffix].append(sum(word in known for word in spoken) / len(spoken))
    print("Table 7: words of a part that the bridge has, in %")
    for name, values in shared.items():
        print(f"  {name:<16} {100 * statistics.fmean(values or [0.0]):.1f}")


def shortcut(graph: Any, own: Any) -> None:
    """Two members of one cluster that are far apart in the flat graph."""
    count = int(graph.arrays["counts"][0])
    flat = igraph.Graph(n=count, edges=graph.arrays["relations.ends"]).simplify()
    summaries = own.nodes(range(int(own.arrays["counts"][0])))
    rows = graph.rows([member for node in summaries for member in node.extra["members"]])
    best: tuple[int, str, list[int]] = (0, "", [])
    for node in summaries[:200]:
        members = [rows[member] for member in node.extra["members"] if member in rows][:6]
        for distance_row, one in zip(flat.distances(members, members), members, strict=True):
            for distance, other in zip(distance_row, members, strict=True):
                if np.isfinite(distance) and distance > best[0]:
                    best = (int(distance), node.extra["name"], [one, other])
    distance, name, ends = best
    if ends:
        path = flat.get_shortest_path(*ends)
        names = [node.extra["name"] for node in graph.nodes(path)]
        print(f"Figure 6: flat, {distance} steps: {' - '.join(names)}")
        print(f"          layered, 2 steps: {names[0]} - {name} - {names[-1]}")


def evidence(index: sg.Index, questions: Sequence[Any]) -> None:
    """What the parts of 20 hits and 1,500 tokens hold of the gold passages and of the answer."""
    print("mode; gold passages among the nodes' sources, all of them, answer in context")
    for mode in ("local", "global", "bridge", "no_bridge", "hi"):
        covered, whole, answered = [], [], []
        for question in questions:
            gold = set(question.supporting_ids)
            found = index.retrieve(question.question, 20, fill=False, mode=mode)
            sources = {name for hit in found.hits if len(hit.documents) <= 3 for name in hit.documents}
            covered.append(len(gold & sources) / max(len(gold), 1))
            whole.append(gold <= sources)
            text = " ".join(words(found.context(1500).text))
            answered.append(any(" ".join(words(answer)) in text for answer in question.answers))
        values = "  ".join(f"{statistics.fmean(each):.3f}" for each in (covered, whole, answered))
        print(f"  {mode:<10} {values}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    parser.add_argument("--extraction")
    parser.add_argument("--cache", help="keeps the vectors from run to run")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--embedder", choices=("minilm", "hashing"), default="minilm")
    figures(parser.parse_args())


if __name__ == "__main__":
    main()
