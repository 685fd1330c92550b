"""Baselines: other systems' ways of retrieving, on the passages and the graph of a run.

A baseline is a `Ranker` over a `Workbench`. Keyword arguments of its constructor are its options, as in
`hipporag?specificity=false`. One that answers by its own prompts is `eval.answering.Answering` too.

    plain               bm25, dense (vanilla RAG), hybrid, hyde; zero_shot, cot: no retrieval
    raptor              tree of summaries
    walks               hipporag, hipporag2, fastgraphrag, kag: PageRank from the names in a question
    graphrag            graphrag_local, graphrag_global, over Leiden or attributed communities
    lightrag            dual-level keywords: local, global, hybrid, mix
    shared              parts that several of them use

Options are checked by the annotations of the arguments, as pydantic reads them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from stratagraph.eval.workbench import Ranker, Workbench

_WHERE = {
    "bm25": "plain.Bm25",
    "cot": "plain.ChainOfThought",
    "dense": "plain.Dense",
    "fastgraphrag": "walks.FastGraphRAG",
    "graphrag_global": "graphrag.GlobalSearch",
    "graphrag_local": "graphrag.LocalSearch",
    "hipporag": "walks.HippoRAG",
    "hipporag2": "walks.HippoRAG2",
    "hybrid": "plain.Hybrid",
    "hyde": "plain.HyDE",
    "kag": "walks.MutualIndex",
    "lightrag": "lightrag.LightRAG",
    "raptor": "raptor.GmmTree",
    "zero_shot": "plain.ZeroShot",
}
BASELINES = tuple(_WHERE)
"""Names of the baselines, sorted."""

OWN_PROMPT = "own_prompt"
"""Option of a row that answers by the method's own prompts instead of the prompt for all."""

Damping = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]
Level = Annotated[int, Field(ge=0)]
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


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
    kind, options = checked(name, options, own_prompt=own_prompt)
    ranker: Ranker = kind(bench, **options)
    return ranker


def checked(
    name: str, options: Mapping[str, Any], *, own_prompt: bool | None = None
) -> tuple[type[Any], Mapping[str, Any]]:
    """Class and constructor arguments of a baseline.

    Raises `ValueError` if an option is unknown, a value is not valid, or it cannot answer as `own_prompt`
    says.
    """
    module, _, class_name = _WHERE[name].partition(".")
    kind = getattr(import_module(f"{__name__}.{module}"), class_name)
    names = list(inspect.signature(kind).parameters)[1:]  # without the bench
    if own_prompt is not None:
        answers = hasattr(kind, "answer")
        if OWN_PROMPT in names:
            options = {**options, OWN_PROMPT: own_prompt}
        elif own_prompt and not answers:
            raise ValueError(f"{name} has no prompts of its own to answer by; leave {OWN_PROMPT} out")
        elif answers and not own_prompt:
            raise ValueError(
                f"{name} retrieves nothing that another prompt could answer from; leave {OWN_PROMPT} out"
            )
    if strange := sorted(set(options) - set(names)):
        raise ValueError(
            f"{name} has no option {', '.join(map(repr, strange))}; it has {', '.join(names) or 'none'}"
        )
    hints = get_type_hints(kind.__init__, include_extras=True) if options else {}
    for key, value in options.items():
        try:
            TypeAdapter(hints[key], config=_STRICT).validate_python(value)
        except ValidationError as error:
            allowed = " or ".join(dict.fromkeys(each["msg"] for each in error.errors()))
            raise ValueError(f"{key}={value!r}: {allowed}") from None
    return kind, options
