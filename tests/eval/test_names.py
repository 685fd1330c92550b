"""Names of rows: views, search options and own prompts."""

from __future__ import annotations

from stratagraph.eval import evaluate
from stratagraph.eval.names import RowName, split_names
from stratagraph.testing import FakeEmbedder


def test_a_name_holds_a_view_and_options() -> None:
    assert RowName.of("hirag", "chunks") == RowName("hirag", "chunks")
    wanted = RowName.of("archrag/nodes?levels=[0,1]&mode=direct&relations=false&own_prompt=true", "chunks")
    assert wanted == RowName(
        "archrag", "nodes", {"levels": [0, 1], "mode": "direct", "relations": False}, own_prompt=True
    )
    assert RowName.of("hirag/default", "chunks").search == {"method": "hirag"}
    assert RowName.of("hirag?rank=bm25", "chunks").search == {"method": "walk", "rank": "bm25"}
    assert RowName.of("hirag", "nodes").search == {"method": "hirag", "fill": False}
    for view in ("default", "chunks", "nodes"):
        assert RowName.of("walk", view).search == {"method": "walk"}, "it has passages and nothing else"
    assert RowName.of("hirag?own_prompt=true", "chunks").view == "nodes", "its own way, unless said otherwise"
    assert RowName.of("hirag/chunks?own_prompt=true", "nodes").view == "chunks"
    names = 'dense, archrag?levels=[0,1] ,noderag?limits={"T": 1, "S": 2},bm25'
    assert split_names(names) == (
        "dense",
        "archrag?levels=[0,1]",
        'noderag?limits={"T": 1, "S": 2}',
        "bm25",
    )


def test_methods_are_measured_with_their_own_options() -> None:
    rows = [
        "lshtree/nodes",
        "lshtree/nodes?mode=per_level",
        "lshtree/nodes?mode=per_level&k_per_level=1",
        "lshtree/default",
    ]
    found = evaluate("demo", rows, k=(2, 5), budgets=(), embedder=FakeEmbedder(), reference="lshtree/nodes")
    by_name = {row.name: row for row in found.rows}
    tokens = [by_name[name].scores["tokens@5"] for name in rows[:3]]
    assert tokens[0] != tokens[1]
    assert sum(tokens[2]) < sum(tokens[1])
    assert "mode='per_level'" in by_name[rows[1]].description
    assert not by_name[rows[3]].error


def test_a_setting_of_the_build_makes_an_index_of_its_own() -> None:
    assert RowName.of("archrag?build.max_levels=1&mode=direct", "chunks") == RowName(
        "archrag", "chunks", {"mode": "direct"}, build={"max_levels": 1}
    )
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
