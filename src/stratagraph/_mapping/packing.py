"""Functions and batches on their way to other processes.

Each worker loads a function, and its model, once.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from cachetools import LRUCache

from stratagraph._locks import Lock
from stratagraph.errors import MapperError

R = TypeVar("R")
_HELD = 4
"""Functions that a worker keeps loaded: those of one stage, and its model."""
_DEEP = 6
_ORPHAN_LOOKS = 0.5  # seconds


class Packed(NamedTuple):
    """A function as bytes, with a hash by which a worker knows it again."""

    key: str
    payload: bytes


class Packer:
    """Pickles functions, those that were pickled last not again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._packed: LRUCache[int, tuple[object, Packed]] = LRUCache(_HELD)

    def function(self, function: Callable[..., Any]) -> Packed:
        """A function as bytes; `MapperError` names what in it cannot be pickled."""
        with self._lock:
            held = self._packed.get(id(function))
            if held is not None:
                return held[1]
        payload = _dumped(function)
        packed = Packed(hashlib.blake2b(payload, digest_size=16).hexdigest(), payload)
        with self._lock:
            self._packed[id(function)] = function, packed  # held, so that its id stays its own
        return packed

    def batch(self, batch: object) -> bytes:
        """A batch as bytes; errors as for functions."""
        return _dumped(batch)


def _dumped(value: object) -> bytes:
    import cloudpickle

    try:
        dumped: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise MapperError(_refusal(value, error)) from error
    return dumped


def _refusal(value: object, error: Exception) -> str:
    where, what = _culprit(value)
    return (
        f"{where} cannot be sent to other processes: {_kind(what)} cannot "
        f"be pickled ({error}). Leave it out in __getstate__ and make it again when it is first used, or "
        "keep the object here: mapper(..., embed=False) for an embedder, mapper='threads' for all else"
    )


def _culprit(value: object) -> tuple[str, object]:
    """Where inside an object the innermost part is that cannot be pickled, and that part."""
    name, found = _name(value), value
    for _ in range(_DEEP):
        bad = next(((key, part) for key, part in _parts(found) if not _picklable(part)), None)
        if bad is None:
            break
        key, found = bad
        name = _name(found) if key.startswith("(") else f"{name}.{key}"
    return name, found


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _name(value: object) -> str:
    return f"{type(value).__qualname__} {getattr(value, 'name', '')!r}".removesuffix(" ''")


def _parts(value: object) -> list[tuple[str, object]]:
    if isinstance(value, functools.partial):
        return [("(argument)", part) for part in (*value.args, *value.keywords.values(), value.func)]
    if isinstance(value, list | tuple):
        return [("(item)", part) for part in value]
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    held = [(name, getattr(value, name)) for name in slots if hasattr(value, name)]
    return [*getattr(value, "__dict__", {}).items(), *held]


def _picklable(value: object) -> bool:
    import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


# What runs in workers.


class Refused(NamedTuple):
    """An error of the function, and its text where the error itself cannot travel."""

    error: bytes | None
    text: str


_loaded: LRUCache[str, Callable[..., Any]] = LRUCache(_HELD)


def work(key: str, payload: Callable[[], bytes], batch: bytes) -> bytes | Refused:
    """Do a batch in this process: `payload` gives the function's bytes if it is not loaded yet."""
    try:
        function = _loaded.get(key)
        if function is None:
            function = _loaded[key] = pickle.loads(payload())
        return pickle.dumps(function(pickle.loads(batch)), protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException as error:  # one that ends a worker would be taken for its death
        return refused(error)


def refused(error: BaseException) -> Refused:
    """An error as it travels; whether it can is tried here, since the other side would break on it."""
    text = f"{_kind(error)}: {error}"
    try:
        dumped = pickle.dumps(error)
        pickle.loads(dumped)
    except Exception:
        return Refused(None, text)
    return Refused(dumped if isinstance(error, Exception) else None, text)


def opened(result: bytes | Refused) -> Any:
    """What a worker found; its error is raised."""
    if not isinstance(result, Refused):
        return pickle.loads(result)
    if result.error is None:
        raise MapperError(f"a worker failed with {result.text}")
    error = pickle.loads(result.error)
    error.add_note("in a worker of the mapper")
    raise error


def end_with_parent() -> None:
    """End this process when its parent is gone: nobody waits for what it does, and it may hold a lock."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_ORPHAN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, name="stratagraph-parent", daemon=True).start()
