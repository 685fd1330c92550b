"""What a layer of C-HNSW is made of: vectors, their codes, links, and the checks of arrays from a file."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.kernels.checks import check_borders, check_finite, check_layout, check_range
from stratagraph.kernels.ranges import distinct

Matrix = NDArray[np.float32]
Nodes = NDArray[np.int32]
Array = NDArray[Any]
Kind = Literal["int8", "float16", "float32"]

_LINE = 64
_LARGEST_CODE = 127
_TINY = 1e-30  # below that a scale would not be a normal number; such a vector is as good as zero
_BLOCK = 16_384
_SPARE = 1.5


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros that start at a cache line, so that no element of a row lies across two."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + _LINE, dtype=np.uint8)
    start = -raw.ctypes.data % _LINE
    array: Array = raw[start : start + size].view(dtype).reshape(shape)
    return array


def encode(vectors: Matrix, kind: Kind) -> tuple[Array, Matrix]:
    """Codes of vectors as bytes, shape (n, bytes per vector), and the scale of each (int8 alone).

    Rows of int8 and float16 are padded with zeros to 64 bytes. A vector is its int8 code times its scale,
    within half a scale. `ValueError` names a value that float16 cannot hold.
    """
    n, dimension = vectors.shape
    if kind == "float32":
        return np.ascontiguousarray(vectors).view(np.uint8), np.zeros(0, np.float32)
    per_line = _LINE if kind == "int8" else _LINE // 2
    codes = aligned((n, -(-dimension // per_line) * per_line), np.int8 if kind == "int8" else np.float16)
    if kind == "float16":
        if (largest := np.abs(vectors).max(initial=0)) > np.finfo(np.float16).max:
            raise ValueError(f"float16 codes hold values up to 65,504, and one is {largest:g}: take int8")
        codes[:, :dimension] = vectors
        return codes.view(np.uint8), np.zeros(0, np.float32)
    scales = np.ones(n, np.float32)
    for at in range(0, n, _BLOCK):
        block = vectors[at : at + _BLOCK]
        largest = np.maximum(block.max(axis=1), -block.min(axis=1))
        scales[at : at + _BLOCK] = np.where(largest > _TINY, largest / np.float32(_LARGEST_CODE), 1)
        scaled = block / scales[at : at + _BLOCK, None]
        codes[at : at + _BLOCK, :dimension] = np.rint(scaled, out=scaled)
    return codes.view(np.uint8), scales


def decode(codes: Array, scales: Matrix, kind: Kind, dimension: int) -> Matrix:
    """The vectors that codes stand for."""
    if kind == "float32":
        return codes.view(np.float32)
    if kind == "float16":
        return codes.view(np.float16)[:, :dimension].astype(np.float32)
    return codes.view(np.int8)[:, :dimension] * scales[:, None]


def sketch_bytes(dimension: int) -> int:
    """Bytes of a sketch: a bit for each dimension in words of 64, three factors, padded to a cache line."""
    return -(-(-(-dimension // 64) * 8 + 12) // _LINE) * _LINE


# The arrays with one row per node; they may have spare rows at the end.
_ROWS = ("vectors", "codes", "scales", "norms", "links", "down", "alive", "ids", "sketches")
_TYPES = {
    "vectors": np.float32,
    "codes": np.uint8,
    "scales": np.float32,
    "norms": np.float32,
    "links": np.int32,
    "down": np.int32,
    "alive": np.uint8,
    "ids": np.int32,
    "child_from": np.int64,
    "children": np.int32,
    "pilots": np.int32,
    "bounds": np.float32,
    "sketches": np.uint8,
    "centre": np.float32,
}


@dataclass
class Layer:
    """One layer's arrays.

    Nodes have places: the rows of these arrays, in an order that keeps together what is searched together.
    All here is told in places. `ids` are the numbers by which callers know the nodes, their order of
    arrival; `places` is the way back. Those deleted keep their place. `links` holds the neighbours of each
    node, ended by -1; `down` the nearest node of the layer below, or -1; `children` of
    node i are `children[child_from[i]:child_from[i + 1]]`, places in the layer below; `pilots` are the
    entries of last resort; `sketches` are bits of the vectors less the layer's `centre`, with factors
    (`_chnsw_sketch.hpp`); `bounds` the coarsest scale and the length of the longest vector, by which
    search knows how much rounding can matter. Arrays that a configuration does not need have no rows.
    """

    kind: Kind
    dimension: int
    width: int
    keep_vectors: bool
    squared: bool
    count: int = 0
    linked: bool = False

    def __post_init__(self) -> None:
        self._rows: dict[str, Array] = {}
        self.child_from = np.zeros(1, np.int64)
        self.children: Nodes = np.zeros(0, np.int32)
        self.pilots: Nodes = np.zeros(0, np.int32)
        self.bounds = np.zeros(2, np.float32)
        self.centre = np.zeros(0, np.float32)
        self.version = 0
        self._places: Nodes | None = None
        codes, _ = encode(np.zeros((0, self.dimension), np.float32), self.kind)
        self._bytes = codes.shape[1] if self.kind != "float32" else 4 * self.dimension
        for name in _ROWS:
            self._rows[name] = np.zeros(self._shape(name, 0), _TYPES[name])

    def _shape(self, name: str, n: int) -> tuple[int, ...]:
        """What the array of n nodes is shaped like."""
        raw = self.kind == "float32"
        return {
            "vectors": (n if self.keep_vectors or raw else 0, self.dimension),
            "codes": (0 if raw else n, self._bytes),
            "scales": (n if self.kind == "int8" else 0,),
            "norms": (n if self.squared else 0,),
            "links": (n if self.linked else 0, self.width),
            "sketches": (n if self.linked and len(self.centre) else 0, sketch_bytes(self.dimension)),
        }.get(name, (n,))

    def __getattr__(self, name: str) -> Array:
        if name not in _ROWS:
            raise AttributeError(name)
        array = self._rows[name][: self._shape(name, self.count)[0]]
        if name == "codes" and self.kind == "float32":
            return self.vectors.view(np.uint8)
        return array

    @property
    def rows(self) -> Nodes:
        """The living nodes."""
        return np.flatnonzero(self.alive).astype(np.int32)

    @property
    def length(self) -> int:
        """Elements per code, padding included."""
        return self._bytes // {"int8": 1, "float16": 2, "float32": 4}[self.kind]

    def floats(self, rows: Any = slice(None)) -> Matrix:
        """Vectors in float32: the original ones where they were kept."""
        if len(self.vectors) == self.count:
            vectors: Matrix = self.vectors[rows]
            return vectors
        scales = self.scales[rows] if len(self.scales) else self.scales
        return decode(np.ascontiguousarray(self.codes[rows]), scales, self.kind, self.dimension)

    def mean(self) -> Matrix:
        """The mean of the living nodes' vectors, of which there must be one."""
        rows = self.rows
        sums = [
            self.floats(rows[at : at + _BLOCK]).sum(axis=0, dtype=np.float64)
            for at in range(0, len(rows), _BLOCK)
        ]
        mean: Matrix = (np.sum(sums, axis=0) / len(rows)).astype(np.float32)
        return mean

    @property
    def places(self) -> Nodes:
        """The place of each id."""
        if self._places is None or len(self._places) != self.count:
            self._places = np.empty(self.count, np.int32)
            self._places[self.ids] = np.arange(self.count, dtype=np.int32)
        return self._places

    def append(self, vectors: Matrix, order: Nodes | None = None) -> Nodes:
        """Give new vectors the next places, alive and without links; in an order other than their own."""
        before, after = self.count, self.count + len(vectors)
        ids = np.arange(before, after) if order is None else before + order
        self._grow(after)
        first: dict[str, Array | int] = {"alive": 1, "sketches": 0, "ids": ids, "down": -1, "links": -1}
        for name, value in first.items():
            self._put(name, before, after, value)
        for at in range(0, len(vectors), _BLOCK):  # a copy of all in another order would double the memory
            block = vectors[at : at + _BLOCK] if order is None else vectors[order[at : at + _BLOCK]]
            codes, scales = encode(block, self.kind)
            norms = np.einsum("ij,ij->i", block, block)
            for name, value in {"codes": codes, "scales": scales, "vectors": block, "norms": norms}.items():
                self._put(name, before + at, before + at + len(block), value)
        self.child_from = np.append(self.child_from, np.repeat(self.child_from[-1:], len(vectors)))
        self.count = after
        self._measure(before)
        self.version += 1
        return np.arange(before, after, dtype=np.int32)

    def _put(self, name: str, start: int, end: int, value: Array | int) -> None:
        """Write the rows of some nodes, where the array has a row for each."""
        if self._shape(name, end)[0]:
            self._rows[name][start:end] = value

    def _measure(self, before: int) -> None:
        longest = 0.0
        for at in range(before, self.count, _BLOCK):
            block = self.floats(slice(at, min(at + _BLOCK, self.count)))
            longest = max(longest, float(np.einsum("ij,ij->i", block, block).max()) ** 0.5)
        coarsest = float(self.scales[before:].max(initial=0))
        self.bounds = np.maximum(self.bounds, np.array([coarsest, longest], np.float32))

    def _grow(self, n: int, names: Sequence[str] = _ROWS) -> None:
        for name in names:
            array = self._rows[name]
            wanted = self._shape(name, n)
            if len(array) < wanted[0] or not array.flags.writeable:
                spare = int(self.count * _SPARE) if wanted[0] else 0
                self._rows[name] = larger = aligned((max(wanted[0], spare), *wanted[1:]), _TYPES[name])
                larger[: len(array)] = array[: len(larger)]

    def start_sketches(self) -> None:
        """Make room for sketches of a layer with links, around the mean that it has now."""
        self.centre = self.mean()
        room = (len(self._rows["alive"]), sketch_bytes(self.dimension))
        self._rows["sketches"] = aligned(room, np.uint8)

    def start_links(self) -> None:
        """Make room for links."""
        self.linked = True
        self._rows["links"] = aligned((len(self._rows["alive"]), self.width), np.int32)
        self._rows["links"][:] = -1

    def forget_links(self) -> None:
        """Give up links and sketches."""
        self.linked = False
        self.centre = np.zeros(0, np.float32)

    def bury(self, rows: Nodes) -> None:
        """Mark nodes as deleted, in a copy: searches that run may read the old one."""
        alive = self._rows["alive"].copy()
        alive[rows] = 0
        self._rows["alive"] = alive
        self.version += 1

    def copy(self) -> Layer:
        """The same layer, of which nothing is written until it has been copied."""
        other = copy(self)
        other._rows = {name: array.view() for name, array in self._rows.items()}
        for array in other._rows.values():
            array.setflags(write=False)
        return other

    def keep(self, places: NDArray[np.int64], below: Nodes, room: int = 0) -> Nodes:
        """Give up all nodes but those in some places, which keep their links and lose their children.

        Parameters
        ----------
        places
            In the order that the nodes have from now on; their numbers are their places.
        below
            The new place of each place of the layer below, or -1, for the links `down`.
        room
            So many nodes will be added.

        Returns
        -------
        The new place of each place, or -1.
        """
        if not len(places):
            self.forget_links()  # else it would be stored with a centre and without sketches
        moved = np.full(self.count, -1, np.int32)
        moved[places] = np.arange(len(places), dtype=np.int32)
        down = self.down[places]
        rows = {"links": _followed(self.links[places], moved) if self.linked else self.links}
        rows |= {
            "ids": np.arange(len(places)),
            "down": np.where(down < 0, -1, below[down] if len(below) else -1),
        }
        kept = {
            name: rows.get(name, getattr(self, name))
            for name in _ROWS
            if name != "codes" or self.kind != "float32"
        }
        for name, array in kept.items():
            size = len(places) if len(array) else 0
            self._rows[name] = aligned((size + room if size else 0, *array.shape[1:]), _TYPES[name])
            if name in rows:
                self._rows[name][:size] = array
            elif size:
                np.take(array, places, axis=0, out=self._rows[name][:size], mode="clip")
        self.pilots = moved[self.pilots][moved[self.pilots] >= 0]
        self.child_from, self.children = np.zeros(len(places) + 1, np.int64), np.zeros(0, np.int32)
        self.count = len(places)
        self._places = None
        self.version += 1
        return moved

    def renumber(self, ids: NDArray[np.int64]) -> None:
        """Give the node in each place another number."""
        self._rows["ids"][: self.count] = ids
        self._places = None

    def own(self, *names: str) -> None:
        """Copy what is read-only and about to be written: some arrays of nodes, or all."""
        self._grow(self.count, names or _ROWS)

    def pairs(self) -> Array:
        """The links to children as pairs (node, child)."""
        nodes = np.repeat(np.arange(self.count), np.diff(self.child_from))
        return np.stack([nodes, self.children.astype(np.int64)], axis=1)

    def set_children(self, pairs: Array) -> None:
        """Replace the links to children; a pair that is given twice counts once."""
        pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
        span = int(pairs[:, 1].max(initial=0)) + 1
        keys = distinct(pairs[:, 0] * span + pairs[:, 1])
        counts = np.bincount(keys // span, minlength=self.count)
        self.child_from = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.children = (keys % span).astype(np.int32)

    def arrays(self) -> dict[str, Array]:
        """Everything that has to be kept, by name; copied by whoever goes on changing the layer."""
        kept = {name: getattr(self, name) for name in _TYPES}
        if self.kind == "float32":
            del kept["codes"]
        return kept

    def load(self, arrays: dict[str, Array], name: str, below: Array) -> None:
        """Take arrays from a file, none of them trusted; `below` tells who lives in the layer below."""
        for key in ("alive", "links", "centre"):
            if key not in arrays or arrays[key].ndim == 0:
                raise Damaged(f"array '{name}.{key}' is missing")
        self.count = len(arrays["alive"])
        self.linked = len(arrays["links"]) > 0
        self.centre = arrays["centre"]
        for key, dtype in _TYPES.items():
            if key == "codes" and self.kind == "float32":
                continue
            array = arrays.get(key)
            if array is None:
                raise Damaged(f"array '{name}.{key}' is missing")
            dimensions = len(self._shape(key, 0)) if key in _ROWS else 1
            if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
                raise Damaged(
                    f"array '{name}.{key}' is {array.dtype} {array.shape}, not {np.dtype(dtype)} "
                    f"of {dimensions} dimension(s) in C order"
                )
            if key in _ROWS:
                if array.shape != self._shape(key, self.count):
                    raise Damaged(
                        f"array '{name}.{key}' has shape {array.shape}, not {self._shape(key, self.count)}"
                    )
                self._rows[key] = array
            else:
                setattr(self, key, array)
        try:
            self._check(name, below)
        except ValueError as error:
            raise Damaged(str(error)) from error

    def _check(self, name: str, below: Array) -> None:
        """Every number that is followed as a link must lead to a living node."""
        check_borders(self.child_from, f"{name}.child_from", len(self.children), self.count)
        for key, end, least in [
            ("links", self.count, -1),
            ("down", len(below), -1),
            ("children", len(below), 0),
            ("pilots", self.count, 0),
            ("alive", 2, 0),
            ("ids", self.count, 0),
        ]:
            check_range(getattr(self, key), f"{name}.{key}", end, start=least)
        if not (np.bincount(self.ids, minlength=self.count) == 1).all():
            raise ValueError(f"array '{name}.ids' does not hold every number from 0 to {self.count - 1} once")
        check_layout(self.bounds, f"{name}.bounds", np.float32, (2,))
        centre = (self.dimension if len(self.sketches) else 0,)
        check_layout(self.centre, f"{name}.centre", np.float32, centre)
        for key in ("scales", "norms", "bounds", "centre"):
            check_finite(getattr(self, key), f"{name}.{key}")
        for key, alive in [
            ("links", self.alive),
            ("down", below),
            ("children", below),
            ("pilots", self.alive),
        ]:
            if not alive.all() and not np.append(alive, 1)[getattr(self, key)].all():  # -1 is no link
                raise ValueError(f"array '{name}.{key}' names deleted nodes")
        if self.alive.any() and not len(self.pilots):
            raise ValueError(f"array '{name}.pilots' is empty, and the layer is not")


def _followed(links: Nodes, moved: Nodes) -> Nodes:
    """Links to where nodes have moved, without those to nodes that are gone."""
    known = links >= 0
    found = np.where(known, moved[links], -1)
    lost = np.flatnonzero((known & (found < 0)).any(axis=1))
    order = np.argsort(found[lost] < 0, axis=1, kind="stable")
    found[lost] = np.take_along_axis(found[lost], order, axis=1)
    return found.astype(np.int32)
