"""Updates of the core and of both frameworks that are cancelled at a random await, or run out of time."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

from stratagraph.errors import Locked
from tests.campaigns.adapters import Core, LangChain, LlamaIndex, preload
from tests.campaigns.trials import documents, fresh, record, tried, turns

EACH = 10  # cancellations of one index object


async def _cancelled(framework: Core, opened: Any, number: int, chance: random.Random) -> None:
    """Begin an insert or a delete, and stop it."""
    change = (
        framework.ainsert(opened, documents(100 + number, 101 + number)[0])
        if chance.random() < 0.7
        else framework.adelete(opened, f"note-{100 + number - 1:03}")
    )
    with contextlib.suppress(asyncio.CancelledError, TimeoutError):
        if chance.random() < 0.3:
            await asyncio.wait_for(change, chance.random() * 0.1)
            return
        task = asyncio.ensure_future(change)
        if chance.random() < 0.5:
            await asyncio.sleep(chance.random() * chance.choice((0.002, 0.02, 0.2)))
        else:
            for _ in range(chance.randrange(40)):
                await asyncio.sleep(0)
        task.cancel()
        await task


async def _series(framework: Core, path: Path, seed: int) -> dict[str, Any]:
    """What went wrong in a series of cancellations, each followed by an insert."""
    chance, locked, opened = random.Random(seed), 0, framework.load(path)
    for number in range(EACH):
        await _cancelled(framework, opened, number, chance)
        try:
            await framework.ainsert(opened, documents(50 + number, 51 + number)[0])
        except Locked:
            locked += 1
    with framework.core(framework.load(path)) as index:
        lost = {f"note-{50 + number:03}" for number in range(EACH)} - index.documents().keys()
        return {"locked": locked, "lost": sorted(lost), "verify": index.verify()}


def campaign(work: Path, trials: int, seed: int = 6) -> None:
    """Cancel updates; the next one must find the lock free, and the folder must be sound."""
    preload()
    frameworks: dict[str, Core] = {each.name: each for each in (Core(), LangChain(), LlamaIndex())}
    for name, framework in frameworks.items():
        built = tried(lambda own=framework, path=work / name: own.build(path, documents()) and None)
        if built.end != "ok":
            raise RuntimeError(f"{name}: {built.end}: {built.message}")
    for number, name, row in turns("cancelled updates", list(frameworks), max(1, trials // EACH)):
        fresh(work / name, work / "idx")
        outcome = tried(
            lambda own=frameworks[name], number=number: asyncio.run(_series(own, work / "idx", seed + number))
        )
        record(row, outcome, f"series {number}", lambda value: any(value.values()) and value)
        row.trials += EACH - 1
