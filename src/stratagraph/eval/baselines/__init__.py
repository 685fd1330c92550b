"""What the methods are compared with: other systems' ways of retrieving, on the passages and graph of a run.

A baseline is a class with a `name`, a `description` and `rank` (`eval.rankers.Ranker`), made over a
`Workbench`; keyword arguments of its constructor are its options, as in `hipporag?specificity=false`. One
that answers by prompts of its own has `answer` too (`eval.answering.Answering`).

    plain               bm25, dense (vanilla RAG), hybrid
    hyde                by the vector of a hypothetical answer
    closed_book         zero_shot, cot: no retrieval at all
    raptor              tree of summaries: collapsed, or traversed from the top
    entity_walk         ppr: a walk over passages and entities, ours before it had its walk
    hipporag, hipporag2 personalised PageRank from entities, from triples
    fastgraphrag, kag   the same, with scores passed on to relations, or joined with similarity
    graphrag            graphrag_local, graphrag_global, over Leiden or attributed communities
    lightrag            dual-level keywords: local, global, hybrid, mix
    communities, spreading    what several of them are made of
    options             what their options may be
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from stratagraph.eval.baselines.options import check, names_of
from stratagraph.eval.names import OWN_PROMPT
from stratagraph.eval.rankers import Ranker, Workbench

_WHERE = {
    "bm25": "plain.Bm25",
    "cot": "closed_book.ChainOfThought",
    "dense": "plain.Dense",
    "fastgraphrag": "fastgraphrag.FastGraphRAG",
    "graphrag_global": "graphrag.GlobalSearch",
    "graphrag_local": "graphrag.LocalSearch",
    "hipporag": "hipporag.HippoRAG",
    "hipporag2": "hipporag2.HippoRAG2",
    "hybrid": "plain.Hybrid",
    "hyde": "hyde.HyDE",
    "kag": "kag.MutualIndex",
    "lightrag": "lightrag.LightRAG",
    "ppr": "entity_walk.EntityWalk",
    "raptor": "raptor.GmmTree",
    "zero_shot": "closed_book.ZeroShot",
}
BASELINES = tuple(_WHERE)
"""Their names, sorted."""


def make(
    name: str,
    bench: Workbench,
    options: Mapping[str, Any] = MappingProxyType({}),
    *,
    own_prompt: bool | None = None,
) -> Ranker:
    """A baseline by its name, with options; what it needs is imported now.

    Parameters
    ----------
    name, bench, options
        Which, over what, and keyword arguments of its constructor.
    own_prompt
        Whether it answers by prompts of its own; None: as it does by itself.

    Raises
    ------
    KeyError
        If there is none of that name.
    ValueError
        As `checked` raises it.
    ModelError
        If it needs a language model and there is none.
    """
    made, options = checked(name, options, own_prompt=own_prompt)
    ranker: Ranker = made(bench, **options)
    return ranker


def checked(
    name: str, options: Mapping[str, Any], *, own_prompt: bool | None = None
) -> tuple[type[Any], Mapping[str, Any]]:
    """The class of a baseline and the arguments of its constructor, as `make` takes them; nothing is made.

    Raises
    ------
    ValueError
        If it has no such option, a value is not valid, or it answers in one way alone, and that another.
    """
    module, _, kind = _WHERE[name].partition(".")
    made = getattr(import_module(f"{__name__}.{module}"), kind)
    if own_prompt is not None:
        options = {**options, **_answering(name, made, own_prompt)}
    check(name, made, options)
    return made, options


def _answering(name: str, made: Any, own_prompt: bool) -> dict[str, bool]:
    """The option of a baseline that answers in both ways; of the others, only what they do is taken."""
    if OWN_PROMPT in names_of(made):
        return {OWN_PROMPT: own_prompt}
    if own_prompt and not hasattr(made, "answer"):
        raise ValueError(f"{name} has no prompts of its own to answer by; leave {OWN_PROMPT} out")
    if not own_prompt and hasattr(made, "answer"):
        raise ValueError(
            f"{name} retrieves nothing that another prompt could answer from; leave {OWN_PROMPT} out"
        )
    return {}
