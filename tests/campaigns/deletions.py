"""Deletions while answers that quote the deleted documents are under way."""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.testing import FakeEmbedder
from tests.campaigns.trials import Tally, fresh, record, tried

DOCUMENTS = 12
WORD = re.compile(r"codeword\d{4}x")


def _documents() -> list[sg.Document]:
    """Notes of which each has a word of its own."""
    return [
        sg.Document(f"note-{number}", f"The pier of Lund was repaired. Its paint is codeword{number:04}x.")
        for number in range(DOCUMENTS)
    ]


class Slow:
    """A model that quotes the words of the notes it is shown, before, during or after the deletion."""

    name = "slow"

    def __init__(self, chance: random.Random) -> None:
        self.deleted = threading.Event()
        self._chance = chance

    def complete(self, prompt: str) -> str:
        """The words in the prompt."""
        if self._chance.random() < 0.5:
            self.deleted.wait(10)
        time.sleep(self._chance.uniform(0, 0.2))
        return f"The paint is {' and '.join(WORD.findall(prompt))} [1]."


async def _series(path: Path, seed: int) -> dict[str, Any]:
    """Ask, delete at some moment, and look into the cache once every answer is there or was given up."""
    chance = random.Random(seed)
    if chance.random() < 0.5:
        (path / "calls.sqlite").unlink(missing_ok=True)
    model = Slow(chance)
    gone = [f"note-{number}" for number in chance.sample(range(DOCUMENTS), chance.randint(1, 4))]
    asked: list[asyncio.Task[Any]] = []
    with (
        sg.open_index(path, llm=model, embedder=FakeEmbedder()) as reader,
        sg.open_index(path, embedder=FakeEmbedder()) as writer,
    ):
        deleting = writer if chance.random() < 0.5 else reader
        for number in range(3):
            question = f"What is the paint of the pier of Lund, {seed} {number}?"
            asked.append(asyncio.ensure_future(reader.aanswer(question, k=DOCUMENTS)))
        await asyncio.sleep(chance.uniform(0, 0.2))
        if chance.random() < 0.3:
            asked[0].cancel()
        await deleting.adelete(gone)
        model.deleted.set()
        await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.sleep(0.3)  # for the answer of the question that was given up
        problems = reader.verify()
    deleted = {f"codeword{int(each.removeprefix('note-')):04}x" for each in gone}
    held = b"".join(each.read_bytes() for each in sorted(path.glob("calls.sqlite*")))
    kept = {word.decode() for word in re.findall(WORD.pattern.encode(), held)}
    return {"returned": sorted(kept & deleted), "kept": len(kept), "verify": problems}


def campaign(work: Path, trials: int, seed: int = 11) -> None:
    """After a deletion nothing of what it deleted may be in the cache of calls."""
    row, base = Tally("deletions under answers"), work / "base"
    sg.build_index(_documents(), "lshtree", base, embedder=FakeEmbedder(), progress=False).close()
    for number in range(trials):
        fresh(base, work / "idx")
        outcome = tried(lambda number=number: asyncio.run(_series(work / "idx", seed * 10_000 + number)))
        record(
            row, outcome, f"trial {number}", lambda value: (value["returned"] or value["verify"]) and value
        )
        if outcome.end == "ok" and outcome.value["kept"]:
            row.outcomes["answers kept"] += 1
