"""A system that has no more threads: the kernels do with those that there are. And one thread for BLAS."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import threadpool_info

from stratagraph.kernels._blas import one_thread
from stratagraph.kernels.hamming import native_available

resource = pytest.importorskip("resource")

STACK = 1 << 45  # of a thread, for which no machine has room

SCARCE = """
import numpy as np
from stratagraph.kernels.chnsw import CHNSW
import threading

try:
    threading.Thread(target=print).start()
except RuntimeError:
    print("no thread")
rng = np.random.default_rng(0)
vectors = rng.normal(size=(500, 16))
index = CHNSW.build([vectors], scan_limit=0, threads=4)
index, _ = index.revised([vectors[100:]], None, [np.arange(100, 500)], threads=4)
assert (index.search_many(vectors[100:], 1, ef=64, threads=4)[0][0].ravel() == np.arange(400)).mean() > 0.9
print("done")
"""


@pytest.mark.skipif(not native_available(), reason="installed without the native kernels")
def test_where_no_thread_starts_one_does_the_work() -> None:
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard not in (resource.RLIM_INFINITY, -1) and hard < STACK:
        pytest.skip("the stack may not be made larger here")
    done = subprocess.run(
        [sys.executable, "-c", SCARCE],
        env={"OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (STACK, hard)),
        capture_output=True,
        text=True,
        check=False,
    )
    if "no thread" not in done.stdout and done.returncode == 0:
        pytest.skip("threads have stacks of a size of their own here")
    assert done.stdout.split() == ["no", "thread", "done"], done.stderr


def test_any_thread_limits_blas() -> None:
    def inside() -> set[int]:
        with one_thread():
            return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    assert inside() == {1}
    with ThreadPoolExecutor(1) as pool:  # while the thread that set the first limit lives
        assert pool.submit(inside).result() == {1}
