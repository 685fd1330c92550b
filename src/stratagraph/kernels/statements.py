"""The statements of groups of passages, and a choice among them without repetition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels import _native

Rows = NDArray[np.int64]
Csr = tuple[Rows, Rows]
"""indptr and indices, both int64; the values of row i are `indices[indptr[i]:indptr[i + 1]]`."""


class IntegerGroups(NamedTuple):
    """Groups of integers; those of group i are `values[borders[i]:borders[i + 1]]`."""

    values: Rows
    borders: Rows


class Behind(NamedTuple):
    """The statements of groups, each once in a group, and all distinct statements."""

    values: Rows
    borders: Rows
    distinct: Rows


def behind(said: Csr, named: Csr, passages: IntegerGroups, entities: Rows) -> Behind:
    """The statements in groups of passages that name the group's entities.

    Parameters
    ----------
    said, named
        The statements of each passage, and the entities of each statement.
    entities
        Two entities for each group, -1 for none, shape (groups, 2).

    Raises
    ------
    ValueError
        If the groups do not fit each other, or a passage or a statement does not exist.
    """
    return Behind(*_native.behind(*said, *named, *passages, np.ascontiguousarray(entities)))


def most_telling(
    statements: IntegerGroups,
    scores: NDArray[np.float32],
    most: Rows,
    told: NDArray[np.bool_],
    *,
    again: bool,
) -> IntegerGroups:
    """The best statements of each group in turn that no earlier group took, ascending.

    Parameters
    ----------
    scores
        Of `statements.values`; of equal scores the lower statement is better.
    most
        The largest number of statements per group, shape (groups,).
    told
        Which statements are taken already, shape (all statements,); updated in place.
    again
        Whether a group whose statements are all taken gets its best ones again.

    Raises
    ------
    ValueError
        If the groups do not fit each other, or a statement does not exist.
    """
    return IntegerGroups(*_native.most_telling(*statements, scores, most, told, again))
