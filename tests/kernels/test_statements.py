"""The statements behind groups of passages, and the choice among them: against sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.kernels.statements import Csr, IntegerGroups, behind, most_telling


def csr(rows: list[list[int]]) -> Csr:
    return (
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.array([value for row in rows for value in row], np.int64),
    )


def groups(rows: list[list[int]]) -> IntegerGroups:
    indptr, values = csr(rows)
    return IntegerGroups(values, indptr)


def split(found: IntegerGroups) -> list[list[int]]:
    return (
        [each.tolist() for each in np.split(found.values, found.borders[1:-1])]
        if len(found.borders) > 1
        else []
    )


numbers = st.lists(st.integers(0, 7), max_size=5)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(numbers, min_size=8, max_size=8),
    st.lists(numbers, min_size=8, max_size=8),
    st.lists(st.tuples(numbers, st.integers(-1, 7), st.integers(-1, 7)), max_size=5),
)
def test_statements_are_those_of_the_passages_that_name_all(
    said: list[list[int]], named: list[list[int]], asked: list[tuple[list[int], int, int]]
) -> None:
    entities = np.array([pair for _, *pair in asked], np.int64).reshape(-1, 2)
    found = behind(csr(said), csr(named), groups([rows for rows, *_ in asked]), entities)
    expected = [
        {
            statement
            for passage in passages
            for statement in said[passage]
            if all(entity < 0 or entity in named[statement] for entity in pair)
        }
        for passages, *pair in asked
    ]
    told = split(IntegerGroups(found.values, found.borders))
    assert [sorted(each) for each in told] == [sorted(each) for each in expected]
    assert sorted(found.distinct.tolist()) == sorted(set().union(*expected))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.lists(st.integers(0, 7), max_size=6, unique=True), st.integers(0, 4)), max_size=5),
    st.lists(st.integers(0, 3), min_size=8, max_size=8),
    st.booleans(),
)
def test_no_statement_is_chosen_twice_while_there_are_others(
    asked: list[tuple[list[int], int]], scores: list[int], again: bool
) -> None:
    statements = groups([rows for rows, _ in asked])
    told = np.zeros(8, np.bool_)
    most = np.array([limit for _, limit in asked], np.int64)
    own = np.array(scores, np.float32)[statements.values]
    found = split(most_telling(statements, own, most, told, again=again))
    known: set[int] = set()
    for (rows, limit), chosen in zip(asked, found, strict=True):
        new = [row for row in rows if row not in known] or (rows if again else [])
        assert chosen == sorted(sorted(new, key=lambda row: (-scores[row], row))[:limit])
        known.update(chosen)
    assert set(np.flatnonzero(told).tolist()) == known


def test_what_leads_nowhere_is_an_error() -> None:
    said, named = csr([[0], [1]]), csr([[0], [0]])
    none = np.full((1, 2), -1, np.int64)
    for passages in (
        groups([[2]]),
        groups([[-1]]),
        groups([[0], [1]]),
        IntegerGroups(np.zeros(2, np.int64), np.array([1, 2])),
    ):
        with pytest.raises(ValueError, match=r"do not fit each other|out of bounds"):
            behind(said, named, passages, none)
    with pytest.raises(ValueError, match="out of bounds"):
        behind(csr([[0], [9]]), named, groups([[1]]), none)
    one = np.ones(1, np.float32), np.ones(1, np.int64)
    for statements in (groups([[8]]), groups([[-1]]), groups([[0, 1]]), groups([[0], []])):
        with pytest.raises(ValueError, match=r"do not fit each other|out of bounds"):
            most_telling(statements, *one, np.zeros(8, np.bool_), again=False)
