"""What all tests share: where folders and real data are, and how often heavy trials run."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("stratagraph.testing.contract")

# How long an example takes says more about the machine than about the code. Each run draws the same examples,
# so that none fails by chance; with `--trials` above 1 it draws others.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", **UNTIMED, derandomize=True)
settings.register_profile("other", **UNTIMED)

# Most of a small build is waiting for the disk, so that temporary folders are in memory where there is room.
# Child processes inherit the variable.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # the folder that was chosen before

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--trials",
        type=int,
        default=1,
        help="how many times the small campaigns are as large; above 1, Hypothesis draws other examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("same" if config.getoption("--trials") == 1 else "other")


def pytest_collection_finish() -> None:
    """Keep the modules and tests themselves out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium without a window; skipped where none is installed."""
    from tests.viz.browser import program, running

    path = program()
    if path is None:
        pytest.skip("no chromium is installed")
    with running(path) as browser:
        yield browser


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo corpus as an index without a method."""
    import stratagraph as sg
    from stratagraph import demo
    from stratagraph.testing import FakeEmbedder

    path = tmp_path_factory.mktemp("demo") / "idx"
    sg.build_index(demo.documents(), path=path, embedder=FakeEmbedder(), progress=False).close()
    return path


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the checkout; tests that need it are skipped where it is not."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no real corpora beside this checkout")
    return SHARED_DATA
