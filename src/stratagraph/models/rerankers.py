"""Rerankers by name, of packages that a caller has installed; the model is loaded when it is named.

fastembed:Xenova/ms-marco-MiniLM-L-6-v2                          fastembed's `TextCrossEncoder`
flashrank:ms-marco-MiniLM-L-12-v2                                FlashRank's `Ranker`
sentence-transformers:cross-encoder/ms-marco-MiniLM-L-6-v2       sentence-transformers' `CrossEncoder`

Each package downloads a model that is not on this machine yet.
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
Score = Callable[[str, list[str]], Iterable[float]]
"""From a question and texts to one score per text, in their order; larger is better."""


class NamedReranker:
    """A loaded model (`protocols.Reranker`)."""

    def __init__(self, rerank: Score) -> None:
        self.rerank = rerank


def _fastembed(module: Any, name: str) -> Score:
    score: Score = module.TextCrossEncoder(model_name=name).rerank
    return score


def _flashrank(module: Any, name: str) -> Score:
    model = module.Ranker(model_name=name)

    def score(question: str, texts: list[str]) -> list[float]:
        passages = [{"id": place, "text": text} for place, text in enumerate(texts)]
        ranked = model.rerank(module.RerankRequest(query=question, passages=passages))  # best first
        scores = {each["id"]: float(each["score"]) for each in ranked}
        return [scores[place] for place in range(len(texts))]

    return score


def _sentence_transformers(module: Any, name: str) -> Score:
    model = module.CrossEncoder(name)
    return lambda question, texts: model.predict([(question, text) for text in texts])


RERANKERS: dict[str, tuple[str, Callable[[Any, str], Score]]] = {
    "fastembed": ("fastembed.rerank.cross_encoder", _fastembed),
    "flashrank": ("flashrank", _flashrank),
    "sentence-transformers": ("sentence_transformers", _sentence_transformers),
}
"""For each package the module to import, and how a model of it is loaded."""


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
def named_reranker(given: str) -> NamedReranker:
    """The reranker of a name; the last four stay loaded.

    Raises `MissingExtra` without the package, and `RerankerError` if it cannot load the model.
    """
    package, name = package_and_model(given)
    module, load = RERANKERS[package]
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == module.partition(".")[0]:
            raise MissingExtra(package) from error
        raise RerankerError(f"{package} cannot be imported: {error}") from error
    except Exception as error:  # such as a library of the package that does not load
        raise RerankerError(f"{package} cannot be imported: {type(error).__name__}: {error}") from error
    try:
        return NamedReranker(load(imported, name))
    except Exception as error:  # whatever that package raises where it finds no such model
        raise RerankerError(f"{package} cannot load {name!r}: {type(error).__name__}: {error}") from error
