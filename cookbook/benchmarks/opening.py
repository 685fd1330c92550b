"""What it costs to check the arrays of an index when it is opened, by part, in CPU time.

python cookbook/benchmarks/opening.py [--chunks 100000]

Arrays of the shapes that an index of so many chunks has: three entities and four relations a chunk, eleven
edges a node of the heterograph, a summary for every ten entities, and vectors of 384 dimensions. They hold
random rows; a check reads the same bytes whatever they say.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from stratagraph.kernels.paths import Adjacency
from stratagraph.kernels.ppr import transition_matrix
from stratagraph.methods.hirag.checks import check_arrays as check_hirag
from stratagraph.methods.lshtree.checks import check_arrays as check_lshtree
from stratagraph.methods.noderag.checks import check_arrays as check_noderag
from stratagraph.methods.noderag.heterograph import EdgeList, Layout, edge_arrays
from stratagraph.pipeline.graph_checks import check_arrays as check_graph
from stratagraph.pipeline.graph_checks import check_corpus
from stratagraph.pipeline.names.index import NameIndex

DIMENSION = 384
Arrays = dict[str, np.ndarray[Any, Any]]


def rows_of(prefix: str, rows: int, columns: int, each: int, dtype: Any = np.int64) -> Arrays:
    """Compressed rows of `each` ascending columns."""
    rng = np.random.default_rng(rows)
    starts = rng.integers(0, columns - 4 * each, (rows, 1))
    indices = starts + np.cumsum(rng.integers(1, 4, (rows, each)), axis=1)
    return {
        f"{prefix}.indptr": np.arange(rows + 1, dtype=np.int64) * each,
        f"{prefix}.indices": indices.ravel().astype(dtype),
    }


def untouched(rows: int) -> np.ndarray[Any, Any]:
    """Vectors; their values are not read when they are opened."""
    return np.zeros((rows, DIMENSION), np.float32)


def sketch(name: str, rows: int) -> Arrays:
    return {
        f"{name}.zeros": np.zeros(0, np.int64),
        f"{name}.mean": np.zeros(DIMENSION, np.float32),
        f"{name}.codes": np.zeros((rows, 8), np.uint64),
    }


def names(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "bcdfghjklmnprst" for b in (f"{i:x}" for i in range(4000))]
    picked = rng.integers(0, len(words), (count, 3))
    return [" ".join(words[i] for i in row[: 1 + row[0] % 3]) for row in picked.tolist()]


def graph_arrays(chunks: int, entities: int, relations: int) -> Arrays:
    rng = np.random.default_rng(1)
    ends = rng.integers(0, entities, (relations, 2))
    mentions = np.column_stack([rng.integers(0, chunks, 2 * entities), chunks + np.arange(2 * entities) // 2])
    walk = np.concatenate([mentions, chunks + ends])
    matrix = transition_matrix(chunks + entities, walk, np.ones(len(walk)))
    terms, postings = 4 * chunks, 60 * chunks
    return {
        "counts": np.array([entities, relations, chunks]),
        "relations.ends": ends,
        "relations.weights": np.ones(relations, np.float32),
        **rows_of("units", chunks, entities, 3),
        **rows_of("sources", entities + relations + chunks, chunks, 2, np.int32),
        **{f"walk.{name}": getattr(matrix, name) for name in ("indptr", "indices", "data")},
        "vectors": untouched(entities),
        "lexical.language": np.zeros(7, np.uint8),
        "lexical.norms": np.ones(chunks, np.float32),
        "lexical.keys": np.arange(terms, dtype=np.uint64),
        "lexical.starts": np.arange(terms + 1, dtype=np.int64) * (postings // terms),
        "lexical.rows": rng.integers(0, chunks, postings).astype(np.int32),
        "lexical.counts": np.ones(postings, np.uint8),
    }


def noderag_arrays(layout: Layout, graph: Any) -> Arrays:
    rng = np.random.default_rng(2)
    own = layout.size - layout.first("A")
    ends = rng.integers(0, layout.size, (11 * layout.size // 2, 2))
    edges = EdgeList.of([(8, ends)])  # type: ignore[list-item]
    rich = layout.first("O") - layout.first("S")
    keys = np.zeros(graph.entities, np.uint64)
    return {
        **edge_arrays(edges, np.ones(len(edges.ends), np.bool_), layout),
        **rows_of("sources", own, layout.first("N"), 3, np.int32),
        "vectors": untouched(own),
        "entries.vectors": untouched(rich),
        "titles.lengths": np.zeros(layout.count("O"), np.uint16),
        **sketch("entries", rich),
        "communities.keys": keys,
        "communities.labels": np.zeros(len(keys), np.int32),
        "units.keys": np.zeros(graph.units, np.uint64),
        "important.keys": keys,
        "important.sources": keys,
    }


def hirag_arrays(graph: Any, chunks: int) -> Arrays:
    rng = np.random.default_rng(3)
    summaries = communities = graph.entities // 10
    entities = graph.entities + summaries
    joined = Adjacency.build(entities, rng.integers(0, entities, (graph.relations + graph.entities, 2)))
    return {
        "counts": np.array([summaries, communities, 0]),
        **rows_of("sources", summaries + communities, chunks, 20, np.int32),
        "vectors": untouched(summaries + communities),
        **{f"layered.{name}": array for name, array in joined.items()},
        "communities.labels": rng.integers(0, communities, (3, entities)).astype(np.int32),
        **rows_of("communities", communities, entities, 30, np.int32),
        "layers.levels": np.ones(summaries, np.int16),
        "layers.sizes": np.zeros(3, np.int64),
        "layers.sparsity": np.zeros(3),
        "entities.keys": np.zeros(entities, np.uint64),
        "clusters.settings": np.zeros(1, np.uint64),
        "clusters.levels": np.zeros(summaries, np.int16),
        "clusters.lineages": np.zeros(summaries, np.uint64),
        "clusters.members": np.zeros(12 * summaries, np.uint64),
        "clusters.indptr": np.arange(summaries + 1, dtype=np.int64) * 12,
        **sketch("entities", graph.entities),
        **sketch("summaries", summaries),
        **sketch("reports", communities),
    }


def lshtree_arrays(chunks: int) -> Arrays:
    nodes = chunks // 6
    return {
        **rows_of("sources", nodes, chunks, 8, np.int32),
        "vectors": untouched(nodes),
        "levels": np.ones(nodes, np.int16),
        **rows_of("children", nodes, chunks, 7),
        **sketch("nodes", nodes),
    }


def measure(what: str, work: Callable[[], object], arrays: Arrays) -> float:
    """The least CPU time of five runs, printed with the bytes that are not vectors."""
    best = np.inf
    for _ in range(5):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    read = sum(array.nbytes for name, array in arrays.items() if "vectors" not in name)
    print(f"{what:10} {1000 * best:8.1f} ms CPU {read / 1e6:8.1f} MB of arrays besides vectors")
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=100_000)
    chunks = parser.parse_args().chunks
    entities, relations = 3 * chunks, 4 * chunks
    stored = SimpleNamespace(arrays={"vectors": None})
    graph: Any = SimpleNamespace(entities=entities, relations=relations, units=chunks, stored=stored)
    layout = Layout.of(chunks, graph, chunks // 10, chunks // 20, chunks // 20)
    of_graph, of_names = graph_arrays(chunks, entities, relations), NameIndex.build(names(entities))
    noderag, hirag, lshtree = (
        noderag_arrays(layout, graph),
        hirag_arrays(graph, chunks),
        lshtree_arrays(chunks),
    )
    documents = np.zeros(chunks, np.int32)
    vectors = untouched(chunks)
    total = measure(
        "corpus", lambda: check_corpus(vectors, documents, chunks, 1), {"chunk_documents": documents}
    )
    total += measure("graph", lambda: check_graph(of_graph, chunks, DIMENSION), of_graph)
    total += measure("names", lambda: NameIndex(of_names), of_names)
    total += measure("noderag", lambda: check_noderag(noderag, graph, chunks, DIMENSION), noderag)
    total += measure("hirag", lambda: check_hirag(hirag, graph, chunks, DIMENSION), hirag)
    total += measure("lshtree", lambda: check_lshtree(lshtree, graph, chunks, DIMENSION), lshtree)
    print(f"all        {1000 * total:8.1f} ms CPU for {chunks:,} chunks")


if __name__ == "__main__":
    main()
