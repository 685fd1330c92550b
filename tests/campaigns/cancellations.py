"""Updates of the core and of both frameworks that are cancelled at a random await, or run out of time."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.errors import Locked
from stratagraph.testing import FakeEmbedder
from stratagraph.text.tokens import choose
from tests.campaigns.trials import documents, fresh, record, tried, turns

EACH = 10  # cancellations of one index object


class Core:
    """What users change an index by; here the core itself."""

    def load(self, path: Path) -> Any:
        return sg.open_index(path, embedder=FakeEmbedder())

    def insert(self, opened: Any, document: sg.Document) -> Awaitable[Any]:
        return opened.ainsert([document])

    def delete(self, opened: Any, identity: str) -> Awaitable[Any]:
        """Remove a document, if it is there."""
        return opened.adelete([identity], missing_ok=True)


class LangChain(Core):
    """A retriever of LangChain."""

    def load(self, path: Path) -> Any:
        from langchain_stratagraph import TreeRetriever

        return TreeRetriever.load(path, embedding=FakeEmbedder())

    def insert(self, opened: Any, document: sg.Document) -> Awaitable[Any]:
        from langchain_core.documents import Document

        made = Document(page_content=document.text, id=document.id, metadata=dict(document.metadata))
        return opened.aadd_documents([made])


class LlamaIndex(Core):
    """An index of LlamaIndex."""

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
    """Begin an insert or a delete, and stop it."""
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


def campaign(work: Path, trials: int, seed: int = 6) -> None:
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
