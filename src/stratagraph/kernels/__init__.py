"""Arrays in, arrays out: seeded, without I/O, models or logging. Import the module that you need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stratagraph.kernels.chnsw import CHNSW

__all__ = ["CHNSW"]


def __getattr__(name: str) -> Any:
    if name != "CHNSW":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stratagraph.kernels.chnsw import CHNSW

    return CHNSW
