"""A process is killed at each of the calls by which it changes something in an index folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.campaigns.interrupted import KILL, OPERATIONS, Stages, load
from tests.campaigns.trials import Outside, Tally


def places(stages: Stages, trials: int, name: str) -> Iterator[int]:
    """The calls of an operation at which it is interrupted, evenly over all of them."""
    calls = stages.calls[name]
    share = max(1, trials // len(OPERATIONS))
    for number in range(share):
        yield 1 + number * calls // share if share <= calls else 1 + number % calls


def campaign(work: Path, trials: int, seed: int = 3, mode: int = KILL, kind: str = "kill") -> None:
    """Interrupt every operation at many places, look at the folder, and do the operation again."""
    load(work)
    stages = Stages(work)
    outside = Outside(work / "outside")
    for name in OPERATIONS:
        row = Tally(f"{kind}: {name} ({stages.calls[name]} calls)")
        for number in places(stages, trials, name):
            folder = stages.fresh(name)
            end = stages.interrupted(name, folder, number, mode)
            row.trials += 1
            row.outcomes[end.partition(" ")[0]] += 1
            if end == "hang":
                row.note("hangs", f"call {number}")
            elif end.startswith("crash"):
                row.note("crashes", f"call {number}: {end}")
            elif " " in end:
                row.note("unnamed", f"call {number}: {end}")
            for wrong in stages.wrongs(name, folder):
                row.note("silent", f"call {number} ({end}): {wrong}")
            if touched := outside.touched():
                row.note("foreign", f"call {number}: {touched}")
