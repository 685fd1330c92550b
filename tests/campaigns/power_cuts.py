"""The power fails at one of an operation's file-system calls: what was not forced to the disk is lost.

Two disks are simulated. One keeps nothing that was not synced: names as of the last sync of their directory,
contents as of the last sync of their file. The other keeps all names, as journalling file systems mostly do,
and loses what was not synced of the contents.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaigns.interrupted import OPERATIONS, POWER, Stages, load
from tests.campaigns.kills import places
from tests.campaigns.trials import Tally

Listing = dict[str, int]
AFTER = 1_000_000  # a call that no operation comes to


@dataclass
class Disk:
    """What is surely on the disk, by inode."""

    contents: dict[int, bytes] = field(default_factory=dict)
    listings: dict[int, Listing] = field(default_factory=dict)

    def take(self, folder: Path) -> None:
        """All of a folder, as it is now."""
        self.listings[folder.stat().st_ino] = {each.name: each.lstat().st_ino for each in folder.iterdir()}
        for each in folder.iterdir():
            if each.is_dir():
                self.take(each)
            else:
                self.contents[each.lstat().st_ino] = each.read_bytes()

    def replay(self, log: Path) -> None:
        """What was made and forced to the disk since."""
        lines = (log / "log").read_text().splitlines() if (log / "log").exists() else []
        for line in lines:
            event, inode, which = line.split()
            if event == "C":  # an inode may have been something else before
                self.listings.pop(int(inode), None)
                self.contents.pop(int(inode), None)
                for place, names in self.listings.items():
                    self.listings[place] = {name: own for name, own in names.items() if own != int(inode)}
                if which == "d":
                    self.listings[int(inode)] = {}
                else:
                    self.contents[int(inode)] = b""
            elif event == "F":
                self.contents[int(inode)] = (log / which).read_bytes()
            else:
                found = [each.split(" ", 1) for each in (log / which).read_text().splitlines()]
                self.listings[int(inode)] = {name: int(own) for own, name in found if name not in (".", "..")}

    def restore(self, inode: int, target: Path) -> None:
        """Make a folder of what is on the disk under a directory."""
        target.mkdir()
        for name, own in self.listings.get(inode, {}).items():
            if own in self.listings:
                self.restore(own, target / name)
            elif own in self.contents:
                (target / name).write_bytes(self.contents[own])

    def forget_unsynced(self, folder: Path, target: Path) -> None:
        """Make a folder with all names of another, and of the files what is on the disk."""
        target.mkdir()
        for each in folder.iterdir():
            if each.is_dir():
                self.forget_unsynced(each, target / each.name)
            else:
                (target / each.name).write_bytes(self.contents.get(each.lstat().st_ino, b""))


def campaign(work: Path, trials: int, seed: int = 5) -> None:
    """Cut the power at places of every operation, on both disks; the last place is after its end.

    From ten trials on there are also the calls after those that the folder sees, in the folder above it.
    """
    load(work)
    stages = Stages(work)
    for name in OPERATIONS:
        for kind in ("synced alone", "all names"):
            row = Tally(f"power cut: {name}, {kind}")
            calls = stages.calls[name]
            above = range(calls + 1, calls + 4) if trials >= 10 else range(0)
            numbers = [*places(stages, max(1, trials // 2), name), *above, AFTER]
            for number in numbers:
                folder = stages.fresh(name)
                end = _cut(stages, name, folder, number, kind)
                row.trials += 1
                row.outcomes[end.partition(" ")[0]] += 1
                if end not in ("killed", "ok"):
                    row.note("unnamed", f"call {number}: {end}")
                for wrong in stages.wrongs(name, folder, done=number == AFTER):
                    row.note("silent", f"call {number}: {wrong}")


def _cut(stages: Stages, name: str, folder: Path, number: int, kind: str) -> str:
    disk, place = Disk(), folder.parent
    disk.take(place)
    root = place.stat().st_ino
    end = stages.interrupted(name, folder, number, POWER)
    disk.replay(stages.work / "log")
    left = stages.work / "left"
    shutil.rmtree(left, ignore_errors=True)
    if kind == "all names":
        disk.forget_unsynced(place, left)
    else:
        disk.restore(root, left)
    shutil.rmtree(place)
    os.rename(left, place)
    return end
