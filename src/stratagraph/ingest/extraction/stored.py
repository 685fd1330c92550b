"""Extractions as they are stored: JSON in the nodes of a part, and arrays by which an update takes them over.

An update takes an extraction over unread if the chunk was in the previous corpus, its document was not given
again (its title may have changed), and its maker would make the same today. An array has the makers' keys.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.ingest.carryover import Kept, counts_array, read_counts
from stratagraph.ingest.checks import Checks, damage
from stratagraph.types.built import Arrays, Holds
from stratagraph.types.protocols import Rows, Stored
from stratagraph.types.records import (
    EntityMention,
    Extraction,
    Node,
    RelationMention,
    SemanticUnit,
    content_key,
)

BATCH = 1024
"""Chunks that are read at once."""
MAKERS, RECIPE, NOTES = "makers", "recipe", "notes"
"""Names of arrays: keys of the makers of the extractions, the key of the rules that extract without a model,
and the counts of the notes of all chunks, as JSON."""


def to_json(extraction: Extraction) -> str:
    """An extraction as compact JSON."""
    return json.dumps(
        {
            "units": [[unit.text, *unit.entities] for unit in extraction.units],
            "entities": [
                [entity.name, entity.type, entity.description, *([True] if entity.doubtful else [])]
                for entity in extraction.entities
            ],
            "relations": [
                [
                    each.source,
                    each.target,
                    each.description,
                    each.strength,
                    *([each.type] if each.type else []),
                ]
                for each in extraction.relations
            ],
            "terms": list(extraction.terms),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


EMPTY = to_json(Extraction())


def from_json(text: str) -> Extraction:
    """The extraction that `to_json` wrote; a description that equals a unit shares its string."""
    value = json.loads(text)
    # `TypeError` if anything is of another type than it was written as.
    named = (each[:3] for each in (*value["entities"], *value["relations"]))
    types = chain(*(each[4:] for each in value["relations"]))
    "".join(chain(*value["units"], *named, types, value["terms"]))
    sum(chain(*(each[3:4] for each in value["relations"])))
    units = [SemanticUnit(unit, tuple(names)) for unit, *names in value["units"]]
    of_unit = {unit.text: unit.text for unit in units}.get
    return Extraction(
        units=tuple(units),
        entities=tuple(
            EntityMention(name, kind, of_unit(description, description), *doubtful)
            for name, kind, description, *doubtful in value["entities"]
        ),
        relations=tuple(
            RelationMention(source, target, of_unit(description, description), *more)
            for source, target, description, *more in value["relations"]
        ),
        terms=tuple(value["terms"]),
    )


class Said(NamedTuple):
    """The texts of one extraction's semantic units, and the names of its entities."""

    statements: list[str]
    names: list[str]


def said_by(node: Node) -> Said:
    """What one stored extraction says."""
    extraction = extraction_of(node)
    return Said([unit.text for unit in extraction.units], [entity.name for entity in extraction.entities])


def extractions(stored: Stored, size: int) -> Iterator[tuple[int, Extraction]]:
    """All stored extractions with their chunk rows, a batch at a time."""
    for start in range(0, size, BATCH):
        rows = range(start, min(start + BATCH, size))
        for row, node in zip(rows, stored.nodes(rows), strict=True):
            yield row, extraction_of(node)


def extraction_of(node: Node) -> Extraction:
    """The extraction of a stored node; `Damaged` if it cannot be read."""
    try:
        return from_json(node.text)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Damaged(
            f"the extraction of chunk {node.id!r} (row {list(node.sources)}) is damaged: "
            f"{error!r}. Restore the folder from a copy, or build again"
        ) from error


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
    before = np.asarray(previous.arrays[MAKERS])[rows_before[rows]]
    if makers is not None:
        rows_before[rows] = np.where(np.isin(before, _keys(makers)), rows_before[rows], -1)
    elif int(previous.arrays[RECIPE][0]) != content_key("maker", recipe):
        rows_before[:] = -1
    return rows_before


def summed_up(
    rows: Rows, fresh: Sequence[Node], previous: Stored | None, *, recipe: str, wanted: Iterable[str]
) -> tuple[Arrays, Counter[str], NDArray[np.bool_]]:
    """The arrays for the next update, the counts of all chunks, and which extractions are by `wanted` makers.

    Extractions are those of previous `rows`, and fresh nodes where the row is -1. Of the previous ones only
    deleted ones are read.
    """
    makers, notes = np.zeros(len(rows), np.uint64), _noted(fresh)
    makers[rows < 0] = _keys(node.extra["maker"] for node in fresh)
    if previous is not None and (rows >= 0).any():
        before = np.asarray(previous.arrays[MAKERS])
        makers[rows >= 0] = before[rows[rows >= 0]]
        notes += read_counts(previous.arrays, NOTES)
        notes -= _noted(previous.nodes(np.setdiff1d(np.arange(len(before)), rows).tolist()))
    recipes = np.array([content_key("maker", recipe)], np.uint64)
    arrays = Holds.CONTENT.of({MAKERS: makers, RECIPE: recipes, NOTES: counts_array(notes)})
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


def _keys(makers: Iterable[str]) -> NDArray[np.uint64]:
    key = cache(partial(content_key, "maker"))  # they are few
    return np.fromiter(map(key, makers), np.uint64)


def _noted(nodes: Iterable[Node]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for node in nodes:
        counts.update(node.extra.get("notes", {}))
    return counts
