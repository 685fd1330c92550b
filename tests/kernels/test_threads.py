"""Threads: those of BLAS are limited, none may be left to start, and some may outlive Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import threadpool_info

from stratagraph.kernels.blas import one_thread

resource = pytest.importorskip("resource")

STACK = 1 << 45  # of a thread, for which no machine has room

SCARCE = """
import numpy as np
from stratagraph.kernels.chnsw_options import Options
from stratagraph.kernels.chnsw import CHNSW
import threading

try:
    threading.Thread(target=print).start()
except RuntimeError:
    print("no thread")
rng = np.random.default_rng(0)
vectors = rng.normal(size=(500, 16))
index = CHNSW.build([vectors], options=Options(scan_limit=0), threads=4)
index, _ = index.revised([vectors[100:]], None, [np.arange(100, 500)], threads=4)
assert (index.search_many(vectors[100:], 1, ef=64, threads=4)[0][0].ravel() == np.arange(400)).mean() > 0.9
print("done")
"""


def test_where_no_thread_starts_one_does_the_work() -> None:
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard not in (resource.RLIM_INFINITY, -1) and hard < STACK:
        pytest.skip("the stack may not be made larger here")
    done = subprocess.run(
        [sys.executable, "-c", SCARCE],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
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


ALIVE = """
import threading
import numpy as np
from stratagraph.kernels.chnsw_options import Options
from stratagraph.kernels.chnsw import CHNSW

def hold(index):
    ready.set()
    threading.Event().wait()

ready = threading.Event()
index = CHNSW.build([np.eye(8), np.eye(8)[:2]], options=Options(scan_limit=0))
threading.Thread(target=hold, args=(index,), daemon=True).start()
ready.wait()
"""


def test_an_index_that_a_thread_still_holds_leaves_no_warning() -> None:
    done = subprocess.run([sys.executable, "-c", ALIVE], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def threads() -> list[int]:
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_one_thread_is_given_back_by_the_last_that_asked_for_it() -> None:
    before = threads()
    first, second = one_thread(), one_thread()
    with first:
        second.__enter__()
    assert set(threads()) <= {1}
    second.__exit__(None, None, None)
    assert threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_waits_for_no_thread_of_its_parent_and_has_all_of_its_own() -> None:
    before, done = threads(), threading.Event()

    def multiply() -> None:
        while not done.is_set():
            with one_thread():
                pass

    busy = [threading.Thread(target=multiply) for _ in range(2)]
    for thread in busy:
        thread.start()
    ended = []
    with one_thread():  # so that none of them changes the setting during a fork
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                given = threads()
                with one_thread():
                    limited = threads()
                os._exit(0 if given == threads() == before and set(limited) <= {1} else 1)
            ended.append(os.waitpid(child, 0)[1])
            if ended[-1]:
                break
    done.set()
    for thread in busy:
        thread.join()
    assert set(ended) == {0}
    assert threads() == before
