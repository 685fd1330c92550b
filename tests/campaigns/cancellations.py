"""Updates that are cancelled at a random await, or run out of time."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.errors import Locked
from stratagraph.testing import FakeEmbedder
from tests.campaigns.trials import Tally, documents, record, tried

EACH = 10  # cancellations of one index object


async def _cancelled(index: sg.Index, number: int, chance: random.Random) -> None:
    """Begin an insert or a delete, and stop it."""
    change = (
        index.ainsert(documents(100 + number, 101 + number))
        if chance.random() < 0.7
        else index.adelete([f"note-{100 + number - 1:03}"], missing_ok=True)
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


async def _series(path: Path, seed: int) -> dict[str, Any]:
    chance, locked = random.Random(seed), 0
    with sg.open_index(path, embedder=FakeEmbedder()) as index:
        for number in range(EACH):
            await _cancelled(index, number, chance)
            try:
                await index.ainsert(documents(50, 51))
            except Locked:
                locked += 1
    with sg.open_index(path, embedder=FakeEmbedder()) as index:
        return {"locked": locked, "verify": index.verify()}


def campaign(work: Path, trials: int, seed: int = 6) -> list[Tally]:
    """Cancel updates; the next one must find the lock free, and the folder must be sound."""
    row = Tally("cancelled updates")
    for number in range(max(1, trials // EACH)):
        path = work / f"idx-{number}"
        sg.build_index(documents(), "lshtree", path, embedder=FakeEmbedder(), progress=False).close()
        outcome = tried(lambda number=number, path=path: asyncio.run(_series(path, seed + number)))
        record(row, outcome, f"series {number}")
        row.trials += EACH - 1
        if outcome.end == "ok" and (outcome.value["locked"] or outcome.value["verify"]):
            row.note("silent", f"series {number}: {outcome.value}")
    return [row]
