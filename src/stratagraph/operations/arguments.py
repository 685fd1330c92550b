"""The arguments of a question: those of every search, and the options of each method.

A method's options are read from its options class in `methods/<name>/config.py`: names, types and defaults
are its fields, descriptions come from its docstring. Adapters and the command line derive their options from
here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, SupportsFloat, get_type_hints

from stratagraph.methods import get_way
from stratagraph.models.rerankers import package_and_model
from stratagraph.search.questions import checked_history
from stratagraph.search.rerank import Reranker, SetReranker, as_reranker
from stratagraph.types.checks import positive
from stratagraph.types.dates import day_of
from stratagraph.types.question import (
    GUIDED,
    LENGTHS,
    RANKS,
    SEARCH_ARGUMENTS,
    VIEWS,
    WALK,
    Guided,
    Length,
    Rank,
    Turn,
    View,
    Where,
)
from stratagraph.types.records import json_native
from stratagraph.types.results import Retrieval

DEFAULT_K = 10
OnRetrieved = Callable[[Retrieval], Awaitable[None]]
_LEAST_RECENCY, _MOST_RECENCY = 0.01, 10_000_000
_NAMES = re.compile(r"^(\w+(?:, \w+)*)$")


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """The checked arguments of a search, without the question; see `Index.retrieve`.

    If `k` is None, a search takes `DEFAULT_K` and an answer the default of `Way.answer_k`. `view="chunks"` is
    another word for `method="walk"`. If `guided` is None, an answer is guided where there is a model.
    """

    k: int | None = None
    view: View | None = None
    where: Where | None = None
    method: str | None = None
    decompose: bool = False
    fill: bool = True
    rank: Rank = "walk"
    rerank: Reranker | SetReranker | str | None = None
    min_score: float | None = None
    guided: Guided | None = None
    guided_steps: int | None = None
    history: Sequence[Turn] | None = None
    as_of: Any = None
    recency: float | None = None
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.k is not None:
            object.__setattr__(self, "k", positive("k", self.k))
        if self.view is not None and self.view not in VIEWS:
            raise ValueError(f'view must be "chunks" or None, not {self.view!r}')
        for name in ("decompose", "fill"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if self.rank not in RANKS:
            raise ValueError(f"rank must be one of {', '.join(RANKS)}, not {self.rank!r}")
        if self.min_score is not None:
            if isinstance(self.min_score, bool) or not isinstance(self.min_score, SupportsFloat):
                raise TypeError(f"min_score must be a cosine, from -1 to 1, not {self.min_score!r}")
            if not -1 <= float(self.min_score) <= 1:
                raise ValueError(f"min_score must be a cosine, from -1 to 1, not {self.min_score}")
        if self.guided is not None and self.guided not in GUIDED:
            raise ValueError(f'guided must be False, True, "choice" or "overview", not {self.guided!r}')
        if self.guided_steps is not None:
            positive("guided_steps", self.guided_steps)
            if self.guided is False:
                raise ValueError("guided_steps is for guided=True, and the search is not guided")
            if self.guided == "overview" and self.guided_steps == 1:
                raise ValueError(
                    'guided="overview" searches for the question and then for its parts: '
                    "guided_steps must be at least 2, not 1"
                )
        if self.history is not None:
            object.__setattr__(self, "history", checked_history(self.history))
        if self.as_of is not None and day_of(json_native(self.as_of)) is None:
            given = str(self.as_of)[:40] if isinstance(self.as_of, str) else type(self.as_of).__name__
            raise ValueError(f"as_of must be a date such as '2024-06-30', '2024-06' or 2024, not {given!r}")
        if self.recency is not None:
            number = isinstance(self.recency, SupportsFloat) and not isinstance(self.recency, bool)
            if not number or not _LEAST_RECENCY <= self.recency <= _MOST_RECENCY:
                raise ValueError(
                    f"recency must be a half-life in days, from {_LEAST_RECENCY} to {_MOST_RECENCY:,}, not "
                    f"{str(self.recency)[:40]}"
                )
        if isinstance(self.rerank, str):
            package_and_model(self.rerank)
        elif self.rerank is not None:
            object.__setattr__(self, "rerank", as_reranker(self.rerank))


@dataclass(frozen=True, slots=True)
class AnswerArguments:
    """The checked arguments of `Index.answer` that do not concern the search."""

    max_tokens: int
    length: Length | None = None
    on_retrieved: OnRetrieved | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_tokens", positive("max_tokens", self.max_tokens))
        if self.length is not None and self.length not in LENGTHS:
            raise ValueError(f"length must be one of {', '.join(LENGTHS)}, or None, not {self.length!r}")


def check_question(text: object) -> None:
    """Raise `TypeError` or `ValueError` if this is no string, or blank."""
    if not isinstance(text, str):
        hint = "; for several questions there is retrieve_many" if isinstance(text, list | tuple) else ""
        raise TypeError(f"the question must be a string, not {type(text).__name__}{hint}")
    if not text.strip():
        raise ValueError(f"the question is blank: {text!r}; give the words to search for")


def check_used(method: str, arguments: SearchArguments) -> None:
    """Raise `ValueError` for an argument that this way of searching ignores."""
    if method != WALK and arguments.rank != "walk":
        raise ValueError(
            f"rank={arguments.rank!r} orders passages, and {method} ranks its own nodes: pass "
            'view="chunks" for passages alone'
        )
    if method == WALK and not arguments.fill:
        raise ValueError("fill=False leaves passages out, and the walk finds nothing else: name a method")


@dataclass(frozen=True, slots=True)
class SearchOption:
    """A search option of a method: a keyword of `Index.retrieve`, its type, default and description."""

    name: str
    type: Any
    default: Any
    description: str


@cache
def search_options(method: str) -> tuple[SearchOption, ...]:
    """The search options of a method for `Index.retrieve` and `Index.answer`."""
    kind = get_way(method).options_type
    types, described = get_type_hints(kind), _described(kind)
    options = []
    for item in fields(kind):
        default: Any = item.default if item.default_factory is MISSING else item.default_factory()
        options.append(SearchOption(item.name, types[item.name], default, described[item.name]))
    return tuple(options)


def check_search_options(method: str, options: Mapping[str, Any]) -> Any:
    """Validate the search options of a method, with defaults for those left out.

    `TypeError` or `ValueError` says what is allowed.
    """
    names = [option.name for option in search_options(method)]
    if unknown := sorted(set(options) - set(names)):
        raise TypeError(
            f"a search has no argument {unknown[0]!r}: it takes k, {', '.join(SEARCH_ARGUMENTS)}, and with "
            f"{method} {', '.join(names) or 'no more'}"
        )
    return get_way(method).options_type(**options)


def _described(kind: type[Any]) -> dict[str, str]:
    """Descriptions by name from a numpy docstring; several names may share one: `restart, steps`."""
    lines = inspect.cleandoc(kind.__doc__ or "").partition("Parameters\n----------\n")[2].splitlines()
    texts: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        if match := _NAMES.match(line):
            names = match[1].split(", ")
            texts |= {name: [] for name in names}
        elif line.strip():
            for name in names:
                texts[name].append(line.strip())
    return {name: " ".join(text) for name, text in texts.items()}
