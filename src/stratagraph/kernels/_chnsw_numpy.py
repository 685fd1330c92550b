"""C-HNSW without native kernels: each layer is scanned, the large ones through a sketch of sign bits."""

from __future__ import annotations

import numpy as np

from stratagraph.kernels._chnsw_layer import Layer, Matrix, Nodes
from stratagraph.kernels.topk import SCAN_LIMIT, Sketch, TopK, top_k


class Flat:
    """Search in one layer as it was when this was made."""

    def __init__(self, layer: Layer, metric: str) -> None:
        self.version = layer.version
        self._rows = layer.rows
        self._ids = layer.ids[self._rows]
        self._all = len(self._rows) == layer.count
        self._vectors = layer.floats() if self._all else layer.floats(self._rows)
        self._norms: Matrix | None = None
        if metric == "l2":
            self._norms = layer.norms[self._rows]
        self._sketch: Sketch | None = None

    def search(self, queries: Matrix, k: int, rows: Nodes, scores: Matrix) -> None:
        """Write the best k for each query; twice the inner product minus the squared norm for L2."""
        if not len(self._rows):
            return
        for query, into, how in zip(queries, rows, scores, strict=True):
            found, score = self._best(query, k)
            ids = self._ids[found]
            order = np.lexsort((ids, -score))
            into[: len(found)] = ids[order]
            how[: len(found)] = score[order]

    def _best(self, query: Matrix, k: int) -> TopK:
        if self._norms is not None:
            score: Matrix = np.float32(2) * (self._vectors @ query) - self._norms
            found = np.lexsort((np.arange(len(score)), -score))[:k]
            return found, score[found]
        if len(self._rows) <= SCAN_LIMIT:
            return top_k(self._vectors, query, k)
        if self._sketch is None:
            self._sketch = Sketch.build(self._vectors)
        return self._sketch.search(query, k, vectors=self._vectors)

    def exact(self, queries: Matrix, k: int) -> Nodes:
        """The exact best rows for each query, in no order, shape (m, min(k, size))."""
        k = min(k, len(self._rows))
        found = np.empty((len(queries), k), np.int32)
        for at in range(0, len(queries), 16):
            score = self._vectors @ queries[at : at + 16].T
            if self._norms is not None:
                score = 2 * score - self._norms[:, None]
            best = (
                np.argpartition(-score, k - 1, axis=0)[:k] if k else np.zeros((0, score.shape[1]), np.int64)
            )
            found[at : at + 16] = self._ids[best].T
        return found
