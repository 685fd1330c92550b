"""C-HNSW: the top k of every layer of a hierarchy in one descent (paper 000, 3.1.3 and 3.2.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.kernels import _native
from stratagraph.kernels.chnsw_layer import Array, Layer, Matrix, Nodes, Places
from stratagraph.kernels.chnsw_options import LEAST_EF, Options, Stats, read_options, written
from stratagraph.kernels.float16 import StoredVectors
from stratagraph.kernels.topk import TopK

CALIBRATED_K = 10
EFS = [round(10 * 1.19**i) for i in range(25)]  # 10 to 650
CALIBRATED_FOR = 0.2
"""Additions and deletions, as a share of a layer's nodes, after which its `ef` is chosen again."""
_KINDS = {"float32": 0, "int8": 1}
_MOST_PILOTS = 512
_EF_DOWN = 32
_SAMPLE = 96
_ROUNDING = 1e-5  # of equal scores, as a share of them
_FOR_MEAN = 1024


class CHNSW:
    """Search by inner product in all layers of a hierarchy, or in one; vectors should have one length.

    Layer 0 is the lowest. Nodes are numbered by row in each layer. Searches may run in several threads.
    """

    def __init__(self, dimension: int, layers: int, options: Options, instructions: str = "auto") -> None:
        self.options = options
        self.dimension = dimension
        self._layers = [
            Layer(options.codes, dimension, 2 * options.links, options.keep_vectors) for _ in range(layers)
        ]
        self._ef: list[int] = [options.ef or LEAST_EF] * layers
        self._changes = [0] * layers  # nodes that each layer gained or lost since its `ef` was chosen
        self._instructions = instructions
        paper = options.mode == "paper"
        breadth = 1 if paper else options.breadth
        self._graph = _native.Graph(_KINDS[options.codes], dimension, layers, breadth, paper, instructions)

    def __len__(self) -> int:
        return len(self._layers)

    @classmethod
    def build(
        cls,
        layers: Sequence[NDArray[np.floating]],
        children: Sequence[NDArray[np.integer]] | None = None,
        options: Options | None = None,
        *,
        threads: int = 1,
    ) -> CHNSW:
        """Build from the vectors of each layer, the lowest first.

        Equal input gives an equal index, whatever the number of threads.

        Parameters
        ----------
        layers
            Arrays of shape (n, dimension) of finite values; some may be empty.
        children
            For each layer but the lowest pairs (node, child in the layer below), shape (links, 2). None:
            searches descend by links to the nearest node below alone.

        Raises
        ------
        ValueError
            If the layers do not have one dimension.
        """
        options = options or Options()
        dimensions = {layer.shape[1] for layer in layers}
        if len(dimensions) != 1 or 0 in dimensions:
            raise ValueError(f"layers must have one dimension, at least 1, not {sorted(dimensions)}")
        index = cls(dimensions.pop(), len(layers), options)
        for layer, vectors in zip(index._layers, layers, strict=True):
            layer.append(_floats(vectors))
        for layer, links in zip(index._layers[1:], _pairs(children, len(layers)), strict=True):
            layer.set_children(links)
        index._link_all(threads)
        if options.ef is None:
            index._calibrate(range(len(layers)))
        return index

    @property
    def sizes(self) -> list[int]:
        """Living nodes of each layer."""
        return [int(np.count_nonzero(layer.alive)) for layer in self._layers]

    @property
    def ef(self) -> list[int]:
        """The default `ef` of each layer, for up to 10 results."""
        return list(self._ef)

    def search_all(
        self, query: NDArray[np.floating], k: int, *, ef: int | Sequence[int] | None = None
    ) -> list[TopK]:
        """The best k of every layer, the lowest layer first.

        Parameters
        ----------
        k
            Results per layer; a smaller layer gives all its nodes.
        ef
            How widely to search all layers or each; at least `k`. A search keeps up to `k + 4 (ef - k)`
            nodes, and ends earlier once no unvisited node is near enough to the results. None: the default.

        Returns
        -------
        For each layer the rows and scores, best first; of equal scores the lower row first.

        Raises
        ------
        ValueError
            If the query has another dimension or values that are not finite, `k` is below 1, or `ef` is
            below `k`.
        """
        vector = np.ascontiguousarray(query, np.float32)
        if vector.shape != (self.dimension,):
            raise ValueError(f"a query has shape ({self.dimension},), not {vector.shape}")
        k = self._present(k)
        shape = (len(self._layers), k)
        rows, scores = np.empty(shape, np.int64), np.empty(shape, np.float32)
        counts = self._graph.search_one(vector, k, self._pools(k, ef), rows, scores)
        return [(r[:n], s[:n]) for r, s, n in zip(rows, scores, counts, strict=True)]

    def search_many(
        self,
        queries: NDArray[np.floating],
        k: int,
        *,
        ef: int | Sequence[int] | None = None,
        lowest: int = 0,
        threads: int = 1,
    ) -> list[tuple[Nodes, Matrix]]:
        """`search_all` for queries of shape (m, dimension), from the top layer down to `lowest`.

        Returns
        -------
        For each layer the rows and the scores, both of shape (m, min(k, largest layer)), filled up with -1
        and 0.
        """
        queries = np.ascontiguousarray(queries, np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dimension:
            raise ValueError(f"a query has shape ({self.dimension},), not {queries.shape[1:]}")
        k = self._present(k)
        shape = (len(self._layers), len(queries), k)
        rows, scores = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
        self._graph.search(queries, k, self._pools(k, ef), lowest, threads, rows, scores)
        return list(zip(rows, scores, strict=True))

    def delete(self, layer: int, rows: NDArray[np.integer]) -> None:
        """Delete nodes of a layer; nodes that were linked to them are linked to their neighbours."""
        gone = self._layers[layer].places[np.unique(rows)]
        gone = gone[self._layers[layer].alive[gone] == 1]
        self._remove(layer, gone, threads=1)
        self._note_changes([len(gone) if level == layer else 0 for level in range(len(self))])

    def arrays(self) -> dict[str, Array]:
        """Everything, as arrays by name for `from_arrays`; they share memory with the index."""
        named = {"options": written(self.options, self.dimension, self._ef, self._changes)}
        for level, layer in enumerate(self._layers):
            named |= {f"layer{level}.{name}": array for name, array in layer.arrays().items()}
        return named

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], *, instructions: str = "auto") -> CHNSW:
        """Open what `arrays` gave; the arrays may be memory-mapped, and are copied only when changed.

        `instructions` names a set of the processor's instructions, such as `avx2`, for comparisons.

        Raises
        ------
        Damaged
            If an array is missing, has another shape or type, or holds a link to no living node.
        FormatMismatch
            If they have another format.
        """
        options, dimension, ef, changes = read_options(arrays)
        index = cls(dimension, len(ef), options, instructions)
        index._ef, index._changes = ef, changes
        below: Array = np.zeros(0, np.uint8)
        for level, layer in enumerate(index._layers):
            prefix = f"layer{level}."
            own = {
                name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)
            }
            layer.load(own, f"layer{level}", below)
            below = layer.alive
        if f"layer{len(ef)}.alive" in arrays:
            raise Damaged(f"array 'options' tells of {len(ef)} layers, and there are more")
        index._link_all(1)
        return index

    def revised(
        self,
        layers: Sequence[NDArray[np.floating]],
        children: Sequence[NDArray[np.integer]] | None,
        rows: Sequence[NDArray[np.int64]],
        *,
        threads: int = 1,
    ) -> tuple[CHNSW, list[int]]:
        """An index of other layers, most of whose vectors are in this one, which does not change.

        Nodes whose vectors are here keep their links. Options stay, and so does `ef` unless changes have
        become many. Stored arrays change only in `ids` and in the rows of deleted and added nodes.

        Parameters
        ----------
        layers, children
            As for `build`; as many layers as this index has. Vectors are read by row.
        rows
            For each layer the row in this index of each vector that is the same there, or -1 for a new one,
            shape (n,); known vectors are not read.

        Returns
        -------
        The index, and for each layer how many nodes were deleted or added.

        Raises
        ------
        ValueError
            If the number of layers or of dimensions differs.
        """
        shapes = [layer.shape for layer in layers]
        if len(shapes) != len(self) or any(shape[1:] != (self.dimension,) for shape in shapes):
            raise ValueError(f"expected {len(self)} layers of {self.dimension} dimensions, not {shapes}")
        index = CHNSW(self.dimension, len(self), self.options, self._instructions)
        index._ef, index._changes = self.ef, list(self._changes)
        index._layers = [layer.copy() for layer in self._layers]
        index._link_all(threads)
        changed = index._revise(layers, rows, _pairs(children, len(layers)), threads)
        index._note_changes(changed)
        return index, changed

    def stats(self) -> Stats:
        """Counts of work since the index was built or opened."""
        return Stats(*self._graph.counters())

    def _calibrate(self, levels: Iterable[int]) -> None:
        """Choose the smallest `ef` of some layers that reaches the wanted recall@10 on blended nodes.

        A result that scores as the tenth best does counts: which of several equal nodes is found is chance,
        and no `ef` would reach the recall in a layer with many.
        """
        graphs = [i for i in levels if self._layers[i].linked and self._layers[i].alive.any()]
        if not graphs:
            return
        # Queries near, but not equal to, vectors of the lowest layer that has nodes.
        lowest = next(layer for layer in self._layers if len(layer.rows))
        rng = np.random.default_rng(self.options.seed)
        one, other = (rng.choice(lowest.rows, _SAMPLE) for _ in range(2))
        mean = lowest.floats(rng.choice(lowest.rows, _FOR_MEAN)).mean(axis=0)
        sample: Matrix = lowest.floats(one) + np.float32(0.5) * (lowest.floats(other) - mean)
        ef = list(self._ef)
        for level in sorted(graphs, reverse=True):
            layer = self._layers[level]
            least = layer.kth_scores(sample, CALIBRATED_K)
            least -= _ROUNDING * np.abs(least)
            wanted = self.options.recall * len(sample) * min(CALIBRATED_K, len(layer.rows))
            for ef[level] in EFS:
                pools = [max(each, CALIBRATED_K) for each in ef]
                ids, _ = self.search_many(sample, CALIBRATED_K, ef=pools, lowest=level)[level]
                queries, ranks = np.nonzero(ids >= 0)
                vectors = layer.floats(layer.places[ids[queries, ranks]])
                scores = np.einsum("ij,ij->i", vectors, sample[queries])
                if np.count_nonzero(scores >= least[queries]) >= wanted:
                    break
        self._ef = ef

    def _note_changes(self, changes: Sequence[int]) -> None:
        """Count added and deleted nodes; choose `ef` again when they are many."""
        self._changes = [before + now for before, now in zip(self._changes, changes, strict=True)]
        if self.options.ef is not None:
            return
        stale = [
            level
            for level, each in enumerate(self._changes)
            if each and each > CALIBRATED_FOR * len(self._layers[level].rows)
        ]
        self._calibrate(stale)
        for level in stale:
            self._changes[level] = 0

    def _present(self, k: int) -> int:
        """At most as many results as the largest layer has nodes, and at least 1; `ValueError` below 1."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        return min(k, max([1, *(layer.count for layer in self._layers)]))

    def _pools(self, k: int, ef: int | Sequence[int] | None) -> Nodes:
        if ef is None:
            sizes = [max(k, math.ceil(each * max(k, CALIBRATED_K) / CALIBRATED_K)) for each in self._ef]
        else:
            sizes = [ef] * len(self._layers) if isinstance(ef, int) else list(ef)
        if len(sizes) != len(self._layers) or min(sizes, default=k) < k:
            raise ValueError(f"ef must be at least k = {k}, for all {len(self._layers)} layers, not {ef}")
        return np.minimum(sizes, 2**31 - 1).astype(np.int32)

    def _link_all(self, threads: int, *, new: Mapping[int, Nodes] | None = None) -> None:
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
        self,
        layers: Sequence[NDArray[np.floating]],
        rows: Sequence[Places],
        links: Sequence[Array],
        threads: int,
    ) -> list[int]:
        """`CHNSW.revised` in place; `links` are pairs (node, child).

        Returns how many nodes of each layer were deleted or added.
        """
        places_before = [_placed(*each) for each in zip(self._layers, rows, strict=True)]
        changed: list[int] = []
        for level, (layer, places) in enumerate(zip(self._layers, places_before, strict=True)):
            stays = np.zeros(layer.count, np.bool_)
            stays[places[places >= 0]] = True
            gone = np.flatnonzero(~stays & (layer.alive == 1)).astype(np.int32)
            changed.append(len(gone) + int(np.count_nonzero(places < 0)))
            if len(gone):
                self._remove(level, gone, threads)
        added: list[Nodes] = []
        below: Nodes = np.zeros(0, np.int32)
        for level, (layer, places) in enumerate(zip(self._layers, places_before, strict=True)):
            old, new = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
            old = old[_least_moved(places[old])]
            below = layer.keep(places[old], below, len(new))
            added.append(layer.append(_floats(layers[level][new])))
            layer.renumber(np.concatenate([old, new]))
        for here, under, pairs in zip(self._layers[1:], self._layers, links, strict=False):
            here.set_children(np.stack([here.places[pairs[:, 0]], under.places[pairs[:, 1]]], axis=1))
        self._link_all(threads, new=dict(enumerate(added)))
        return changed


def _floats(vectors: NDArray[np.floating]) -> Matrix:
    """Vectors as float32 in C order; those of a folder are read in blocks."""
    return (
        cast(Matrix, vectors)
        if isinstance(vectors, StoredVectors)
        else np.ascontiguousarray(vectors, np.float32)
    )


def _pairs(children: Sequence[NDArray[np.integer]] | None, layers: int) -> list[Array]:
    """The pairs (node, child) of each layer but the lowest."""
    if children is None:
        return [np.zeros((0, 2), np.int64)] * (layers - 1)
    return [np.asarray(links, np.int64).reshape(-1, 2) for links in children]


def _placed(layer: Layer, rows: Places) -> Places:
    """The place of each node in a layer that has it, or -1."""
    places = np.full(len(rows), -1, np.int64)
    if layer.count:
        old = rows >= 0
        places[old] = layer.places[rows[old]]
        places[old & (layer.alive[places] == 0)] = -1
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
