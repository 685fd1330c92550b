"""Python ends without a word from the native kernels, whatever is still open."""

from __future__ import annotations

import subprocess
import sys

ALIVE = """
import threading
import numpy as np
from stratagraph.kernels.chnsw import CHNSW

def hold(index):
    ready.set()
    threading.Event().wait()

ready = threading.Event()
index = CHNSW.build([np.eye(8), np.eye(8)[:2]], scan_limit=0)
threading.Thread(target=hold, args=(index,), daemon=True).start()
ready.wait()
"""


def test_an_index_that_a_thread_still_holds_leaves_no_warning() -> None:
    done = subprocess.run([sys.executable, "-c", ALIVE], capture_output=True, text=True, check=True)
    assert done.stderr == ""
