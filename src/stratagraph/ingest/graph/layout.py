"""Row layout of a graph: the chunks of its nodes, and arrays of rows. A build updates an empty graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.graph.describe import MOST_UNITS
from stratagraph.ingest.graph.merge import Entity, Relation, Unit
from stratagraph.ingest.graph.update import Moved, Touched
from stratagraph.ingest.names.index import NameIndex
from stratagraph.kernels.ranges import ranges
from stratagraph.types.built import CarriedVectors
from stratagraph.types.protocols import Rows, Stored, Vectors

_NO_ROWS = np.zeros(0, np.int64)
_EMPTY: dict[str, NDArray[Any]] = {
    "counts": np.zeros(3, np.int64),
    "sources.indptr": np.zeros(1, np.int64),
    "sources.indices": _NO_ROWS,
    "relations.ends": np.zeros((0, 2), np.int64),
    "relations.weights": np.zeros(0, np.float32),
    "relations.described": np.zeros(0, np.bool_),
    "units.indptr": np.zeros(1, np.int64),
    "units.indices": _NO_ROWS,
}


def prefixed(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names have a prefix, without it."""
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


class LaidOut:
    """The rows of a graph, and the arrays that follow from rows alone.

    Attributes
    ----------
    change, before
        The merged nodes, and the arrays of the previous graph.
    origin
        The previous row of each unchanged node, or -1.
    indptr, indices
        The chunks of each node.
    arrays
        The arrays of entities, relations and units.
    names
        The shown names of merged entities and of the ends of merged relations, by canonical names.
    naming
        The units that name each entity of `change`, as borders and rows.
    """

    def __init__(self, previous: Stored | None, change: Touched) -> None:
        self._previous, self.change = previous, change
        self.before: Mapping[str, NDArray[Any]] = _EMPTY if previous is None else previous.arrays
        before, counts = self.before, [int(count) for count in self.before["counts"]]
        self._first = counts[0] + counts[1]
        graph, (entities, relations, units) = change.graph, change.moved
        firsts = np.cumsum([0, *counts])
        merged: Sequence[Sequence[Entity | Relation | Unit]] = (graph.entities, graph.relations, graph.units)
        lists = [
            moved.spliced_lists(
                before["sources.indptr"][first : first + count + 1],
                before["sources.indices"],
                [each.chunks for each in fresh],
                change.rows,
            )
            for moved, fresh, first, count in zip(change.moved, merged, firsts, counts, strict=False)
        ]
        self.indices = np.concatenate([indices for _, indices in lists])
        sizes = np.concatenate([np.diff(indptr) for indptr, _ in lists])
        self.indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if (self.indices < 0).any():
            raise ValueError("array 'sources.indices' has chunks that went, of nodes that none of them names")
        self.origin = np.concatenate(
            [
                np.where(moved.origin >= 0, moved.origin + first, -1)
                for moved, first in zip(change.moved, firsts, strict=False)
            ]
        )
        rows = change.key_rows
        ends = [[rows[each.source], rows[each.target]] for each in graph.relations]
        named = [[rows[key] for key in each.entities] for each in graph.units]
        units_indptr, units_indices = units.spliced_lists(
            before["units.indptr"], before["units.indices"], named, entities.now
        )
        self.arrays: dict[str, NDArray[Any]] = {
            "counts": np.array([len(moved.origin) for moved in change.moved], np.int64),
            "relations.ends": relations.spliced(
                entities.now[before["relations.ends"]], np.array(ends, np.int64).reshape(-1, 2)
            ),
            "relations.weights": relations.spliced(
                before["relations.weights"], np.array([each.weight for each in graph.relations], np.float32)
            ),
            "relations.described": relations.spliced(
                before["relations.described"],
                np.array([each.described for each in graph.relations], np.bool_),
            ),
            "units.indptr": units_indptr,
            "units.indices": units_indices,
        }
        owners = np.repeat(np.arange(len(units.origin)), np.diff(units_indptr))
        order = np.argsort(units_indices, kind="stable")
        starts = np.searchsorted(units_indices[order], np.arange(len(entities.origin) + 1))
        sizes = np.diff(starts)[entities.fresh]
        indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.naming: tuple[Rows, Rows] = indptr, owners[order][ranges(starts[entities.fresh], sizes)]
        self.names = self._names()

    def name_index(self) -> dict[str, NDArray[Any]]:
        """The arrays of the index of all canonical names."""
        entities, graph = self.change.moved[0], self.change.graph
        new = ~np.isin(entities.fresh, entities.now)
        new_names = {
            row: entity.key
            for row, entity, is_new in zip(entities.fresh.tolist(), graph.entities, new, strict=True)
            if is_new
        }
        before = prefixed(self.before, "names.")
        index = NameIndex.updated(before, entities.now, len(entities.origin), new_names)
        return {f"names.{name}": array for name, array in index.items()}

    def joined(self, name: str, moved: Moved, fresh: NDArray[Any]) -> NDArray[Any]:
        """The present array of rows; `fresh` alone if the previous graph has no such array."""
        return moved.spliced(self.before[name], fresh) if name in self.before else fresh

    def carried(self, name: str, moved: Moved, fresh: NDArray[np.floating]) -> Vectors:
        """The same for vectors, without reading the previous ones."""
        if name not in self.before:
            return cast(Vectors, fresh)
        return cast(Vectors, CarriedVectors(self.before[name], moved.origin, fresh))

    def unit_texts(self, *, whole: bool) -> list[list[str]]:
        """The texts of the units that name each merged entity.

        An entity without a description has the first `MOST_UNITS`, which describe it. Other entities have all
        their units if `whole`, else none.
        """
        graph, units = self.change.graph, self.change.moved[2]
        indptr, rows = self.naming[0].tolist(), self.naming[1]
        wanted = []
        for place, entity in enumerate(graph.entities):
            own = rows[indptr[place] : indptr[place + 1]]
            most = MOST_UNITS if not entity.fragments else len(own) if whole else 0
            wanted.append(own[:most].tolist())
        texts = dict(zip(units.fresh.tolist(), (unit.text for unit in graph.units), strict=True))
        others = sorted({row for rows in wanted for row in rows} - texts.keys())
        if others:
            assert self._previous is not None
            previous = self._previous.texts((self._first + units.origin[others]).tolist())
            texts |= zip(others, previous, strict=True)
        return [[texts[row] for row in rows] for rows in wanted]

    def _names(self) -> dict[str, str]:
        graph = self.change.graph
        names = {entity.key: entity.name for entity in graph.entities}
        others = {key for each in graph.relations for key in (each.source, each.target)} - names.keys()
        if others:
            assert self._previous is not None
            rows = self._previous.rows(sorted(others))
            nodes = self._previous.nodes(list(rows.values()))
            names |= {key: str(node.extra["name"]) for key, node in zip(rows, nodes, strict=True)}
        return names
