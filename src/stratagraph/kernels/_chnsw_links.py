"""Linking the layers of C-HNSW, in whichever order they are built, added to and deleted from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from stratagraph._locks import Lock
from stratagraph.errors import NativeUnavailable
from stratagraph.kernels._chnsw_coarse import by_distance, centred_codes, no_codes
from stratagraph.kernels._chnsw_layer import Array, Kind, Layer, Matrix, Nodes
from stratagraph.kernels._chnsw_numpy import Flat
from stratagraph.kernels._chnsw_options import KINDS, LEAST_EF, METRICS, SKETCHED, Metric, Options
from stratagraph.kernels._chnsw_origin import origin_of
from stratagraph.kernels.hamming import native_available

if native_available():
    from stratagraph.kernels import _native

Backend = Literal["auto", "native", "numpy"]

_MOST_PILOTS = 512
_EF_DOWN = 32


class Linked:
    """Layers with links where there are native kernels, and the graph that searches them."""

    def __init__(
        self, dimension: int, layers: int, options: Options, backend: Backend, instructions: str = "auto"
    ) -> None:
        self.options = options
        self.dimension = dimension
        self._backend = chosen_backend(backend)
        self._instructions = instructions
        kept = options.keep_vectors
        self._layers = [
            Layer(options.codes, dimension, 2 * options.links, kept, options.metric == "l2")
            for _ in range(layers)
        ]
        self._origin = np.zeros(dimension, np.float32)  # for l2 alone, what all vectors are kept less of
        self._ef: list[int] = [options.pool or LEAST_EF] * layers
        self._pool_sizes: dict[int, Nodes] = {}
        # Nodes that each layer gained or lost since its `ef` was settled; None: the caller settled it.
        self._changes: list[int | None] = [0] * layers
        self._writing = Lock()
        self._flat: list[Flat | None] = [None] * layers
        self._spent = np.zeros(5, np.int64)
        if self._backend == "native":
            self._graph = self._searching(options.metric, options.codes, layers)

    def _searching(self, metric: Metric, codes: Kind, layers: int) -> _native.Graph:
        paper = self.options.mode == "paper"
        return _native.Graph(
            METRICS[metric],
            KINDS[codes],
            self.dimension,
            layers,
            1 if paper else self.options.breadth,
            paper,
            self._instructions,
        )

    def _settle(self, levels: Sequence[int], threads: int, *, new: Mapping[int, Nodes] | None = None) -> None:
        """Link what is not linked yet, from the top down, and show it to the searches.

        `new` are the nodes of each level that have no links yet.
        """
        linked: set[int] = set()
        for level in new or ():
            self._forget_links(level)
        for level in sorted(levels, reverse=True):
            self._seat(self._layers[level])
            if self._backend == "native" and self._link(level, threads, (new or {}).get(level)):
                linked |= {level, level + 1}
        for level in sorted(linked & set(range(1, len(self)))):
            self._link_down(level, threads)

    def _seat(self, layer: Layer) -> None:
        """Choose the pilots of a layer that has none."""
        rows = layer.rows
        if not len(layer.pilots) and len(rows):
            many = 1 if self.options.mode == "paper" else min(math.isqrt(len(rows)) + 1, _MOST_PILOTS)
            layer.pilots = self._order(rows)[:many]

    def _link(self, level: int, threads: int, new: Nodes | None) -> bool:
        """Link the new nodes of a layer, or all of one that has outgrown scanning; whether there were any."""
        layer, options = self._layers[level], self.options
        rows = np.zeros(0, np.int32) if new is None or not layer.linked else new
        size = len(layer.rows)
        whole = not layer.linked and size > 0 and (size > options.scan_limit or options.mode == "paper")
        if whole:
            layer.own()
            layer.start_links()
            rows = layer.rows
        if len(rows):
            layer.own()
            rows = self._order(rows)
        floats = options.mode == "fast" and options.codes != "int8"
        outgrown = bool(len(rows)) and floats and not len(layer.centre) and layer.codes.nbytes >= SKETCHED
        if outgrown:
            layer.start_sketches()
        coarse = whole and floats and by_distance(layer, options.metric)
        if coarse:
            self._link_coarsely(level, rows, threads)
        for each in {level, min(level + 1, len(self) - 1)}:
            if each > level and options.mode == "paper":
                self._layers[each].own()
            self._show(each)
        if len(rows):
            if len(layer.sketches):
                self._graph.sketch(level, layer.rows if outgrown else rows)
            if not coarse:
                self._insert(self._graph, level, rows, threads)
            self._graph.repair(level)
        return len(rows) > 0

    def _insert(self, graph: _native.Graph, level: int, rows: Nodes, threads: int) -> None:
        pool = max(self.options.ef_construction, self.options.links)
        graph.insert(level, rows, self.options.links, pool, threads)

    def _link_coarsely(self, level: int, rows: Nodes, threads: int) -> None:
        """Link a layer whose links no search has seen yet by int8 codes: as good links for half the work."""
        here = self._layers[level : level + 2]
        graph = self._searching("l2", "int8", len(here))
        for at, layer in enumerate(here):
            codes, scales, norms = no_codes(layer) if at else centred_codes(layer)
            self._show_in(graph, at, layer, codes, scales, norms, codes.shape[1])
        self._insert(graph, 0, rows, threads)
        self._spent += graph.counters()

    def _link_down(self, level: int, threads: int) -> None:
        above, layer = self._layers[level], self._layers[level - 1]
        rows = above.rows
        rows = rows[above.down[rows] < 0]
        if layer.linked and len(layer.pilots) and len(rows):
            above.own("down")
            self._show(level)
            self._graph.link_down(level, rows, _EF_DOWN, threads)

    def _remove(self, level: int, gone: Nodes, threads: int) -> None:
        here = self._layers[level]
        self._forget_links(level)
        here.own("links")
        if self._backend == "native" and here.linked:
            self._show(level)
            self._graph.remove(level, gone, self.options.links, threads)
        here.bury(gone)
        here.pilots = here.pilots[here.alive[here.pilots] == 1]
        mine = here.pairs()
        here.set_children(mine[~np.isin(mine[:, 0], gone)])
        if level + 1 < len(self):
            above = self._layers[level + 1]
            above.own("down")
            above.down[np.isin(above.down, gone)] = -1
            theirs = above.pairs()
            above.set_children(theirs[~np.isin(theirs[:, 1], gone)])
        self._seat(here)
        if self._backend == "native":
            for each in {level, min(level + 1, len(self) - 1)}:
                self._show(each)
            if here.linked:
                self._graph.repair(level)
            if level + 1 < len(self):
                self._link_down(level + 1, threads)

    def _forget_links(self, level: int) -> None:
        """Let a layer that changes be linked anew where there are native kernels, if here are none."""
        if self._backend == "numpy":
            self._layers[level].forget_links()

    def _show(self, level: int) -> None:
        layer = self._layers[level]
        self._show_in(self._graph, level, layer, layer.codes, layer.scales, layer.norms, layer.length)

    def _show_in(
        self,
        graph: _native.Graph,
        level: int,
        layer: Layer,
        codes: Array,
        scales: Matrix,
        norms: Matrix,
        length: int,
    ) -> None:
        graph.set_layer(
            level,
            codes,
            scales,
            norms,
            layer.vectors,
            layer.links,
            layer.down,
            layer.child_from,
            layer.children,
            layer.alive,
            layer.pilots,
            layer.ids,
            layer.sketches,
            layer.centre,
            length,
            float(layer.bounds[0]),
            float(layer.bounds[1]),
            not layer.linked,
        )

    def _order(self, rows: Nodes) -> Nodes:
        return np.random.default_rng(self.options.seed).permutation(rows)

    def __len__(self) -> int:
        return len(self._layers)

    def _prepared(self, vectors: Matrix) -> Matrix:
        """Vectors of callers as they are kept and searched for; see `_chnsw_origin`."""
        if self.options.metric != "l2":
            return self._normalised(vectors)
        return np.subtract(vectors, self._origin, dtype=np.float32) if self._origin.any() else vectors

    def _place_origin(self, layers: Sequence[Matrix]) -> None:
        """Choose the origin from the first vectors that come."""
        if self.options.metric == "l2" and not any(layer.count for layer in self._layers):
            self._origin = origin_of(layers)

    def _normalised(self, vectors: Matrix) -> Matrix:
        if self.options.metric != "cosine":
            return vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, np.where(lengths > 0, lengths, 1), dtype=np.float32)


def together(sizes: Sequence[int], links: Sequence[Array]) -> list[Nodes]:
    """For each layer an order in which children of one node, and of nodes near to it, follow each other.

    What a search reads then lies close together in memory.
    """
    orders = [np.arange(size, dtype=np.int32) for size in sizes]
    for level in reversed(range(len(links))):
        place = np.empty(sizes[level + 1], np.int64)
        place[orders[level + 1]] = np.arange(sizes[level + 1])
        parents = np.full(sizes[level], sizes[level + 1])
        parents[links[level][:, 1]] = place[links[level][:, 0]]
        orders[level] = np.argsort(parents, kind="stable").astype(np.int32)
    return orders


def chosen_backend(wanted: Backend) -> Literal["native", "numpy"]:
    """What serves an index; a warning says so where numpy stands in."""
    if wanted not in ("auto", "native", "numpy"):
        raise ValueError(f"backend must be auto, native or numpy, not {wanted!r}")
    if wanted == "numpy":
        return "numpy"
    if native_available():
        return "native"
    if wanted == "native":
        raise NativeUnavailable(
            "the native kernels are missing; reinstall stratagraph with a C++ compiler, "
            "or use backend='numpy'"
        )
    warnings.warn(
        "C-HNSW runs in numpy, since stratagraph was installed without its native kernels: searches take "
        "milliseconds instead of tens of microseconds",
        stacklevel=5,
    )
    return "numpy"
