"""What all tests share: where folders and real data are, and how often heavy trials run."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("stratagraph.testing.contract")

# How long an example takes says more of the machine than of the code.
settings.register_profile("stratagraph", deadline=None)
settings.load_profile("stratagraph")

# Most of a small build is waiting for the disk, so that temporary folders are in memory where there is room.
# Child processes inherit the variable.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # the folder that was chosen before

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=4, help="how many child processes the kill trial kills")
    parser.addoption("--trials", type=int, default=1, help="how many times the small campaigns are as large")


def pytest_collection_finish() -> None:
    """Keep the modules and tests themselves out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the checkout; tests that need it are skipped where it is not."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no real corpora beside this checkout")
    return SHARED_DATA
