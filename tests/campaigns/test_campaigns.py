"""The campaigns in their small form; by hand, `python -m tests.campaigns damage --trials 5000`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns.hirag import life
from tests.campaigns.interrupted import available

ROOT = Path(__file__).resolve().parents[2]
# Trials per unit of `--trials`: some kinds need more than others to meet something.
SMALL = {
    "adapters": 4,
    "arrays": 12,
    "bombs": 6,
    "caches": 2,
    "cancellations": 10,
    "clients": 12,
    "damage": 14,
    "deletions": 3,
    "forks": 5,
    "full_disk": 8,
    "hirag": 2,
    "hostile": 16,
    "kills": 8,
    "power_cuts": 3,
    "traces": 10,
}


@pytest.mark.skipif(sys.platform != "linux", reason="trials are forked and limited as on Linux")
@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_campaign_finds_nothing(name: str, request: pytest.FixtureRequest) -> None:
    if name in ("full_disk", "kills", "power_cuts") and not available():
        pytest.skip("the shim below the file system needs a C compiler")
    trials = SMALL[name] * request.config.getoption("--trials")
    _run(name, "--trials", str(trials))


def test_a_community_is_taken_over_only_with_the_parts_that_it_had(tmp_path: Path) -> None:
    """The levels below may be divided otherwise, with the same entities in the community as before."""
    life(tmp_path / "idx", "shared", 1031)


def _run(*arguments: str) -> None:
    command = [sys.executable, "-m", "tests.campaigns", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
