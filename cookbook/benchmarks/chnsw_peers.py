"""Base-HNSW for chnsw.py: one index of another library for each layer of a hierarchy."""

from __future__ import annotations

import importlib.util
import math
import re
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

K = 5
"""Results that are asked for in each layer."""
REFINED = ("faiss_sq8", "usearch_i8")
"""Peers that search codes: they rank three times as many results again by their vectors."""
Pool = int | list[int]


class Base:
    """One stock index per layer."""

    def __init__(self, library: str, layers: list[np.ndarray]) -> None:
        self.library, self.name = library, f"Base-HNSW, {library}"
        self.layers = layers
        before, start = resident(), time.process_time()
        self.indexes = [getattr(self, f"_{library}")(layer) for layer in layers]
        self.built, self.memory = time.process_time() - start, resident() - before

    def _hnswlib(self, layer: np.ndarray) -> Any:
        import hnswlib

        index = hnswlib.Index("ip", layer.shape[1])
        index.init_index(len(layer), M=16, ef_construction=100)
        index.set_num_threads(1)
        index.add_items(layer)
        return index

    def _faiss_sq8(self, layer: np.ndarray) -> Any:
        import faiss

        faiss.omp_set_num_threads(1)
        index = faiss.IndexHNSWSQ(
            layer.shape[1], faiss.ScalarQuantizer.QT_8bit, 16, faiss.METRIC_INNER_PRODUCT
        )
        index.hnsw.efConstruction = 100
        index.train(layer)
        index.add(layer)
        return index

    def _usearch_i8(self, layer: np.ndarray) -> Any:
        from usearch.index import Index

        index = Index(ndim=layer.shape[1], metric="ip", dtype="i8", connectivity=16, expansion_add=100)
        index.add(np.arange(len(layer)), layer, threads=1)
        return index

    def _svs(self, layer: np.ndarray) -> Any:
        import svs

        how = svs.VamanaBuildParameters(graph_max_degree=32, window_size=100, alpha=0.95)
        return svs.Vamana.build(how, layer, svs.DistanceType.MIP, num_threads=1)

    def _ngt(self, layer: np.ndarray) -> Any:
        import ngtpy

        self.folder = tempfile.TemporaryDirectory()  # NGT begins with a file
        path = f"{self.folder.name}/index"
        ngtpy.create(path, layer.shape[1], edge_size_for_creation=16, distance_type="Cosine")
        index = ngtpy.Index(path)
        index.batch_insert(layer, num_threads=1)
        return index

    def search(self, queries: np.ndarray, pool: Pool) -> list[np.ndarray]:
        each = [pool] * len(self.layers) if isinstance(pool, int) else pool
        found = []
        for index, layer, ef in zip(self.indexes, self.layers, each, strict=True):
            k = min(K, len(layer))
            if self.library not in REFINED:
                found.append(self._search(index, queries, k, ef))
                continue
            rows = self._search(index, queries, min(max(k, min(3 * K, ef)), len(layer)), ef)
            scores = np.einsum("qkd,qd->qk", layer[rows], queries)
            found.append(np.take_along_axis(rows, np.argsort(-scores, axis=1)[:, :k], axis=1))
        return found

    def _search(self, index: Any, queries: np.ndarray, k: int, ef: int) -> np.ndarray:
        if self.library == "hnswlib":
            index.set_ef(ef)
            return index.knn_query(queries, k=k, num_threads=1)[0]
        if self.library == "faiss_sq8":
            index.hnsw.efSearch = ef
            return index.search(queries, k)[1]
        if self.library == "svs":
            index.search_window_size = ef
            return index.search(queries, k)[0].astype(np.int64)
        if self.library == "ngt":
            range_ = 0.06 * math.log2(ef / K)
            return np.array([index.search(query, k, range_, with_distance=False) for query in queries])
        index.expansion_search = ef
        return np.atleast_2d(index.search(queries, k, threads=1).keys).astype(np.int64)

    def evaluations(self, queries: np.ndarray, pool: Pool) -> float:
        if self.library != "faiss_sq8":
            return float("nan")
        import faiss

        faiss.cvar.hnsw_stats.reset()
        self.search(queries, pool)
        return faiss.cvar.hnsw_stats.ndis / len(queries)


def compiled() -> str:
    """How hnswlib was compiled, if its module holds that, as those with symbols do."""
    found = importlib.util.find_spec("hnswlib")
    module = Path(found.origin).read_bytes() if found and found.origin else b""
    told = re.search(rb"-march=([\w-]+)([^\0]*)", module)
    if not told:
        return "; hnswlib's module does not tell how it was compiled"
    wide = "with" if b"-mavx512f" in told[2] else "without"
    return f"; hnswlib compiled for {told[1].decode()}, {wide} AVX-512"


def resident() -> float:
    """MiB of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
