from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stratagraph as sg
from stratagraph.search.filters import compile_where
from stratagraph.testing import FakeEmbedder
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
        ({"$and": [{"author": "Ada"}, lambda metadata: metadata["year"] > 1901]}, False),
    ],
)
def test_what_a_filter_admits(where: Any, admits: bool) -> None:
    assert compile_where(where)(BOOK) is admits


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


VALUES: list[tuple[Any, Any]] = [
    (uuid.UUID(int=1), uuid.UUID(int=2)),
    (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
    (datetime.datetime(2024, 1, 1, 9), datetime.datetime(2024, 1, 1, 10)),
    (Colour.RED, Colour.BLUE),
    (Decimal("1.50"), Decimal("2.50")),
    (PurePosixPath("a/b"), PurePosixPath("a/c")),
    (b"a", b"b"),
]


@pytest.mark.parametrize(("value", "other"), VALUES)
def test_a_filter_takes_the_values_that_metadata_took(value: Any, other: Any) -> None:
    documents = [
        sg.Document("own", "The Dunlin is a ship.", {"key": value, "all": [value, 1]}),
        sg.Document("other", "The Heron is a ship.", {"key": other, "all": [other, 1]}),
    ]
    with sg.build_index(documents, embedder=FakeEmbedder(), progress=False) as index:
        for where in (
            {"key": value},
            {"key": {"$in": [value]}},
            {"key": [value]},
            {"key": {"$ne": other}},
            {"key": {"$nin": {other}}},
            {"all": value},
            {"$not": {"key": other}},
        ):
            found = index.retrieve("ship", where=where)
            assert [hit.documents for hit in found] == [("own",)], where
        stored = index.documents()["own"]["key"]
        assert isinstance(stored, str)
        assert len(index.retrieve("ship", where={"key": {"$lte": stored}})) == 1 + (stored == "Colour.RED")


def test_nan_is_null_and_an_object_in_a_filter_is_named() -> None:
    numbers = {"year": float("nan"), "pages": [1, float("nan")]}
    with sg.build_index(
        [sg.Document("a", "The Dunlin.", numbers)], embedder=FakeEmbedder(), progress=False
    ) as index:
        assert index.documents()["a"] == {"year": None, "pages": [1, None]}
        notes = "; ".join(index.last_report.notes)
        assert "values of 'year' in metadata were NaN" in notes
        assert "values of 'pages' in metadata were NaN" in notes
        again = index.insert([sg.Document("a", "The Dunlin.", numbers)])
        assert again.unchanged == ("a",)
        assert index.retrieve("Dunlin", where={"year": {"$lt": float("inf")}}).hits == ()
        with pytest.raises(TypeError, match=r"value of 'year' is of type builtins\.object"):
            index.retrieve("Dunlin", where={"year": object()})


def test_ids_of_documents_and_passages_are_keys() -> None:
    chunks = [
        sg.Chunk("The Dunlin sailed.", "a", number, metadata={"n": number}, ref=f"a{number}")
        for number in (0, 1)
    ]
    with sg.build_index(
        [*chunks, sg.Document("b", "The Dunlin sank.")], embedder="hashing", progress=False
    ) as index:

        def admitted(where: Any) -> list[str]:
            return sorted(hit.ref or hit.documents[0] for hit in index.retrieve("Dunlin", where=where))

        assert admitted({"$document": "a"}) == ["a0", "a1"]
        assert admitted({"$document": {"$ne": "a"}}) == ["b"]
        assert admitted({"$or": [{"$passage": ["a1"]}, {"$document": "b"}]}) == ["a1", "b"]
        assert admitted({"$and": [{"$document": ["a", "b"]}, lambda metadata: metadata.get("n") == 0]}) == [
            "a0"
        ]
        assert admitted(lambda metadata: metadata["$document"] != "a") == ["b"]
        assert admitted({"$not": lambda metadata: "a1" in metadata["$passage"]}) == ["a0", "b"]
        (own,) = (chunk.id for chunk in index.find_chunks("a0"))
        assert admitted({"$passage": own}) == ["a0"]
        assert index.find_chunks(["a0", "a1"], where={"$not": {"$passage": own}})[0].ref == "a1"


def test_a_list_equals_a_list() -> None:
    admits = compile_where({"tags": {"$eq": ["sea", "storm"]}})
    assert [admits({"tags": tags}) for tags in (["sea", "storm"], ["sea"], "sea")] == [True, False, False]
    assert not compile_where({"tags": {"$ne": ["sea", "storm"]}})({"tags": ["sea", "storm"]})


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
