"""Changes under strain: cancelled at a random await, and in forked processes."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import random
import threading
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.errors import Locked
from stratagraph.testing import FakeEmbedder
from stratagraph.text.tokens import choose
from tests.campaigns.trials import Tally, answers, documents, fresh, record, tried, turns

EACH = 10  # cancellations of one index object


class Core:
    def load(self, path: Path) -> Any:
        return sg.open_index(path, embedder=FakeEmbedder())

    def insert(self, opened: Any, document: sg.Document) -> Awaitable[Any]:
        return opened.ainsert([document])

    def delete(self, opened: Any, identity: str) -> Awaitable[Any]:
        return opened.adelete([identity], missing_ok=True)


class LangChain(Core):
    def load(self, path: Path) -> Any:
        from langchain_stratagraph import TreeRetriever

        return TreeRetriever.load(path, embedding=FakeEmbedder())

    def insert(self, opened: Any, document: sg.Document) -> Awaitable[Any]:
        from langchain_core.documents import Document

        made = Document(page_content=document.text, id=document.id, metadata=dict(document.metadata))
        return opened.aadd_documents([made])


class LlamaIndex(Core):
    def load(self, path: Path) -> Any:
        from llama_index_stratagraph import LSHTreeIndex

        return LSHTreeIndex.load(path, embed_model=FakeEmbedder())

    def insert(self, opened: Any, document: sg.Document) -> Awaitable[Any]:
        from llama_index.core import Document

        made = Document(id_=document.id, text=document.text, metadata=dict(document.metadata))
        return opened.ainsert(made)

    def delete(self, opened: Any, identity: str) -> Awaitable[Any]:
        return opened.adelete_ref_doc(identity)


FRAMEWORKS = {"core": Core(), "LangChain": LangChain(), "LlamaIndex": LlamaIndex()}


async def _cancelled(framework: Core, opened: Any, number: int, chance: random.Random) -> None:
    change = (
        framework.insert(opened, documents(100 + number, 101 + number)[0])
        if chance.random() < 0.7
        else framework.delete(opened, f"note-{100 + number - 1:03}")
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
            await framework.insert(opened, documents(50 + number, 51 + number)[0])
        except Locked:
            locked += 1
    with sg.open_index(path, embedder=FakeEmbedder()) as index:
        lost = {f"note-{50 + number:03}" for number in range(EACH)} - index.documents().keys()
        return {"locked": locked, "lost": sorted(lost), "verify": index.verify()}


def cancellations(work: Path, trials: int, seed: int = 6) -> None:
    """Cancel updates; the next one must find the lock free, and the folder must be sound."""
    choose()("one")  # reads the vocabulary of tokens
    made = sg.build_index(documents(), "lshtree", work / "base", embedder=FakeEmbedder(), progress=False)
    made.close()
    for module in ("langchain_stratagraph", "llama_index_stratagraph", "llama_index.core"):
        importlib.import_module(module)  # here, and not in each child
    for number, name, row in turns("cancelled updates", list(FRAMEWORKS), max(1, trials // EACH)):
        fresh(work / "base", work / "idx")

        framework = FRAMEWORKS[name]
        outcome = tried(lambda: asyncio.run(_series(framework, work / "idx", seed + number)))  # noqa: B023
        record(row, outcome, f"series {number}", lambda value: any(value.values()) and value)
        row.trials += EACH - 1


class BlockingEmbedder:
    """An embedder without asynchronous methods; takes a moment, so that a fork may come meanwhile."""

    name = "blocking"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        time.sleep(0.002)
        return [[text.count(letter) + 0.5 for letter in "aeioulnst"] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def forks(work: Path, trials: int, seed: int = 7) -> None:
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
            outcome = tried(lambda kind=kind: _ask_or_insert(index if kind == "ask" else changed, kind))
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


def _ask_or_insert(index: sg.Index, kind: str) -> Any:
    if kind == "ask":
        index.retrieve("Who steers the Aurora?", k=3, fill=False, where=lambda metadata: True)
        return answers(index)
    return index.insert(documents(os.getpid() % 500, os.getpid() % 500 + 1)).documents
