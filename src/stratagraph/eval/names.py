"""What the name of a row means: a ranker, a view, and options, as in `noderag/nodes?mode=entry`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stratagraph.question import VIEWS, View

DEFAULT_VIEW = "default"
"""Names what a retrieval gives that asks for no view."""
EVAL_VIEWS = (*VIEWS, DEFAULT_VIEW)
OWN_PROMPT = "own_prompt"
"""The option, of rows alone, that answers by the method's own prompts instead of the one prompt for all."""
BUILD = "build."
"""Begins the options that are settings of a method's build: such a row has an index of its own."""
_COMMA = re.compile(r",(?![^\[{]*[\]}])")


@dataclass(frozen=True, slots=True)
class RowName:
    """A row's name, taken apart.

    Attributes
    ----------
    ranker
        A method or a baseline.
    view
        Which results are ranked.
    options
        The method's search options.
    own_prompt
        Whether answers are made by the ranker's own prompts; None where the name does not say.
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
        """Take a name apart; without a view of its own it has `view`, or `nodes` with `own_prompt`.

        Values of options are JSON, or else text: `archrag?levels=[0,1]&mode=direct`. Those that begin with
        `build.` are settings of the build: `archrag?build.clustering=spectral`.

        Raises
        ------
        ValueError
            If there is no such view, or an option has no value or comes twice.
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
    def asked_view(self) -> View | None:
        """The view as `Index.retrieve` takes it."""
        return next((view for view in VIEWS if view == self.view), None)


def split_names(text: str) -> tuple[str, ...]:
    """Names from a list with commas; those within brackets belong to an option."""
    return tuple(name.strip() for name in _COMMA.split(text) if name.strip())


def _option(text: str, name: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise ValueError(f"{name!r} has an option {text!r}; write name=value")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
