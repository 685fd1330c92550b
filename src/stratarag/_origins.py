"""Where nodes come from, read for many at once; and the documents of chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stratarag.protocols import Rows
from stratarag.records import Node
from stratarag.store.joined import JoinedSnapshot
from stratarag.store.snapshot import Snapshot
from stratarag.store.view import CorpusView


def documents_of(corpus: CorpusView | JoinedSnapshot, chunks: Sequence[str]) -> tuple[str, ...]:
    """Ids of the documents of some chunks, sorted; chunks that are not there are left out."""
    rows = list(corpus.row_of(chunks).values())
    numbers = np.unique(corpus.chunk_documents()[rows])
    return tuple(corpus.document_ids(numbers.tolist()))


class Origins:
    """Ids of chunks and of their documents by row: of the sources of some nodes, or of all chunks."""

    def __init__(self, snapshot: Snapshot | JoinedSnapshot, nodes: Sequence[Node] | None = None) -> None:
        self._rows: Rows = np.arange(snapshot.size)
        if nodes is not None:
            lists = [np.asarray(node.sources, dtype=np.int64) for node in nodes]
            self._rows = np.unique(np.concatenate([np.zeros(0, np.int64), *lists]))
        self._ids = snapshot.ids(self._rows.tolist())
        numbers = snapshot.chunk_documents()[self._rows].astype(np.int64)
        present, self._places = np.unique(numbers, return_inverse=True)
        self._documents = snapshot.document_ids(present.tolist())

    def of(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Chunk ids and document ids of a node's sources, both in the order of the corpus."""
        at = np.searchsorted(self._rows, np.asarray(node.sources, dtype=np.int64))
        documents = np.unique(self._places[at])
        return tuple([self._ids[i] for i in at.tolist()]), tuple(
            [self._documents[i] for i in documents.tolist()]
        )
