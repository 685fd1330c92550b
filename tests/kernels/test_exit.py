"""Python ends without a word from the native kernels, whatever is still open."""

from __future__ import annotations

import subprocess
import sys

ALIVE = """
import builtins
import numpy as np
from stratarag.kernels import CHNSW

builtins.kept = CHNSW.build([np.eye(8), np.eye(8)[:2]], scan_limit=0)
builtins.kept.itself = builtins.kept
assert len(builtins.kept.search_all(np.ones(8), 3)[0][0]) == 3
"""


def test_an_index_that_is_open_when_python_ends_leaves_no_warning() -> None:
    done = subprocess.run([sys.executable, "-c", ALIVE], capture_output=True, text=True, check=True)
    assert done.stderr == ""
