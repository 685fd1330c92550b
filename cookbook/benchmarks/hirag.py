"""HiRAG: the paper's figures on a data set, and the cost of an insert.

    python cookbook/benchmarks/hirag.py figures DATASET [--extraction FILE] [--questions N] [--embedder NAME]
        [--cache FOLDER]
    python cookbook/benchmarks/hirag.py insert [--small]

`figures` prints, for a folder that `papers/layouts.py` reads: the sparsity of each layer's clusters and its
change (Figure 4), the global clustering coefficient of the graph with and without the hierarchy (Figure 5),
how many of the local and global part's words the bridge has (Table 7, and the same of as many random
relations), a shortest path (Figure 6), and what of the gold passages and answers the parts cover, with and
without the bridge. Without a model, as all of this file.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
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

DIMENSION = 384


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


class Synthetic:
    """Vectors of names `topic number`: near the direction of the topic."""

    name = "synthetic-384"

    def embed_documents(self, texts: list[str]) -> Any:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Any:
        spoken = [word for word in text.replace(":", " ").split() if word[0] == "t" and word[1:].isdigit()]
        total = np.zeros(DIMENSION, np.float32)
        for word in spoken[:4] or ["t0"]:
            total += np.random.default_rng(int(word[1:])).standard_normal(DIMENSION, dtype=np.float32)
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        return total + 0.8 * np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)


def extraction(number: int, entities: int) -> dict[str, Any]:
    """Ten names and twenty relations: most near in topic, a few with hubs."""
    chance = random.Random(number)
    topics = entities // 60 + 1

    def draw() -> str:
        if chance.random() < 0.15:
            row = int(entities * chance.random() ** 4)
        else:
            row = (number * 10 + chance.randrange(40)) % entities
        return f"t{row % topics} n{row}"

    own = [f"t{row % topics} n{row}" for row in range(number * 10, number * 10 + 10)]
    relations = [(chance.choice(own), draw()) for _ in range(20)]
    names = list(dict.fromkeys([*own, *(end for pair in relations for end in pair)]))
    return {
        "entities": [{"name": name} for name in names],
        "relations": [{"source": a, "target": b, "description": "meets"} for a, b in relations if a != b],
    }


class Extractor:
    """A chat model that answers extractions from the passage's number, and everything else briefly."""

    name = "extractor"

    def __init__(self, entities: int) -> None:
        self.calls: dict[str, int] = {}
        self._entities = entities

    async def acomplete(self, prompt: str, *, schema: Any = None) -> str:
        await asyncio.sleep(0)
        kind = "text" if schema is None else schema.__name__
        self.calls[kind] = self.calls.get(kind, 0) + 1
        digest = hashlib.blake2b(prompt.encode(), digest_size=6).hexdigest()
        told = " ".join(word for word in prompt.split() if word[0] == "t" and word[1:].isdigit())[:60]
        if kind == "ExtractionSchema":
            number = int(prompt.split("passage number ")[1].split()[0])
            return json.dumps({"units": []} | extraction(number, self._entities))
        if kind == "SummarySchema":
            return json.dumps({"entities": [{"name": f"group {digest}", "description": told}]})
        if kind == "MetaTypesSchema":
            return json.dumps({"types": ["topic"]})
        return json.dumps({"title": digest, "summary": told or digest})


def corpus(numbers: Sequence[int]) -> list[sg.Chunk]:
    return [sg.Chunk(f"passage number {number} .", f"doc-{number:06}") for number in numbers]


def insert(arguments: argparse.Namespace) -> None:
    """Model calls of an insert of one part in a hundred, and of its deletion."""
    count = 200 if arguments.small else 1_000
    entities = count * 10
    share = count // 100
    for name, coming in (
        ("coherent", range(count, count + share)),
        ("scattered", range(count, count + 37 * share, 37)),
    ):
        model = Extractor(entities + 40 * 10 * share)
        documents = corpus(range(count))
        how = {"config": {"extraction": {"form": "full"}}, "progress": False}
        with sg.build_index(documents, "hirag", llm=model, embedder=Synthetic(), **how) as index:
            built = sum(model.calls.values())
            index.insert(corpus(coming))
            inserted = sum(model.calls.values()) - built
            index.delete([f"doc-{number:06}" for number in coming])
            deleted = sum(model.calls.values()) - built - inserted
        print(
            f"{name}: build {built} calls; insert of {share} of {count} documents {inserted} "
            f"({100 * inserted / built:.1f} %), their deletion {deleted} ({100 * deleted / built:.1f} %)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("figures")
    one.add_argument("dataset")
    one.add_argument("--extraction")
    one.add_argument("--cache", help="keeps the vectors from run to run")
    one.add_argument("--questions", type=int, default=1000)
    one.add_argument("--embedder", choices=("minilm", "hashing"), default="minilm")
    one.set_defaults(run=figures)
    other = commands.add_parser("insert")
    other.add_argument("--small", action="store_true", help="a fifth of the size")
    other.set_defaults(run=insert)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
