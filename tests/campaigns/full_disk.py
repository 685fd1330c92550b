"""The disk is full from one of the calls on by which an operation would write."""

from __future__ import annotations

from pathlib import Path

from tests.campaigns.interrupted import FULL
from tests.campaigns.kills import campaign as interruptions


def campaign(work: Path, trials: int, seed: int = 4) -> None:
    """Fill the disk at many places of every operation, free it, look at the folder, and do it again."""
    interruptions(work, trials, seed, FULL, "full disk")
