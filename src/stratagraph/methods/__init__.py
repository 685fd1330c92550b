"""The methods, by the names that users give. A method is imported when it is first asked for."""

from __future__ import annotations

from importlib import import_module

from stratagraph.methods.base import Method

NAMES = ("lshtree", "archrag", "noderag", "hirag")


def get_method(name: str) -> Method:
    """The method of that name.

    Raises
    ------
    ValueError
        If there is none; the message lists those there are.
    """
    if name not in NAMES:
        raise ValueError(f"there is no method {name!r}; choose from {', '.join(NAMES)}")
    method: Method = import_module(f"stratagraph.methods.{name}").METHOD
    return method
