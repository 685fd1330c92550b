"""What an update writes to a vector store, in an order that a killed process may leave at any point.

Which rows come or go is in the journal first. Then rows that come are written, then the folder's
generation is published, then rows that go are removed, and the row that says so is written. Whoever finds
the journal later removes of what it names all that the folder's generation does not need.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from stratagraph.errors import StoreError, VectorStoreError, VectorStoreStale
from stratagraph.store.external import ExternalPool
from stratagraph.store.journal import Journal
from stratagraph.store.manifest import Manifest
from stratagraph.store.pool import Halves, PoolWriter, hashes_of
from stratagraph.store.rows import BATCH, Fields, TableRows, mark, new_identity
from stratagraph.store.segments import Keys, Plan
from stratagraph.types.protocols import VectorTable

_AROUND = 8  # generations before and after that are looked for, to say what a store has instead


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
        self._pool: tuple[PoolWriter, Plan] | None = None
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
        before = _NONE if self._kept is None else self._kept.keys
        stored = hashes != hashes_of(np.zeros((1, pool.dimension), np.float16))[0]
        self._coming = np.flatnonzero(stored & ~np.isin(self._keys, before))
        dropped = np.setdiff1d(before, self._keys[stored])
        marks = np.array([mark(generation)], np.uint64)
        self._touched = {self._identity: np.concatenate([self._keys[self._coming], dropped, marks])}
        if self._base is not None and not self._lives_on(generation):
            was = np.array(
                [mark(each) for each in range(max(generation - _AROUND, 1), generation)], np.uint64
            )
            before = was if self._kept is not None else np.concatenate([self._base.keys, was])
            own = self._touched.get(self._base.rows.identity, _NONE)
            self._touched[self._base.rows.identity] = np.concatenate([own, before])

    def _lives_on(self, generation: int) -> bool:
        """Whether another folder with the same rows may have gone on from the previous generation."""
        later = range(generation, generation + _AROUND)
        return self._kept is None and self._base is not None and bool(self._base.rows.marks(later))

    def write(self, journal: Journal) -> None:
        """Add the new rows beside the existing ones.

        Raises
        ------
        VectorStoreError
            If the store refuses, or does not return what was written.
        """
        if self._pool is None:
            raise RuntimeError("call plan() first")
        journal.touch(self._touched)
        pool, plan = self._pool
        rows = TableRows(self._table, self._identity, pool.dimension)
        for start in range(0, len(self._coming), BATCH):
            slots = self._coming[start : start + BATCH]
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


def settled(journal: Journal, table: VectorTable | None, pool: ExternalPool | None, generation: int) -> bool:
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


_NONE: Keys = np.zeros(0, np.uint64)
_MEASURES = "cosine, inner product or Euclidean distance"
_TRIED = 8  # rows by which a store is tried
_PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0)  # seconds
_LEEWAY = 0.02  # of a cosine: stores that keep vectors in few bits order by what is left of them
