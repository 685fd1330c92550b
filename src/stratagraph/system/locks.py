"""Locks that are free in a forked child, where the thread that held them does not exist."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def Lock() -> threading.RLock:  # noqa: N802  # as the one of `threading`
    """A reentrant lock that is free in a forked child."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


class cached_property(functools.cached_property[T]):  # noqa: N801  # as the one that it stands in for
    """`functools.cached_property` whose lock (Python 3.11 has one for all instances) survives a fork."""

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        if "lock" in vars(self):
            vars(self)["lock"] = Lock()


_locks: weakref.WeakSet[threading.RLock] = weakref.WeakSet()
_remade: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""Objects with something to make anew in a forked child, and the names of the methods that do so."""


def after_fork(remake: Callable[[], None]) -> None:
    """Call a method in forked children while its object lives, to create threads and counters again."""
    _remade[remake.__self__] = remake.__name__  # type: ignore[attr-defined]  # a bound method


def _remake() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library does
    for owner, method in list(_remade.items()):
        getattr(owner, method)()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_remake)
