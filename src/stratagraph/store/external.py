"""Vectors in a vector store, instead of in the folder's segments.

Hits of the store are scored again with the vectors that were written, since the scores of stores mean
different things. Vectors that were read are kept in memory up to a bound.

A process may be killed at any point of an update. So the rows that it adds and removes are listed in the
journal first. It then adds rows, publishes the generation in the folder, removes rows, and adds the row that
marks the generation as complete. Whoever finds the journal later removes all listed rows that the folder's
generation does not need.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import StoreError, VectorStoreError, VectorStoreStale
from stratagraph.kernels.float16 import HalfVectors
from stratagraph.kernels.topk import TopK, top_k
from stratagraph.store.journal import Journal
from stratagraph.store.manifest import Manifest
from stratagraph.store.pool import Halves, Pool, PooledVectors, PoolWriter, hashes_of
from stratagraph.store.rows import BATCH, Fields, TableRows, mark, new_identity
from stratagraph.store.segments import KeyIndex, Keys, Plan
from stratagraph.system.locks import Lock, cached_property
from stratagraph.types.built import DOCUMENT_FIELD, KIND_FIELD
from stratagraph.types.protocols import Rows, Vectors, VectorTable

HELD = 1 << 28
"""Bytes of vectors that stay in memory after they were read."""
SPARE = 16
"""Additional rows in each search, since a store may round scores or miss rows."""
MOST_ASKED = 10_000
"""Rows in one search at most; many stores refuse more."""
MOST_READ = 20_000
"""Vectors that are read by id at most, if a search does not find enough."""
MOST_DOCUMENTS = 512
"""Documents in the filter of a search at most."""
_AROUND = 8  # earlier and later generations that an error may name
_MEASURES = "cosine, inner product or Euclidean distance"
_TRIED = 8  # rows that a store is tested with
_PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0)  # seconds
_LEEWAY = 0.02  # of a cosine, for stores that keep vectors in few bits
_NONE: Keys = np.zeros(0, np.uint64)
_GROWTH = 4
_TIES = 2  # more searches for rows that score like the last one
_ROUNDING = 1e-6
_PAIRS = 1 << 10  # read at a time


class ExternalPool(Pool):
    """The vectors of a generation in a vector store (`rows`), by slot; the folder has the hash of each.

    `fields` are those of the rows, beside the vectors. They are set after the parts were opened.
    """

    fields: Fields

    def __init__(self, files: Sequence[str], hashes: Sequence[Keys], rows: TableRows) -> None:
        super().__init__(files, (), hashes, rows.dimension)
        self.starts = np.cumsum([0, *map(len, hashes)])
        self.rows = rows
        self._local: Halves | None = None
        self._memory = _VectorCache(len(self), rows.dimension)
        self._zero = hashes_of(np.zeros((1, rows.dimension), np.float16))[0]
        self._warned = False

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

    def array(self, slots: NDArray[np.integer], name: str = "") -> Vectors:
        """The vectors at these slots as an array, which has this name in `Fields`."""
        return cast(Vectors, ExternalVectors(self, slots, name))

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
            vectors[missing] = self.require(needed[missing])
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

    def require(self, slots: Rows) -> Halves:
        """Read rows from the store, not from memory; `VectorStoreStale` if one is missing or wrong."""
        vectors, wrong = self.read(slots)
        if wrong:
            raise VectorStoreStale(
                f"{self.rows.table.name} lacks {wrong} of {len(slots)} rows of the index, or holds others in "
                "their places. If another process has changed the index, reload() turns to its newest "
                "generation; otherwise verify(repair=True) puts back what is missing"
            )
        return vectors

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
            local[slots] = self.require(slots)
        self._local = local[: len(self)]
        self.segments = [self._local]

    def release(self) -> None:
        """Drop the downloaded file."""
        self._local, self.segments = None, []

    @property
    def is_local(self) -> bool:
        """Whether all vectors are downloaded."""
        return self._local is not None

    def warn_of_limit(self, given: int, asked: int) -> None:
        """Warn once that the store returns fewer hits than it is asked for."""
        if not self._warned:
            self._warned = True
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
        places, scores = top_k(near.array(np.arange(len(rows))), query, k)
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
                if last or ties == _TIES or worse_follow:  # else rows that score like the k-th may be missing
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
            self.pool.warn_of_limit(given, count)
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


class ExternalWriter:
    """Writes the rows of the next generation to a vector store.

    Parameters
    ----------
    table
        The store.
    base
        Vectors of the previous generation, if they are in a store.
    restore
        Whether all rows are written, under a new identity.
    """

    def __init__(self, table: VectorTable, base: ExternalPool | None, *, restore: bool = False) -> None:
        self._table = table
        self._base = base
        self._identity = new_identity() if base is None or restore else base.rows.identity
        self._kept = None if restore else base
        self._touched: dict[str, Keys] = {}

    @property
    def description(self) -> dict[str, str]:
        """The manifest's entry for the rows."""
        return {"identity": self._identity, "store": self._table.name}

    def plan(self, pool: PoolWriter, plan: Plan, fields: Fields, generation: int) -> None:
        """Find the rows to add and to remove."""
        self._pool, self._fields = (pool, plan), fields
        hashes = pool.hashes(plan)
        self._keys = fields.keys(hashes)
        old_keys = _NONE if self._kept is None else self._kept.keys
        stored = hashes != hashes_of(np.zeros((1, pool.dimension), np.float16))[0]
        self._new_slots = np.flatnonzero(stored & ~np.isin(self._keys, old_keys))
        dropped = np.setdiff1d(old_keys, self._keys[stored])
        marks = np.array([mark(generation)], np.uint64)
        self._touched = {self._identity: np.concatenate([self._keys[self._new_slots], dropped, marks])}
        if self._base is not None and not self._may_continue_elsewhere(generation):
            earlier = range(max(generation - _AROUND, 1), generation)
            outdated = np.array([mark(each) for each in earlier], np.uint64)
            if self._kept is None:
                outdated = np.concatenate([self._base.keys, outdated])
            own = self._touched.get(self._base.rows.identity, _NONE)
            self._touched[self._base.rows.identity] = np.concatenate([own, outdated])

    def _may_continue_elsewhere(self, generation: int) -> bool:
        """Whether another folder with the same rows may continue the previous generation."""
        later = range(generation, generation + _AROUND)
        return self._kept is None and self._base is not None and bool(self._base.rows.marks(later))

    def write(self, journal: Journal) -> None:
        """After `plan`: add the new rows beside the existing ones.

        Raises
        ------
        VectorStoreError
            If the store refuses, or does not return what was written.
        """
        journal.touch(self._touched)
        pool, plan = self._pool
        rows = TableRows(self._table, self._identity, pool.dimension)
        for start in range(0, len(self._new_slots), BATCH):
            slots = self._new_slots[start : start + BATCH]
            halves = pool.halves(plan, slots)
            rows.put(self._keys[slots], halves, [self._fields.text(slot) for slot in slots.tolist()])
            if not start:
                _require_alike(rows, self._keys[slots], halves)


