"""Updates the graph of a corpus of which some chunks changed; the result equals that of `build_graph`.

What the change touches (`merge_change`) is merged, described and embedded again. All other rows move: their
arrays are remapped, and their nodes and vectors are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import Kept, counts_array, read_counts
from stratagraph.ingest.graph.merge import (
    EntityFragments,
    Merge,
    Merged,
    RelationFragments,
    finished_entity,
    finished_relation,
    merge,
    shown,
)
from stratagraph.ingest.graph.merge import Unit as MergedUnit
from stratagraph.ingest.graph.merge_change import Change, Pair, Side, is_large
from stratagraph.ingest.graph.merge_state import (
    DESCRIBING,
    NOTES,
    SPELLINGS,
    Tables,
    describing,
    read_describing,
    read_spelling,
    spelling,
)
from stratagraph.kernels.ranges import ranges
from stratagraph.types.protocols import Corpus, Rows, Stored
from stratagraph.types.records import content_id

T = TypeVar("T", str, tuple[int, int], tuple[str, tuple[int, ...]])
K = TypeVar("K")
TouchedRows = dict[K, tuple[int | None, set[int]]]
"""Of each touched node the previous row, None if it is new, and the present chunks, none if it is deleted."""

MOST_READ = 2000
"""Chunks that an update may read for touched relations and descriptions. If it needs more, and more than half
of the corpus, the whole corpus is merged again."""


class Moved(NamedTuple):
    """Where the rows of a sorted table moved.

    Attributes
    ----------
    origin
        The previous row of each unchanged row, or -1, shape (rows now,).
    now
        The present row of each previous row, or -1, shape (rows before,).
    fresh
        The present rows that are new or merged again, ascending.
    """

    origin: Rows
    now: Rows
    fresh: Rows

    @classmethod
    def of(
        cls,
        count: int,
        touched: Iterable[tuple[int | None, bool]],
        new: Sequence[T],
        read: Callable[[Rows], Sequence[T]],
    ) -> Moved:
        """Where `count` sorted rows move if some are deleted, some are merged again, and new ones come.

        Parameters
        ----------
        touched
            The previous row of each touched thing, None if it is new, and whether it still exists.
        new
            The sort keys of the new things, ascending.
        read
            Gives the sort keys of previous rows.
        """
        stored = [(row, exists) for row, exists in touched if row is not None]
        exists_now = np.ones(count, np.bool_)
        exists_now[[row for row, exists in stored if not exists]] = False
        stay = np.flatnonzero(exists_now)
        places = _places(len(stay), new, lambda at: read(stay[at]))
        origin = np.insert(stay, np.asarray(places, np.int64), -1)
        now = np.full(count, -1, np.int64)
        now[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
        origin[now[[row for row, exists in stored if exists]]] = -1
        return cls(origin, now, np.flatnonzero(origin < 0))

    def spliced(self, before: NDArray[Any], fresh: NDArray[Any]) -> NDArray[Any]:
        """The present array of rows: `fresh` at the rows of `self.fresh`, else the rows of `before`."""
        joined = np.zeros((len(self.origin), *fresh.shape[1:]), fresh.dtype)
        stayed = self.origin >= 0
        joined[stayed] = before[self.origin[stayed]]
        joined[self.fresh] = fresh
        return joined

    def spliced_lists(
        self,
        indptr: Rows,
        values: NDArray[Any],
        fresh: Sequence[Sequence[int]],
        rows: Rows | None = None,
    ) -> tuple[Rows, NDArray[Any]]:
        """The same for lists, as (borders, values). With `rows`, which maps rows, the values are rows too."""
        stayed, sizes = self.origin >= 0, np.zeros(len(self.origin), np.int64)
        old = self.origin[stayed]
        sizes[stayed] = np.diff(indptr)[old]
        sizes[self.fresh] = [len(each) for each in fresh]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        joined = np.zeros(int(starts[-1]), values.dtype if rows is None else np.int64)
        taken = values[ranges(np.asarray(indptr[:-1])[old], sizes[stayed])]
        joined[ranges(starts[:-1][stayed], sizes[stayed])] = taken if rows is None else rows[taken]
        flat = np.fromiter(chain.from_iterable(fresh), joined.dtype, int(sizes[self.fresh].sum()))
        joined[ranges(starts[:-1][self.fresh], sizes[self.fresh])] = flat
        return starts, joined


@dataclass(frozen=True)
class Touched:
    """The nodes that an update merges again, in the order of rows, and where all rows move.

    Attributes
    ----------
    graph
        The merged entities, relations and units, with the notes of the whole graph.
    moved
        Of entities, relations and units.
    rows
        The present row of each previous chunk, or -1.
    key_rows
        The present rows of the touched entities and of those related to them, by canonical names.
    state
        The arrays for the next update; empty if the next update must merge everything again.
    """

    graph: Merged
    moved: tuple[Moved, Moved, Moved]
    rows: Rows
    key_rows: Mapping[str, int]
    state: Mapping[str, NDArray[Any]]

    @classmethod
    def all_of(cls, graph: Merged, state: Mapping[str, NDArray[Any]]) -> Touched:
        """A new graph, as an update of an empty one."""
        sizes = (len(graph.entities), len(graph.relations), len(graph.units))
        entities, relations, units = (
            Moved(np.full(size, -1), np.zeros(0, np.int64), np.arange(size)) for size in sizes
        )
        key_rows = {entity.key: row for row, entity in enumerate(graph.entities)}
        return cls(graph, (entities, relations, units), np.zeros(0, np.int64), key_rows, state)


def touched(corpus: Corpus, extracted: Stored, previous: Stored, kept: Kept) -> Touched | None:
    """Merge the nodes that a change touches; None if a full merge is cheaper."""
    tables = Tables.read(previous.arrays)
    if tables is None or kept.extracted is None or (np.diff(kept.before) <= 0).any():
        return None
    rows, removed, arrived = _changed(corpus.size, extracted, kept)
    if is_large(len(removed) + len(arrived), corpus.size):
        return None
    fresh = Tables.of(merge(Side(tables, extracted, corpus.size).read(arrived).items()))
    before = Side(tables, kept.extracted, len(rows))
    now = Side(tables.updated(rows, fresh, corpus.size), extracted, corpus.size)
    change = Change.of(before, now, removed, arrived, rows)
    return (
        None if change is None else _Update(previous, change, rows).run(read_counts(previous.arrays, NOTES))
    )


def _changed(size: int, extracted: Stored, kept: Kept) -> tuple[Rows, list[int], list[int]]:
    """The present rows of unchanged chunks, and the rows of the others before and now."""
    before = kept.extracted
    assert before is not None
    same = extracted.hashes[kept.now] == before.hashes[kept.before]
    rows = np.full(len(before.arrays["sources.indptr"]) - 1, -1, np.int64)
    rows[kept.before[same]] = kept.now[same]
    arrives = np.ones(size, np.bool_)
    arrives[kept.now[same]] = False
    return rows, np.flatnonzero(rows < 0).tolist(), np.flatnonzero(arrives).tolist()


class _Update:
    """Computes the touched rows of one update."""

    def __init__(self, previous: Stored, change: Change, rows: Rows) -> None:
        self._previous = previous
        self._change = change
        self._chunks = rows
        self._rows = rows.copy()  # of chunks whose share stays
        self._rows[list(change.removed)] = -1
        arrays = previous.arrays
        self._sources = arrays["sources.indptr"], arrays["sources.indices"]
        self._counts = [int(count) for count in arrays["counts"]]
        self._describing = read_describing(arrays, int(self._sources[0][self._counts[0]]))

    def run(self, notes: Mapping[str, int]) -> Touched | None:
        """The whole update; None where the extractions do not fit the previous graph."""
        change = self._change
        names = self._previous.rows(change.entities)
        counted = {key: read_spelling(self._previous.arrays, row) for key, row in names.items()}
        fragments = {key: change.entity(key, counted.get(key)) for key in change.entities}
        for key, each in fragments.items():
            each.chunks |= dict.fromkeys(self._stayed(names.get(key)), False)
        alive = [key for key in change.entities if fragments[key].chunks]
        described = [key for key in alive if fragments[key].texts or counted.get(key, ((), (), False))[2]]
        renamed = [
            key
            for key in alive
            if key in names and shown(key, counted[key][0]) != shown(key, fragments[key].names)
        ]
        pairs = self._touched_rows(
            {pair: content_id("relation", *pair) for pair in self._pairs(names, renamed)},
            self._counts[0],
            {pair: relation.chunks for pair, relation in change.added.relations.items()},
        )
        wanted = {row for _, rows in pairs.values() for row in rows}
        for key in described:
            wanted |= self._stayed(names.get(key), self._describing)
        if len(wanted) > max(MOST_READ, change.now.chunks // 2):
            return None
        whole = change.whole(wanted, set(described), pairs)
        for key in described:
            fragments[key].texts = whole.entities.get(key, EntityFragments()).texts
        if any(
            whole.relations.get(pair, RelationFragments()).chunks != rows for pair, (_, rows) in pairs.items()
        ):
            return None
        living, new = set(alive), [key for key in alive if key not in names]
        entities = Moved.of(
            self._counts[0],
            ((row, key in living) for key, row in names.items()),
            new,
            lambda rows: self._previous.ids(rows.tolist()),
        )
        return self._laid_out(entities, names, fragments, pairs, whole, notes)

    def _stayed(self, row: int | None, only: NDArray[np.bool_] | None = None) -> set[int]:
        """The present rows of a previous node's unchanged chunks; `only` selects among all sources."""
        if row is None:
            return set()
        indptr, indices = self._sources
        own = slice(int(indptr[row]), int(indptr[row + 1]))
        rows = self._rows[indices[own] if only is None else indices[own][only[own]]]
        return set(rows[rows >= 0].tolist())

    def _pairs(self, names: Mapping[str, int], renamed: Sequence[str]) -> list[Pair]:
        """The touched relations, and those of entities whose shown name changed."""
        pairs = set(self._change.pairs)
        if renamed:
            ends = self._previous.arrays["relations.ends"]
            near = np.isin(ends, [names[key] for key in renamed]).any(axis=1)
            ids = self._previous.ids(np.sort(ends[near], axis=1).ravel().tolist())
            pairs |= set(zip(ids[::2], ids[1::2], strict=True))
        return sorted(pairs)

    def _touched_rows(
        self, ids: Mapping[K, str], first: int, added: Mapping[K, Collection[int]]
    ) -> TouchedRows[K]:
        """The touched relations or units, by the ids of their nodes; `first` is the first row of the kind."""
        prior = self._previous.rows(list(ids.values()))
        rows_by_key: TouchedRows[K] = {}
        for key, identity in ids.items():
            row = prior.get(identity)
            rows_by_key[key] = (
                None if row is None else row - first,
                self._stayed(row) | set(added.get(key, ())),
            )
        return rows_by_key

    def _laid_out(
        self,
        entities: Moved,
        names: Mapping[str, int],
        fragments: Mapping[str, EntityFragments],
        pairs: TouchedRows[Pair],
        whole: Merge,
        notes: Mapping[str, int],
    ) -> Touched:
        alive = [key for key in self._change.entities if fragments[key].chunks]
        key_rows = dict(zip(alive, entities.fresh.tolist(), strict=True))
        first = self._counts[0] + self._counts[1]
        ids = {unit: content_id("unit", unit[0], *unit[1]) for unit in self._change.units}
        units = self._touched_rows(ids, first, self._change.added.units)
        others = {key for pair in pairs for key in pair} | {key for unit in units for key in unit[1]}
        prior = self._previous.rows(sorted(others - key_rows.keys()))
        key_rows |= {key: int(entities.now[row]) for key, row in prior.items()}
        before, count = self._previous.arrays, self._counts[0]

        def ends(rows: Rows) -> list[tuple[int, int]]:
            sorted_ends = np.sort(before["relations.ends"][rows], axis=1)
            return [(low, high) for low, high in entities.now[sorted_ends].tolist()]

        def texts_with_names(rows: Rows) -> list[tuple[str, tuple[int, ...]]]:
            indptr, indices = before["units.indptr"], before["units.indices"]
            named = (entities.now[indices[int(indptr[row]) : int(indptr[row + 1])]] for row in rows.tolist())
            texts = self._previous.texts((first + rows).tolist())
            return [(text, tuple(each.tolist())) for text, each in zip(texts, named, strict=True)]

        relations = Moved.of(
            self._counts[1],
            ((row, bool(rows)) for row, rows in pairs.values()),
            sorted(_rows_of(pair, key_rows) for pair, (row, rows) in pairs.items() if row is None and rows),
            ends,
        )
        laid_units = Moved.of(
            self._counts[2],
            ((row, bool(rows)) for row, rows in units.values()),
            [
                (text, tuple(key_rows[name] for name in named))
                for (text, named), (row, rows) in sorted(units.items())
                if row is None and rows
            ],
            texts_with_names,
        )
        order = sorted(
            (pair for pair, (_, rows) in pairs.items() if rows), key=lambda p: _rows_of(p, key_rows)
        )
        graph = Merged(
            tuple(finished_entity(key, fragments[key]) for key in alive),
            tuple(finished_relation(pair, whole.relations[pair]) for pair in order),
            tuple(
                MergedUnit(*unit, tuple(sorted(rows))) for unit, (_, rows) in sorted(units.items()) if rows
            ),
            _sum(notes, self._change.notes),
        )
        touched = [fragments[key] for key in alive]
        spellings = entities.spliced_lists(
            before[SPELLINGS[0]], before[SPELLINGS[1]], [spelling(each) for each in touched]
        )
        describes = entities.spliced_lists(
            self._sources[0][: count + 1], self._describing, [describing(each) for each in touched]
        )
        state = self._change.now.tables.arrays() | {NOTES: counts_array(graph.notes)}
        state |= dict(zip(SPELLINGS, spellings, strict=True)) | {DESCRIBING: np.packbits(describes[1])}
        return Touched(graph, (entities, relations, laid_units), self._chunks, key_rows, state)


def _places(count: int, values: Sequence[T], read: Callable[[Rows], Sequence[T]]) -> list[int]:
    """The places of values among `count` sorted keys, by bisections that advance together.

    Each round reads all keys it compares with in one call.
    """
    low, high = np.zeros(len(values), np.int64), np.full(len(values), count, np.int64)
    while len(unfinished := np.flatnonzero(low < high)):
        middle, which = np.unique((low[unfinished] + high[unfinished]) // 2, return_inverse=True)
        keys = read(middle)
        for at, place in zip(unfinished.tolist(), which.tolist(), strict=True):
            if keys[place] < values[at]:
                low[at] = middle[place] + 1
            else:
                high[at] = middle[place]
    return low.tolist()


def _rows_of(pair: Pair, key_rows: Mapping[str, int]) -> tuple[int, int]:
    first, second = sorted(key_rows[key] for key in pair)
    return first, second


def _sum(notes: Mapping[str, int], change: Mapping[str, int]) -> dict[str, int]:
    counts = {key: notes.get(key, 0) + change.get(key, 0) for key in sorted({*notes, *change})}
    return {key: count for key, count in counts.items() if count}
