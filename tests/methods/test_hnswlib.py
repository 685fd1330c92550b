"""hnswlib in place of our own search for what is nearest to a question, and for NodeRAG's semantic edges."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import stratagraph as sg
from stratagraph import HashingEmbedder
from stratagraph.errors import MissingExtra
from stratagraph.ingest.nearest import HnswlibConfig
from stratagraph.methods.noderag.config import NodeRAGConfig
from stratagraph.methods.noderag.heterograph import similar_pairs
from stratagraph.methods.noderag.matching import semantic_links
from stratagraph.testing.contract import documents
from stratagraph.testing.opened import snapshot_of

SETTINGS = {"m": 24, "ef_construction": 300, "ef": 300}
QUESTION = "Which document tells of the ferry?"


def built(
    hnswlib: Mapping[str, int] | None, methods: Any = "lshtree", count: int = 60, **given: Any
) -> sg.Index:
    config = {"hnswlib": hnswlib, "noderag": {"hnswlib": hnswlib}}
    return sg.build_index(
        documents(count), methods, embedder=HashingEmbedder(), config=config, progress=False, **given
    )


def hits(index: sg.Index, **options: Any) -> list[tuple[str, float]]:
    return [(hit.id, round(hit.score, 5)) for hit in index.retrieve(QUESTION, **options)]


@pytest.fixture
def without_hnswlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hnswlib", None)


def test_it_finds_what_our_search_finds(tmp_path: Any) -> None:
    """A question looks for the 100 most similar chunks: less than a quarter, so that hnswlib searches."""
    dense: dict[str, Any] = {"method": "walk", "rank": "dense"}
    ours = hits(built(None, None, count=420), k=5, **dense)
    with built(SETTINGS, count=420, path=tmp_path / "idx") as index:
        assert hits(index, k=5, **dense) == ours
        assert len(index.retrieve(QUESTION, method="walk", k=1000)) == 420
        best, second = (hit.documents[0] for hit in index.retrieve(QUESTION, k=2, **dense))
        index.delete([best])
        assert index.retrieve(QUESTION, k=1, **dense).hits[0].documents == (second,)
        assert not index.retrieve(QUESTION, k=5, where=lambda metadata: False, **dense).hits
    with sg.open_index(tmp_path / "idx", embedder=HashingEmbedder()) as again:
        assert again.retrieve(QUESTION, k=1, **dense).hits[0].documents == (second,)


def test_without_the_package_a_build_names_the_pip_line(without_hnswlib: None) -> None:
    with pytest.raises(MissingExtra, match=r"stratagraph\[hnswlib\]"):
        built(SETTINGS)
    with pytest.raises(MissingExtra, match=r"stratagraph\[hnswlib\]"):
        built(SETTINGS, "noderag")


def test_semantic_edges_join_nearest_neighbours() -> None:
    vectors = np.random.default_rng(0).standard_normal((300, 24)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[[3, 17]] = 0
    config = NodeRAGConfig(links=5, hnswlib=HnswlibConfig(**SETTINGS))
    found = semantic_links(np.arange(1000, 1300), vectors, config) - 1000
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    cosines[:, [3, 17]] = -1
    expected = {(row, other) for row in range(300) for other in np.argsort(-cosines[row])[:5].tolist()}
    expected = {pair for pair in expected if pair[0] not in (3, 17)}
    assert set(map(tuple, found.tolist())) == expected


def test_semantic_edges_are_found_through_it_and_hold_through_updates() -> None:
    with built(SETTINGS, "noderag") as index, built(None, "noderag") as ours:
        edges = [similar_pairs(snapshot_of(each).part("noderag").arrays) for each in (index, ours)]
        assert len(edges[0])
        assert not np.array_equal(*edges)
        index.insert(documents(3, start=500))
        assert len(similar_pairs(snapshot_of(index).part("noderag").arrays)) >= len(edges[0])


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"m": 1}, ValueError),
        ({"ef": 0}, ValueError),
        ({"ef_construction": 2.5}, TypeError),
        ({"M": 16}, TypeError),
        (True, TypeError),
    ],
)
def test_wrong_settings_are_named(wrong: Any, error: type[Exception]) -> None:
    for config in ({"hnswlib": wrong}, {"noderag": {"hnswlib": wrong}}):
        with pytest.raises(error, match="hnswlib"):
            sg.build_index(documents(), "noderag", config=config, progress=False)


def test_a_vector_store_searches_for_itself(tmp_path: Any) -> None:
    from tests.vectors.support import Table

    with pytest.raises(ValueError, match="hnswlib"):
        built(SETTINGS, path=tmp_path / "idx", vectors=Table())