def _require_alike(rows: TableRows, keys: Keys, halves: Halves) -> None:
    """Make sure that a store returns what was put in, finds it by its vector, and orders by angle.

    Some stores need a moment until new rows are found.
    """
    for pause in _PAUSES:
        wrong = _unlike(rows, keys[:_TRIED].tolist(), halves[:_TRIED])
        if wrong is None:
            return
        time.sleep(pause)
    raise VectorStoreError(f"{rows.table.name} {wrong}")


def _unlike(rows: TableRows, keys: Sequence[int], halves: Halves) -> str | None:
    """What a store does wrong with some rows; None if nothing."""
    read = rows.get(keys)
    if not all(np.array_equal(read.get(key, ()), half) for key, half in zip(keys, halves, strict=True)):
        return "does not give back by their ids the rows that are put in it"
    for half in halves:
        vector = half.astype(np.float32)
        nearest, _ = rows.search(vector, _TRIED if rows.table.filters else BATCH, {})
        likeness = np.array([each.astype(np.float32) @ vector for _, each in nearest if len(each)])
        if not len(likeness) or likeness[0] < vector @ vector - _LEEWAY:
            return (
                "does not find rows by their own vectors: it embeds what it is given by its own model, or "
                f"compares by something else than {_MEASURES}"
            )
        if (np.diff(likeness) > _LEEWAY).any():
            return f"does not order rows by {_MEASURES}: make its collection with one of these"
    return None


def remove_leftovers(
    journal: Journal, table: VectorTable | None, pool: ExternalPool | None, generation: int
) -> bool:
    """Remove rows in the journal that the generation does not need; False, and a warning, on failure."""
    touched = journal.touched()
    if not touched:
        return True
    try:
        if table is None:
            raise VectorStoreError("the vector store was not given")
        _remove(touched, table, pool, generation)
    except (OSError, StoreError) as error:
        warnings.warn(
            f"rows of an update are still to be removed from the vector store ({error}); the next operation "
            "on the index does it",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


def _remove(
    touched: Mapping[str, Keys], table: VectorTable, pool: ExternalPool | None, generation: int
) -> None:
    own = None if pool is None else pool.rows.identity
    for identity, keys in touched.items():
        needed = _NONE
        if pool is not None and identity == own:
            needed = np.append(pool.keys, np.uint64(mark(generation)))
        dimension = 0 if pool is None else pool.dimension
        TableRows(table, identity, dimension).remove(np.setdiff1d(keys, needed).tolist())
    if pool is not None:
        pool.rows.set_mark(generation)


def require_current(manifest: Manifest, rows: TableRows) -> None:
    """Refuse a store without the rows of this generation; `VectorStoreStale` says which generation it has."""
    generation = manifest.generation
    if rows.marks([generation]):
        return
    around = [each for each in range(generation - _AROUND, generation + _AROUND + 1) if each > 0]
    marks = rows.marks(around)
    has = f"those of generation {max(marks)}" if marks else "none of this index"
    raise VectorStoreStale(
        f"{rows.table.name} has not the rows of generation {generation} that the folder has, but {has}. Give "
        "the collection that it was built with, or open the index with repair=True (or run "
        "verify(repair=True)): the vectors are then made again and written there"
    )
