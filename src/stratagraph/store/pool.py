"""Vectors of a generation in segments, each stored once: as float16, read as float32.

A unit vector loses about three digits of seven as float16. Fewer than one in five hundred of the ten nearest
chunks of exact search change (`cookbook/benchmarks/updates.py --recall`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stratagraph.kernels.float16 import HalfVectors
from stratagraph.store.arrays import Arrays
from stratagraph.store.segments import FileWriter, KeyIndex, Keys, planned, segment_file
from stratagraph.system.locks import cached_property
from stratagraph.types.built import CarriedVectors
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.records import content_keys

FOLDER = "vectors"
HALVES, HASHES = "vectors", "hashes"
"""Arrays of a segment: the vectors, and 64 bits that stand for each."""
FEWEST = 256
"""Vectors in a new segment, if there are enough."""
MOST_SEGMENTS = 512
"""Segments of all vectors, if each then has that many. An update rewrites a segment that loses vectors."""
HELD = 1 << 13
"""Vectors of the largest array that stays in memory as float32 once it was read whole."""
_BATCH = 1 << 14

Halves = NDArray[np.float16]


class Pool:
    """The vectors of a generation by slot.

    `segments` and `hashes` have the vectors of each segment, and 64 bits that stand for each; `files` are
    their names, or none if the vectors are not all written. The slots of `base` begin this pool.
    """

    def __init__(
        self,
        files: Sequence[str],
        segments: Sequence[Halves],
        hashes: Sequence[Keys],
        dimension: int,
        base: Pool | None = None,
    ) -> None:
        self.files = tuple(files)
        self.segments = list(segments)
        self.hashes = list(hashes)
        self.dimension = dimension
        self.base = base
        self.starts = np.cumsum([0, *map(len, segments)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def array(self, slots: NDArray[np.integer], name: str = "") -> Vectors:
        """The vectors at these slots, read on demand. A vector store filters by the `name` of the array."""
        return cast(Vectors, PooledVectors(self, slots, name))

    def halves(self, slots: NDArray[np.integer]) -> Halves:
        """The vectors at some slots as stored, shape (slots, dimension); `IndexError` for an unknown slot."""
        vectors = np.empty((len(slots), self.dimension), np.float16)
        if not len(slots):
            return vectors
        if int(slots.min()) < 0 or int(slots.max()) >= len(self):
            raise IndexError(f"there are {len(self)} vectors, and no number {int(slots.max())}")
        segments = np.searchsorted(self.starts, slots, "right") - 1
        order = np.argsort(segments, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(segments[order])) + 1):
            number = int(segments[places[0]])
            vectors[places] = self.segments[number][slots[places] - self.starts[number]]
        return vectors

    @cached_property
    def vectors(self) -> HalfVectors:
        """What reads and multiplies them by slots."""
        return HalfVectors(
            [np.ascontiguousarray(each).view(np.uint16) for each in self.segments], self.dimension
        )

    def take(self, slots: NDArray[np.integer], out: Vectors | None = None) -> Vectors:
        """The vectors at some slots, shape (slots, dimension), float32, written to `out` if given."""
        try:
            return self.vectors.rows(slots.astype(np.int64, copy=False), out)
        except ValueError:
            raise IndexError(f"there are {len(self)} vectors, and not all of the numbers given") from None

    def pair_products(self, one: NDArray[np.integer], two: NDArray[np.integer]) -> NDArray[np.float32]:
        """Inner products of vectors at corresponding slots."""
        return self.vectors.pair_products(one.astype(np.int64, copy=False), two.astype(np.int64, copy=False))


class PooledVectors:
    """An array of vectors in a pool. A slice is read on demand too, other indices at once."""

    def __init__(self, pool: Pool, slots: NDArray[np.integer], name: str = "") -> None:
        self.pool = pool
        self.slots = slots
        self.name = name
        self.shape = (len(slots), pool.dimension)
        self.dtype = np.dtype(np.float32)
        self.ndim = 2
        self._held: Vectors | None = None

    def __len__(self) -> int:
        return len(self.slots)

    def __getitem__(self, rows: Any) -> Any:
        if self._held is not None:
            return self._held[rows]
        if isinstance(rows, slice):
            return self.pool.array(self.slots[rows], self.name)
        if isinstance(rows, tuple):
            return self[rows[0]][(slice(None), *rows[1:])] if np.ndim(rows[0]) else self[rows[0]][rows[1:]]
        slots = self.slots[rows]
        return self.pool.take(np.atleast_1d(slots)).reshape(*np.shape(slots), self.pool.dimension)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if self._held is None:
            vectors = self.pool.take(self.slots)
            if len(vectors) > HELD:
                return vectors if dtype is None else vectors.astype(dtype, copy=False)
            vectors.flags.writeable = False
            self._held = vectors
        held = self._held if dtype is None else self._held.astype(dtype, copy=False)
        return held.copy() if copy else held

    def alike(self, rows: Rows, other: Vectors, places: Rows) -> NDArray[np.bool_]:
        """Whether rows have the slots of rows of another array, and so equal them.

        Always False if the arrays are not of one generation, or of one and the next.
        """
        if not isinstance(other, PooledVectors) or other.pool not in (self.pool, self.pool.base):
            return np.zeros(len(rows), np.bool_)
        return np.asarray(self.slots[rows] == other.slots[places])

    def products(self, query: Vectors, rows: Rows) -> NDArray[np.float32]:
        """Inner products of a query of shape (dimension,) with chosen rows, computed in place."""
        return self.pool.vectors.products(query, self.slots[rows].astype(np.int64))

    def pair_products(self, one: Rows, two: Rows) -> NDArray[np.float32]:
        """Inner products of corresponding rows, computed in place."""
        return self.pool.pair_products(self.slots[one], self.slots[two])

    def blocks(self, size: int) -> Iterator[tuple[int, Vectors]]:
        """First row of each block, and the block, which is valid until the next."""
        out = np.empty((min(size, len(self)), self.pool.dimension), np.float32)
        for start in range(0, len(self), size):
            yield start, self.pool.take(self.slots[start : start + size], out)


class PoolWriter:
    """Collects the vectors of a new generation, and writes those that `base`, the previous one, lacks.

    The vectors of `base` must lie here: those of a vector store were downloaded.
    """

    def __init__(self, base: Pool | None, dimension: int) -> None:
        self._base = base if base is not None and base.dimension == dimension else Pool((), (), (), dimension)
        self._before = len(self._base)
        self._index = KeyIndex(np.concatenate([_NONE, *self._base.hashes]))
        self._fresh: list[Halves] = []
        self._hashes: list[Keys] = []
        self._order: list[Rows] = []
        self._count = self._before  # slots in `base`, and of new vectors
        self._slots: dict[tuple[str, str], Rows] = {}
        self.dimension = dimension

    def put(self, part: str, name: str, vectors: Vectors, order: Rows) -> Vectors:
        """Add an array of a part. `order` sorts new vectors, so that those of one place lie together.

        An array of float16 is not copied, and must not change. Returns the vectors as they will be read.
        """
        if isinstance(vectors, CarriedVectors) and self._is_base(vectors.before):
            slots = np.full(len(vectors), -1, np.int64)
            new = vectors.rows_before < 0
            slots[~new] = vectors.before.slots[vectors.rows_before[~new]]
            slots[new] = self._interned(vectors.fresh, order[new])
        elif self._is_base(vectors):
            slots = np.asarray(cast(PooledVectors, vectors).slots, np.int64)
        else:
            batches = (slice(start, start + _BATCH) for start in range(0, len(vectors), _BATCH))
            interned = (self._interned(np.asarray(vectors[some]), order[some]) for some in batches)
            slots = np.concatenate([np.zeros(0, np.int64), *interned])
        self._slots[part, name] = slots
        return self._all().array(slots)

    def _all(self) -> Pool:
        """The vectors of the previous generation, then the new ones."""
        segments, hashes = [*self._base.segments, *self._fresh], [*self._base.hashes, *self._hashes]
        return Pool((), segments, hashes, self.dimension, self._base)

    def _is_base(self, vectors: object) -> bool:
        return isinstance(vectors, PooledVectors) and vectors.pool is self._base

    def _interned(self, vectors: Vectors, order: Rows) -> Rows:
        """The slots of vectors, each of which is stored once."""
        halves = np.ascontiguousarray(vectors, np.float16)
        hashes = hashes_of(halves)
        slots = self._index.find(hashes)
        missing = np.flatnonzero(slots < 0)
        keys, firsts = np.unique(hashes[missing], return_index=True)
        by_arrival = np.argsort(firsts)
        fresh = missing[firsts[by_arrival]]
        self._index.add(keys[by_arrival], self._count + np.arange(len(fresh)))
        slots[missing] = self._index.find(hashes[missing])
        self._count += len(fresh)
        self._fresh.append(halves if len(fresh) == len(halves) else halves[fresh])
        self._hashes.append(hashes[fresh])
        self._order.append(order[fresh])
        return slots

    def write(
        self,
        writer: FileWriter,
        *,
        hashes_alone: bool = False,
        out_of_use: float = 0.0,
        compact: bool = False,
    ) -> None:
        """Write the new segments and link the others (`segments.planned`).

        With `hashes_alone` no vectors are written, because a vector store holds them.
        """
        used = np.zeros(self._count, np.bool_)
        for slots in self._slots.values():
            used[slots] = True
        order = np.argsort(np.concatenate([np.zeros(0, np.int64), *self._order]), kind="stable")
        sizes, limits = list(map(len, self._base.hashes)), {"fewest": FEWEST, "most": MOST_SEGMENTS}
        plan = planned(sizes, used, order, **limits, out_of_use=out_of_use, compact=compact)
        self._all_slots, every = plan.slots, self._all()
        # For each new slot, the number among the previous vectors followed by the new ones.
        had = np.flatnonzero(plan.slots >= 0)
        self._places = had[np.argsort(plan.slots[had])]

        def segments() -> Iterator[tuple[str, Arrays]]:
            for number, moved in enumerate(plan.moved):
                halves = every.halves(moved)
                vectors = {} if hashes_alone else {HALVES: halves}
                yield segment_file(writer.number, number), {**vectors, HASHES: hashes_of(halves)}

        writer.write(FOLDER, segments())
        writer.share(FOLDER, [self._base.files[number] for number in plan.kept])

    def hashes(self) -> Keys:
        """After `write`: the hash of each vector, by slot."""
        return np.concatenate([_NONE, *self._all().hashes])[self._places]

    def halves(self, slots: Rows) -> Halves:
        """After `write`: the vectors at some slots."""
        return self._all().halves(self._places[slots])

    def slots(self) -> dict[str, dict[str, NDArray[np.uint32]]]:
        """After `write`: the slots of each array, by part and name."""
        slots_of: dict[str, dict[str, NDArray[np.uint32]]] = {}
        for (part, name), slots in self._slots.items():
            slots_of.setdefault(part, {})[name] = self._all_slots[slots].astype(np.uint32)
        return slots_of


_NONE: Keys = np.zeros(0, np.uint64)


def zero_hash(dimension: int) -> np.uint64:
    """The hash of the zero vector."""
    hashed: np.uint64 = hashes_of(np.zeros((1, dimension), np.float16))[0]
    return hashed


def hashes_of(halves: Halves) -> Keys:
    """64 bits for each vector, from its bytes."""
    rows = np.ascontiguousarray(halves)
    return content_keys(row.tobytes() for row in rows)
