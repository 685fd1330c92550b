"""What a build reads of the corpus' graph, and which of its groups the previous index has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import Keys, Labels
from stratagraph.ingest.marks import Marks, combined, label_sums, list_sums, mixed
from stratagraph.kernels.ranges import ranges
from stratagraph.methods.groups import MARKS, GroupBuilder, NodeTable, united
from stratagraph.methods.noderag.config import NodeRAGConfig
from stratagraph.types.protocols import Rows

Builder = GroupBuilder[NodeRAGConfig]
ELEMENT_LABELS = "elements.labels"
"""The array of the community of each high-level element."""
BORDERS, MEMBERS = "attributes.indptr", "attributes.indices"
"""Arrays: where the rows of the graph of each attribute begin and end, and these: its entity, then others."""


class BuildInputs:
    """The rows of the graph: entities, then relations, then units."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.graph = builder, builder.graph
        self.keys: Keys = self.graph.stored.keys

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.keys)

    @property
    def first_unit(self) -> int:
        """The row of the first unit."""
        return self.graph.entities + self.graph.relations

    @cached_property
    def attributes_before(self) -> Rows:
        """The place of each entity's attribute in the previous index, or -1, shape (entities,)."""
        graph, previous = self.graph, self.builder.previous
        if previous is None or graph.before is None:
            return np.full(graph.entities, -1, np.int64)
        owners = previous.arrays[MEMBERS][previous.arrays[BORDERS][:-1]]
        places = np.full(graph.before.size + 1, -1, np.int64)  # the last is found where there was no entity
        places[owners] = np.arange(len(owners))
        return places[graph.before.rows_before[: graph.entities]]

    def ids(self, rows: Iterable[int]) -> dict[int, str]:
        """Ids by row."""
        distinct = sorted(set(rows))
        return dict(zip(distinct, self.graph.stored.ids(distinct), strict=True))

    def texts(self, rows: Iterable[int]) -> dict[int, str]:
        """Texts of relations and units by row."""
        distinct = sorted(set(rows))
        return dict(zip(distinct, self.graph.stored.texts(distinct), strict=True))

    def names(self, entities: Iterable[int]) -> dict[int, str]:
        """Names of entities by row."""
        distinct = sorted(set(entities))
        nodes = self.graph.stored.nodes(distinct)
        return {row: str(node.extra["name"]) for row, node in zip(distinct, nodes, strict=True)}

    def sources(self, rows: Iterable[int]) -> list[int]:
        """The chunks that any of some rows came from, ascending."""
        indptr, indices = self.graph.sources
        return united(indices[indptr[row] : indptr[row + 1]] for row in rows)

    @cached_property
    def marks(self) -> Marks:
        """The mark of each row as what statements say of it.

        An entity stands for its name alone, and a relation or unit for the names of its entities too.
        """
        graph, marks = self.graph, self.builder.row_marks.copy()
        names = mixed(graph.shown[:, 1])
        indptr, indices = graph.unit_entities
        marks[: graph.entities] = combined(self.keys[: graph.entities], names)
        of_ends = names[graph.ends[:, 0]] + names[graph.ends[:, 1]]
        named = np.concatenate([of_ends, list_sums(indptr, names[indices])])
        marks[graph.entities :] = combined(marks[graph.entities :], named)
        return marks

    def regrouped_attributes(self, lists: tuple[Rows, Rows]) -> tuple[Marks, Rows]:
        """The mark of each attribute, made of its rows in `statement_lists`, and its previous row or -1."""
        indptr, indices = lists
        return self.builder.regroup(list_sums(indptr, self.marks[indices]), "attribute")

    def regrouped_elements(
        self, labels: Labels, attributes: NodeTable
    ) -> tuple[Marks, NDArray[np.bool_], Rows, Rows]:
        """Marks of communities, which need new elements, and labels and previous rows of the other elements.

        `labels` are those of the rows of the graph, then of the attributes. A community needs elements if it
        has enough attributes and units, or, without units, relations.
        """
        count, builder = int(labels.max(initial=-1)) + 1, self.builder
        borders = self.graph.entities, self.first_unit, self.size
        relations, units, own = (np.bincount(each, minlength=count) for each in np.split(labels, borders)[1:])
        large = np.where(units > 0, units, relations) + own >= builder.config.min_members
        members = np.concatenate([self.marks, attributes.member_marks()])
        marks, rows = builder.regroup(label_sums(labels, members, count), "element")
        if builder.previous is None:
            return marks, large, rows[:0], rows[:0]
        before = builder.previous.arrays[MARKS]  # the elements of a community lie together
        ends = np.append(np.flatnonzero((before[1:] != before[:-1]).any(axis=1)) + 1, len(before))
        known = np.flatnonzero(rows >= 0)
        sizes = ends[np.searchsorted(ends, rows[known], "right")] - rows[known]
        return marks, large & (rows < 0), np.repeat(known, sizes), ranges(rows[known], sizes)
