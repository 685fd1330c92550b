"""Chunks and documents behind nodes, read for many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from cachetools import LRUCache

from stratagraph.store.corpus import RecordedCorpus
from stratagraph.store.snapshot import JoinedSnapshot, Snapshot
from stratagraph.system.locks import Lock
from stratagraph.types.protocols import Rows


def documents_of(corpus: RecordedCorpus | JoinedSnapshot, chunks: Sequence[str]) -> tuple[str, ...]:
    """Sorted ids of the documents of some chunks; unknown chunks are ignored."""
    rows = list(corpus.row_of(chunks).values())
    numbers = np.unique(corpus.chunk_documents()[rows])
    return tuple(corpus.document_ids(numbers.tolist()))


HELD = 1 << 16
"""Chunks and documents that are remembered."""
T = TypeVar("T")
SourceIds = tuple[tuple[str, ...], tuple[str, ...]]
"""Ids of the chunks and of the documents that something came from."""
_LOCK = Lock()
_NO_ROWS: Rows = np.zeros(0, np.int64)


class RecentSources:
    """Ids of chunks and documents and their `source`, with the recent ones in memory. Thread-safe."""

    def __init__(self, snapshot: Snapshot | JoinedSnapshot) -> None:
        self._snapshot = snapshot
        self._of = snapshot.chunk_documents()
        self._chunks: LRUCache[int, str] = LRUCache(HELD)
        self._documents: LRUCache[int, str] = LRUCache(HELD)
        self._sources: LRUCache[str, Any] = LRUCache(HELD)

    def of(self, lists: Sequence[Rows]) -> list[SourceIds]:
        """Chunk ids and document ids of each list of ascending rows, in corpus order."""
        every = np.unique(np.concatenate([_NO_ROWS, *lists]))
        if not len(every):
            return [((), ())] * len(lists)
        rows, numbers = every.tolist(), self._of[every].tolist()
        ids = dict(zip(rows, _remembered(self._chunks, rows, self._snapshot.ids), strict=True))
        number_of = dict(zip(rows, numbers, strict=True))
        distinct = sorted(set(numbers))
        names = dict(
            zip(distinct, _remembered(self._documents, distinct, self._snapshot.document_ids), strict=True)
        )
        found = []
        for each in lists:
            own = each.tolist()
            documents = sorted({number_of[row] for row in own})
            found.append((tuple([ids[row] for row in own]), tuple([names[number] for number in documents])))
        return found

    def sources(self, documents: Sequence[str]) -> list[Any]:
        """The `source` in the metadata of each document, or None."""

        def read(names: Sequence[str]) -> list[Any]:
            metadata = self._snapshot.document_metadata(names)
            return [metadata[name].get("source") if name in metadata else None for name in names]

        return _remembered(self._sources, documents, read)


def _remembered(
    cache: LRUCache[Any, T], keys: Sequence[Any], read: Callable[[Sequence[Any]], Sequence[T]]
) -> list[T]:
    """The values of some keys; those not remembered are read together."""
    with _LOCK:
        values = {key: cache[key] for key in keys if key in cache}
    missing = [key for key in dict.fromkeys(keys) if key not in values]
    if missing:
        values.update(zip(missing, read(missing), strict=True))
        with _LOCK:
            for key in missing[-HELD:]:
                cache[key] = values[key]
    return [values[key] for key in keys]
