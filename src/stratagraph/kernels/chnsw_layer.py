"""One layer of C-HNSW: its arrays, their int8 codes, and the checks of stored ones."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.kernels.checks import check_borders, check_finite, check_layout, check_range
from stratagraph.kernels.ranges import borders, distinct

Matrix = NDArray[np.float32]
Nodes = NDArray[np.int32]
Places = NDArray[np.int64]
Array = NDArray[Any]
Kind = Literal["int8", "float32"]

_LINE = 64  # bytes of a cache line
_LARGEST_CODE = 127
_TINY = 1e-30  # vectors of smaller values are coded as zero: their scale would not be a normal number
_BLOCK = 16_384


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros that start at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + _LINE, dtype=np.uint8)
    start = -raw.ctypes.data % _LINE
    array: Array = raw[start : start + size].view(dtype).reshape(shape)
    return array


def encode(vectors: Matrix) -> tuple[Array, Matrix]:
    """Int8 codes of vectors as bytes, rows padded with zeros to 64 bytes, and the scale of each vector.

    A vector is its code times its scale, within half a scale.
    """
    n, dimension = vectors.shape
    codes = aligned((n, -(-dimension // _LINE) * _LINE), np.int8)
    scales = np.ones(n, np.float32)
    for at in range(0, n, _BLOCK):
        block = vectors[at : at + _BLOCK]
        largest = np.maximum(block.max(axis=1), -block.min(axis=1))
        scales[at : at + _BLOCK] = np.where(largest > _TINY, largest / np.float32(_LARGEST_CODE), 1)
        scaled = block / scales[at : at + _BLOCK, None]
        codes[at : at + _BLOCK, :dimension] = np.rint(scaled, out=scaled)
    return codes.view(np.uint8), scales


# The arrays with one row per node; `keep` leaves room for more at the end.
_ROWS = ("vectors", "codes", "scales", "links", "down", "alive", "ids")
_TYPES = {
    "vectors": np.float32,
    "codes": np.uint8,
    "scales": np.float32,
    "links": np.int32,
    "down": np.int32,
    "alive": np.uint8,
    "ids": np.int32,
    "child_from": np.int64,
    "children": np.int32,
    "pilots": np.int32,
    "bounds": np.float32,
}


@dataclass
class Layer:
    """The arrays of one layer.

    Every node has a place, which is its row in these arrays; a deleted node keeps its place. Links, children
    and pilots are places. `ids` are the numbers by which callers know the nodes, and `places` is the inverse.

    - `links`: neighbours of each node, shape (n, width), ended by -1
    - `down`: nearest node of the layer below, or -1
    - `children[child_from[i]:child_from[i + 1]]`: children of node i in the layer below
    - `pilots`: entries where no better ones are known; links lead from the first one to every node
    - `bounds`: the largest scale and the length of the longest vector, which bound the rounding error

    An array that the options do not need has no rows.
    """

    kind: Kind
    dimension: int
    width: int
    keep_vectors: bool
    count: int = 0
    linked: bool = False

    def __post_init__(self) -> None:
        self.child_from = np.zeros(1, np.int64)
        self.children: Nodes = np.zeros(0, np.int32)
        self.pilots: Nodes = np.zeros(0, np.int32)
        self.bounds = np.zeros(2, np.float32)
        self._places: Nodes | None = None
        self._rows: dict[str, Array] = {name: np.zeros(self._shape(name, 0), _TYPES[name]) for name in _ROWS}

    def _shape(self, name: str, n: int) -> tuple[int, ...]:
        """Shape of an array of n nodes."""
        coded = self.kind == "int8"
        width = -(-self.dimension // _LINE) * _LINE if coded else 4 * self.dimension
        return {
            "vectors": (n if self.keep_vectors or not coded else 0, self.dimension),
            "codes": (n if coded else 0, width),
            "scales": (n if coded else 0,),
            "links": (n if self.linked else 0, self.width),
        }.get(name, (n,))

    def __getattr__(self, name: str) -> Array:
        if name not in _ROWS:
            raise AttributeError(name)
        if name == "codes" and self.kind == "float32":
            return self.vectors.view(np.uint8)
        return self._rows[name][: self._shape(name, self.count)[0]]

    @property
    def rows(self) -> Nodes:
        """The places of the living nodes."""
        return np.flatnonzero(self.alive).astype(np.int32)

    def floats(self, rows: Any = slice(None)) -> Matrix:
        """Vectors in float32: the original ones where they were kept, else as their codes say."""
        vectors: Matrix
        if len(self.vectors) == self.count:
            vectors = self.vectors[rows]
        else:
            vectors = self.codes[rows].view(np.int8)[:, : self.dimension] * self.scales[rows][:, None]
        return vectors

    def kth_scores(self, queries: Matrix, k: int) -> Matrix:
        """The k-th best score of each query among the living nodes (of fewer, the least), shape (m,)."""
        rows = self.rows
        vectors = self.floats() if len(rows) == self.count else self.floats(rows)
        k = min(k, len(rows))
        kth = np.empty(len(queries), np.float32)
        for at in range(0, len(queries), 16):
            scores = vectors @ queries[at : at + 16].T
            kth[at : at + 16] = -np.partition(-scores, k - 1, axis=0)[k - 1]
        return kth

    @property
    def places(self) -> Nodes:
        """The place of each id."""
        if self._places is None or len(self._places) != self.count:
            self._places = np.empty(self.count, np.int32)
            self._places[self.ids] = np.arange(self.count, dtype=np.int32)
        return self._places

    def append(self, vectors: Matrix) -> Nodes:
        """Give new vectors the next places, alive and without links."""
        before, after = self.count, self.count + len(vectors)
        self._grow(after)
        first: dict[str, Array | int] = {"alive": 1, "ids": np.arange(before, after), "down": -1, "links": -1}
        for name, value in first.items():
            self._put(name, before, after, value)
        for at in range(0, len(vectors), _BLOCK):
            block = vectors[at : at + _BLOCK]
            start, end = before + at, before + at + len(block)
            self._put("vectors", start, end, block)
            if self.kind == "int8":
                codes, scales = encode(block)
                self._put("codes", start, end, codes)
                self._put("scales", start, end, scales)
        self.child_from = np.append(self.child_from, np.repeat(self.child_from[-1:], len(vectors)))
        self.count = after
        self._measure(before)
        return np.arange(before, after, dtype=np.int32)

    def _put(self, name: str, start: int, end: int, value: Array | int) -> None:
        """Write the rows of some nodes, if the array has a row for each."""
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
                self._rows[name] = larger = aligned(wanted, _TYPES[name])
                larger[: len(array)] = array[: len(larger)]

    def start_links(self) -> None:
        """Make room for links."""
        self.linked = True
        self._rows["links"] = aligned((len(self._rows["alive"]), self.width), np.int32)
        self._rows["links"][:] = -1

    def bury(self, rows: Nodes) -> None:
        """Mark nodes as deleted, in a copy, since a search that runs may read the array."""
        alive = self._rows["alive"].copy()
        alive[rows] = 0
        self._rows["alive"] = alive

    def copy(self) -> Layer:
        """The same layer; an array is copied when one of the two is about to write it."""
        other = copy(self)
        other._rows = {name: array.view() for name, array in self._rows.items()}
        for array in other._rows.values():
            array.setflags(write=False)
        return other

    def keep(self, places: Places, below: Nodes, room: int = 0) -> Nodes:
        """Keep some nodes and their links in a new order, which is also that of ids, without children.

        `below` gives the new place of each place of the layer below, or -1; `room` nodes will follow.
        Returns the new place of each place, or -1.
        """
        moved = np.full(self.count, -1, np.int32)
        moved[places] = np.arange(len(places), dtype=np.int32)
        down = self.down[places]
        rows = {"links": _followed(self.links[places], moved) if self.linked else self.links}
        rows |= {
            "ids": np.arange(len(places)),
            "down": np.where(down < 0, -1, below[down] if len(below) else -1),
        }
        names = [name for name in _ROWS if name != "codes" or self.kind == "int8"]
        for name, array in {name: rows.get(name, getattr(self, name)) for name in names}.items():
            size = len(places) if len(array) else 0
            self._rows[name] = aligned((size + room if size else 0, *array.shape[1:]), _TYPES[name])
            if name in rows:
                self._rows[name][:size] = array
            elif size:
                np.take(array, places, axis=0, out=self._rows[name][:size], mode="clip")
        self.pilots = moved[self.pilots][moved[self.pilots] >= 0]
        self.child_from, self.children = np.zeros(len(places) + 1, np.int64), np.zeros(0, np.int32)
        self.count = len(places)
        self.linked = self.linked and self.count > 0
        self._places = None
        return moved

    def renumber(self, ids: Places) -> None:
        """Give the node in each place another id."""
        self._rows["ids"][: self.count] = ids
        self._places = None

    def own(self, *names: str) -> None:
        """Copy read-only arrays that are about to be written: the named ones, or all."""
        self._grow(self.count, names or _ROWS)

    def pairs(self) -> Array:
        """The links to children as pairs (node, child), shape (links, 2)."""
        nodes = np.repeat(np.arange(self.count), np.diff(self.child_from))
        return np.stack([nodes, self.children.astype(np.int64)], axis=1)

    def set_children(self, pairs: Array) -> None:
        """Replace the links to children; repeated pairs count once."""
        pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
        span = int(pairs[:, 1].max(initial=0)) + 1
        keys = distinct(pairs[:, 0] * span + pairs[:, 1])
        counts = np.bincount(keys // span, minlength=self.count)
        self.child_from = borders(counts)
        self.children = (keys % span).astype(np.int32)

    def arrays(self) -> dict[str, Array]:
        """The arrays to store, by name."""
        return {name: getattr(self, name) for name in _TYPES if name != "codes" or self.kind == "int8"}

    def load(self, arrays: dict[str, Array], name: str, below: Array) -> None:
        """Take stored arrays after checking them; `below` is `alive` of the layer below."""
        for key in ("alive", "links"):
            if key not in arrays or arrays[key].ndim == 0:
                raise Damaged(f"array '{name}.{key}' is missing")
        self.count = len(arrays["alive"])
        self.linked = len(arrays["links"]) > 0
        for key, dtype in _TYPES.items():
            if key == "codes" and self.kind == "float32":
                continue
            if key not in arrays:
                raise Damaged(f"array '{name}.{key}' is missing")
            array = arrays[key]
            dimensions = len(self._shape(key, 0)) if key in _ROWS else 1
            if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
                raise Damaged(
                    f"array '{name}.{key}' is {array.dtype} {array.shape}, not {np.dtype(dtype)} "
                    f"of {dimensions} dimension(s) in C order"
                )
            if key not in _ROWS:
                setattr(self, key, array)
                continue
            if array.shape != self._shape(key, self.count):
                raise Damaged(
                    f"array '{name}.{key}' has shape {array.shape}, not {self._shape(key, self.count)}"
                )
            self._rows[key] = array
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
        for key in ("scales", "bounds"):
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
    """Links between new places, without those to dropped nodes."""
    linked = links >= 0
    followed = np.where(linked, moved[links], -1)
    lost = np.flatnonzero((linked & (followed < 0)).any(axis=1))
    order = np.argsort(followed[lost] < 0, axis=1, kind="stable")
    followed[lost] = np.take_along_axis(followed[lost], order, axis=1)
    return followed.astype(np.int32)
