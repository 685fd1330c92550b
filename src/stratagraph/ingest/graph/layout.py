"""Row layout of a grouped graph: the previous row of each node, and records of the nodes that are made anew.

A node is that of a previous row if their marks are equal. A mark holds what the node's text and vector are
made of, so rows with a known mark are copied, and nothing of them is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import Keys
from stratagraph.ingest.extraction.stored import BATCH, extraction_of
from stratagraph.ingest.graph.grouping import Grouping
from stratagraph.ingest.graph.lists import Lists
from stratagraph.ingest.marks import Marks, combined, find_marks, list_sums
from stratagraph.ingest.names.index import NameIndex
from stratagraph.kernels.ranges import borders, distinct, find, order
from stratagraph.types.built import CarriedVectors
from stratagraph.types.protocols import Rows, Stored, Vectors
from stratagraph.types.records import content_key, content_keys

ENTITIES, RELATIONS, UNITS = range(3)
"""The kinds of nodes, in the order of rows."""
MARKS = "marks"
"""The array of the graph with a mark of each node."""
MOST_UNITS = 200
"""Most units that replace the description of an entity without one."""


class Entity(NamedTuple):
    """An entity. `fragments` are its distinct descriptions in the order of the corpus."""

    key: str
    name: str
    type: str
    fragments: tuple[str, ...]
    chunks: tuple[int, ...]


class NamedRelation(NamedTuple):
    """A relation between two entities, by canonical names.

    The direction is that of most statements. `opposite` holds the descriptions in the other direction
    (ERRATA N10), so that "A founded B" stays apart from "B founded A". `weight` is the sum of all strengths.
    Types are as in `GraphRelation`.
    """

    source: str
    target: str
    fragments: tuple[str, ...]
    opposite: tuple[str, ...]
    weight: float
    chunks: tuple[int, ...]
    types: tuple[str, ...] = ()
    opposite_types: tuple[str, ...] = ()


class Unit(NamedTuple):
    """A semantic unit and the canonical names of its entities."""

    text: str
    entities: tuple[str, ...]
    chunks: tuple[int, ...]


class GraphLayout:
    """The rows of a graph.

    `texts` are descriptions and units by key, as far as they are at hand; others are read from `extracted`.
    Without a `previous` graph all nodes are made anew. So are the entities and relations of its rows in
    `again`, shape (rows before,).

    `rows_before_by_kind` are the previous rows of entities, relations and units, or -1, each counted from the
    first row of its kind; `rows_before` counts from the first node. `fresh` are the rows without one.
    `indptr` and `indices` are the chunks of nodes, and `naming` the units that name each fresh entity.
    """

    def __init__(
        self,
        graph: Grouping,
        extracted: Stored,
        texts: Mapping[int, str],
        previous: Stored | None,
        again: NDArray[np.bool_] | None = None,
    ) -> None:
        self.graph, self._previous = graph, previous
        counts = np.zeros(3, np.int64) if previous is None else previous.arrays["counts"]
        starts = np.cumsum([0, *counts]).tolist()
        self._first_relation, self._first_unit = starts[RELATIONS], starts[UNITS]
        marks = self._marks(combined(extracted.keys))
        by_kind = []
        for kind, own in enumerate(marks):
            rows_before = np.full(len(own), -1, np.int64)
            if previous is not None:
                rows = slice(starts[kind], starts[kind + 1])
                rows_before = find_marks(own, previous.arrays[MARKS][rows])
                if again is not None and kind != UNITS:
                    rows_before[np.append(again[rows], False)[rows_before]] = -1
            by_kind.append(rows_before)
        self._texts = dict(texts)
        self._read(extracted, [np.flatnonzero(each < 0) for each in by_kind])
        self.rows_before_by_kind = by_kind
        self.fresh = [np.flatnonzero(each < 0) for each in self.rows_before_by_kind]
        self.rows_before = np.concatenate(
            [
                np.where(each >= 0, each + start, -1)
                for each, start in zip(self.rows_before_by_kind, starts, strict=False)
            ]
        )
        self.naming = self._naming.at(self.fresh[ENTITIES])
        lists = graph.entities.chunks, graph.relations.chunks, self.graph.units.chunks
        self.indptr = borders(np.concatenate([np.diff(each.starts) for each in lists]))
        self.indices = np.concatenate([each.values for each in lists])
        self.arrays: dict[str, NDArray[Any]] = {
            "counts": np.array([len(each) for each in self.rows_before_by_kind], np.int64),
            "relations.ends": graph.relations.ends,
            "relations.weights": graph.relations.weights.astype(np.float32),
            "relations.described": graph.relations.apart,
            "units.indptr": self.graph.units.entities.starts,
            "units.indices": self.graph.units.entities.values,
            MARKS: np.concatenate(marks),
        }

    def _marks(self, chunks: Marks) -> tuple[Marks, Marks, Marks]:
        """Marks of entities, relations and units, from those of the chunks.

        The vector of a unit may depend on the first chunk that states it, that of an entity on the vectors of
        its units and on the chunks that name it.
        """
        entities, relations, units = self.graph.entities, self.graph.relations, self.graph.units
        keys = self.graph.strings.keys
        of_units = combined(units.marks, chunks[units.chunks.values[units.chunks.starts[:-1]]])
        named = units.entities.values
        by_entity = order(named, len(entities.names))
        self._naming = Lists.of(named[by_entity], units.entities.owners[by_entity], len(entities.names))
        kinds = np.append(content_keys(self.graph.kinds), np.uint64(0))
        of_entities = combined(
            keys[entities.names],
            keys[entities.shown],
            kinds[entities.kinds],
            entities.statements.sums,
            list_sums(self._naming.starts, of_units[self._naming.values]),
            list_sums(entities.chunks.starts, chunks[entities.chunks.values]),
        )
        said = relations.texts.sums
        for which, each in enumerate((relations.opposite.texts, relations.types, relations.opposite_types)):
            others = combined(each.values, each.places, np.full(len(each.values), which))
            np.add.at(said, each.owners, others)
        ends = combined(keys[entities.names], keys[entities.shown])
        weights = relations.weights.view(np.uint64)
        of_relations = combined(*(ends[column] for column in relations.ends.T), weights, said)
        return of_entities, of_relations, of_units

    def _read(self, extracted: Stored, fresh: Sequence[Rows]) -> None:
        """Read the texts of new nodes that are not in memory yet."""
        entities, relations, units = self.graph.entities, self.graph.relations, self.graph.units
        first = units.chunks.values[units.chunks.starts[:-1]]
        said = (
            entities.statements.at(fresh[ENTITIES]),
            relations.texts.at(fresh[RELATIONS]),
            relations.opposite.at(fresh[RELATIONS]),
        )
        keys = np.concatenate([units.texts[fresh[UNITS]], *(each.texts.values for each in said)])
        chunks = np.concatenate([first[fresh[UNITS]], *(each.chunks for each in said)])
        if missing := [at for at, key in enumerate(keys.tolist()) if key not in self._texts]:
            self._texts |= read_texts(extracted, keys[missing], chunks[missing])

    # Records of fresh rows

    def records(self) -> tuple[list[Entity], list[NamedRelation], list[Unit]]:
        """The fresh entities, relations and units."""
        relations, rows, strings = self.graph.relations, self.fresh[RELATIONS], self.graph.strings
        said = (each.at(rows).texts for each in (relations.texts, relations.opposite))
        types = (each.at(rows) for each in (relations.types, relations.opposite_types))
        chunks, ends = relations.chunks.at(rows), relations.ends[rows]
        names = self._names(ends.ravel())
        columns = (
            *(map(names.__getitem__, each) for each in ends.T.tolist()),
            *(each.split(self._said(each.values)) for each in said),
            relations.weights[rows].tolist(),
            chunks.split(chunks.values.tolist()),
            *(each.split(strings.texts(strings.find(each.values))) for each in types),
        )
        units = self.graph.units.at(self.fresh[UNITS])
        names = self._names(units.entities.values)
        named = units.entities.split([names[row] for row in units.entities.values.tolist()])
        of_units = units.chunks.split(units.chunks.values.tolist())
        return (
            entity_records(self.graph, self.fresh[ENTITIES], self._texts),
            list(map(NamedRelation, *columns)),
            list(map(Unit, self._said(units.texts), named, of_units)),
        )

    def _said(self, keys: Keys) -> list[str]:
        return [self._texts[key] for key in keys.tolist()]

    def _names(self, rows: Rows) -> dict[int, str]:
        """The canonical names of some entities."""
        rows = distinct(rows)
        return dict(
            zip(rows.tolist(), self.graph.strings.texts(self.graph.entities.names[rows]), strict=True)
        )

    def shown(self) -> dict[str, str]:
        """The shown names of fresh entities and of the ends of fresh relations, by canonical names."""
        rows = np.union1d(self.fresh[0], self.graph.relations.ends[self.fresh[1]])
        names = self._names(rows)
        shown = self.graph.strings.texts(self.graph.entities.shown[rows])
        return {names[row]: name for row, name in zip(rows.tolist(), shown, strict=True)}

    def unit_texts(self, entities: Sequence[Entity], *, whole: bool) -> list[list[str]]:
        """The texts of the units that name each fresh entity.

        An entity without a description has the first `MOST_UNITS`, sorted, which describe it. Other entities
        have all their units if `whole`, else none.
        """
        wanted = [
            named[: MOST_UNITS if not entity.fragments else None if whole else 0]
            for entity, named in zip(entities, self.naming.split(self.naming.values.tolist()), strict=True)
        ]
        rows = distinct(np.array(list(chain.from_iterable(wanted)), np.int64))
        rows_before = self.rows_before_by_kind[2][rows]
        new = rows[rows_before < 0]
        texts = dict(zip(new.tolist(), self._said(self.graph.units.texts[new]), strict=True))
        if (rows_before >= 0).any():
            assert self._previous is not None
            previous = self._previous.texts((self._first_unit + rows_before[rows_before >= 0]).tolist())
            texts |= zip(rows[rows_before >= 0].tolist(), previous, strict=True)
        return [sorted(texts[row] for row in each) for each in wanted]

    # Arrays

    def name_index(self) -> dict[str, NDArray[Any]]:
        """The arrays of the index of all canonical names."""
        keys = self.graph.strings.keys[self.graph.entities.names]
        before, known = dict[str, NDArray[Any]](), np.zeros(0, np.uint64)
        if self._previous is not None:
            before = prefixed(self._previous.arrays, "names.")
            known = self._previous.keys[: self._first_relation]
        by_key = np.argsort(known)
        rows_before = np.append(by_key, -1)[find(known[by_key], keys)]
        now = np.full(len(known), -1, np.int64)
        now[rows_before[rows_before >= 0]] = np.flatnonzero(rows_before >= 0)
        index = NameIndex.updated(before, now, len(keys), self._names(np.flatnonzero(rows_before < 0)))
        return {f"names.{name}": array for name, array in index.items()}

    def joined(self, name: str, kind: int, fresh: NDArray[Any]) -> NDArray[Any]:
        """The present array of the rows of a kind; `fresh` belongs to the fresh ones."""
        if self._previous is None:
            return fresh
        return spliced(self._previous.arrays[name], self.rows_before_by_kind[kind], fresh)

    def carried(self, name: str, kind: int, fresh: NDArray[np.floating]) -> Vectors:
        """The same for vectors, without reading the previous ones."""
        if self._previous is None:
            return cast(Vectors, fresh)
        return cast(
            Vectors, CarriedVectors(self._previous.arrays[name], self.rows_before_by_kind[kind], fresh)
        )


def entity_records(graph: Grouping, rows: Rows, texts: Mapping[int, str]) -> list[Entity]:
    """Some entities; those without `texts` have no fragments."""
    entities, strings = graph.entities, graph.strings
    said, chunks, kinds = entities.statements.at(rows).texts, entities.chunks.at(rows), [*graph.kinds, ""]
    names, shown = (strings.texts(places[rows]) for places in (entities.names, entities.shown))
    fragments = said.split([texts[key] for key in said.values.tolist()]) if texts else [()] * len(rows)
    columns = (
        names,
        shown,
        (kinds[kind] for kind in entities.kinds[rows].tolist()),
        fragments,
        chunks.split(chunks.values.tolist()),
    )
    return list(map(Entity, *columns))


def read_texts(extracted: Stored, keys: Keys, chunks: Rows) -> dict[int, str]:
    """Descriptions and units by key; `chunks` are rows of extractions that hold them."""
    wanted, rows = set(keys.tolist()), distinct(chunks).tolist()
    texts: dict[int, str] = {}
    for start in range(0, len(rows), BATCH):
        for node in extracted.nodes(rows[start : start + BATCH]):
            each = extraction_of(node)
            own = {unit.text for unit in each.units}
            own.update(entity.description for entity in each.entities)
            own.update(relation.description for relation in each.relations)
            texts |= {key: text for text in own if (key := content_key(text)) in wanted}
    return texts


def spliced(before: NDArray[Any], rows_before: Rows, fresh: NDArray[Any]) -> NDArray[Any]:
    """The items at previous rows, and in order those of `fresh` where the row is -1."""
    items = np.zeros((len(rows_before), *fresh.shape[1:]), fresh.dtype)
    items[rows_before >= 0] = before[rows_before[rows_before >= 0]]
    items[rows_before < 0] = fresh
    return items


def prefixed(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names have a prefix, without it."""
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
