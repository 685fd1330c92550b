"""Documents `name = blocking(aname)` as a function, for the pages that griffe reads from the source."""

from __future__ import annotations

from typing import Any

import griffe


class Twins(griffe.Extension):
    """Gives the synchronous twin the signature and docstring, and has the async one point to it."""

    def on_module_members(self, *, mod: griffe.Module, **kwargs: Any) -> None:
        """Twins that are functions."""
        _documented(mod)

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Twins that are methods."""
        _documented(cls)


def _documented(scope: griffe.Module | griffe.Class) -> None:
    for name, member in list(scope.members.items()):
        made = member.value if isinstance(member, griffe.Attribute) else None
        if not isinstance(made, griffe.ExprCall) or not str(made.function).startswith("blocking"):
            continue
        twin = scope.members[str(made.arguments[0])]
        returns = "Iterator[str]" if str(made.function) == "blocking_iterator" else twin.returns
        function = griffe.Function(
            name, parameters=twin.parameters, returns=returns, lineno=twin.lineno, endlineno=twin.endlineno
        )
        if twin.docstring is not None:
            function.docstring = griffe.Docstring(twin.docstring.value, parent=function)
        twin.docstring = griffe.Docstring(
            f"The async version of `{name}`, with the same arguments.", parent=twin
        )
        function.labels |= twin.labels - {"async"}
        function.parent = scope
        scope.members[name] = function
