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
from stratagraph.kernels.topk import TopK, top_k
from stratagraph.store.journal import Journal
from stratagraph.store.manifest import Manifest
from stratagraph.store.pool import Halves, Pool, PooledVectors, PoolWriter, hashes_of, zero_hash
from stratagraph.store.rows import BATCH, Fields, TableRows, mark, new_identity
from stratagraph.store.segments import KeyIndex, Keys
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
        self._held = np.zeros((len(self), rows.dimension), np.float16)  # memory is taken as it is filled
        self._is_held = np.zeros(len(self), np.bool_)
        self._lock = Lock()
        self.has_warned = False  # of a store that returns fewer hits than it is asked for

    @cached_property
    def all_hashes(self) -> Keys:
        """Of the vectors, shape (slots,)."""
        return np.concatenate([_NONE, *self.hashes])

    @cached_property
    def keys(self) -> Keys:
        """Keys of the rows, shape (slots,). A zero vector has a key but no row, since it has no angle."""
        return self.fields.keys(self.all_hashes)

    @cached_property
    def _index(self) -> KeyIndex:
        return KeyIndex(self.keys)

    def array(self, slots: NDArray[np.integer], name: str = "") -> Vectors:
        """The vectors at these slots as an array, which has this name in `Fields`."""
        return cast(Vectors, ExternalVectors(self, slots, name))

    def halves(self, slots: NDArray[np.integer]) -> Halves:
        """The vectors at some slots, shape (slots, dimension), from memory or the store.

        `VectorStoreStale` if a row is missing or not as it was written.
        """
        if self._local is not None:
            return cast(Halves, self._local[slots])
        if len(slots) and not 0 <= int(slots.min()) <= int(slots.max()) < len(self):
            raise IndexError(f"there are {len(self)} vectors, and no number {int(slots.max())}")
        needed, places = np.unique(slots, return_inverse=True)
        with self._lock:
            vectors, missing = self._held[needed], np.flatnonzero(~self._is_held[needed])
        if missing.size:
            vectors[missing] = self.require(needed[missing])
            self._keep(needed[missing], vectors[missing])
        return vectors[places]

    def _keep(self, slots: Rows, halves: Halves) -> None:
        """Keep vectors in memory; all are dropped when the bound is reached."""
        most = max(HELD // (2 * max(self.dimension, 1)), 1)
        with self._lock:
            if np.count_nonzero(self._is_held) + len(slots) > most:
                self._held, self._is_held = np.zeros_like(self._held), np.zeros_like(self._is_held)
            self._held[slots[:most]] = halves[:most]
            self._is_held[slots[:most]] = True

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
        places = np.flatnonzero(self.all_hashes[slots] != zero_hash(self.dimension))
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

    def search(self, query: Vectors, k: int, where: Mapping[str, Sequence[str]]) -> tuple[Rows, int]:
        """Search in the store: the slots of the hits of this generation, and the number of all hits.

        Vectors that come with the hits are kept, unless they are wrong: reading those raises the error.
        """
        pairs, given = self.rows.search(query, k, where)
        slots = self._index.find(np.array([key for key, _ in pairs], np.uint64))
        known = [at for at, slot in enumerate(slots.tolist()) if slot >= 0 and len(pairs[at][1])]
        if known:
            halves = np.stack([pairs[at][1] for at in known])
            right = hashes_of(halves) == self.all_hashes[slots[known]]
            self._keep(slots[known][right], halves[right])
        return slots[slots >= 0], given

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


class ExternalVectors(PooledVectors):
    """An array of vectors in a vector store; `name` is its name in `Fields`."""

    pool: ExternalPool

    def _read_rows(self, rows: Rows) -> Pool:
        return Pool((), [self.pool.halves(self.slots[rows])], (), self.pool.dimension)

    def products(self, query: Vectors, rows: Rows) -> NDArray[np.float32]:
        """Inner products of a query with chosen rows."""
        return self._read_rows(rows).vectors.products(query, np.arange(len(rows)))

    def top_k(self, query: Vectors, k: int, mask: NDArray[np.bool_] | None) -> TopK:
        """The admitted rows with the largest inner products: searched in the store, scored here.

        `VectorStoreError` if the store does not answer, or finds too few.
        """
        admitted = np.arange(len(self)) if mask is None else np.flatnonzero(mask)
        rows = self._candidates(query, k, admitted)
        places, scores = top_k(self._read_rows(rows).array(np.arange(len(rows))), query, k)
        return rows[places], scores

    def _candidates(self, query: Vectors, k: int, admitted: Rows) -> Rows:
        wanted = k + SPARE
        if len(admitted) <= wanted or self.pool.segments:
            return admitted
        where, share = self._where(admitted)
        count, ties = min(int(wanted / share) + 1, MOST_ASKED), 0
        while True:
            slots, given = self.pool.search(query, count, where)
            near = np.flatnonzero(np.isin(self.slots, slots))
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
            if not self.pool.has_warned:
                self.pool.has_warned = True
                warnings.warn(
                    f"{self.pool.rows.table.name} gave {given} rows where {count} were asked for and "
                    "written: its index limits searches (of pgvector by hnsw.ef_search or ivfflat.probes), "
                    "or rows are gone, as verify() tells. Vectors are read one by one instead, which is "
                    "slower",
                    RuntimeWarning,
                    stacklevel=2,
                )
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
        return where, len(admitted) / np.count_nonzero(np.isin(fields.kind, members))


def write_rows(
    table: VectorTable,
    base: ExternalPool | None,
    pool: PoolWriter,
    fields: Fields,
    generation: int,
    journal: Journal,
    *,
    restore: bool,
) -> dict[str, str]:
    """Write the rows of the next generation beside the existing ones; returns the manifest's entry for them.

    `base` are the vectors of the previous generation, if they are in a store. With `restore`, all rows are
    written, under a new identity. The journal first lists all rows that this adds or that are to be removed
    after publishing. `VectorStoreError` if the store refuses, or does not return what was written.
    """
    kept = None if restore else base
    identity = new_identity() if kept is None else kept.rows.identity
    hashes = pool.hashes()
    keys, old_keys = fields.keys(hashes), _NONE if kept is None else kept.keys
    stored = hashes != zero_hash(pool.dimension)
    new_slots = np.flatnonzero(stored & ~np.isin(keys, old_keys))
    touched = {identity: [keys[new_slots], np.setdiff1d(old_keys, keys[stored]), _marks([generation])]}
    if base is not None:
        # Another folder with the same rows may have continued the generation: then they stay.
        later = range(generation, generation + _AROUND)
        if kept is not None or not base.rows.marks(later):
            earlier = _marks(range(max(generation - _AROUND, 1), generation))
            outdated = [earlier] if kept is not None else [earlier, base.keys]
            touched.setdefault(base.rows.identity, []).extend(outdated)
    journal.touch({of: np.concatenate(listed) for of, listed in touched.items()})
    rows = TableRows(table, identity, pool.dimension)
    for start in range(0, len(new_slots), BATCH):
        slots = new_slots[start : start + BATCH]
        halves = pool.halves(slots)
        rows.put(keys[slots], halves, [fields.text(slot) for slot in slots.tolist()])
        if not start:
            _require_alike(rows, keys[slots], halves)
    return {"identity": identity, "store": table.name}


def _marks(generations: Sequence[int]) -> Keys:
    return np.array([mark(each) for each in generations], np.uint64)


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
    try:
        if table is None:
            raise VectorStoreError("the vector store was not given")
        for identity, keys in journal.touched().items():
            needed = _NONE
            if pool is not None and identity == pool.rows.identity:
                needed = np.append(pool.keys, np.uint64(mark(generation)))
            rows = TableRows(table, identity, 0 if pool is None else pool.dimension)
            rows.remove(np.setdiff1d(keys, needed).tolist())
        if pool is not None:
            pool.rows.set_mark(generation)
    except (OSError, StoreError) as error:
        warnings.warn(
            f"rows of an update are still to be removed from the vector store ({error}); the next operation "
            "on the index does it",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


def require_current(manifest: Manifest, rows: TableRows) -> None:
    """Refuse a store without the rows of this generation; `VectorStoreStale` says which generation it has."""
    if rows.marks([generation := manifest.generation]):
        return
    around = [each for each in range(generation - _AROUND, generation + _AROUND + 1) if each > 0]
    marks = rows.marks(around)
    has = f"those of generation {max(marks)}" if marks else "none of this index"
    raise VectorStoreStale(
        f"{rows.table.name} has not the rows of generation {generation} that the folder has, but {has}. Give "
        "the collection that it was built with, or open the index with repair=True (or run "
        "verify(repair=True)): the vectors are then made again and written there"
    )
