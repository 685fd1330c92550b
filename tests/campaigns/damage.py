"""Folders in which a file was damaged: every kind of file, every kind of damage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.testing import FakeEmbedder
from tests.campaigns.trials import answers, build, fresh, record, tried, turns, use

KINDS = ("bit", "byte run", "truncated", "extended", "emptied", "removed", "blocks exchanged")


def damaged(path: Path, kind: str, chance: random.Random) -> None:
    """Damage a file in one of the ways."""
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content)) if content else 0
    if kind == "removed":
        path.unlink()
        return
    if kind == "bit" and content:
        content[place] ^= 1 << chance.randrange(8)
    elif kind == "byte run" and content:
        length = chance.choice((4, 64, 4096))
        content[place : place + length] = bytes(
            chance.choice((0, 255)) for _ in content[place : place + length]
        )
    elif kind == "truncated":
        del content[place:]
    elif kind == "extended":
        content += bytes(chance.choice((1, 64, 4096)))
    elif kind == "emptied":
        content.clear()
    elif kind == "blocks exchanged" and len(content) >= 1024:
        first, second = chance.sample(range(len(content) // 512), 2)
        one, other = slice(first * 512, first * 512 + 512), slice(second * 512, second * 512 + 512)
        content[one], content[other] = content[other], content[one]
    path.write_bytes(content)


def campaign(work: Path, trials: int, seed: int = 1) -> None:
    """Damage one file of a fresh copy, use the copy, and compare what it answers with the original."""
    base, copy = work / "base", work / "copy"
    build(base)
    files = sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file())
    right = tried(lambda: _answers(base)).value
    assert right is not None
    chance = random.Random(seed)
    for number, kind, row in turns("damage", KINDS, trials):
        file, check = chance.choice(files), "sampled" if chance.random() < 0.2 else "full"
        fresh(base, copy)
        damaged(copy / file, kind, chance)
        outcome = tried(lambda check=check: use(copy, check))
        record(
            row,
            outcome,
            f"{file}, {check}, trial {number}",
            lambda value: value["answers"] != right and f"verify() said {value['verify']}",
        )


def _answers(path: Path) -> Any:
    with sg.open_index(path, embedder=FakeEmbedder()) as index:
        return answers(index)
