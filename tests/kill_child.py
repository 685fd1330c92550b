"""A process to be killed: one operation on an index folder, with a model that notes what it answers.

usage: python kill_child.py FOLDER OPERATION LOG [CALLS]

After so many calls the model answers no more.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.testing import FakeEmbedder

WORDS = ("ferry", "pier", "captain", "rope", "tide", "lantern", "cargo", "gull", "anchor", "buoy", "apple")


def documents(start: int, stop: int) -> list[sg.Document]:
    made = []
    for number in range(start, stop):
        words = [WORDS[(number * 7 + step * (1 + number % 5)) % len(WORDS)] for step in range(20)]
        made.append(sg.Document(f"doc-{number:03}", f"Note {number}. " + " ".join(words) + "."))
    return made


class LoggingModel:
    """Answers with the digest of the prompt, and appends each prompt's digest to a file."""

    name = "logging-model"

    def __init__(self, log: Path, calls: int | None = None) -> None:
        self._log, self._left = log.open("a"), calls

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        digest = hashlib.sha256(prompt.encode()).hexdigest()[:24]
        self._log.write(digest + "\n")
        self._log.flush()
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                await asyncio.sleep(3600)
        await asyncio.sleep(0.004)
        return f"digest{digest} summary of some notes."


def perform(folder: Path, operation: str, log: Path, calls: int | None = None) -> None:
    model = LoggingModel(log, calls)
    if operation == "build":
        sg.build_index(documents(0, 120), "lshtree", folder, model, FakeEmbedder(), progress=False)
        return
    if operation == "rebuild":
        sg.build_index(
            documents(0, 100),
            path=folder,
            llm=model,
            embedder=FakeEmbedder(),
            config={"chunking": {"size": 90, "overlap": 9}},
            rebuild=True,
            progress=False,
        ).close()
        return
    with sg.open_index(folder, model, FakeEmbedder()) as index:
        if operation == "insert":
            index.insert(documents(120, 160))
        else:
            index.delete([f"doc-{number:03}" for number in range(0, 120, 5)], missing_ok=True)


if __name__ == "__main__":
    perform(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), *map(int, sys.argv[4:]))
