"""The statements of groups of passages, and a choice among them without repetition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.hamming import native_available
from stratagraph.kernels.ranges import distinct, ranges

if native_available():
    from stratagraph.kernels import _native

Rows = NDArray[np.int64]
Csr = tuple[Rows, Rows]
"""indptr and indices, both int64; the values of row i are `indices[indptr[i]:indptr[i + 1]]`."""


class Groups(NamedTuple):
    """Groups of integers; those of group i are `values[borders[i]:borders[i + 1]]`."""

    values: Rows
    borders: Rows


class Behind(NamedTuple):
    """The statements of groups, each once in a group, and all distinct statements."""

    values: Rows
    borders: Rows
    distinct: Rows


def behind(said: Csr, named: Csr, passages: Groups, entities: Rows) -> Behind:
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
    if native_available():
        return Behind(*_native.behind(*said, *named, *passages, np.ascontiguousarray(entities)))
    count = len(named[0]) - 1
    owners = np.repeat(np.arange(len(entities)), _sizes(passages, entities))
    if _outside(passages.values, len(said[0]) - 1) or _outside(said[1], count):
        raise ValueError("the statements of passages are damaged: one is out of bounds")
    starts = said[0][passages.values]
    counts = said[0][passages.values + 1] - starts
    pairs = distinct(np.repeat(owners, counts) * count + said[1][ranges(starts, counts)])
    owners, found = np.divmod(pairs, max(count, 1))
    kept = _naming(named, found, entities[owners])
    owners, found = owners[kept], found[kept]
    borders = np.searchsorted(owners, np.arange(len(entities) + 1))
    return Behind(found, borders, distinct(found))


def most_telling(
    statements: Groups, scores: NDArray[np.float32], most: Rows, told: NDArray[np.bool_], *, again: bool
) -> Groups:
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
    if native_available():
        return Groups(*_native.most_telling(*statements, scores, most, told, again))
    _sizes(statements, most)
    if len(scores) != len(statements.values) or _outside(statements.values, len(told)):
        raise ValueError("the groups of statements do not fit each other")
    chosen = []
    for begin, end, limit in zip(statements.borders[:-1], statements.borders[1:], most, strict=True):
        rows = statements.values[begin:end]
        new = np.flatnonzero(~told[rows])
        if again and not len(new):
            new = np.arange(len(rows))
        best = new[np.lexsort((rows[new], -scores[begin:end][new]))[: max(int(limit), 0)]]
        chosen.append(np.sort(rows[best]))
        told[chosen[-1]] = True
    borders = np.cumsum([0, *map(len, chosen)], dtype=np.int64)
    return Groups(np.concatenate([np.zeros(0, np.int64), *chosen]), borders)


def _sizes(groups: Groups, each: Rows) -> Rows:
    sizes = np.diff(groups.borders)
    fit = len(sizes) == len(each) and len(groups.borders) and groups.borders[0] == 0
    if not fit or (sizes < 0).any() or groups.borders[-1] != len(groups.values):
        raise ValueError("the groups of passages do not fit each other")
    return sizes


def _outside(rows: Rows, size: int) -> bool:
    return bool(len(rows)) and not 0 <= rows.min() <= rows.max() < size


def _naming(named: Csr, statements: Rows, entities: Rows) -> NDArray[np.bool_]:
    """Which statements name both of their entities, shape (statements, 2)."""
    found = np.ones(len(statements), np.bool_)
    asked = np.flatnonzero(entities.max(axis=1, initial=-1) >= 0)
    indptr, names = named
    starts = indptr[statements[asked]]
    counts = indptr[statements[asked] + 1] - starts
    of = np.repeat(asked, counts)
    present = names[ranges(starts, counts)]
    for column in entities.T:
        hits = of[present == column[of]]
        found &= (column < 0) | (np.bincount(hits, minlength=len(statements)) > 0)
    return found
