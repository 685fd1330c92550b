"""The search options of a method, read from its options class in `methods/<name>/config.py`.

Names, types and defaults are its fields; descriptions come from its docstring. Adapters and the command line
derive their options from here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from stratagraph.methods import get_way
from stratagraph.types.question import SEARCH_ARGUMENTS

_NAMES = re.compile(r"^(\w+(?:, \w+)*)$")


@dataclass(frozen=True, slots=True)
class SearchOption:
    """A search option of a method.

    Parameters
    ----------
    name
        Keyword of `Index.retrieve`.
    type
        Annotated type of its values.
    default
        Default value.
    description
        One paragraph.
    """

    name: str
    type: Any
    default: Any
    description: str


@cache
def search_options(method: str) -> tuple[SearchOption, ...]:
    """The search options that `Index.retrieve` and `Index.answer` take for a method.

    Raises
    ------
    ValueError
        If the method is unknown; the message lists the methods.
    """
    kind = get_way(method).options_type
    types, described = get_type_hints(kind), _described(kind)
    return tuple(
        SearchOption(item.name, types[item.name], _default(item), described[item.name])
        for item in fields(kind)
    )


def check_search_options(method: str, options: Mapping[str, Any]) -> Any:
    """Validate the search options of a method, with defaults for those left out.

    Raises
    ------
    TypeError, ValueError
        If an option is unknown or a value is invalid; the message says what is allowed.
    """
    known = [option.name for option in search_options(method)]
    if unknown := sorted(set(options) - set(known)):
        raise TypeError(
            f"a search has no argument {unknown[0]!r}: it takes k, {', '.join(SEARCH_ARGUMENTS)}, and with "
            f"{method} {', '.join(known) or 'no more'}"
        )
    return get_way(method).options_type(**options)


def _default(item: Any) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


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
