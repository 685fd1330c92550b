"""The campaigns in their small form; by hand, `python -m tests.campaigns damage --trials 5000`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns import CAMPAIGNS, outputs
from tests.campaigns.hirag import life
from tests.campaigns.interrupted import available
from tests.campaigns.trials import TALLIES, table

ROOT = Path(__file__).resolve().parents[2]


INTERRUPTED = "kills full_disk power_cuts"
NAMES = [INTERRUPTED, *sorted(CAMPAIGNS.keys() - {"outputs", *INTERRUPTED.split()})]


@pytest.mark.skipif(sys.platform != "linux", reason="trials are forked and limited as on Linux")
@pytest.mark.parametrize("names", NAMES)
def test_a_campaign_finds_nothing(names: str, request: pytest.FixtureRequest) -> None:
    if names == INTERRUPTED and not available():
        pytest.skip("the shim below the file system needs a C compiler")
    times = str(request.config.getoption("--trials"))
    command = [sys.executable, "-m", "tests.campaigns", *names.split(), "--small", times]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_fuzzed_outputs_are_read_or_refused(tmp_path: Path) -> None:
    outputs.campaign(tmp_path, CAMPAIGNS["outputs"][1], seed=7)
    assert all(row.sound for row in TALLIES), table(TALLIES)


def test_a_community_is_taken_over_only_with_the_parts_that_it_had(tmp_path: Path) -> None:
    """The levels below may be divided otherwise, with the same entities in the community as before."""
    life(tmp_path / "idx", "shared", 1031)
