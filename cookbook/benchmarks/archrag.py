"""Time and memory of ArchRAG's clustering, index and search on a synthetic graph, without models.

    python cookbook/benchmarks/archrag.py [--entities N] [--relations N] [--extractive]

The graph has topics in which most relations lie, and vectors around the topics. A stand-in for the gate gives
each report at once and embeds it as the mean of the entities that it names. `--extractive` writes the
reports from the members' texts, as without a model. NarrativeQA's graph has 650,000 entities and 680,000
relations.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from stratagraph.ingest.carryover import text_keys
from stratagraph.ingest.lexical import LexicalIndex
from stratagraph.ingest.names.index import NameIndex
from stratagraph.ingest.nearest import Nearest
from stratagraph.methods.archrag import METHOD, ArchRAGConfig, ArchRAGOptions
from stratagraph.methods.base import Graph, Opened, SearchQuestion
from stratagraph.methods.groups import GroupBuilder
from stratagraph.methods.reports import ReportSchema
from stratagraph.store.nodes import compressed_sources
from stratagraph.types.records import Node

DIMENSION = 384
PER_TOPIC = 60
PER_CHUNK = 8
QUESTIONS = 500


class Stored:
    """Nodes and arrays in memory, in the place of the store."""

    def __init__(self, nodes: Sequence[Node], arrays: Mapping[str, Any], chunks: int) -> None:
        indptr, indices = compressed_sources(nodes, chunks)
        self.arrays = {**arrays, "sources.indptr": indptr, "sources.indices": indices}
        self.keys = text_keys(node.id for node in nodes)
        self.hashes = text_keys(node.text for node in nodes)
        self._nodes = nodes

    def nodes(self, rows: Sequence[int]) -> list[Node]:
        return [self._nodes[row] for row in rows]

    def texts(self, rows: Sequence[int]) -> list[str]:
        return [self._nodes[row].text for row in rows]

    def ids(self, rows: Sequence[int]) -> list[str]:
        return [self._nodes[row].id for row in rows]

    def rows(self, ids: Sequence[str]) -> dict[str, int]:
        known = {node.id: row for row, node in enumerate(self._nodes)}
        return {identity: known[identity] for identity in ids if identity in known}


class Corpus:
    """Chunks without a text."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors
        self.size = len(vectors)
        self.id_halves = np.column_stack([np.arange(self.size, dtype=np.uint64)] * 2)

    def ids(self, rows: Sequence[int]) -> list[str]:
        return [f"chunk {row}" for row in rows]

    def texts(self, rows: Sequence[int]) -> list[str]:
        return ["" for _ in rows]


class StubGate:
    """Gives reports and vectors at once."""

    def __init__(self, vectors: np.ndarray, has_llm: bool) -> None:
        self.has_llm = has_llm
        self.calls = 0
        self.memory: dict[str, Any] = {}
        self._vectors = vectors

    def count_tokens(self, text: str) -> int:
        return len(text) // 4

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[None]:
        began = time.perf_counter()
        yield
        print(f"  {name}: {total} in {time.perf_counter() - began:.1f} s", flush=True)

    def advance(self, stage: str, count: int = 1) -> None:
        pass

    async def map(self, task: Any, items: Sequence[Any]) -> list[ReportSchema]:
        self.calls += len(items)
        return [
            ReportSchema(title=item.item, summary=" ".join(re.findall(r"entity \d+", item.values["members"])))
            for item in items
        ]

    async def compute(self, function: Any, items: Any, *, batch: int) -> list[Any]:
        return function(list(items))

    async def embed(self, stage: str, texts: Sequence[str]) -> np.ndarray:
        found = np.zeros((len(texts), DIMENSION), np.float32)
        for place, text in enumerate(texts):
            found[place] = self._vectors[[int(n) for n in re.findall(r"entity (\d+)", text)]].mean(axis=0)
        return unit(found)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)).astype(np.float32)


