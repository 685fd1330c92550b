"""Processes that fork while threads ask an index, and ask and change it in the child."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import stratagraph as sg
from tests.campaigns.trials import Tally, answers, documents, record, tried


class BlockingEmbedder:
    """An embedder without asynchronous methods; takes a moment, so that a fork may come meanwhile."""

    name = "blocking"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors from the letters."""
        time.sleep(0.002)
        return [[text.count(letter) + 0.5 for letter in "aeioulnst"] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return self.embed_documents([text])[0]


def campaign(work: Path, trials: int, seed: int = 7) -> None:
    """Fork while others open and ask an index, some with filters; the child's answers must be right."""
    rows = {"ask": Tally("fork, then ask"), "insert": Tally("fork, then insert")}
    chance = random.Random(seed)
    index, changed = (  # an open index follows what a child inserts: inserts go to one that nobody asks
        sg.build_index(documents(), "lshtree", work / name, embedder=BlockingEmbedder(), progress=False)
        for name in ("idx", "changed")
    )
    right, stop = answers(index), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            index.retrieve("Who steers the Aurora?", k=3)
            index.retrieve("Who steers the Aurora?", k=3, fill=False, where=lambda metadata: True)

    def open_and_ask() -> None:
        while not stop.is_set():
            with sg.open_index(work / "idx", embedder=BlockingEmbedder()) as own:
                own.retrieve("Who steers the Aurora?", k=3)

    threads = [threading.Thread(target=each) for each in (ask, ask, open_and_ask)]
    for thread in threads:
        thread.start()
    try:
        for number in range(trials):
            kind = "insert" if number % 5 == 0 else "ask"
            time.sleep(chance.random() * 0.02)
            outcome = tried(lambda kind=kind: _asked(index if kind == "ask" else changed, kind))
            record(
                rows[kind],
                outcome,
                f"trial {number}",
                lambda value, kind=kind: kind == "ask" and value != right and "other answers",
            )
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        index.close()
        changed.close()


def _asked(index: sg.Index, kind: str) -> Any:
    if kind == "ask":
        index.retrieve("Who steers the Aurora?", k=3, fill=False, where=lambda metadata: True)
        return answers(index)
    return index.insert(documents(os.getpid() % 500, os.getpid() % 500 + 1)).documents
