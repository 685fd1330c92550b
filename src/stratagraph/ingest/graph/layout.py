"""Row layout of an updated graph (`graph_update`): the chunks of its nodes and the arrays made of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.graph.merge_state import read_describing
from stratagraph.ingest.graph.update import Moved, Touched
from stratagraph.types.protocols import Rows, Stored


def transposed(indptr: Rows, indices: Rows, columns: int) -> tuple[Rows, Rows]:
    """Rows of each column, ascending, from columns of each row."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    return np.searchsorted(indices[order], np.arange(columns + 1)), rows[order]


class LaidOut:
    """The rows of an updated graph.

    Attributes
    ----------
    origin
        The previous row of each unchanged node, or -1.
    indptr, indices
        The chunks of each node.
    arrays
        Arrays of entities, relations and units that are made of rows alone.
    describing
        Whether each chunk of each entity describes it.
    names
        The shown names of entities by canonical names, as far as relations need them.
    """

    def __init__(self, previous: Stored, change: Touched) -> None:
        self._previous, self._change = previous, change
        before, counts = previous.arrays, [int(count) for count in previous.arrays["counts"]]
        self._first = counts[0] + counts[1]
        entities, relations, units = change.moved
        firsts = np.cumsum([0, *counts])
        chunks = [
            [each.chunks for each in change.entities],
            [each.chunks for each in change.relations],
            [each.chunks for each in change.units],
        ]
        lists = [
            moved.spliced_lists(
                before["sources.indptr"][first : first + count + 1],
                before["sources.indices"],
                change.rows,
                fresh,
            )
            for moved, fresh, first, count in zip(change.moved, chunks, firsts, counts, strict=False)
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
        ends = [[rows[each.source], rows[each.target]] for each in change.relations]
        named = [[rows[key] for key in each.entities] for each in change.units]
        self._units = units.spliced_lists(
            before["units.indptr"], before["units.indices"], entities.now, named
        )
        self.arrays: dict[str, NDArray[Any]] = {
            "counts": np.array([len(moved.origin) for moved in change.moved], np.int64),
            "relations.ends": relations.spliced(
                entities.now[before["relations.ends"]], np.array(ends, np.int64).reshape(-1, 2)
            ),
            "relations.weights": relations.spliced(
                before["relations.weights"], np.array([each.weight for each in change.relations], np.float32)
            ),
            "relations.described": relations.spliced(
                before["relations.described"],
                np.array([each.described for each in change.relations], np.bool_),
            ),
            "units.indptr": self._units[0],
            "units.indices": self._units[1],
        }
        starts, naming = transposed(*self._units, len(entities.origin))
        self._naming = [naming[starts[row] : starts[row + 1]] for row in entities.fresh.tolist()]
        self.describing = self._described(entities)
        self.names = self._names()

    @property
    def members(self) -> tuple[Rows, tuple[Rows, Rows]]:
        """The units that name the touched entities: their rows, and for each entity places among these."""
        flat = np.concatenate([np.zeros(0, np.int64), *self._naming])
        rows, places = np.unique(flat, return_inverse=True)
        indptr = np.cumsum([0, *map(len, self._naming)], dtype=np.int64)
        return rows, (indptr, places.astype(np.int64))

    def unit_texts(self, most: int | None) -> list[list[str]]:
        """Texts of the units that name each touched entity: the first ones, or all if it is described."""
        wanted = [
            rows[:most] if most is not None or entity.fragments else rows[:1]
            for entity, rows in zip(self._change.entities, self._naming, strict=True)
        ]
        units = self._change.moved[2]
        texts = dict(zip(units.fresh.tolist(), (unit.text for unit in self._change.units), strict=True))
        others = sorted({row for rows in wanted for row in rows.tolist()} - texts.keys())
        texts |= zip(others, self._previous.texts((self._first + units.origin[others]).tolist()), strict=True)
        return [[texts[row] for row in rows.tolist()] for rows in wanted]

    def _described(self, entities: Moved) -> NDArray[np.bool_]:
        indptr = self._previous.arrays["sources.indptr"][: len(entities.now) + 1]
        before = read_describing(self._previous.arrays, int(indptr[-1]))
        fresh = []
        for each in self._change.spelt:
            texts = {chunk for chunk, _ in each.texts}
            fresh.append([int(chunk in texts) for chunk in sorted(each.chunks)])
        return entities.spliced_lists(indptr, before.astype(np.int64), np.arange(2), fresh)[1] > 0

    @property
    def new_names(self) -> dict[int, str]:
        """The canonical names of new entities, by their rows."""
        entities = self._change.moved[0]
        new = ~np.isin(entities.fresh, entities.now)
        keys = (each.key for each, came in zip(self._change.entities, new, strict=True) if came)
        return dict(zip(entities.fresh[new].tolist(), keys, strict=True))

    def _names(self) -> dict[str, str]:
        names = {entity.key: entity.name for entity in self._change.entities}
        others = {key for each in self._change.relations for key in (each.source, each.target)} - names.keys()
        rows = self._previous.rows(sorted(others))
        nodes = self._previous.nodes(list(rows.values()))
        return names | {key: str(node.extra["name"]) for key, node in zip(rows, nodes, strict=True)}
