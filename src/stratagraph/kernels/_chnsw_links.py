"""Links of C-HNSW's layers: built, mended where nodes go, and kept where an index is revised."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stratagraph.kernels import _native
from stratagraph.kernels._chnsw_layer import Array, Layer, Matrix, Nodes, Places
from stratagraph.kernels._chnsw_options import LEAST_EF, Options

Read = Callable[[Places], Matrix]

_KINDS = {"float32": 0, "int8": 1}
_MOST_PILOTS = 512
_EF_DOWN = 32


class Linked:
    """Layers, their links, and the native graph that searches them."""

    def __init__(self, dimension: int, layers: int, options: Options, instructions: str = "auto") -> None:
        self.options = options
        self.dimension = dimension
        self._layers = [
            Layer(options.codes, dimension, 2 * options.links, options.keep_vectors) for _ in range(layers)
        ]
        self._ef: list[int] = [options.ef or LEAST_EF] * layers
        self._pool_sizes: dict[int, Nodes] = {}
        self._changes = [0] * layers  # nodes that each layer gained or lost since its `ef` was chosen
        self._instructions = instructions
        paper = options.mode == "paper"
        breadth = 1 if paper else options.breadth
        self._graph = _native.Graph(_KINDS[options.codes], dimension, layers, breadth, paper, instructions)

    def __len__(self) -> int:
        return len(self._layers)

    def _settle(self, threads: int, *, new: Mapping[int, Nodes] | None = None) -> None:
        """Link layers without links and `new` nodes, from the top down, and show all to the searches."""
        linked: set[int] = set()
        for level in reversed(range(len(self))):
            self._choose_pilots(self._layers[level])
            if self._link(level, threads, (new or {}).get(level)):
                linked |= {level, level + 1}
        for level in sorted(linked & set(range(1, len(self)))):
            self._link_down(level, threads)

    def _choose_pilots(self, layer: Layer) -> None:
        rows = layer.rows
        if not len(layer.pilots) and len(rows):
            many = 1 if self.options.mode == "paper" else min(math.isqrt(len(rows)) + 1, _MOST_PILOTS)
            layer.pilots = self._order(rows)[:many]

    def _link(self, level: int, threads: int, new: Nodes | None) -> bool:
        """Link new nodes, or all nodes of a layer too large to be scanned; whether there were any."""
        layer, options = self._layers[level], self.options
        rows = np.zeros(0, np.int32) if new is None or not layer.linked else new
        size = len(layer.rows)
        if not layer.linked and size > 0 and (size > options.scan_limit or options.mode == "paper"):
            layer.own()
            layer.start_links()
            rows = layer.rows
        if len(rows):
            layer.own()
            rows = self._order(rows)
        above = min(level + 1, len(self) - 1)
        if above > level and options.mode == "paper":
            self._layers[above].own()
        for each in {level, above}:
            self._show(each)
        if len(rows):
            pool = max(options.ef_construction, options.links)
            self._graph.insert(level, rows, options.links, pool, threads)
            self._graph.repair(level)
        return len(rows) > 0

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
        here.own("links")
        if here.linked:
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
        self._choose_pilots(here)
        for each in {level, min(level + 1, len(self) - 1)}:
            self._show(each)
        if here.linked:
            self._graph.repair(level)
        if level + 1 < len(self):
            self._link_down(level + 1, threads)

    def _show(self, level: int) -> None:
        layer = self._layers[level]
        coarsest, longest = layer.bounds.tolist()
        self._graph.set_layer(
            level,
            layer.codes,
            layer.scales,
            layer.vectors,
            layer.links,
            layer.down,
            layer.child_from,
            layer.children,
            layer.alive,
            layer.pilots,
            layer.ids,
            coarsest,
            longest,
            not layer.linked,
        )

    def _order(self, rows: Nodes) -> Nodes:
        return np.random.default_rng(self.options.seed).permutation(rows)

    def _revise(
        self, layers: Sequence[Read], rows: Sequence[Places], links: Sequence[Array], threads: int
    ) -> list[int]:
        """`CHNSW.revised` in place: `layers` read vectors by row, and `links` are pairs (node, child).

        Returns how many nodes of each layer were deleted or added.
        """
        kept = [_placed(*each) for each in zip(self._layers, rows, strict=True)]
        changed: list[int] = []
        for level, (layer, places) in enumerate(zip(self._layers, kept, strict=True)):
            stays = np.zeros(layer.count, np.bool_)
            stays[places[places >= 0]] = True
            gone = np.flatnonzero(~stays & (layer.alive == 1)).astype(np.int32)
            changed.append(len(gone) + int(np.count_nonzero(places < 0)))
            if len(gone):
                self._remove(level, gone, threads)
        added: list[Nodes] = []
        below: Nodes = np.zeros(0, np.int32)
        for layer, places, read in zip(self._layers, kept, layers, strict=True):
            known, new = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
            known = known[_least_moved(places[known])]
            below = layer.keep(places[known], below, len(new))
            added.append(layer.append(read(new)))
            layer.renumber(np.concatenate([known, new]))
        for here, under, pairs in zip(self._layers[1:], self._layers, links, strict=False):
            here.set_children(np.stack([here.places[pairs[:, 0]], under.places[pairs[:, 1]]], axis=1))
        self._settle(threads, new=dict(enumerate(added)))
        return changed


def _placed(layer: Layer, rows: Places) -> Places:
    """The place of each node in a layer that has it, or -1."""
    places = np.full(len(rows), -1, np.int64)
    if layer.count:
        known = rows >= 0
        places[known] = layer.places[rows[known]]
        places[known & (layer.alive[places] == 0)] = -1
    return places


def _least_moved(places: Places) -> Places:
    """An order that leaves most nodes in their places; the last ones fill the places that became free."""
    count = len(places)
    order = np.full(count, -1, np.int64)
    early = np.flatnonzero(places < count)
    order[places[early]] = early
    late = np.flatnonzero(places >= count)
    order[order < 0] = late[np.argsort(places[late])]
    return order
