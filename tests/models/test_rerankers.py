"""Rerankers by name: packages that are there, packages that are not, models that are not."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.errors import MissingExtra, RerankerError
from stratagraph.models.rerankers import RERANKERS, named_reranker
from stratagraph.search.rerank import scored
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import documents

TEXTS = ["a text of some length", "short", "a text in between"]
NAMES = {"fastembed": "Xenova/x", "flashrank": "ms-x", "sentence-transformers": "cross-encoder/x"}
LOADED: list[str] = []


def _length(text: str) -> float:
    return -float(len(text))


class TextCrossEncoder:
    """As in fastembed 0.9: an iterator of scores."""

    def __init__(self, model_name: str) -> None:
        _load(model_name)

    def rerank(self, query: str, documents: Any) -> Any:
        return (_length(text) for text in documents)


class RerankRequest:
    """As in flashrank 0.2."""

    def __init__(self, query: str, passages: list[dict[str, Any]]) -> None:
        self.query, self.passages = query, passages


class Ranker:
    """As in flashrank 0.2: the passages in a new order, with scores."""

    def __init__(self, model_name: str) -> None:
        _load(model_name)

    def rerank(self, request: RerankRequest) -> Any:
        scored_passages = [{**each, "score": _length(each["text"])} for each in request.passages]
        return sorted(scored_passages, key=lambda each: each["score"], reverse=True)


class CrossEncoder:
    """As in sentence-transformers 5: scores of pairs."""

    def __init__(self, name: str) -> None:
        _load(name)

    def predict(self, pairs: Any) -> Any:
        return [_length(text) for _, text in pairs]


def _load(name: str) -> None:
    if name == "absent":
        raise OSError("no such model here")
    LOADED.append(name)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three packages, with what is used of them."""
    parts: dict[str, dict[str, Any]] = {
        "fastembed": {},
        "fastembed.rerank": {},
        "fastembed.rerank.cross_encoder": {"TextCrossEncoder": TextCrossEncoder},
        "flashrank": {"Ranker": Ranker, "RerankRequest": RerankRequest},
        "sentence_transformers": {"CrossEncoder": CrossEncoder},
    }
    for name, contents in parts.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    named_reranker.cache_clear()
    LOADED.clear()
    yield
    named_reranker.cache_clear()


@pytest.mark.parametrize("package", sorted(RERANKERS))
def test_a_named_model_scores_in_the_order_of_the_texts(installed: None, package: str) -> None:
    name = f"{package}:{NAMES[package]}"
    assert scored(named_reranker(name), "q", TEXTS).tolist() == [_length(text) for text in TEXTS]
    assert [NAMES[package]] == LOADED
    with pytest.raises(RerankerError, match=f"{package} cannot load 'absent': OSError: no such model here"):
        named_reranker(f"{package}:absent")


def test_a_search_takes_the_name_and_loads_the_model_once(installed: None) -> None:
    name = f"fastembed:{NAMES['fastembed']}"
    with sg.build_index(documents(20), embedder=FakeEmbedder(), progress=False) as index:
        found = [index.retrieve("ferry", k=4, view="chunks", rerank=name) for _ in range(2)]
    assert [hit.score for hit in found[0]] == sorted((_length(hit.text) for hit in found[0]), reverse=True)
    assert found[0].hits == found[1].hits
    assert [NAMES["fastembed"]] == LOADED


@pytest.mark.parametrize("package", sorted(RERANKERS))
def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    class Nothing:
        def find_spec(self, name: str, *_: Any) -> None:
            if name.partition(".")[0] == package.replace("-", "_"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [each for each in sys.modules if each.partition(".")[0] == package.replace("-", "_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Nothing(), *sys.meta_path])
    with pytest.raises(
        MissingExtra, match=f"{package} is not installed. Install it with: pip install {package}$"
    ):
        named_reranker(f"{package}:some-model")


def test_a_name_that_says_no_package() -> None:
    with sg.build_index(documents(3), embedder=FakeEmbedder(), progress=False) as index:
        for given in ("cohere:x", "fastembed", "fastembed:", "", "cross-encoder/x"):
            with pytest.raises(ValueError, match=r"package \(fastembed, flashrank, sentence-transformers\)"):
                index.retrieve("ferry", rerank=given)
