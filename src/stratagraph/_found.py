"""What rankings found, as it is read for a question: each row once, and as it bears on the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stratagraph.pipeline.excerpts import Excerpts
from stratagraph.pipeline.graph import NAME as GRAPH
from stratagraph.pipeline.ranking import Origin, Ranking
from stratagraph.question import Question
from stratagraph.records import Chunk, Item
from stratagraph.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Found:
    """A ranking with what stands at its places, and the places that say nothing which better ones do not."""

    ranking: Ranking
    items: Sequence[Item]
    told: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.items)


class Reading(Protocol):
    """Reads what the rankings for one question found."""

    def found(self, ranking: Ranking) -> Found:
        """What a ranking found; what one before it had is not read again."""
        ...


class OneReading:
    """Reads from one generation. For one question, and one thread.

    Parameters
    ----------
    excerpts
        Shows of nodes that no model wrote what bears on the question, unless it asks for all (`whole`).
    """

    def __init__(self, snapshot: Snapshot, excerpts: Excerpts, question: Question) -> None:
        self._snapshot = snapshot
        self._method = question.method
        self._dropped = question.fill
        self._telling = None if question.options.whole else excerpts.asked(question.vector)
        self._read: dict[tuple[int, int], Item] = {}

    def found(self, ranking: Ranking) -> Found:
        """See `Reading`."""
        keys = list(zip(ranking.origin.tolist(), ranking.rows.tolist(), strict=True))
        for origin in Origin:
            new = list(dict.fromkeys(key[1] for key in keys if key[0] == origin and key not in self._read))
            if new:
                read = zip([(int(origin), row) for row in new], self._items(origin, new), strict=True)
                self._read.update(read)
        items = [self._read[key] for key in keys]
        if self._telling is None or all(origin == Origin.CHUNK for origin, _ in keys):
            return Found(ranking, items)
        rows = [row if origin == Origin.GRAPH else -1 for origin, row in keys]
        shown, nothing = self._telling.shown(items, rows, dropped=self._dropped)
        return Found(ranking, shown, frozenset(place for place, told in enumerate(nothing) if told))

    def _items(self, origin: Origin, rows: list[int]) -> list[Item]:
        if origin != Origin.CHUNK:
            return self._snapshot.part(GRAPH if origin == Origin.GRAPH else self._method).items(rows)
        return [_chunk(row, chunk) for row, chunk in zip(rows, self._snapshot.chunks(rows), strict=True)]


def _chunk(row: int, chunk: Chunk) -> Item:
    return Item(
        chunk.id,
        "chunk",
        0,
        chunk.text,
        np.array([row], np.int64),
        chunk.metadata,
        document=chunk.document_id,
        ref=chunk.ref,
    )
