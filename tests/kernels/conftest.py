"""The native kernels and their numpy twins, for tests of a module that both serve."""

from __future__ import annotations

import pytest

from stratagraph.kernels.hamming import native_available


@pytest.fixture(params=["native", "numpy"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which kernels serve the module that a test module names in `KERNEL`."""
    if request.param == "numpy":
        monkeypatch.setattr(f"stratagraph.kernels.{request.module.KERNEL}.native_available", lambda: False)
    elif not native_available():
        pytest.skip("installed without the native kernels")
    return str(request.param)
