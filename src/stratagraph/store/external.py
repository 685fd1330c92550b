"""Vectors in a vector store, instead of in the folder's segments.

Hits of the store are scored again with the vectors that were written, since the scores of stores mean
different things. Vectors that were read are kept in memory up to a bound.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import VectorStoreError, VectorStoreStale
from stratagraph.kernels.float16 import HalfVectors
from stratagraph.kernels.topk import TopK, top_k
from stratagraph.store.pool import Halves, Pool, PooledVectors, hashes_of
from stratagraph.store.rows import BATCH, Fields, TableRows
from stratagraph.store.segments import KeyIndex, Keys
from stratagraph.system.locks import Lock, cached_property
from stratagraph.types.built import DOCUMENT_FIELD, KIND_FIELD
from stratagraph.types.protocols import Rows, Vectors

HELD = 1 << 28
"""Bytes of vectors that are kept in memory once they were read."""
SPARE = 16
"""Rows that are asked for beside those wanted: a store may round, or miss some."""
MOST_ASKED = 10_000
"""Rows that a store is asked for at most; many refuse more."""
MOST_READ = 20_000
"""Vectors that are read one by one at most, where a search does not find enough of them."""
MOST_DOCUMENTS = 512
"""Documents that are named to a store at most, to have it look at their passages alone."""
_GROWTH = 4
_TIES = 2  # times that more is asked for, to have all equals of the last
_ROUNDING = 1e-6
_PAIRS = 1 << 10  # read at a time


class ExternalPool(Pool):
    """The vectors of a generation in a vector store (`rows`), by slot; the folder has the hash of each."""

    def __init__(self, files: Sequence[str], hashes: Sequence[Keys], rows: TableRows) -> None:
        super().__init__(files, (), hashes, rows.dimension)
        self.starts = np.cumsum([0, *map(len, hashes)])
        self.rows = rows
        self._fields: Fields | None = None
        self._local: Halves | None = None
        self._memory = _VectorCache(len(self), rows.dimension)
        self._zero = hashes_of(np.zeros((1, rows.dimension), np.float16))[0]
        self._told = False

    def describe(self, fields: Fields) -> None:
        """Set the fields of the rows; without them nothing can be found."""
        self._fields = fields

    @property
    def fields(self) -> Fields:
        """The fields of the rows, beside the vectors."""
        if self._fields is None:
            raise RuntimeError("call describe() first")
        return self._fields

    @cached_property
    def all_hashes(self) -> Keys:
        """Of the vectors, shape (slots,)."""
        return np.concatenate([np.zeros(0, np.uint64), *self.hashes])

    @cached_property
    def keys(self) -> Keys:
        """Keys of the rows, shape (slots,). A zero vector has a key but no row."""
        return self.fields.keys(self.all_hashes)

    @property
    def stored(self) -> NDArray[np.bool_]:
        """Whether each slot has a row, shape (slots,); zero vectors have none, since they have no angle."""
        return np.asarray(self.all_hashes != self._zero)

    @cached_property
    def _index(self) -> KeyIndex:
        return KeyIndex(self.keys)

    def slots_of(self, keys: Sequence[int]) -> Rows:
        """The slot of each row, -1 for rows of other generations."""
        return self._index.find(np.array(keys, np.uint64))

    def halves(self, slots: NDArray[np.integer]) -> Halves:
        """The vectors at some slots, shape (slots, dimension), from memory or the store.

        Raises
        ------
        VectorStoreStale
            If a row is missing or not as it was written.
        """
        if self._local is not None:
            return cast(Halves, self._local[slots])
        if len(slots) and not 0 <= int(slots.min()) <= int(slots.max()) < len(self):
            raise IndexError(f"there are {len(self)} vectors, and no number {int(slots.max())}")
        needed, places = np.unique(slots, return_inverse=True)
        vectors, missing = self._memory.get(needed)
        if missing.size:
            vectors[missing] = self._read(needed[missing])
            self._memory.put(needed[missing], vectors[missing])
        return vectors[places]

    def take(self, slots: NDArray[np.integer], out: Vectors | None = None) -> Vectors:
        """The vectors at some slots as float32, shape (slots, dimension)."""
        return self.halves(slots).astype(np.float32)

    def pair_products(self, one: NDArray[np.integer], two: NDArray[np.integer]) -> NDArray[np.float32]:
        """Inner products of the vectors at some slots with those at as many others."""
        scores = np.empty(len(one), np.float32)
        for start in range(0, len(one), _PAIRS):
            some = slice(start, start + _PAIRS)
            scores[some] = np.einsum("ij,ij->i", self.take(one[some]), self.take(two[some]))
        return scores

    def _read(self, slots: Rows) -> Halves:
        vectors, wrong = self.read(slots)
        if wrong:
            raise VectorStoreStale(
                f"{self.rows.table.name} lacks {wrong} of {len(slots)} rows of the index, or holds others in "
                "their places. If another process has changed the index, reload() turns to its newest "
                "generation; otherwise verify(repair=True) puts back what is missing"
            )
        return vectors

    def require(self, slots: Rows) -> None:
        """Read rows from the store, not from memory; `VectorStoreStale` if one is missing or wrong."""
        self._read(slots)

    def read(self, slots: Rows) -> tuple[Halves, int]:
        """The vectors at some slots from the store, and the number of missing or wrong ones."""
        vectors = np.zeros((len(slots), self.dimension), np.float16)
        places = np.flatnonzero(self.stored[slots])
        keys = self.keys[slots[places]].tolist()
        read = self.rows.get(keys)
        for place, key in zip(places.tolist(), keys, strict=True):
            if len(vector := read.get(key, ())):
                vectors[place] = vector
        right = hashes_of(vectors[places]) == self.all_hashes[slots[places]]
        return vectors, int(np.count_nonzero(~right))

    def wrong_rows(self) -> int:
        """Number of missing or wrong rows; reads all."""
        starts = range(0, len(self), BATCH)
        return sum(self.read(np.arange(start, min(start + BATCH, len(self))))[1] for start in starts)

    def keep(self, pairs: Sequence[tuple[int, Halves]]) -> Rows:
        """Keep hits of a search in memory, and return the slots of those that are of this generation.

        Wrong vectors are not kept; reading them raises the error.
        """
        slots = self.slots_of([key for key, _ in pairs])
        whole = [
            place
            for place, (slot, (_, vector)) in enumerate(zip(slots.tolist(), pairs, strict=True))
            if slot >= 0 and len(vector)
        ]
        if whole:
            halves = np.stack([pairs[place][1] for place in whole])
            right = hashes_of(halves) == self.all_hashes[slots[whole]]
            self._memory.put(slots[whole][right], halves[right])
        return slots[slots >= 0]

    def download(self, folder: Path) -> None:
        """Read all vectors into an unnamed file in a folder; an update needs all of them."""
        if self._local is not None:
            return
        with tempfile.TemporaryFile(dir=folder) as file:
            shape = (max(len(self), 1), self.dimension)
            local: Halves = np.memmap(file, np.float16, "w+", shape=shape)
        for start in range(0, len(self), BATCH):
            slots = np.arange(start, min(start + BATCH, len(self)))
            local[slots] = self._read(slots)
        self._local = local[: len(self)]
        self.segments = [self._local]

    def release(self) -> None:
        """Drop the downloaded file."""
        self._local, self.segments = None, []

    @property
    def is_local(self) -> bool:
        """Whether all vectors are downloaded."""
        return self._local is not None

    def told_of_limit(self, given: int, asked: int) -> None:
        """Warn once that the store returns fewer hits than it is asked for."""
        if not self._told:
            self._told = True
            warnings.warn(
                f"{self.rows.table.name} gave {given} rows where {asked} were asked for and written: its "
                "index limits searches (of pgvector by hnsw.ef_search or ivfflat.probes), or rows are gone, "
                "as verify() tells. Vectors are read one by one instead, which is slower",
                RuntimeWarning,
                stacklevel=2,
            )


class ExternalVectors(PooledVectors):
    """An array of vectors in a vector store; `name` is its name in `Fields`."""

    pool: ExternalPool

    def __init__(self, pool: ExternalPool, slots: NDArray[np.integer], name: str) -> None:
        super().__init__(pool, slots)
        self.name = name

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice) and not self.pool.is_local:
            return ExternalVectors(self.pool, self.slots[rows], self.name)
        return super().__getitem__(rows)

    def products(self, query: Vectors, rows: Rows) -> NDArray[np.float32]:
        """Inner products of a query with chosen rows."""
        halves = self.pool.halves(self.slots[rows])
        return HalfVectors([halves.view(np.uint16)], self.pool.dimension).products(
            query, np.arange(len(rows))
        )

    def top_k(self, query: Vectors, k: int, mask: NDArray[np.bool_] | None) -> TopK:
        """The admitted rows with the largest inner products: searched in the store, scored here.

        Raises
        ------
        VectorStoreError
            If the store does not answer, or finds too few.
        """
        admitted = np.arange(len(self)) if mask is None else np.flatnonzero(mask)
        rows = self._candidates(query, k, admitted)
        halves = self.pool.halves(self.slots[rows])
        near = Pool((), [halves], (), self.pool.dimension)
        places, scores = top_k(cast(Vectors, PooledVectors(near, np.arange(len(rows)))), query, k)
        return rows[places], scores

    def _candidates(self, query: Vectors, k: int, admitted: Rows) -> Rows:
        wanted = k + SPARE
        if len(admitted) <= wanted or self.pool.is_local:
            return admitted
        where, share = self._where(admitted)
        count, ties = min(int(wanted / share) + 1, MOST_ASKED), 0
        while True:
            pairs, given = self.pool.rows.search(query, count, where)
            near = self._rows_of(self.pool.keep(pairs))
            rows = near[np.isin(near, admitted, assume_unique=True)]
            last = given < count or count == MOST_ASKED
            if len(rows) >= k:
                kth = np.sort(self.products(query, rows))[-k]
                worse_follow = self.products(query, near).min() < kth - _ROUNDING
                if last or ties == _TIES or worse_follow:  # else equals of the k-th may be missing
                    return rows
                ties += 1
            if last:
                break
            count = min(count * _GROWTH, MOST_ASKED)
        if len(admitted) > MOST_READ:
            raise VectorStoreError(
                f"{self.pool.rows.table.name} found {len(rows)} of the {k} vectors that are wanted among "
                f"{len(admitted)}, asked for {count}: raise what its index finds at most, or have it filter "
                f"by {', '.join(where)}"
            )
        if given < count:
            some = admitted[:: max(1, len(admitted) // SPARE)]
            self.pool.require(self.slots[some].astype(np.int64))
            self.pool.told_of_limit(given, count)
        return admitted

    def _where(self, admitted: Rows) -> tuple[dict[str, list[str]], float]:
        """The filter for the store, and the share of matching rows that is admitted.

        The filter names the admitted documents, which every store can compare. Hits are compared with what is
        really admitted.
        """
        fields = self.pool.fields
        if not self.pool.rows.table.filters:
            return {}, len(admitted) / len(self.pool)
        members = fields.members[self.name]
        where = {KIND_FIELD: [fields.kinds[place] for place in members.tolist()]}
        slots = fields.document[self.slots]
        documents = np.unique(slots[admitted])
        if len(documents) <= MOST_DOCUMENTS and len(documents) < len(np.unique(slots)):
            where[DOCUMENT_FIELD] = [fields.documents[place] for place in documents.tolist()]
            return where, len(admitted) / np.count_nonzero(np.isin(slots, documents))
        return where, len(admitted) / self._alike

    def _rows_of(self, slots: Rows) -> Rows:
        order, ordered = self._by_slot
        first, last = np.searchsorted(ordered, slots, "left"), np.searchsorted(ordered, slots, "right")
        parts = [order[start:end] for start, end in zip(first.tolist(), last.tolist(), strict=True)]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))

    @cached_property
    def _alike(self) -> int:
        fields = self.pool.fields
        return int(np.count_nonzero(np.isin(fields.kind, fields.members[self.name])))

    @cached_property
    def _by_slot(self) -> tuple[Rows, NDArray[np.integer]]:
        order = np.argsort(self.slots, kind="stable")
        return order, self.slots[order]


class _VectorCache:
    """Vectors by slot; all are dropped when the bound is reached. Memory is taken as it is filled."""

    def __init__(self, count: int, dimension: int) -> None:
        self._most = max(HELD // (2 * max(dimension, 1)), 1)
        self._held = np.zeros((count, dimension), np.float16)
        self._known = np.zeros(count, np.bool_)
        self._lock = Lock()

    def get(self, slots: Rows) -> tuple[Halves, Rows]:
        """The vectors (zero where missing), and the places of the missing ones."""
        with self._lock:
            return self._held[slots], np.flatnonzero(~self._known[slots])

    def put(self, slots: Rows, halves: Halves) -> None:
        """Keep vectors."""
        with self._lock:
            if np.count_nonzero(self._known) + len(slots) > self._most:
                self._held, self._known = np.zeros_like(self._held), np.zeros_like(self._known)
            self._held[slots[: self._most]] = halves[: self._most]
            self._known[slots[: self._most]] = True


def external(pool: ExternalPool, slots: NDArray[np.integer], name: str) -> Vectors:
    """An array of vectors in a vector store, which passes for one of numpy."""
    return cast(Vectors, ExternalVectors(pool, slots, name))
