"""What a build reads of the corpus' graph, and what is unchanged since the previous index."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.before import Before, list_sums, recognised, recognised_lists
from stratagraph.ingest.carryover import Keys, Labels
from stratagraph.kernels.ranges import ranges
from stratagraph.methods.groups import GroupBuilder, united
from stratagraph.methods.noderag.config import NodeRAGConfig
from stratagraph.methods.noderag.heterograph import Layout
from stratagraph.types.protocols import Rows

Builder = GroupBuilder[NodeRAGConfig]
ELEMENT_LABELS = "elements.labels"
"""The array of the community of each high-level element."""
BORDERS, MEMBERS = "attributes.indptr", "attributes.indices"
"""Arrays: where the rows of the graph of each attribute begin and end, and these: its entity, then others."""


class BuildInputs:
    """The rows of the graph (entities, then relations, then units), and what is unchanged about them."""

    def __init__(self, builder: Builder) -> None:
        graph = builder.graph
        self.builder, self.graph, self._arrays = builder, graph, builder.arrays
        self.keys: Keys = graph.stored.keys

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
        return places[graph.before.origin[: graph.entities]]

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

    def first_chunks_of_units(self) -> Rows:
        """The first chunk that each unit came from, shape (units,)."""
        indptr, indices = self.graph.sources
        return np.asarray(indices[indptr[self.first_unit : -1]], np.int64)

    @property
    def _before(self) -> Before:
        assert self.graph.before is not None
        return self.graph.before

    def unchanged_attributes(self, lists: tuple[Rows, Rows]) -> Rows:
        """The previous row of each attribute with the same, unchanged rows (`statement_lists`), or -1."""
        indptr, indices = lists
        if not self._arrays:
            return np.full(len(indptr) - 1, -1, np.int64)
        before = self._arrays[BORDERS], self._arrays[MEMBERS]
        candidates = self.attributes_before[indices[indptr[:-1]]]
        rows_before = recognised_lists(lists, self._before.origin, self._before.same, candidates, before)
        return self.builder.usable(rows_before)

    def unchanged_elements(self, labels: Labels, attributes: Rows) -> tuple[NDArray[np.bool_], Rows, Rows]:
        """Which communities need new elements; labels and previous rows of the elements of all others.

        `labels` are those of the rows of the graph, then of the attributes; `attributes` holds their previous
        rows.
        """
        count = int(labels.max(initial=-1)) + 1
        if not self._arrays:
            return np.ones(count, np.bool_), np.zeros(0, np.int64), np.zeros(0, np.int64)
        attribute_rows = np.where(attributes >= 0, self._before.size + attributes, -1)
        origin = np.concatenate([self._before.origin, attribute_rows])
        same = np.concatenate([self._same(), attributes >= 0])
        labels_before = recognised(labels, origin, same, self._arrays["communities.labels"], count)
        element_labels = self._arrays[ELEMENT_LABELS]
        order = np.argsort(element_labels, kind="stable")
        begins = np.searchsorted(element_labels[order], labels_before)
        ends = np.searchsorted(element_labels[order], labels_before, "right")
        first = Layout(np.asarray(self._arrays["layout"])).count("A")
        unusable = np.concatenate([[0], np.cumsum(self.builder.usable(order + first) < 0)])
        rewrite = (labels_before < 0) | (unusable[ends] > unusable[begins])
        sizes = np.where(rewrite, 0, ends - begins)
        return rewrite, np.repeat(np.arange(count), sizes), order[ranges(begins, sizes)] + first

    def _same(self) -> NDArray[np.bool_]:
        """Which rows are unchanged; a unit, whose entities name elements, only if their names are too."""
        graph, same = self.graph, self._before.same.copy()
        rewritten = np.flatnonzero(self._before.rewritten[: graph.entities])
        now = graph.stored.nodes(rewritten.tolist())
        before = self._before.stored.nodes(self._before.origin[rewritten].tolist())
        renamed = np.zeros(graph.entities, np.uint64)
        renamed[rewritten] = [
            one.extra["name"] != other.extra["name"] for one, other in zip(now, before, strict=True)
        ]
        indptr, indices = graph.unit_entities
        same[graph.entities + graph.relations :] &= list_sums(indptr, renamed[indices]) == 0
        return same
