"""Names of rows, as in `noderag/nodes?mode=entry`: a ranker, a view, options; and what is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from stratagraph.config import Config, construct
from stratagraph.methods import WAYS
from stratagraph.operations.arguments import SearchArguments, check_search_options, check_used
from stratagraph.search.filters import compile_where
from stratagraph.types.question import SHARED_OPTIONS, WALK

PLAIN = ("dense", "bm25", "hybrid")
"""Plain rankings of passages, as `Index.retrieve(rank=...)` gives them."""
KNOWN = (*WAYS, *PLAIN)
OWN_PROMPT = "own_prompt"
"""Option of a row that answers by the method's own prompts instead of the prompt for all."""
EVAL_VIEWS = ("default", "chunks", "nodes")
"""What rows of a method return: what it returns by default, the walk's passages, or its own ranking
(`fill=False`). The walk and plain rankings have passages alone."""
BUILD = "build."
"""Prefix of options that are settings of the build; such a row has its own index."""
_COMMA = re.compile(r",(?![^\[{]*[\]}])")
_SAID_ELSEWHERE = {
    "k": "cutoffs are those of the run (--k)",
    "method": "the name begins with it",
    "view": "it stands behind the name, as in lshtree/nodes",
}


@dataclass(frozen=True, slots=True)
class RowName:
    """A row's name in parts: a ranker, a view of its results, search options, settings of a build of its own.

    With `own_prompt` it answers by its own prompts.
    """

    ranker: str
    view: str
    options: Mapping[str, Any] = field(default_factory=dict)
    own_prompt: bool = False
    build: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, view: str) -> RowName:
        """Split a name. Without a view it has `view`, or `nodes` with `own_prompt`.

        Values of options are JSON or text: `archrag?levels=[0,1]&mode=direct`. Those named `build.*` are
        settings of the build. Raises `ValueError` if the view is unknown, or an option has no value or comes
        twice.
        """
        path, _, query = name.partition("?")
        ranker, _, own = path.partition("/")
        if own and own not in EVAL_VIEWS:
            raise ValueError(f"{name!r} asks for the view {own!r}; there are {', '.join(EVAL_VIEWS)}")
        options: dict[str, Any] = {}
        for text in filter(None, query.split("&")):
            key, _, value = text.partition("=")
            if not (key and value):
                raise ValueError(f"{name!r} has an option {text!r}; write name=value")
            if key in options:
                raise ValueError(f"{name!r} has an option twice")
            try:
                options[key] = json.loads(value)
            except json.JSONDecodeError:
                options[key] = value
        own_prompt = options.pop(OWN_PROMPT, False)
        if not isinstance(own_prompt, bool):
            raise ValueError(f"{OWN_PROMPT} must be true or false, not {own_prompt!r}, in {name!r}")
        build = {key.removeprefix(BUILD): options.pop(key) for key in list(options) if key.startswith(BUILD)}
        return cls(ranker, own or ("nodes" if own_prompt else view), options, own_prompt, build)

    @property
    def search(self) -> Mapping[str, Any]:
        """Arguments of `Index.retrieve`."""
        if self.ranker in PLAIN:
            return {"method": WALK, "rank": self.ranker, **self.options}
        method = WALK if self.view == "chunks" else self.ranker
        own = {"fill": False} if self.view == "nodes" and method != WALK else {}
        return {"method": method, **own, **self.options}


def split_names(text: str) -> tuple[str, ...]:
    """Names from a list with commas; commas within brackets belong to an option."""
    return tuple(name.strip() for name in _COMMA.split(text) if name.strip())


def settings_of(name: RowName, config: Config) -> Config:
    """The run's settings with those of the row's build; `TypeError` or `ValueError` for a wrong one."""
    if not name.build:
        return config
    own = config.method(name.ranker)
    values = {each.name: getattr(own, each.name) for each in fields(own)} | dict(name.build)
    changed = construct(type(own), values, name.ranker)
    return replace(config, methods={**config.methods, name.ranker: changed})


def check_rows(rows: Sequence[str], view: str, config: Config) -> None:
    """Refuse names of rows, options and values that cannot be measured.

    `view` is for names without one, and a row adds settings of its build to `config`. Raises `ValueError` for
    the first wrong row, with its name and what is allowed.
    """
    for row in rows:
        name = RowName.of(row, view)
        if name.ranker not in KNOWN:
            raise ValueError(f"there is no method or ranking {row!r}; choose from {', '.join(KNOWN)}")
        try:
            _check(name, config)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{row!r}: {error}") from error


def _check(name: RowName, config: Config) -> None:
    for key, instead in _SAID_ELSEWHERE.items():
        if key in name.options:
            raise ValueError(f"{key!r} is no option of a row: {instead}")
    if name.ranker in PLAIN and "rank" in name.options:
        raise ValueError("its name says how it ranks")
    search = dict(name.search)
    method, where = search.pop("method"), search.pop("where", None)
    shared = {key: search.pop(key) for key in SHARED_OPTIONS if key in search}
    check_used(method, SearchArguments(**shared))
    check_search_options(method, search)
    if where is not None:
        compile_where(where)
    if name.ranker in (WALK, *PLAIN):
        if name.build:
            raise ValueError(f"nothing is built for {name.ranker}, so that it has no settings {BUILD}...")
        if name.own_prompt and name.ranker in PLAIN:
            raise ValueError(f"{name.ranker} has no prompts of its own to answer by; leave {OWN_PROMPT} out")
    settings_of(name, config)
