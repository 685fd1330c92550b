"""Reading chunks, documents and parts, from a published generation or one being made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.store.corpus import Digests, StoredCorpus
from stratagraph.store.node_records import NodeRecords
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.records import Chunk, Item, Metadata, Node

INDPTR, INDICES = "sources.indptr", "sources.indices"


class StoredPart:
    """A part of a generation (the extraction, the graph, a method's index).

    Attributes
    ----------
    size
        Number of nodes.
    arrays
        The part's arrays, memory-mapped, and the nodes' sources: node i has the chunk rows
        `sources.indices[sources.indptr[i]:sources.indptr[i + 1]]`. Vectors are read on demand
        (`pool.PooledVectors`).
    reader
        Reads the nodes.
    """

    def __init__(self, name: str, reader: NodeRecords, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.name = name
        self.arrays = MappingProxyType(arrays)
        self.size = len(arrays[INDPTR]) - 1
        self.reader = reader

    def nodes(self, rows: Sequence[int]) -> list[Node]:
        """The nodes at these rows, in their order; `IndexError` for an unknown row."""
        return [
            Node(each.id, each.kind, each.level, each.text, tuple(each.sources.tolist()), each.extra)
            for each in self.items(rows)
        ]

    def items(self, rows: Sequence[int]) -> list[Item]:
        """The nodes at these rows for a search, with sources as views; `IndexError` for an unknown row."""
        indptr, indices = self.arrays[INDPTR], self.arrays[INDICES]
        wanted = np.asarray(rows, np.int64)
        fields = self.reader.read(rows)
        borders = zip(indptr[wanted].tolist(), indptr[wanted + 1].tolist(), strict=True)
        return [
            Item(identity, kind, level, text, indices[begin:end], extra)
            for (identity, kind, level, text, extra), (begin, end) in zip(fields, borders, strict=True)
        ]

    def texts(self, rows: Sequence[int]) -> list[str]:
        """The texts of the nodes at these rows."""
        return self.reader.texts(rows)

    def ids(self, rows: Sequence[int]) -> list[str]:
        """The ids of the nodes at these rows."""
        return self.reader.ids(rows)

    def keys(self, rows: Sequence[int] | Rows) -> NDArray[np.uint64]:
        """64-bit keys of the ids of the nodes at these rows."""
        return self.reader.keys(rows)

    def marks(self, rows: Sequence[int] | Rows) -> NDArray[np.uint64]:
        """64-bit hashes of the nodes at these rows, without their sources."""
        return self.reader.marks(rows)

    def levels(self, rows: Sequence[int]) -> list[tuple[str, int]]:
        """Kind and level of the nodes at these rows."""
        return [(kind, level) for _, kind, level, _, _ in self.reader.read(rows)]

    def rows(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of those nodes that exist."""
        return self.reader.rows(ids)

    def find(self, keys: NDArray[np.uint64]) -> Rows:
        """The row of the node whose id has each of these keys (`keys`), or -1."""
        return self.reader.find(keys)


class CorpusView(ABC):
    """The chunks of a corpus in canonical order (document id, then ordinal), with rows from 0.

    Safe to use from several threads. An unknown row is an `IndexError`.
    """

    @property
    @abstractmethod
    def _corpus(self) -> StoredCorpus: ...

    @property
    @abstractmethod
    def vectors(self) -> Vectors:
        """Unit vectors of the chunks, shape (size, dimension), memory-mapped; zero where there is none."""

    @abstractmethod
    def chunk_documents(self) -> NDArray[np.int32]:
        """The place of each chunk's document in the sorted document ids, shape (size,)."""

    @property
    @abstractmethod
    def document_count(self) -> int:
        """Number of documents."""

    @abstractmethod
    def part(self, name: str) -> StoredPart:
        """A part by name; `MethodMissing` if there is none."""

    @property
    def size(self) -> int:
        """Number of chunks."""
        return self._corpus.size

    def ids(self, rows: Sequence[int]) -> list[str]:
        """Chunk ids, which stay the same in all generations."""
        return self._corpus.ids(rows)

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Chunk texts."""
        return self._corpus.texts(rows)

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Whole chunks, with the document's metadata merged under their own."""
        return self._corpus.chunks(rows)

    def row_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Rows by chunk id; ids that are not there are left out."""
        return self._corpus.row_of(ids)

    def refs(self, refs: Sequence[str]) -> dict[str, list[int]]:
        """Rows by the caller's own chunk ids; unknown ones are left out."""
        return self._corpus.refs(refs)

    def documents(self) -> dict[str, str]:
        """Digests by document id, sorted by id."""
        return self._corpus.documents()

    def digests(self) -> Mapping[str, str]:
        """Digests by document id, read on demand."""
        return Digests(self._corpus)

    def document_ids(self, numbers: Sequence[int]) -> list[str]:
        """Document ids by their place in the sorted ids, as `chunk_documents` has them."""
        return self._corpus.document_ids(numbers)

    def document_number(self, identity: str) -> int | None:
        """The place of a document in the sorted ids; None if there is no such document."""
        return self._corpus.document_number(identity)

    def document_metadata(self, ids: Sequence[str] | None = None) -> dict[str, Metadata]:
        """Metadata by document id; of all documents if `ids` is None."""
        return self._corpus.document_metadata(ids)

    def chunk_metadata(self) -> list[Metadata]:
        """Each chunk's metadata, in row order. Chunks without any of their own share their document's."""
        of_documents = list(self.document_metadata().values())
        merged = [of_documents[number] for number in self.chunk_documents().tolist()]
        for row, own in self._corpus.own_metadata().items():
            merged[row] = {**merged[row], **own}
        return merged
