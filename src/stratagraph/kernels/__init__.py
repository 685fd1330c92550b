"""Arrays in, arrays out: seeded, without I/O, models or logging. Import the module that you need."""

try:
    from stratagraph.kernels import _native
except ImportError as error:
    raise ImportError(
        "stratagraph's compiled kernels are missing or do not fit this Python. Install a wheel, or a C++20 "
        "compiler and then: pip install --force-reinstall stratagraph"
    ) from error

__all__ = ["_native"]
