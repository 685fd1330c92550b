from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.search.filters import compile_where
from stratagraph.types.question import rows_allowed

BOOK = {"year": 1901, "author": "Ada", "tags": ["sea", "letters"], "draft": False}


@pytest.mark.parametrize(
    ("where", "admits"),
    [
        ({}, True),
        ({"author": "Ada"}, True),
        ({"author": ["Bo", "Ada"]}, True),
        ({"year": {"$gte": 1901, "$lt": 1902}}, True),
        ({"year": {"$lte": "1901"}}, False),
        ({"tags": "sea"}, True),
        ({"tags": {"$nin": ["sea"]}}, False),
        ({"tags": {"$ne": "land"}}, True),
        ({"missing": "x"}, False),
        ({"missing": {"$ne": "x"}}, True),
        ({"missing": None}, False),
        ({"author": {"$in": ["Ada"]}, "draft": True}, False),
        ({"$or": [{"year": 1900}, {"author": "Ada"}]}, True),
        ({"$and": [{"year": 1901}, {"author": "Bo"}]}, False),
        ({"$and": [{"year": 1901}, {"$or": [{"tags": "sea"}, {"tags": "land"}]}]}, True),
        ({"$not": {"tags": "sea"}}, False),
        ({"$not": {"year": {"$gt": 1901}}, "author": "Ada"}, True),
        (lambda metadata: metadata["year"] > 1900, True),
    ],
)
def test_what_a_filter_admits(where: Any, admits: bool) -> None:
    assert compile_where(where)(BOOK) is admits


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match=r"\$near.*year.*\$gte"):
        compile_where({"year": {"$near": 1}})
    with pytest.raises(TypeError, match="str"):
        compile_where("year > 3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\$nor.*\$and, \$or and \$not"):
        compile_where({"$nor": [{"year": 1901}, {"author": "Ada"}]})
    for empty in ({"year": {}}, {"$or": [{"year": {}}]}):
        with pytest.raises(ValueError, match="'year' has no condition"):
            compile_where(empty)
    for operand in ([], {}, {"year": 1901}, "year", None):
        with pytest.raises(TypeError, match=r"\$or takes a list of filters"):
            compile_where({"$or": operand})
    with pytest.raises(TypeError, match="must be a mapping"):
        compile_where({"$not": [{"year": 1901}]})
    deep: dict[str, Any] = {"year": 1901}
    for _ in range(1000):
        deep = {"$not": deep}
    with pytest.raises(ValueError, match="nested 20 levels"):
        compile_where(deep)
    for operator in ("$in", "$nin"):
        for operand in (1901, "Ada and Bo"):
            with pytest.raises(TypeError, match=f"list of values, not {operand!r}"):
                compile_where({"author": {operator: operand}})


@given(st.lists(st.lists(st.integers(0, 5), max_size=4, unique=True), max_size=6), st.sets(st.integers(0, 5)))
def test_a_row_passes_only_if_all_its_sources_do(sources: list[list[int]], allowed: set[int]) -> None:
    indptr = np.cumsum([0, *map(len, sources)])
    indices = np.array([row for rows in sources for row in rows], dtype=np.int64)
    mask = np.isin(np.arange(6), list(allowed))
    expected = [bool(rows) and allowed.issuperset(rows) for rows in sources]
    assert rows_allowed(indptr, indices, mask).tolist() == expected
