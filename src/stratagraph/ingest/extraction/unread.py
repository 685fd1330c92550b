"""Extractions that an update takes over without reading them.

A chunk's extraction is taken over if the chunk is known, its document was not given again (its title may have
changed), and its maker would make the same today. An array holds the makers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import Kept, counts_array, read_counts
from stratagraph.ingest.checks import Checks, damage
from stratagraph.types.protocols import Rows, Stored
from stratagraph.types.records import Node, content_key

MAKERS, RECIPE, NOTES = "makers", "recipe", "notes"
"""Arrays: 64 bits for who made each extraction, 64 for how they are made without a model, and what was noted
of all chunks, as JSON."""


def maker_key(maker: str) -> int:
    """The key of the extractor and settings that made an extraction."""
    return content_key("maker", maker)


def unread(
    size: int,
    previous: Stored | None,
    kept: Kept | None,
    given: Collection[int],
    *,
    makers: Sequence[str] | None,
    recipe: str,
) -> Rows:
    """The previous row of each chunk whose extraction is taken over, or -1, shape (size,).

    Parameters
    ----------
    kept
        The chunks that the previous corpus had.
    given
        Rows whose extraction the caller gives.
    makers
        With a model, the makers whose extractions are good enough. None admits those of any model, and those
        of rules with this `recipe`.
    """
    rows_before = np.full(size, -1, np.int64)
    if previous is None or kept is None or MAKERS not in previous.arrays:
        return rows_before
    rows_before[kept.now] = kept.before
    rows_before[kept.arrived] = -1
    rows_before[list(given)] = -1
    rows = rows_before >= 0
    before = _makers(previous)[rows_before[rows]]
    if makers is not None:
        rows_before[rows] = np.where(np.isin(before, _keys(makers)), rows_before[rows], -1)
    elif int(previous.arrays[RECIPE][0]) != maker_key(recipe):
        rows_before[:] = -1
    return rows_before


def summed_up(
    rows: Rows, fresh: Sequence[Node], previous: Stored | None, *, recipe: str, wanted: Iterable[str]
) -> tuple[dict[str, NDArray[Any]], Counter[str], NDArray[np.bool_]]:
    """The arrays for the next update, the counts of all chunks, and which extractions are by `wanted` makers.

    Extractions are those of previous `rows`, and fresh nodes where the row is -1. Of the previous ones only
    deleted ones are read.
    """
    makers, notes = np.zeros(len(rows), np.uint64), _noted(fresh)
    makers[rows < 0] = _keys(node.extra["maker"] for node in fresh)
    if previous is not None and (rows >= 0).any():
        before = _makers(previous)
        makers[rows >= 0] = before[rows[rows >= 0]]
        notes += read_counts(previous.arrays, NOTES)
        notes -= _noted(previous.nodes(np.setdiff1d(np.arange(len(before)), rows).tolist()))
    arrays: dict[str, NDArray[Any]] = {
        MAKERS: makers,
        RECIPE: np.array([maker_key(recipe)], np.uint64),
        NOTES: counts_array(notes),
    }
    return arrays, notes, np.isin(makers, _keys(wanted))


def check(stored: Stored) -> None:
    """Raise `Damaged` unless these arrays fit the extractions."""
    with damage("extraction"):
        checks = Checks(stored.arrays)
        if checks.has(MAKERS):
            checks.of(MAKERS, np.uint64, (len(stored.arrays["sources.indptr"]) - 1,))
            checks.of(RECIPE, np.uint64, (1,))
            checks.of(NOTES, np.uint8, (None,))
            read_counts(stored.arrays, NOTES)


def _makers(stored: Stored) -> NDArray[np.uint64]:
    return np.asarray(stored.arrays[MAKERS])


def _keys(makers: Iterable[str]) -> NDArray[np.uint64]:
    each = cache(maker_key)  # they are few
    return np.fromiter(map(each, makers), np.uint64)


def _noted(nodes: Iterable[Node]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for node in nodes:
        counts.update(node.extra.get("notes", {}))
    return counts
