"""Baselines: other systems' ways of retrieving, on the passages and the graph of a run.

A baseline is a `Ranker` over a `Workbench`. Keyword arguments of its constructor are its options, as in
`hipporag?specificity=false`. One that answers by its own prompts is `eval.answering.Answering` too.

    plain               bm25, dense (vanilla RAG), hybrid, hyde; zero_shot, cot: no retrieval
    raptor              tree of summaries
    walks               ppr: a walk over passages and entities; kag: joined with similarity
    hipporag            hipporag, hipporag2: personalised PageRank from entities, from triples
    fastgraphrag        the same with scores passed on to relations
    graphrag            graphrag_local, graphrag_global, over Leiden or attributed communities
    lightrag            dual-level keywords: local, global, hybrid, mix
    communities, shared     parts that several of them use

Options are checked by the annotations of the arguments: a type, a `Literal`, or `Annotated` with a `Within`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from stratagraph.eval.names import OWN_PROMPT
from stratagraph.eval.rankers import Ranker, Workbench

_WHERE = {
    "bm25": "plain.Bm25",
    "cot": "plain.ChainOfThought",
    "dense": "plain.Dense",
    "fastgraphrag": "fastgraphrag.FastGraphRAG",
    "graphrag_global": "graphrag.GlobalSearch",
    "graphrag_local": "graphrag.LocalSearch",
    "hipporag": "hipporag.HippoRAG",
    "hipporag2": "hipporag.HippoRAG2",
    "hybrid": "plain.Hybrid",
    "hyde": "plain.HyDE",
    "kag": "walks.MutualIndex",
    "lightrag": "lightrag.LightRAG",
    "ppr": "walks.EntityWalk",
    "raptor": "raptor.GmmTree",
    "zero_shot": "plain.ZeroShot",
}
BASELINES = tuple(_WHERE)
"""Names of the baselines, sorted."""


def make(
    name: str,
    bench: Workbench,
    options: Mapping[str, Any] = MappingProxyType({}),
    *,
    own_prompt: bool | None = None,
) -> Ranker:
    """Make a baseline by its name, with keyword arguments of its constructor; its packages are imported now.

    `own_prompt` says whether it answers by its own prompts; None uses its default. Raises `ValueError` as
    `checked`, and `ModelError` if it needs a language model and there is none.
    """
    made, options = checked(name, options, own_prompt=own_prompt)
    ranker: Ranker = made(bench, **options)
    return ranker


def checked(
    name: str, options: Mapping[str, Any], *, own_prompt: bool | None = None
) -> tuple[type[Any], Mapping[str, Any]]:
    """Class and constructor arguments of a baseline.

    Raises `ValueError` if an option is unknown, a value is not valid, or it cannot answer as `own_prompt`
    says.
    """
    module, _, kind = _WHERE[name].partition(".")
    made = getattr(import_module(f"{__name__}.{module}"), kind)
    if own_prompt is not None:
        options = {**options, **_answering(name, made, own_prompt)}
    _check(name, made, options)
    return made, options


def _answering(name: str, made: Any, own_prompt: bool) -> dict[str, bool]:
    """The option `own_prompt` of a baseline that answers both ways; others accept only their own way."""
    if OWN_PROMPT in _names_of(made):
        return {OWN_PROMPT: own_prompt}
    if own_prompt and not hasattr(made, "answer"):
        raise ValueError(f"{name} has no prompts of its own to answer by; leave {OWN_PROMPT} out")
    if not own_prompt and hasattr(made, "answer"):
        raise ValueError(
            f"{name} retrieves nothing that another prompt could answer from; leave {OWN_PROMPT} out"
        )
    return {}


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of a number, both included, or excluded if `open`."""

    low: float
    high: float = math.inf
    open: bool = False

    def holds(self, value: float) -> bool:
        """Whether a number is within."""
        return self.low < value < self.high if self.open else self.low <= value <= self.high

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"at least {self.low:g}"
        return (
            f"between {self.low:g} and {self.high:g}" if self.open else f"from {self.low:g} to {self.high:g}"
        )


Damping = Annotated[float, Within(0, 1, open=True)]
Share = Annotated[float, Within(0, 1)]
Weight = Annotated[float, Within(0)]
Level = Annotated[int, Within(0)]


def _names_of(made: type[Any]) -> list[str]:
    """Options of a baseline: arguments of its constructor without the bench."""
    return list(inspect.signature(made).parameters)[1:]


def _check(name: str, made: type[Any], options: Mapping[str, Any]) -> None:
    """Refuse unknown options and invalid values by a `ValueError` that says what is allowed."""
    known = _names_of(made)
    if strange := sorted(set(options) - set(known)):
        raise ValueError(
            f"{name} has no option {', '.join(map(repr, strange))}; it has {', '.join(known) or 'none'}"
        )
    hints = get_type_hints(made.__init__, include_extras=True) if options else {}
    for key, value in options.items():
        if allowed := _lacking(hints[key], value):
            raise ValueError(f"{key} must be {allowed}, not {value!r}")


def _lacking(hint: Any, value: Any) -> str:
    """What a value should be; empty if it is valid."""
    bounds: Within | None = None
    if get_origin(hint) is Annotated:
        hint, bounds = get_args(hint)
    if get_origin(hint) is Literal:
        # 1 == True and 1.0 == 1: the type belongs to the value
        fits = any(type(value) is type(each) and value == each for each in get_args(hint))
        return "" if fits else f"one of {', '.join(map(str, get_args(hint)))}"
    kinds = get_args(hint) or (hint,)
    said = [_WORDS[kind] for kind in kinds if not _is(kind, value)]
    if len(said) == len(kinds):
        return " or ".join(said)
    return "" if bounds is None or bounds.holds(value) else str(bounds)


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "null"}


def _is(kind: type[Any], value: Any) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return type(value) is kind
