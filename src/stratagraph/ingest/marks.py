"""Marks: 128 bits that stand for what a thing was made of. They are two numbers, arrays of shape (n, 2).

Methods look up the marks of their groups among those of the previous index, and read no member of a group
that they find. The mark of a set is made of the sum of its members' marks, in any order. There are two sums
because users write the texts: with one of 64 bits, sets of equal mark could be made on purpose.

A mark must hold every input of what it stands for. One that is forgotten keeps a stale text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import Keys, Labels
from stratagraph.kernels.ranges import KeyTable
from stratagraph.types.protocols import Rows

Marks = NDArray[np.uint64]
_STEP, _FIRST, _SECOND, _OTHER = (
    np.uint64(each)
    for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x5851F42D4C957F2D)
)
_SALTS, _FACTORS = np.array([[[0], [_OTHER]], [[_STEP], [_OTHER]]], np.uint64)


def mixed(numbers: NDArray[np.integer]) -> Keys:
    """64 bits for each number, whose sums identify sets (the finaliser of splitmix64)."""
    bits = numbers.astype(np.uint64)
    bits += np.uint64(2)  # so that -1 does not give 0
    bits *= _STEP
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        bits ^= bits >> np.uint64(shift)
        bits *= factor
    bits ^= bits >> np.uint64(31)
    return bits


def combined(*parts: NDArray[np.integer]) -> Marks:
    """The marks of things that are made of several parts, in this order.

    Each part is a number for each thing, shape (n,), or its mark, shape (n, 2).
    """
    marks = np.zeros((2, len(parts[0])), np.uint64)
    for part in parts:  # two polynomials, one for each half
        marks *= _FACTORS
        marks += part.T.astype(np.uint64, copy=False)
    return mixed(marks + _SALTS).T


def list_sums(indptr: Rows, values: Keys) -> Keys:
    """The sum of the values of each list, where list i is `values[indptr[i]:indptr[i + 1]]`."""
    totals = np.zeros((len(values) + 1, *values.shape[1:]), np.uint64)
    np.cumsum(values, axis=0, out=totals[1:])
    return totals[indptr[1:]] - totals[indptr[:-1]]


def label_sums(labels: Labels, marks: Marks, count: int) -> Marks:
    """The sum of the marks under each label from 0 to `count - 1`; label -1 is left out."""
    sums = np.zeros((2, count + 1), np.uint64)  # the last ones are of label -1
    for half in range(2):
        np.add.at(sums[half], labels, np.ascontiguousarray(marks[:, half]))
    return sums[:, :count].T


def find_marks(marks: Marks, marks_before: Marks) -> Rows:
    """The first place of each mark in `marks_before`, or -1, shape (n,)."""
    keys, first = np.unique(marks_before[:, 0], return_index=True)
    places = np.append(first, -1)[KeyTable(keys).find(marks[:, 0])]
    there = np.flatnonzero(places >= 0)
    places[there[marks_before[places[there], 1] != marks[there, 1]]] = -1
    return places
