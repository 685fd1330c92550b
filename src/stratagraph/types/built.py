"""What the stages of a build hand to the store, and what a search reads back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.types.records import Metadata, Node


class MadeLate(Sequence[Node]):
    """A sequence of nodes that are made on each access, to save memory."""

    @abstractmethod
    def made(self, row: int) -> Node:
        """The node at a row."""

    @abstractmethod
    def ids(self) -> Iterator[str]:
        """The ids of all nodes, in order."""

    @overload
    def __getitem__(self, row: int) -> Node: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Node]: ...
    def __getitem__(self, row: int | slice) -> Node | Sequence[Node]:
        places = range(len(self))[row]
        return self.made(places) if isinstance(places, int) else [self.made(place) for place in places]


VALUES: Mapping[str, tuple[Any, Any]] = {
    **dict.fromkeys(
        ("by", "description", "digest", "maker", "name", "reason", "title", "type"), (str, object)
    ),
    **dict.fromkeys(("members", "names", "opposite_types", "types"), (list, str)),
    "summaries": (list, dict),
    "notes": (dict, object),
    **dict.fromkeys(("rating", "weight"), ((int, float), object)),
}
"""Types of those values of nodes (`Node.extra`) that stages and methods read again, and of their items."""


class NodeValues(dict[str, Any]):
    """The values of a stored node. A missing one, or one of another type than in `VALUES`, is `Damaged`."""

    def __init__(self, part: str, identity: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._node = f"part '{part}': node {identity[:80]!r}"

    def __getitem__(self, key: str) -> Any:
        wrong = f"no {key!r}"
        if key in self:
            value = super().__getitem__(key)
            kind, of = VALUES.get(key, (object, object))
            items = value if isinstance(value, list) else ()
            if isinstance(value, kind) and all(isinstance(each, of) for each in items):
                return value
            wrong = f"{str(value)[:40]!r} as its {key!r}"
        raise Damaged(
            f"{self._node} has {wrong}, with which no node of its kind is written. Restore the folder from a "
            "copy, or build again"
        )

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default if there is none."""
        if key not in self:
            return default
        return self[key]


@dataclass(frozen=True, slots=True)
class Item:
    """A node or chunk as a search reads it.

    `id`, `kind`, `level` and `text` are as for `Node`; the kind of a chunk is `chunk`. `sources` are the rows
    of the contributing chunks, ascending, shape (n,). `extra` has the values of the node, or the metadata of
    the chunk. A chunk has a `document`, and the caller's id, `ref`.
    """

    id: str
    kind: str
    level: int
    text: str
    sources: NDArray[np.integer]
    extra: Metadata = field(default_factory=dict)
    document: str = ""
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Carried:
    """Nodes of a part, most of them copied from the previous generation with new sources.

    `before` is the previous row of each node, or -1 for a new one, shape (nodes,), and `fresh` the new nodes,
    in order. The sources of node i are `indices[indptr[i]:indptr[i + 1]]`.
    """

    before: NDArray[np.int64]
    fresh: Sequence[Node]
    indptr: NDArray[np.int64]
    indices: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.before)


@dataclass(frozen=True, slots=True)
class CarriedVectors:
    """Vectors, most of them copied from an array of the previous generation (`before`).

    `rows_before` is the row of each vector in it, or -1, shape (rows,). `fresh` are the other vectors, in
    order. Their rows can be assigned to.
    """

    before: Any
    rows_before: NDArray[np.int64]
    fresh: NDArray[np.floating]
    _places: NDArray[np.int64] = field(init=False, repr=False)

    ndim = 2
    dtype = np.dtype(np.float32)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", np.cumsum(self.rows_before < 0) - 1)

    def __len__(self) -> int:
        return len(self.rows_before)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return len(self.rows_before), self.fresh.shape[1]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        if isinstance(rows, tuple):
            vectors: NDArray[np.float32] = self[rows[0]][(..., *rows[1:])]
            return vectors
        rows_before = self.rows_before[rows]
        copied = rows_before >= 0
        if copied.all():
            return np.asarray(self.before[rows_before], np.float32)
        vectors = np.zeros((*rows_before.shape, self.fresh.shape[1]), np.float32)
        vectors[copied] = self.before[rows_before[copied]]
        vectors[~copied] = self.fresh[self._places[rows][~copied]]
        return vectors

    def __setitem__(self, rows: Any, vectors: NDArray[np.floating]) -> None:
        if (self.rows_before[rows] >= 0).any():
            raise ValueError("only vectors that the previous generation lacks can be assigned")
        self.fresh[self._places[rows]] = vectors

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        vectors = self[np.arange(len(self))]
        return vectors if dtype is None else vectors.astype(dtype, copy=False)


INDEX_FIELD, KIND_FIELD, DOCUMENT_FIELD, VECTOR_FIELD = (
    f"stratagraph_{name}" for name in ("index", "kind", "document", "vector")
)
"""Fields of a row in a vector store: whose it is, what the vector is of, a key of the one document that it
comes from, and the vector itself as it was written (float16, base64), since stores round and rescale."""


@dataclass(frozen=True, slots=True)
class VectorRow:
    """A vector of an index as a row of a vector store.

    `id` is a UUID derived from the index's identity and the row's content, `vector` is of unit length, and
    `fields` are short texts, none of which comes from a document.
    """

    id: str
    vector: Sequence[float]
    fields: Mapping[str, str]


class Holds(Enum):
    """What an array of a part holds; the store decides by it how the array is written and erased."""

    ROWS = "rows"
    """Integers that number rows or places. They move when documents come or go, and tell nothing of texts."""
    MEASURES = "measures"
    """Counts, weights, kinds and settings, which tell nothing of texts."""
    CONTENT = "content"
    """What stands for texts: keys, marks, codes, characters. Nothing of it may outlast a deletion."""
    VECTORS = "vectors"
    """Unit vectors, shape (n, dimension)."""

    def of(self, arrays: Mapping[str, Any], chunks: NDArray[np.int64] | None = None) -> Arrays:
        """Declare arrays by their names. `chunks`: see `Declared`."""
        return {name: Declared(array, self, chunks) for name, array in arrays.items()}


class Declared(NamedTuple):
    """An array, with what it holds.

    `chunks` are those that vectors come from, if the vectors do not follow the nodes.
    """

    values: Any
    holds: Holds
    chunks: NDArray[np.int64] | None = None


Arrays = dict[str, Declared]


def declared(arrays: Mapping[str, Any], holds: Mapping[Holds, Sequence[str]], prefix: str = "") -> Arrays:
    """Declare arrays by their names without `prefix`, which the result has.

    `TypeError` if an array is not in `holds`.
    """
    kinds = {name: kind for kind, names in holds.items() for name in names}
    if unknown := sorted(arrays.keys() - kinds.keys()):
        raise TypeError(f"what array {prefix + unknown[0]!r} holds is not declared")
    return {prefix + name: Declared(array, kinds[name]) for name, array in arrays.items()}


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a stage or method. Row i of an array of nodes belongs to `nodes[i]`.

    `notes` counts repaired or dropped input, by a phrase for people. `complete` says whether a model made all
    that it can; if not, a later update tries again.
    """

    nodes: Sequence[Node] | Carried
    arrays: Arrays = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    complete: bool = True

    @property
    def made(self) -> Sequence[Node]:
        """The nodes that are not copied from the previous generation."""
        return self.nodes.fresh if isinstance(self.nodes, Carried) else self.nodes
