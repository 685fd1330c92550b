"""Names of rows: a ranker, a view and options, as in `noderag/nodes?mode=entry`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stratagraph.types.question import WALK

DEFAULT_VIEW = "default"
EVAL_VIEWS = (DEFAULT_VIEW, "chunks", "nodes")
"""What rows of a method return: what it returns by default, the walk's passages, or its own ranking
(`fill=False`). The walk has passages alone, and so do baselines, unless it says `nodes`."""
OWN_PROMPT = "own_prompt"
"""Option of a row that answers by the method's own prompts instead of the prompt for all."""
BUILD = "build."
"""Prefix of options that are settings of the build; such a row has its own index."""
_COMMA = re.compile(r",(?![^\[{]*[\]}])")


@dataclass(frozen=True, slots=True)
class RowName:
    """A row's name in parts.

    Attributes
    ----------
    ranker
        A method or a baseline.
    view
        View of the results.
    options
        Search options of the ranker.
    own_prompt
        Whether the ranker answers by its own prompts; None where the name does not say.
    build
        Settings of the method's build that differ from the run's.
    """

    ranker: str
    view: str
    options: Mapping[str, Any] = field(default_factory=dict)
    own_prompt: bool | None = None
    build: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, view: str) -> RowName:
        """Split a name. Without a view it has `view`, or `nodes` with `own_prompt`.

        Values of options are JSON or text: `archrag?levels=[0,1]&mode=direct`. Those named `build.*` are
        settings of the build: `archrag?build.clustering=spectral`.

        Raises
        ------
        ValueError
            If the view is unknown, or an option has no value or comes twice.
        """
        path, _, query = name.partition("?")
        ranker, _, own = path.partition("/")
        if own and own not in EVAL_VIEWS:
            raise ValueError(f"{name!r} asks for the view {own!r}; there are {', '.join(EVAL_VIEWS)}")
        given = [_option(each, name) for each in query.split("&") if each]
        options = dict(given)
        if len(options) < len(given):
            raise ValueError(f"{name!r} has an option twice")
        own_prompt = options.pop(OWN_PROMPT, None)
        if own_prompt is not None and not isinstance(own_prompt, bool):
            raise ValueError(f"{OWN_PROMPT} must be true or false, not {own_prompt!r}, in {name!r}")
        build = {key.removeprefix(BUILD): options.pop(key) for key in list(options) if key.startswith(BUILD)}
        return cls(ranker, own or ("nodes" if own_prompt else view), options, own_prompt, build)

    @property
    def search(self) -> Mapping[str, Any]:
        """Arguments of `Index.retrieve`."""
        method = WALK if self.view == "chunks" else self.ranker
        own = {"fill": False} if self.view == "nodes" and method != WALK else {}
        return {"method": method, **own, **self.options}


def split_names(text: str) -> tuple[str, ...]:
    """Names from a list with commas; commas within brackets belong to an option."""
    return tuple(name.strip() for name in _COMMA.split(text) if name.strip())


def _option(text: str, name: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise ValueError(f"{name!r} has an option {text!r}; write name=value")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
