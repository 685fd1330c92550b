"""The nodes of a method, of which unchanged ones come from the previous index and are not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.before import Before
from stratagraph.ingest.carryover import VECTOR_KEYS, Keys, text_keys, written_by_model
from stratagraph.kernels.ranges import ranges
from stratagraph.types.protocols import Rows, Stored, Vectors
from stratagraph.types.records import Carried, CarriedVectors, Node

BY_MODEL = "by_model"
"""The array that tells of each node of a method whether a model wrote it, or nobody had to."""


@dataclass(frozen=True)
class KeptNodes:
    """Unchanged nodes and fresh ones.

    Parameters
    ----------
    before
        The previous row of each node, or -1.
    fresh
        The other nodes, in order.
    indptr, indices
        The chunk rows of node i are `indices[indptr[i]:indptr[i + 1]]`.
    previous
        The previous index.
    """

    before: Rows
    fresh: Sequence[Node]
    indptr: Rows
    indices: Rows
    previous: Stored | None

    @classmethod
    def of(
        cls, before: Rows, fresh: Sequence[Node], previous: Stored | None, seen: Before | None
    ) -> KeptNodes:
        """From nodes whose members and sources are unchanged (`Before.same`), and fresh ones."""
        kept = before >= 0
        if previous is None or seen is None or not kept.any():
            indptr, indices = np.zeros(1, np.int64), np.zeros(0, np.int64)
        else:
            indptr, indices = seen.sources(previous, before[kept])
        own = [node.sources for node in fresh]
        sizes = np.zeros(len(before), np.int64)
        sizes[kept], sizes[~kept] = np.diff(indptr), [len(each) for each in own]
        borders = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.empty(int(borders[-1]), np.int64)
        rows[ranges(borders[:-1][kept], sizes[kept])] = indices
        rows[ranges(borders[:-1][~kept], sizes[~kept])] = list(chain.from_iterable(own))
        return cls(before, fresh, borders, rows, previous)

    def __len__(self) -> int:
        return len(self.before)

    def read(self, rows: Sequence[int]) -> list[Node]:
        """The nodes at some rows."""
        kept = [row for row in dict.fromkeys(rows) if self.before[row] >= 0]
        known: dict[int, Node] = {}
        if self.previous is not None and kept:
            nodes = self.previous.nodes(self.before[kept].tolist())
            known = {row: self._placed(row, node) for row, node in zip(kept, nodes, strict=True)}
        places = np.cumsum(self.before < 0) - 1
        return [known[row] if row in known else self.fresh[places[row]] for row in rows]

    def texts(self) -> list[str]:
        """The texts of all nodes."""
        kept = self.before[self.before >= 0].tolist()
        known = iter(self.previous.texts(kept) if self.previous is not None and kept else [])
        fresh = iter(self.fresh)
        return [next(known) if row >= 0 else next(fresh).text for row in self.before.tolist()]

    def column(self, name: str, fresh: NDArray[Any]) -> NDArray[Any]:
        """An array with a value for each node: the previous values, and the given ones of fresh nodes."""
        found = np.zeros((len(self.before), *fresh.shape[1:]), fresh.dtype)
        kept = self.before >= 0
        found[~kept] = fresh
        if self.previous is not None and kept.any():
            found[kept] = self.previous.arrays[name][self.before[kept]]
        return found

    def by_model(self) -> NDArray[np.bool_]:
        """Whether each node was written by a model, or needed no writing."""
        return self.column(BY_MODEL, np.array([written_by_model(node) for node in self.fresh], np.bool_))

    def text_keys(self) -> Keys:
        """The key of each node's text (`carryover.text_keys`)."""
        return self.column(VECTOR_KEYS, text_keys(node.text for node in self.fresh))

    def vectors(self, name: str, fresh: Vectors) -> Vectors:
        """The vectors of all nodes, shape (nodes, dimension); `fresh` itself if all are fresh."""
        return fresh if (self.before < 0).all() else self.column(name, fresh)

    def _placed(self, row: int, node: Node) -> Node:
        sources = self.indices[self.indptr[row] : self.indptr[row + 1]].tolist()
        return Node(node.id, node.kind, node.level, node.text, sources, node.extra)


def joined(parts: Sequence[KeptNodes]) -> Carried:
    """The nodes of several parts in a row, to be stored."""
    none = np.zeros(0, np.int64)
    sizes = [np.diff(each.indptr) for each in parts]
    return Carried(
        np.concatenate([none, *(each.before for each in parts)]),
        [node for each in parts for node in each.fresh],
        np.cumsum(np.concatenate([[0], *sizes]), dtype=np.int64),
        np.concatenate([none, *(each.indices for each in parts)]),
    )


def stored_vectors(previous: Stored | None, name: str, before: Rows, vectors: Vectors) -> Vectors:
    """Vectors of nodes, without storing again those of the previous index.

    `before` holds the row of each equal vector in the previous array `name`, or -1.
    """
    if previous is None or not (before >= 0).any():
        return vectors
    return cast(Vectors, CarriedVectors(previous.arrays[name], before, vectors[np.flatnonzero(before < 0)]))
