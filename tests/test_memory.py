"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from stratagraph.system.memory import release


def held() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the allocator has no malloc_trim")
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
    release()
    assert before - held() > size * count // 2
    libc.free(places[-1])
