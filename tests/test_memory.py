"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest

from stratagraph.system import memory as _memory


def held() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(_memory._trim() is None, reason="the allocator has no malloc_trim")
def test_what_was_freed_between_what_is_used_goes_back() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    size, count = 100_000, 1_000  # below what the allocator maps apart
    places = [libc.malloc(ctypes.c_size_t(size)) for _ in range(count)]
    for place in places:
        ctypes.memset(place, 1, size)
    for place in places[:-1]:
        libc.free(place)
    before = held()
    _memory.release()
    assert before - held() > size * count // 2
    libc.free(places[-1])


def test_where_there_is_no_such_call_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    _memory._trim.cache_clear()
    monkeypatch.setattr(sys, "platform", "win32")
    try:
        _memory.release()
        assert _memory._trim() is None
    finally:
        _memory._trim.cache_clear()
