"""Names of rows: their parts, and what is refused before anything is measured."""

from __future__ import annotations

from typing import Any

import pytest

from stratagraph.config import Config
from stratagraph.eval import evaluate
from stratagraph.eval.names import RowName, check_rows, split_names
from stratagraph.testing import FakeEmbedder


class Untouched:
    """An embedder that nobody may ask."""

    name = "untouched"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise AssertionError("something was embedded")

    def embed_query(self, text: str) -> list[float]:
        raise AssertionError("something was embedded")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("magic?mode=x", r"'magic\?mode=x'"),
        ("dense?own_prompt=true", "dense has no prompts of its own"),
        ("dense?build.size=1", "nothing is built for dense"),
        ("hirag/trees", "asks for the view 'trees'"),
        ("hirag?mode", "write name=value"),
        ("hirag?mode=zigzag", "mode must be one of hi, local"),
        ("hirag?build.layers=1", "hirag has no setting 'layers'"),
        ("archrag?build.max_levels=x", "max_levels must be a whole number, not 'x'"),
        ("archrag?build.clustering=none", "no clustering 'none'"),
        ("noderag?steps=2.5", "steps must be a whole number, not 2.5"),
        ("noderag?decompose=7", "decompose must be True or False"),
        ("noderag?rank=bm25", "rank='bm25' orders passages, and noderag ranks its own nodes"),
        ("noderag/nodes?rank=bm25", "rank='bm25' orders passages"),
        ("walk?fill=false", "the walk finds nothing else"),
        ("lshtree/chunks?fill=false", "the walk finds nothing else"),
        ("lshtree/chunks?mode=per_level", "no argument 'mode'"),
        ("walk?mode=hi", "no argument 'mode'"),
        ("bm25?rank=dense", "its name says how it ranks"),
        ("walk?build.size=1", "nothing is built for walk"),
        ("lshtree?where=x", "a filter must be a mapping"),
        ('lshtree?where={"$x":1}', r"unknown operator '\$x'"),
        ("lshtree?levels=1.5", "whole number"),
        ("lshtree?k=3", "'k' is no option of a row"),
        ("lshtree?view=nodes", "'view' is no option of a row"),
        ("lshtree?levles=1", "no argument 'levles'"),
    ],
)
def test_what_no_row_can_be_measured_by_is_refused_before_anything_runs(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        evaluate("demo", ["dense", name], embedder=Untouched())


def test_what_is_allowed_passes() -> None:
    names = [
        'noderag?mode=entry&names=false&types=["S","A","H"]&own_prompt=true',
        'walk?rank=hybrid&where={"year": {"$gte": 1901}}',
        "archrag?build.clustering=leiden&build.augmentation=none&own_prompt=true",
        'bm25?where={"year": 1901}',
    ]
    check_rows(names, "chunks", Config())


@pytest.mark.parametrize(
    ("name", "view", "expected"),
    [
        ("hirag", "chunks", RowName("hirag", "chunks")),
        (
            "archrag/nodes?levels=[0,1]&mode=direct&relations=false&own_prompt=true",
            "chunks",
            RowName(
                "archrag", "nodes", {"levels": [0, 1], "mode": "direct", "relations": False}, own_prompt=True
            ),
        ),
        ("hirag?own_prompt=true", "chunks", RowName("hirag", "nodes", own_prompt=True)),
        ("hirag/chunks?own_prompt=true", "nodes", RowName("hirag", "chunks", own_prompt=True)),
        (
            "archrag?build.max_levels=1&mode=direct",
            "chunks",
            RowName("archrag", "chunks", {"mode": "direct"}, build={"max_levels": 1}),
        ),
    ],
)
def test_a_name_holds_a_view_and_options(name: str, view: str, expected: RowName) -> None:
    assert RowName.of(name, view) == expected


@pytest.mark.parametrize(
    ("name", "search"),
    [
        ("hirag/default", {"method": "hirag"}),
        ("hirag/chunks?rank=bm25", {"method": "walk", "rank": "bm25"}),
        ("hirag/nodes", {"method": "hirag", "fill": False}),
        ("bm25/nodes", {"method": "walk", "rank": "bm25"}),
        *((f"walk/{view}", {"method": "walk"}) for view in ("default", "chunks", "nodes")),
    ],
)
def test_a_view_is_a_way_of_searching(name: str, search: dict[str, Any]) -> None:
    assert RowName.of(name, "default").search == search


def test_names_are_split_at_commas_outside_of_brackets() -> None:
    names = ("dense", "archrag?levels=[0,1]", 'noderag?limits={"T": 1, "S": 2}', "bm25")
    assert split_names(" ,".join(names)) == names


def test_a_setting_of_the_build_makes_an_index_of_its_own() -> None:
    rows = [
        "hirag/nodes",
        "hirag/nodes?build.max_layers=0",
        "hirag/default?build.max_layers=0",
        "hirag/default",
    ]
    found = evaluate("demo", rows, k=(2,), budgets=(), embedder=FakeEmbedder(), reference="")
    one, flat, same, first = found.rows
    assert not any(row.error for row in found.rows)
    assert (one.indexing is not None, flat.indexing is not None) == (True, True)
    assert (same.indexing, first.indexing) == (None, None), "built once each"
    assert flat.indexing.bytes < one.indexing.bytes  # type: ignore[union-attr,operator]
    assert flat.scores != one.scores
    assert flat.description.endswith("built with max_layers=0")
