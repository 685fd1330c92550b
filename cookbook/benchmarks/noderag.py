"""NodeRAG: the paper's Table 2, Figure 4 and Table 4 on a corpus, and timings on a large heterograph.

usage: python cookbook/benchmarks/noderag.py tables FOLDER [--extraction FILE] [--cache FOLDER] [--small]
       python cookbook/benchmarks/noderag.py speed [--small]

`tables` asks all questions of a corpus folder (see `papers/layouts.py`) and prints for each
setting
in how many retrieved contexts a gold answer stands, how many tokens there were, and the time per question.
`speed` builds a synthetic heterograph of about 200,000 nodes and 900,000 edges without a model.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from corpora import read

import stratagraph as sg
from stratagraph.eval.embedding import shared_embedder
from stratagraph.kernels.centrality import centrality
from stratagraph.kernels.ppr import shallow_pagerank
from stratagraph.methods.noderag import NodeRAGOptions
from stratagraph.testing.opened import searcher_of
from stratagraph.types.question import SearchQuestion
from stratagraph.types.records import EntityMention, Extraction, RelationMention, SemanticUnit

DIMENSION = 384
NAMES = 60_000


# Table 2, Table 4 and Figure 4


def tables(folder: str, extraction: str | None, cache: str | None, k: int, *, small: bool) -> None:
    dataset = read(folder, extraction=extraction)
    dataset = dataset.head(10) if small else dataset
    inner = sg.HashingEmbedder() if small else None
    with tempfile.TemporaryDirectory() as path, shared_embedder(cache, inner) as embedder:
        index = sg.build_index(
            dataset.documents,
            method="noderag",
            path=Path(path, "index"),
            embedder=embedder,
            extraction=dataset.extractions or None,
            progress=False,
        )
        with index:
            print("Table 4:", index.stats()["methods"]["noderag"])
            ablations(index, dataset.questions, k)


def settings() -> Iterator[tuple[str, dict[str, Any], int | None]]:
    """Name, options and number of hits (None: the default) of each row."""
    yield "NodeRAG", {}, None
    yield "w/o HNSW", {"semantic_edges": False}, None
    yield "w/o dual search", {"names": False}, None
    for k in (10, 20, 30):
        every = {"entry_types": ("T", "S", "A", "H"), "types": ("T", "S", "A", "H")}
        yield f"w/o cross nodes, k = {k}", {"mode": "entry", "names": False, **every}, k
    for k in (20, 30):
        units = {"types": ("S",), "similar": k, "limits": {"S": k}}
        yield f"semantic units alone, k = {k}", units, k
    for steps in range(1, 11):
        yield f"PPR, {steps} step{'s' if steps > 1 else ''}", {"steps": steps}, None
    yield "PPR to convergence", {"steps": None}, None
    yield "passages by similarity, k = 10", {}, -10


def ablations(index: sg.Index, questions: Any, default: int) -> None:
    print(f"{'setting':32} {'answer in context':>18} {'tokens':>8} {'ms':>7}")
    for name, options, k in settings():
        found, tokens, spent = [], [], []
        for question in questions:
            began = time.perf_counter()
            got = _ask(index, question.question, options, k, default)
            spent.append(time.perf_counter() - began)
            context = got.context(100_000)
            text = context.text.casefold()
            found.append(any(answer.casefold() in text for answer in question.answers))
            tokens.append(context.tokens)
        print(
            f"{name:32} {statistics.mean(found):18.3f} {statistics.mean(tokens):8.0f} "
            f"{1000 * statistics.median(spent):7.2f}"
        )


def _ask(index: sg.Index, question: str, options: dict[str, Any], k: int | None, default: int) -> Any:
    if k is not None and k < 0:  # a walk of no steps over no names: passages by similarity
        own = {"mode": "entry", "names": False, "entry_types": ("T",), "types": ("T",)}
        return index.retrieve(question, -k, fill=False, **own)
    return index.retrieve(question, default if k is None else k, fill=False, **options)


# Speed


class Synthetic:
    """Embeds a text near the direction that its first number names; fast enough for 100,000 of them."""

    name = "synthetic-384"

    def __init__(self) -> None:
        self._topics = np.random.default_rng(0).standard_normal((1000, DIMENSION)).astype(np.float32)

    def embed_documents(self, texts: list[str]) -> Any:
        seeds = [hash_of(text) for text in texts]
        noise = np.stack(
            [np.random.default_rng(seed).standard_normal(DIMENSION, np.float32) for seed in seeds]
        )
        return self._topics[[seed % 1000 for seed in seeds]] + noise

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]


def hash_of(text: str) -> int:
    return int.from_bytes(text.encode()[:60], "little") % 2**31


def corpus(chunks: int, entities: int) -> tuple[list[sg.Document], dict[str, Extraction]]:
    """Documents of one chunk with given extractions: four units of three entities, five relations."""
    rng = np.random.default_rng(1)
    popularity = 1 / (np.arange(entities) + 20.0) ** 0.7
    drawn = rng.choice(entities, (chunks, 12), p=popularity / popularity.sum())
    documents, given = [], {}
    for number, names in enumerate([f"Name{row} Of{row % 97}" for row in each] for each in drawn.tolist()):
        key = f"doc-{number:06}"
        units = [
            SemanticUnit(
                f"{number}.{u} " + " met ".join(names[3 * u : 3 * u + 3]), tuple(names[3 * u : 3 * u + 3])
            )
            for u in range(4)
        ]
        pairs = [(names[i], names[i + 1]) for i in (0, 1, 3, 6, 9)]
        relations = [RelationMention(a, b, f"{number}: {a} met {b}") for a, b in pairs if a != b]
        entity_mentions = tuple(EntityMention(name) for name in dict.fromkeys(names))
        documents.append(sg.Document(key, f"{number} " + " ".join(unit.text for unit in units)))
        given[key] = Extraction(tuple(units), entity_mentions, tuple(relations))
    return documents, given


def speed(chunks: int, entities: int, questions: int) -> None:
    documents, given = corpus(chunks, entities)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index")
        began, worked = time.perf_counter(), time.process_time()
        index = sg.build_index(
            documents, "noderag", path, embedder=Synthetic(), progress=False, extraction=given
        )
        wall, work = time.perf_counter() - began, time.process_time() - worked
        print(f"build, whole: {wall:.1f} s ({work:.1f} s of CPU)")
        report = index.last_report
        for stage, usage in report.stages.items() if report else ():
            print(f"  {stage}: {usage.seconds:.1f} s")
        index.close()
        opened = []
        for _ in range(5):
            began = time.perf_counter()
            index = sg.open_index(path, embedder=Synthetic())
            searcher = searcher_of(index, "noderag")
            opened.append(time.perf_counter() - began)
        print(f"open: {_ms(opened)}")
        described = searcher.describe()
        print(dict(described.nodes), dict(described.details))
        _questions(searcher, entities, questions)
        index.close()


def _questions(searcher: Any, entities: int, count: int) -> None:
    rng = np.random.default_rng(2)
    embedder = Synthetic()
    rows = rng.integers(0, entities, (count, 2)).tolist()
    texts = [f"Where did Name{a} Of{a % 97} meet Name{b} Of{b % 97}?" for a, b in rows]
    vectors = [np.asarray(embedder.embed_query(text)) for text in texts]
    options = NodeRAGOptions()
    queries = [
        SearchQuestion(text, (v / np.linalg.norm(v)).astype(np.float32), 30, "noderag", options)
        for text, v in zip(texts, vectors, strict=True)
    ]
    entries = [searcher._entries.search(query, options) for query in queries]
    matrix = searcher._heterograph.matrix(np.zeros(0, np.int64), None)
    starts = [each.nodes for each in entries]
    _timed("entry points", lambda i: searcher._entries.search(queries[i], options), count)
    _timed("PPR, one question", lambda i: shallow_pagerank(matrix, starts[i]), count)
    _timed("retrieval of nodes", lambda i: searcher.nodes(queries[i]), count)


def _timed(name: str, run: Callable[[int], Any], count: int) -> None:
    for number in range(5):
        run(number)
    spent, work = [], []
    for number in range(count):
        began, worked = time.perf_counter(), time.process_time()
        run(number)
        spent.append(time.perf_counter() - began)
        work.append(time.process_time() - worked)
    late = 1000 * sorted(spent)[int(0.95 * count)]
    print(f"{name}: {_ms(spent)}, p95 {late:.2f} ms; CPU {_ms(work)}")


def importance(nodes: int, edges: int) -> None:
    rng = np.random.default_rng(0)
    popularity = rng.pareto(1.5, nodes) + 1
    ends = np.column_stack(
        [rng.choice(nodes, edges, p=popularity / popularity.sum()), rng.integers(0, nodes, edges)]
    )
    wall, work = time.perf_counter(), time.process_time()
    centrality(ends, nodes, np.arange(10))
    wall, work = time.perf_counter() - wall, time.process_time() - work
    print(f"core numbers and betweenness, {nodes} nodes, {edges} edges: {wall:.2f} s ({work:.2f} s of CPU)")


def _ms(seconds: list[float]) -> str:
    return f"median {1000 * statistics.median(seconds):.3f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("tables", "speed"))
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--extraction", help="entities and triples of the passages, such as openie.jsonl")
    parser.add_argument("--cache", help="keeps the vectors from run to run")
    parser.add_argument(
        "--small", action="store_true", help="a tenth of the size; of tables 10 questions, hashed words"
    )
    parser.add_argument("-k", type=int, default=30, help="hits per question")
    given = parser.parse_args()
    if given.what == "tables":
        if given.folder is None:
            parser.error("name the folder of a corpus")
        tables(given.folder, given.extraction, given.cache, given.k, small=given.small)
        return
    scale = 10 if given.small else 1
    importance(200_000 // scale, 900_000 // scale)
    speed(15_000 // scale, NAMES // scale, 300)


if __name__ == "__main__":
    main()
