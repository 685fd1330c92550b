"""Campaigns against what is promised in `SECURITY.md`.

With `--numpy` the compiled kernels are hidden, from the processes that a campaign starts too.
"""

from __future__ import annotations

import os
import sys

_HIDDEN = "STRATAGRAPH_CAMPAIGNS_NUMPY"

if "--numpy" in sys.argv:
    os.environ[_HIDDEN] = "1"
if _HIDDEN in os.environ:
    sys.modules["stratagraph.kernels._native"] = None  # type: ignore[assignment]  # as if it were not built
