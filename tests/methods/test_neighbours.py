"""The nearest neighbour search of a build is the caller's choice."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stratagraph as sg
from stratagraph import demo
from stratagraph.errors import MissingExtra
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from stratagraph.testing.opened import opened

DOCUMENTS = demo.documents()[:24]
CHOSEN = {"name": "hnswlib", "M": 32, "ef": 400}


def exact(vectors: np.ndarray, k: int) -> np.ndarray:
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def built(method: str, neighbours: Any, documents: Any = DOCUMENTS, path: Path | None = None) -> sg.Index:
    config = {method: {"neighbours": neighbours}}
    return sg.build_index(documents, method, path, embedder=FakeEmbedder(), config=config, progress=False)


@pytest.mark.parametrize("method", ["lshtree", "archrag", "noderag"])
def test_hnswlib_makes_the_same_index_as_an_exact_search(method: str, tmp_path: Path) -> None:
    pytest.importorskip("hnswlib")
    name = sg.register_neighbours("exact", exact)
    with built(method, name) as one, built(method, CHOSEN, path=tmp_path / "idx") as two:
        ours, theirs = (opened(index, method).part.arrays for index in (one, two))
        assert ours.keys() == theirs.keys()
        for key in ours:
            np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key)
        two.insert(demo.documents()[24:26])
    with built(method, CHOSEN, path=tmp_path / "idx") as again:
        assert len(again.documents()) == 26
        assert again.retrieve("Who kept the bees?", k=5, method=method).hits


@pytest.mark.parametrize("setting", ["augmentation", "clustering", "neighbours"])
def test_a_function_that_is_not_registered_is_named_before_a_model_is_asked(
    setting: str, tmp_path: Path
) -> None:
    llm, config = ScriptedChatModel([]), {"archrag": {setting: "custom:forgotten"}}
    with pytest.raises(ValueError, match=f"register_{setting}"):
        sg.build_index(DOCUMENTS, "archrag", tmp_path / "idx", llm=llm, config=config, progress=False)
    assert not llm.calls
    assert not (tmp_path / "idx").exists()


def test_hnswlib_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hnswlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'stratagraph\[hnswlib\]'"):
        built("lshtree", "hnswlib")


@pytest.mark.parametrize(
    ("neighbours", "error", "said"),
    [
        ("nearest", ValueError, "no neighbours 'nearest'; choose from chnsw, hnswlib"),
        ("custom:forgotten", ValueError, "register_neighbours"),
        (8, TypeError, "a name, not 8"),
        ({"name": "chnsw", "ef": 5}, ValueError, "takes no options"),
        ({"name": "hnswlib", "efs": 5}, ValueError, "it has M, ef_construction, ef"),
        ({"name": "hnswlib", "M": 1}, ValueError, "M of hnswlib must be from 2"),
    ],
)
def test_a_search_that_is_none_is_named(neighbours: Any, error: type[Exception], said: str) -> None:
    pytest.importorskip("hnswlib")
    with pytest.raises(error, match=said):
        built("lshtree", neighbours)
