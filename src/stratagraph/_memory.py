"""Giving memory back to the system between the stages of a build."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache


def release() -> None:
    """Give back what was freed and lies between what is still used.

    The allocator of glibc keeps that, for each thread apart: after the stages of a build some 20 KB for each
    passage, which no other thread can use. Others have no such call, and then nothing happens.
    """
    if (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    found.argtypes, found.restype = [ctypes.c_size_t], ctypes.c_int
    return found