def synthetic(entities: int, relations: int) -> tuple[Corpus, Graph, np.ndarray]:
    rng = np.random.default_rng(0)
    topics = entities // PER_TOPIC + 1
    topic = rng.integers(0, topics, entities)
    themes = rng.standard_normal((topics // 20 + 1, DIMENSION), dtype=np.float32)
    vectors = rng.standard_normal((topics, DIMENSION), dtype=np.float32)
    vectors += themes[rng.integers(0, len(themes), topics)]
    vectors = vectors[topic]
    for start in range(0, entities, 65_536):
        part = vectors[start : start + 65_536]
        part += rng.standard_normal(part.shape, dtype=np.float32)
        vectors[start : start + 65_536] = unit(part)
    ends = joined(rng, topic, relations)
    chunks = entities // PER_CHUNK + 1
    nodes = [
        Node(f"e{row}", "entity", 0, f"entity {row}: of topic {topic[row]}.", (row // PER_CHUNK,),
             {"name": f"entity {row}", "type": "", "description": ""})
        for row in range(entities)
    ]  # fmt: skip
    nodes += [
        Node(f"r{row}", "relation", 0, f"entity {a} - entity {b}: they are joined.", (a // PER_CHUNK,))
        for row, (a, b) in enumerate(ends.tolist())
    ]
    arrays = {
        "counts": np.array([entities, len(ends), 0]),
        "entities.names": np.zeros((entities, 2), np.uint64),
        "relations.ends": ends,
        "relations.weights": np.ones(len(ends), np.float32),
        "relations.described": np.ones(len(ends), np.bool_),
        "units.indptr": np.zeros(1, np.int64),
        "units.indices": np.zeros(0, np.int64),
        "vectors": vectors,
        **{f"names.{key}": array for key, array in NameIndex.build(["nobody"]).items()},
        **{f"lexical.{key}": array for key, array in LexicalIndex.build([""] * chunks).items()},
        "walk.indptr": np.zeros(chunks + entities + 1, np.int64),
        "walk.indices": np.zeros(0, np.int64),
        "walk.data": np.zeros(0, np.float64),
    }
    corpus = Corpus(unit(rng.standard_normal((chunks, DIMENSION), dtype=np.float32)))
    return corpus, Graph(Stored(nodes, arrays, chunks)), vectors


def joined(rng: np.random.Generator, topic: np.ndarray, relations: int) -> np.ndarray:
    """Nine of ten relations lie within a topic, and few entities have most of them."""
    order = np.argsort(topic, kind="stable")
    place = np.empty(len(topic), np.int64)
    place[order] = np.arange(len(topic))
    one = rng.integers(0, len(topic), 2 * relations)
    near = order[np.clip(place[one] + (rng.pareto(1.0, len(one)) * 3).astype(int) + 1, 0, len(topic) - 1)]
    other = np.where(rng.random(len(one)) < 0.9, near, rng.integers(0, len(topic), len(one)))
    pairs = np.unique(np.sort(np.column_stack([one, other])[one != other], axis=1), axis=0)
    return pairs[np.sort(rng.choice(len(pairs), min(relations, len(pairs)), replace=False))]


def questions(vectors: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(1)
    one, other = rng.integers(0, len(vectors), (2, QUESTIONS))
    return unit(vectors[one] + np.float32(0.6) * vectors[other])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entities", type=int, default=40_000)
    parser.add_argument("--relations", type=int, default=31_000)
    parser.add_argument("--extractive", action="store_true")
    given = parser.parse_args()
    corpus, graph, vectors = synthetic(given.entities, given.relations)
    before = peak()
    print(f"{graph.entities} entities, {graph.relations} relations; {before:.2f} GB with their stand-ins")
    gate = StubGate(vectors, not given.extractive)
    began, spent = time.perf_counter(), time.process_time()
    built = asyncio.run(METHOD.build(GroupBuilder(corpus, graph, gate, ArchRAGConfig())))
    print(
        f"built in {time.perf_counter() - began:.1f} s ({time.process_time() - spent:.1f} CPU-seconds), "
        f"{gate.calls} reports asked for, peak {peak():.2f} GB"
    )
    levels = np.unique([node.level for node in built.made], return_counts=True)
    print("communities by level:", dict(zip(*(part.tolist() for part in levels), strict=True)))
    part = Stored(built.made, {name: each.values for name, each in built.arrays.items()}, corpus.size)
    arrays = {name: each.values for name, each in Nearest.index(corpus.vectors, "chunks").items()}
    passages = Nearest(corpus.vectors, arrays, "chunks")
    searcher = METHOD.open(Opened(corpus, graph, passages, part))
    for k in (5, 10, 30):
        told = [1000 * elapsed for elapsed in searched(searcher, questions(vectors), k)]
        print(f"query, k={k}: p50 {np.median(told):.3f} ms, p95 {np.quantile(told, 0.95):.3f} ms")


def searched(searcher: Any, asked: np.ndarray, k: int) -> list[float]:
    """Seconds of each question, the first few left out."""
    spent = []
    for vector in asked:
        query = SearchQuestion("how are they joined?", vector, k, "archrag", ArchRAGOptions())
        began = time.perf_counter()
        searcher.nodes(query)
        spent.append(time.perf_counter() - began)
    return spent[20:]


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
