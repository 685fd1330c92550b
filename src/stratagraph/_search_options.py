"""The search options of a method: names, types, defaults and descriptions, from the one place that has them.

That place is the method's options class (`methods/<name>/config.py`): its fields, and the section
`Parameters` of its docstring. The adapters and the command line derive theirs from here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from stratagraph.methods import get_method
from stratagraph.question import SEARCH_ARGUMENTS

_NAMES = re.compile(r"^(\w+(?:, \w+)*)$")


@dataclass(frozen=True, slots=True)
class SearchOption:
    """One option of a search with a method.

    Parameters
    ----------
    name
        As it is given to `Index.retrieve`.
    type
        The type of its values, as annotated.
    default
        Its value where it is not given.
    description
        What it does, in one paragraph.
    """

    name: str
    type: Any
    default: Any
    description: str


@cache
def search_options(method: str) -> tuple[SearchOption, ...]:
    """The options that `Index.retrieve` and `Index.answer` take for a method, in their order.

    Raises
    ------
    ValueError
        If there is no such method; the message lists those there are.
    """
    kind = get_method(method).options_type
    types, described = get_type_hints(kind), _described(kind)
    return tuple(
        SearchOption(item.name, types[item.name], _default(item), described[item.name])
        for item in fields(kind)
    )


def check_search_options(method: str, options: Mapping[str, Any]) -> Any:
    """The search options of a method as one validated value, those left out at their defaults.

    Raises
    ------
    TypeError, ValueError
        If the method has no such option, or a value is not valid; the message names what is allowed.
    """
    known = [option.name for option in search_options(method)]
    if unknown := sorted(set(options) - set(known)):
        raise TypeError(
            f"a search has no argument {unknown[0]!r}: it takes k, {', '.join(SEARCH_ARGUMENTS)}, and with "
            f"{method} {', '.join(known)}"
        )
    return get_method(method).options_type(**options)


def _default(item: Any) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _described(kind: type[Any]) -> dict[str, str]:
    """Descriptions by name from a numpy docstring; names that share one stand in a line: `restart, steps`."""
    lines = inspect.cleandoc(kind.__doc__ or "").partition("Parameters\n----------\n")[2].splitlines()
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        if match := _NAMES.match(line):
            names = match[1].split(", ")
            found |= {name: [] for name in names}
        elif line.strip():
            for name in names:
                found[name].append(line.strip())
    return {name: " ".join(text) for name, text in found.items()}
