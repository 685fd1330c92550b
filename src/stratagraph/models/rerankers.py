"""Rerankers by name, of packages that a caller has installed; the model is loaded when it is named.

fastembed:Xenova/ms-marco-MiniLM-L-6-v2                          fastembed's `TextCrossEncoder`
flashrank:ms-marco-MiniLM-L-12-v2                                FlashRank's `Ranker`
sentence-transformers:cross-encoder/ms-marco-MiniLM-L-6-v2       sentence-transformers' `CrossEncoder`

Each of them downloads a model that is not on this machine yet, as its package does.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from stratagraph.errors import MissingExtra, RerankerError

EXAMPLES = (
    "'fastembed:Xenova/ms-marco-MiniLM-L-6-v2', 'flashrank:ms-marco-MiniLM-L-12-v2' and "
    "'sentence-transformers:cross-encoder/ms-marco-MiniLM-L-6-v2'"
)


class SentenceTransformersReranker:
    """A cross-encoder of sentence-transformers."""

    def __init__(self, name: str) -> None:
        self._model = _package("sentence-transformers").CrossEncoder(name)

    def rerank(self, question: str, texts: list[str]) -> Iterable[float]:
        """One score per text, in their order; larger is better."""
        scores: Iterable[float] = self._model.predict([(question, text) for text in texts])
        return scores


class FastembedReranker:
    """A cross-encoder of fastembed."""

    def __init__(self, name: str) -> None:
        package = _package("fastembed", "fastembed.rerank.cross_encoder")
        self._model = package.TextCrossEncoder(model_name=name)

    def rerank(self, question: str, texts: list[str]) -> Iterable[float]:
        """One score per text, in their order; larger is better."""
        scores: Iterable[float] = self._model.rerank(question, texts)
        return scores


class FlashRankReranker:
    """A ranker of FlashRank, whose scores are put back into the order of the texts."""

    def __init__(self, name: str) -> None:
        self._package = _package("flashrank")
        self._model = self._package.Ranker(model_name=name)

    def rerank(self, question: str, texts: list[str]) -> Iterable[float]:
        """One score per text, in their order; larger is better."""
        passages = [{"id": place, "text": text} for place, text in enumerate(texts)]
        ranked = self._model.rerank(self._package.RerankRequest(query=question, passages=passages))
        scores = {each["id"]: float(each["score"]) for each in ranked}
        return [scores[place] for place in range(len(texts))]


RERANKERS: dict[str, Callable[[str], Any]] = {
    "fastembed": FastembedReranker,
    "flashrank": FlashRankReranker,
    "sentence-transformers": SentenceTransformersReranker,
}


def package_and_model(given: str) -> tuple[str, str]:
    """The two parts of a reranker's name; ValueError if it names no known package."""
    package, _, name = given.partition(":")
    if package not in RERANKERS or not name:
        raise ValueError(
            f"rerank={given!r} does not begin with a known package ({', '.join(RERANKERS)}) and name a model "
            f"of it, as {EXAMPLES} do"
        )
    return package, name


@lru_cache(maxsize=4)
def named_reranker(given: str) -> Any:
    """The reranker of a name; the last four stay loaded.

    Raises `MissingExtra` without the package, and `RerankerError` if it cannot load the model.
    """
    package, name = package_and_model(given)
    try:
        return RERANKERS[package](name)
    except MissingExtra:
        raise
    except Exception as error:  # whatever that package raises where it finds no such model
        raise RerankerError(f"{package} cannot load {name!r}: {type(error).__name__}: {error}") from error


def _package(name: str, module: str | None = None) -> Any:
    """A package by its name; imported only here, since none of them comes with stratagraph."""
    module = module or name.replace("-", "_")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise  # it is there, and something that it needs is not
        raise MissingExtra(name) from error
