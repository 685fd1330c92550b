"""C-HNSW: the top k of every layer of a hierarchy in one descent (paper 000, 3.1.3 and 3.2.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.kernels._chnsw_calibration import CALIBRATED_K, EFS, SETTLED_FOR, blends
from stratagraph.kernels._chnsw_checks import (
    LARGEST,
    checked_children,
    checked_gone,
    checked_pairs,
    checked_parents,
    checked_vectors,
)
from stratagraph.kernels._chnsw_layer import Array, Kind, Matrix, Nodes
from stratagraph.kernels._chnsw_links import Backend, Linked, together
from stratagraph.kernels._chnsw_numpy import Flat
from stratagraph.kernels._chnsw_options import SCANNED, Metric, Mode, Options, Stats, read_options, written
from stratagraph.kernels._chnsw_origin import stored_origin
from stratagraph.kernels._chnsw_revision import revise
from stratagraph.kernels.topk import TopK


class CHNSW(Linked):
    """Search in all layers of a hierarchy, or in one.

    Layer 0 is the lowest. Nodes are rows of their layer, in the order in which they came; a deleted node's
    row is not given to another. Scores are larger for better results: inner products, cosines, or negated
    squared distances, which are computed around the mean of the vectors that came first, so that those far
    from zero lose nothing. With an inner product, vectors should be of about equal length.

    Searches may run in several threads, also while another adds or deletes: they see the index before or
    after each step of the change, and until it is complete may miss nodes near those added or deleted.
    Without the native kernels all is scanned by numpy through a sketch, `ef` and links do nothing, and
    results are as good; opened where there are native kernels, such an index is linked then.
    """

    @classmethod
    def build(
        cls,
        layers: Sequence[NDArray[np.floating]],
        children: Sequence[NDArray[np.integer]] | None = None,
        *,
        metric: Metric = "ip",
        codes: Kind = "int8",
        keep_vectors: bool = True,
        links: int = 16,
        ef_construction: int = 96,
        scan_limit: int | None = None,
        breadth: int = 10,
        regroup: bool = False,
        recall: float = 0.98,
        ef: int | None = None,
        mode: Mode = "fast",
        seed: int = 0,
        threads: int = 1,
        backend: Backend = "auto",
        instructions: str = "auto",
    ) -> CHNSW:
        """Build from the vectors of each layer, the lowest first.

        Parameters
        ----------
        layers
            Arrays of shape (n, dimension), converted to float32; some may be empty.
        children
            For each layer but the lowest its links to the layer below, as pairs (node, child), shape
            (links, 2). None: search goes from layer to layer by links to the nearest node alone.
        metric
            `ip` inner product, `cosine`, `l2` Euclidean distance.
        codes
            What is searched: `int8` (one scale per vector), `float16` or `float32`. Layers of the latter two
            have sketches beside them, from 8 MiB on, by which a search leaves out most neighbours unread.
        keep_vectors
            Keep the float32 vectors to score results again; False gives up a little recall for memory.
        links
            Links that a new node sets; a node holds at most twice as many.
        ef_construction
            Candidates from which they are chosen.
        scan_limit
            Layers of at most as many nodes are scanned. None: 256, of float16 128 and of float32 64, since
            they take as long to read.
        breadth
            Best nodes of a layer whose children are entries into the next (ERRATA A8).
        regroup
            Keep the children of one node together in memory, which is faster; the rows of `arrays` are then
            in another order than the nodes (`ids` tells which).
        recall
            Recall@10 on which the default `ef` of each layer is settled, measured with blends of nodes as
            queries.
        ef
            The default `ef` of all layers, for up to 10 results; nothing is measured then.
        mode
            `paper` is Alg. 2 and Alg. 3 with ERRATA A5 to A7: nearest neighbours are linked, one inter-layer
            link is the entry, nothing is scanned.
        seed
            Of the order of insertion. Equal input gives an equal index, whatever the number of threads.
        instructions
            Of the processor, such as `avx2`, where narrower ones than it has are to be compared.

        Raises
        ------
        ValueError
            For shapes that do not fit, instructions that are not there, values that are not finite or larger
            than 1e15 (named by row), or than 65,504 with codes of float16 (for `l2` less their mean),
            children out of range.
        NativeUnavailable
            If `backend` is `native` and there are no native kernels.
        """
        checked = [checked_vectors(layer, f"layer {i}") for i, layer in enumerate(layers)]
        dimensions = {layer.shape[1] for layer in checked}
        if len(dimensions) != 1 or 0 in dimensions:
            raise ValueError(f"layers must have one dimension, at least 1, not {sorted(dimensions)}")
        scan_limit = SCANNED.get(codes, 0) if scan_limit is None else scan_limit
        recall = float(recall)
        options = Options(
            metric, codes, keep_vectors, links, ef_construction, scan_limit, breadth, recall, mode, seed, ef
        )
        index = cls(dimensions.pop(), len(layers), options, backend, instructions)
        sizes = [len(layer) for layer in checked]
        told = checked_children(children, sizes)
        orders = together(sizes, told if regroup else ())
        index._place_origin(checked)
        for layer, vectors, order in zip(index._layers, checked, orders, strict=True):
            layer.append(index._prepared(vectors), order)
        for here, below, pairs in zip(index._layers[1:], index._layers, told, strict=False):
            here.set_children(np.stack([here.places[pairs[:, 0]], below.places[pairs[:, 1]]], axis=1))
        index._settle(range(len(layers)), threads)
        if ef is None:
            index.calibrate()
        return index

    @property
    def sizes(self) -> list[int]:
        """Living nodes of each layer."""
        return [int(np.count_nonzero(layer.alive)) for layer in self._layers]

    @property
    def ef(self) -> list[int]:
        """How widely each layer is searched if a search does not say, for up to 10 results."""
        return list(self._ef)

    def search_all(
        self, query: NDArray[np.floating], k: int, *, ef: int | Sequence[int] | None = None
    ) -> list[TopK]:
        """The best k of every layer, the lowest layer first.

        Parameters
        ----------
        query
            Shape (dimension,), float32; other types are converted.
        k
            Results per layer; a smaller layer gives all its nodes, and so does any if `k` is huge.
        ef
            How widely to search all layers or each; at least `k`. The result pool grows to `k + 4 (ef - k)`
            nodes where a query is hard, and a search ends before that where what is left is too far away
            beside the results, by more than the codes' rounding. None: as calibrated.

        Returns
        -------
        For each layer the rows and scores, best first; of equal scores the lower row first.

        Raises
        ------
        ValueError
            If the query has another dimension or values that are not finite, `k` is below 1, or `ef` is
            below `k`.
        """
        rows, scores, counts = self._search_one(query, k, ef)
        return [(r[:n], s[:n]) for r, s, n in zip(rows, scores, counts, strict=True)]

    def search_many(
        self,
        queries: NDArray[np.floating],
        k: int,
        *,
        ef: int | Sequence[int] | None = None,
        threads: int = 1,
    ) -> list[TopK]:
        """`search_all` for queries of shape (m, dimension).

        Returns
        -------
        For each layer the rows and the scores, both of shape (m, k), filled up with -1 and 0. No array is
        wider than the largest layer.
        """
        rows, scores = self._search(np.asarray(queries, np.float32), k, ef, 0, threads)
        return [(rows[level], scores[level]) for level in range(len(rows))]

    def add(
        self,
        layer: int,
        vectors: NDArray[np.floating],
        *,
        parents: NDArray[np.integer] | None = None,
        children: NDArray[np.integer] | None = None,
        threads: int = 1,
    ) -> Nodes:
        """Add nodes to a layer; many at once are added faster than one by one.

        Parameters
        ----------
        vectors
            Shape (n, dimension).
        parents
            For each its parent's row in the layer above, or -1, shape (n,).
        children
            Pairs (index of a new node, row in the layer below), shape (links, 2).

        Returns
        -------
        The rows given to them, shape (n,).
        """
        level, checked = self._level(layer), checked_vectors(vectors, "vectors")
        if checked.shape[1] != self.dimension:
            raise ValueError(f"vectors have {checked.shape[1]} dimensions, the index has {self.dimension}")
        with self._writing:
            here, n = self._layers[level], len(checked)
            under = self._layers[level - 1] if level else None
            over = self._layers[level + 1] if level + 1 < len(self) else None
            below = None if children is None else checked_pairs(children, n, level, under)
            above = None if parents is None else checked_parents(parents, n, level, over)
            before = here.pairs()
            self._place_origin([checked])
            rows = here.append(self._prepared(checked))  # the newest are last by number and by place
            if below is not None and len(below):
                below[:, 0] += rows[0]
                here.set_children(np.concatenate([before, below]))
            if above is not None and over is not None:
                new = np.stack([above, rows], axis=1)[above >= 0]
                over.set_children(np.concatenate([over.pairs(), new]))
            self._settle([level], threads, new={level: rows})
            self._note_changes({level: n})
        return rows

    def delete(self, layer: int, rows: NDArray[np.integer], *, threads: int = 1) -> None:
        """Delete nodes of a layer; what was linked to them is linked to their neighbours.

        Raises
        ------
        KeyError
            If one is unknown or was deleted; then none is deleted.
        """
        level = self._level(layer)
        with self._writing:
            gone = checked_gone(rows, level, self._layers[level])
            self._remove(level, gone, threads)
            self._note_changes({level: len(gone)})

    def arrays(self) -> dict[str, Array]:
        """Everything, as arrays by name, to be written to files and given to `from_arrays`.

        They share memory with the index: write them before the next change.
        """
        named = {"options": written(self.options, self.dimension, self._ef, self._changes)}
        if self.options.metric == "l2":
            named["origin"] = self._origin
        for level, layer in enumerate(self._layers):
            named |= {f"layer{level}.{name}": array for name, array in layer.arrays().items()}
        return named

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Array],
        *,
        threads: int = 1,
        backend: Backend = "auto",
        instructions: str = "auto",
    ) -> CHNSW:
        """Open what `arrays` gave; the arrays may be memory-mapped, and are copied only when changed.

        `instructions` as in `build`.

        Raises
        ------
        Damaged
            If an array is missing, has another shape or type, or holds a link to nowhere; it is named.
        FormatTooNew
            If a later version wrote them.
        """
        options, dimension, ef, changes, version = read_options(arrays)
        index = cls(dimension, len(ef), options, backend, instructions)
        index._ef, index._changes = ef, changes
        index._origin = stored_origin(arrays, dimension, wanted=options.metric == "l2" and version > 3)
        below: Array = np.zeros(0, np.uint8)
        for level, layer in enumerate(index._layers):
            prefix = f"layer{level}."
            own = {
                name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)
            }
            if version == 1:
                own = {"sketches": layer.sketches, "centre": layer.centre, **own}
            layer.load(own, f"layer{level}", below)
            below = layer.alive
        if f"layer{len(ef)}.alive" in arrays:
            raise Damaged(f"array 'options' tells of {len(ef)} layers, and there are more")
        index._settle(range(len(ef)), threads)
        return index

    def revised(
        self,
        layers: Sequence[NDArray[np.floating]],
        children: Sequence[NDArray[np.integer]] | None = None,
        *,
        rows: Sequence[NDArray[np.int64]] | None = None,
        threads: int = 1,
    ) -> tuple[CHNSW, list[int]]:
        """An index of other layers, made from this one, which has most of their vectors already.

        Vectors are recognised by what is kept of them, whatever their rows were; only the others are deleted
        and added. Options stay as they were, and `ef` but where changes have become many; this index stays as
        it is. So do stored arrays, but for the rows of nodes that went or came, which are last, and for their
        numbers.

        Parameters
        ----------
        layers, children
            As for `build`; as many layers as this index has. Vectors are read by row.
        rows
            For each layer the row in this index of each vector that is the same there, or -1, shape (n,);
            these vectors are not read.

        Returns
        -------
        The index, whose rows are those of `layers`, and for each layer how many nodes were deleted or added.

        Raises
        ------
        ValueError
            As `build`; also if the number of layers or of dimensions is another one.
        """
        shapes = [layer.shape for layer in layers]
        if len(shapes) != len(self) or any(shape[1:] != (self.dimension,) for shape in shapes):
            raise ValueError(f"expected {len(self)} layers of {self.dimension} dimensions, not {shapes}")
        told = checked_children(children, [len(layer) for layer in layers])
        known = [np.full(len(layer), -1, np.int64) for layer in layers] if rows is None else rows
        index = CHNSW(self.dimension, len(self), self.options, self._backend, self._instructions)
        with self._writing:
            index._ef, index._changes = list(self._ef), list(self._changes)
            index._layers = [layer.copy() for layer in self._layers]
            index._origin = self._origin
        index._place_origin(layers)
        index._settle(range(len(index)), threads)
        reads = [partial(index._read, layer, f"layer {i}") for i, layer in enumerate(layers)]
        changed = revise(index, reads, known, told, threads)
        index._note_changes(dict(enumerate(changed)))
        return index, changed

    def _read(self, layer: NDArray[np.floating], what: str, rows: NDArray[np.int64]) -> Matrix:
        return self._prepared(checked_vectors(layer[rows], what, rows))

    def stats(self) -> Stats:
        """Counts of work since the index was made or opened."""
        counted = self._spent + self._graph.counters() if self._backend == "native" else self._spent
        return Stats(*counted.tolist())

    def calibrate(
        self, queries: NDArray[np.floating] | None = None, *, recall: float | None = None
    ) -> list[int]:
        """Settle the `ef` of each layer anew: the smallest that reaches a recall@10.

        Changes do so by themselves, once a fifth as many nodes as a layer has were added to it and deleted,
        but where `ef`, `queries` or `recall` were given.

        Parameters
        ----------
        queries
            Sample of what will be asked, shape (m, dimension); None blends pairs of the lowest nodes.
        recall
            None: as the index was built.
        """
        given = queries is not None or recall is not None
        target = self.options.recall if recall is None else recall
        sample = None if queries is None else self._prepared(checked_vectors(queries, "queries"))
        self._calibrate(range(len(self)), sample, target)
        self._changes = [None if given else 0] * len(self)
        return self.ef

    def _calibrate(self, levels: Iterable[int], queries: Matrix | None, recall: float) -> None:
        """Settle the `ef` of some layers; searches meanwhile see what was settled before."""
        graphs = [i for i in levels if self._layers[i].linked and self._layers[i].alive.any()]
        if self._backend == "numpy" or not graphs:
            return
        sample = self._normalised(blends(self._layers, self.options.seed)) if queries is None else queries
        ef = list(self._ef)
        for level in sorted(graphs, reverse=True):
            truth = Flat(self._layers[level], self.options.metric).exact(sample, CALIBRATED_K)
            for ef[level] in EFS:
                pools = [max(each, CALIBRATED_K) for each in ef]
                rows, _ = self._searched(sample, CALIBRATED_K, pools, level, 1)
                found = [np.isin(t, r).sum() for t, r in zip(truth, rows[level], strict=True)]
                if sum(found) >= recall * truth.size:
                    break
        self._ef, self._pool_sizes = ef, {}

    def _note_changes(self, changes: Mapping[int, int]) -> None:
        """Count nodes that were added to layers and deleted, and settle `ef` where they have become many."""
        self._changes = [
            None if each is None else each + changes.get(level, 0) for level, each in enumerate(self._changes)
        ]
        if self.options.pool is not None or self._backend == "numpy":
            return
        stale = [
            level
            for level, each in enumerate(self._changes)
            if each and each > SETTLED_FOR * len(self._layers[level].rows)
        ]
        self._calibrate(stale, None, self.options.recall)
        for level in stale:
            self._changes[level] = 0

    def _search(
        self, queries: Matrix, k: int, ef: int | Sequence[int] | None, lowest: int, threads: int
    ) -> tuple[Nodes, Matrix]:
        if queries.ndim != 2 or queries.shape[1] != self.dimension:
            raise ValueError(f"a query has shape ({self.dimension},), not {queries.shape[1:]}")
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        fits = (np.abs(queries) < LARGEST).all(axis=1)
        if not fits.all():
            raise ValueError(f"query {int(np.argmin(fits))} holds values that are not finite, or above 1e15")
        while True:
            origin = self._origin
            found = self._searched(self._prepared(queries), k, ef, lowest, threads)
            if origin is self._origin:  # else the first vectors came meanwhile
                return found

    def _searched(
        self, queries: Matrix, k: int, ef: int | Sequence[int] | None, lowest: int, threads: int
    ) -> tuple[Nodes, Matrix]:
        """Search for vectors that are as those of the index are kept."""
        k = self._present(k)
        wanted = self._pools(k, ef)
        queries = np.ascontiguousarray(queries)
        shape = (len(self._layers), len(queries), k)
        rows, scores = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
        if self._backend == "native":
            self._graph.search(queries, k, wanted, lowest, threads, rows, scores)
            return rows, scores
        for level in range(lowest, len(self._layers)):
            self._flat_of(level).search(queries, k, rows[level], scores[level])
        if self.options.metric == "l2":
            scores[rows >= 0] -= np.broadcast_to((queries**2).sum(axis=1)[None, :, None], shape)[rows >= 0]
        return rows, scores

    def _search_one(
        self, query: NDArray[np.floating], k: int, ef: int | Sequence[int] | None
    ) -> tuple[NDArray[np.int64], Matrix, list[int]]:
        """Rows and scores of shape (layers, k), and how many were found in each layer."""
        vector = np.ascontiguousarray(query, np.float32)
        if vector.shape != (self.dimension,):
            raise ValueError(f"a query has shape ({self.dimension},), not {vector.shape}")
        if self._backend == "numpy" or k < 1:
            rows, scores = self._search(vector[None], k, ef, 0, 1)
            return (
                rows[:, 0].astype(np.int64),
                scores[:, 0],
                np.count_nonzero(rows[:, 0] >= 0, axis=1).tolist(),
            )
        origin = self._origin
        if self.options.metric != "ip":
            vector = self._prepared(vector[None])[0]
        k = self._present(k)
        shape = (len(self._layers), k)
        found, how = np.empty(shape, np.int64), np.empty(shape, np.float32)
        counts = self._graph.search_one(vector, k, self._pools(k, ef), found, how)
        return (found, how, counts) if origin is self._origin else self._search_one(query, k, ef)

    def _present(self, k: int) -> int:
        """At most as many results as the largest layer has nodes, and at least 1."""
        return min(k, max([1, *(layer.count for layer in self._layers)]))

    def _pools(self, k: int, ef: int | Sequence[int] | None) -> Nodes:
        if ef is None:
            known = self._pool_sizes  # for good, since `ef` may be settled anew meanwhile
            sizes = known.get(k)
            if sizes is None:
                scaled = [max(k, math.ceil(each * max(k, CALIBRATED_K) / CALIBRATED_K)) for each in self._ef]
                sizes = known[k] = np.minimum(scaled, 2**31 - 1).astype(np.int32)
            return sizes
        each = [ef] * len(self._layers) if isinstance(ef, int) else list(ef)
        if len(each) != len(self._layers) or min(each, default=k) < k:
            raise ValueError(f"ef must be at least k = {k}, for all {len(self._layers)} layers, not {ef}")
        return np.minimum(each, 2**31 - 1).astype(np.int32)

    def _flat_of(self, level: int) -> Flat:
        flat, layer = self._flat[level], self._layers[level]
        if flat is None or flat.version != layer.version:
            flat = self._flat[level] = Flat(layer, self.options.metric)
        return flat

    def _level(self, layer: int) -> int:
        if not 0 <= layer < len(self):
            raise ValueError(f"the index has layers 0 to {len(self) - 1}, not {layer}")
        return layer
