"""Rankings made of several kinds of things, each with its share of whatever room there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from stratagraph.eval.rankers import Passage, Workbench


def shared_out(streams: Sequence[tuple[float, Sequence[Passage]]], bench: Workbench, k: int) -> list[Passage]:
    """The first `k` of several rankings, of which each has its share of the tokens of any beginning.

    What is next comes from the ranking that has had least for its share; one that is at its end leaves its
    share to the others.
    """
    queues = [(share, iter(ranking)) for share, ranking in streams]
    spent = [0.0] * len(queues)
    heads = [next(ranking, None) for _, ranking in queues]
    found: list[Passage] = []
    while len(found) < k:
        open_ones = [place for place, head in enumerate(heads) if head is not None]
        if not open_ones:
            break
        place = min(open_ones, key=lambda at: spent[at])
        head = heads[place]
        assert head is not None
        found.append(head)
        spent[place] += bench.count_tokens(head.text) / queues[place][0]
        heads[place] = next(queues[place][1], None)
    return found


def passage_of(bench: Workbench, text: str, sources: Iterable[int]) -> Passage:
    """A text with the documents of the chunks that it comes from."""
    return Passage(text, tuple(dict.fromkeys(bench.chunks[row].document_id for row in sources)))


def stand_ins(groups: Sequence[Sequence[int]], similarity: NDArray[np.floating], k: int) -> list[int]:
    """At most `k` chunks: of each group the most similar one, then the second, and so on.

    Parameters
    ----------
    groups
        Rows of chunks behind each thing that was found, best first.
    similarity
        Of all chunks, shape (chunks,).
    """
    listed: dict[int, None] = {}
    queues: list[Iterator[int]] = [
        iter(sorted(group, key=lambda row: (-float(similarity[row]), row))) for group in groups
    ]
    while queues and len(listed) < k:
        left = []
        for queue in queues:
            row = next((row for row in queue if row not in listed), None)
            if row is not None:
                listed[row] = None
                left.append(queue)
        queues = left
    return list(listed)[:k]
