"""Damage, kills and cancellations as users of LangChain and of LlamaIndex meet them."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any, Protocol

import stratagraph as sg
from stratagraph.errors import Locked
from stratagraph.testing import FakeEmbedder
from stratagraph.text.tokens import choose
from tests.campaigns.damage import KINDS, damaged
from tests.campaigns.trials import QUESTIONS, Tally, documents, record, tried

EACH = 5  # cancellations of one index object


class Framework(Protocol):
    """What a framework's users do with an index."""

    def build(self, path: Path, documents: list[sg.Document]) -> Any:
        """Build a folder, and give the framework's object over it."""
        ...

    def load(self, path: Path) -> Any:
        """Open a folder."""
        ...

    def ask(self, opened: Any, question: str) -> list[tuple[str, str]]:
        """Ids and texts of what is found."""
        ...

    def core(self, opened: Any) -> sg.Index:
        """The index below."""
        ...

    def insert(self, opened: Any, document: sg.Document) -> None:
        """Add a document."""
        ...

    async def ainsert(self, opened: Any, document: sg.Document) -> None:
        """Add a document in an event loop."""
        ...

    def delete(self, opened: Any, identity: str) -> None:
        """Remove a document."""
        ...


class LangChain:
    """`TreeRetriever`."""

    def _documents(self, documents: list[sg.Document]) -> list[Any]:
        from langchain_core.documents import Document

        return [
            Document(page_content=each.text, id=each.id, metadata=dict(each.metadata)) for each in documents
        ]

    def build(self, path: Path, documents: list[sg.Document]) -> Any:
        """See `Framework`."""
        from langchain_stratagraph import TreeRetriever

        made = self._documents(documents)
        return TreeRetriever.from_documents(made, embedding=FakeEmbedder(), path=path, k=5)

    def load(self, path: Path) -> Any:
        """See `Framework`."""
        from langchain_stratagraph import TreeRetriever

        return TreeRetriever.load(path, embedding=FakeEmbedder(), k=5)

    def ask(self, opened: Any, question: str) -> list[tuple[str, str]]:
        """See `Framework`."""
        return [(each.metadata["stratagraph"]["id"], each.page_content) for each in opened.invoke(question)]

    def core(self, opened: Any) -> sg.Index:
        """See `Framework`."""
        index: sg.Index = opened.index
        return index

    def insert(self, opened: Any, document: sg.Document) -> None:
        """See `Framework`."""
        opened.add_documents(self._documents([document]))

    async def ainsert(self, opened: Any, document: sg.Document) -> None:
        """See `Framework`."""
        await opened.aadd_documents(self._documents([document]))

    def delete(self, opened: Any, identity: str) -> None:
        """See `Framework`."""
        opened.delete([identity])


class LlamaIndex:
    """`LSHTreeIndex`."""

    def _document(self, document: sg.Document) -> Any:
        from llama_index.core import Document

        return Document(id_=document.id, text=document.text, metadata=dict(document.metadata))

    def build(self, path: Path, documents: list[sg.Document]) -> Any:
        """See `Framework`."""
        from llama_index_stratagraph import LSHTreeIndex

        made = [self._document(each) for each in documents]
        return LSHTreeIndex.from_documents(made, embed_model=FakeEmbedder(), path=path)

    def load(self, path: Path) -> Any:
        """See `Framework`."""
        from llama_index_stratagraph import LSHTreeIndex

        return LSHTreeIndex.load(path, embed_model=FakeEmbedder())

    def ask(self, opened: Any, question: str) -> list[tuple[str, str]]:
        """See `Framework`."""
        found = opened.as_retriever(similarity_top_k=5).retrieve(question)
        return [(each.metadata["stratagraph"]["id"], each.get_content()) for each in found]

    def core(self, opened: Any) -> sg.Index:
        """See `Framework`."""
        index: sg.Index = opened.core
        return index

    def insert(self, opened: Any, document: sg.Document) -> None:
        """See `Framework`."""
        opened.insert(self._document(document))

    async def ainsert(self, opened: Any, document: sg.Document) -> None:
        """See `Framework`."""
        await opened.ainsert(self._document(document))

    def delete(self, opened: Any, identity: str) -> None:
        """See `Framework`."""
        opened.delete_ref_doc(identity)


FRAMEWORKS: dict[str, Framework] = {"LangChain": LangChain(), "LlamaIndex": LlamaIndex()}


def campaign(work: Path, trials: int, seed: int = 9) -> list[Tally]:
    """A third of the trials each: a damaged folder, a killed insert, cancelled inserts."""
    rows = []
    for module in ("langchain_stratagraph", "llama_index_stratagraph", "llama_index.core"):
        importlib.import_module(module)  # here, and not in each child
    choose()("one")  # so is the vocabulary of tokens
    for name, framework in FRAMEWORKS.items():
        chance, place = random.Random(seed), work / name
        place.mkdir()
        base = place / "base"
        made = tried(lambda framework=framework, base=base: _built(framework, base))
        if made.end != "ok":
            raise RuntimeError(f"{name}: {made.end}: {made.message}")
        share = max(1, trials // 6)
        rows += [
            _damage(f"{name}: damage", framework, base, share, chance),
            _kills(f"{name}: killed inserts", framework, base, share, chance),
            _cancellations(f"{name}: cancelled inserts", framework, base, share, chance),
        ]
    return rows


def _built(framework: Framework, base: Path) -> None:
    made = framework.build(base, documents(0, 8))
    framework.insert(made, documents(8, 9)[0])
    framework.delete(made, "note-008")


def _answers(framework: Framework, path: Path) -> list[Any]:
    opened = framework.load(path)
    held = sorted(framework.core(opened).documents())
    return [held, *([list(each) for each in framework.ask(opened, question)] for question in QUESTIONS)]


def _damage(kind: str, framework: Framework, base: Path, trials: int, chance: random.Random) -> Tally:
    row, copy = Tally(kind), base.parent / "copy"
    files = sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file())
    right = tried(lambda: _answers(framework, base)).value

    def use() -> Any:
        found = _answers(framework, copy)
        framework.insert(framework.load(copy), documents(30, 31)[0])
        return found

    for number in range(trials):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(base, copy)
        file, how = chance.choice(files), chance.choice(KINDS)
        damaged(copy / file, how, chance)
        outcome = tried(use)
        what = f"{how} of {file}, trial {number}"
        record(row, outcome, what)
        if outcome.end == "ok" and outcome.value != right:
            row.note("silent", what)
    return row


def _kills(kind: str, framework: Framework, base: Path, trials: int, chance: random.Random) -> Tally:
    row, copy = Tally(kind), base.parent / "copy"

    def insert(after: float = 0.0) -> float:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        opened, began = framework.load(copy), time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, after)
        framework.insert(opened, documents(30, 31)[0])
        signal.setitimer(signal.ITIMER_REAL, 0)
        return time.monotonic() - began

    def looked() -> Any:
        return [_answers(framework, copy), framework.core(framework.load(copy)).verify()]

    def fresh() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(base, copy)

    fresh()
    old, seconds, new = tried(looked).value, tried(insert).value, tried(looked).value
    for number in range(trials):
        fresh()
        outcome = tried(lambda: insert(max(1e-4, chance.random() * seconds)))
        row.trials += 1
        row.outcomes["killed" if outcome.end == "crash" else outcome.end] += 1
        if outcome.end not in ("crash", "ok") or outcome.message not in ("", f"signal {signal.SIGALRM:d}"):
            row.note("unnamed", f"trial {number}: {outcome.end}: {outcome.message}")
        for turn, wanted in (("opening", (old, new)), ("doing it again", (new,))):
            if turn != "opening":
                tried(insert)
            found = tried(looked)
            if found.value not in wanted:
                row.note("silent", f"trial {number}, {turn}: {found.end} {found.message}")
    return row


def _cancellations(kind: str, framework: Framework, base: Path, trials: int, chance: random.Random) -> Tally:
    row = Tally(kind)

    async def series(path: Path, own: random.Random) -> dict[str, Any]:
        opened, locked = framework.load(path), 0
        for number in range(EACH):
            task = asyncio.ensure_future(framework.ainsert(opened, documents(100 + number, 101 + number)[0]))
            await asyncio.sleep(own.random() * own.choice((0.002, 0.02, 0.2)))
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            try:
                await framework.ainsert(opened, documents(50 + number, 51 + number)[0])
            except Locked:
                locked += 1
        held = framework.core(framework.load(path)).documents()
        lost = [number for number in range(EACH) if f"note-{50 + number:03}" not in held]
        return {"locked": locked, "lost": lost, "verify": framework.core(framework.load(path)).verify()}

    for number in range(max(1, trials // EACH)):
        copy = base.parent / f"cancelled-{number}"
        shutil.copytree(base, copy)
        own = random.Random(chance.random())
        outcome = tried(lambda copy=copy, own=own: asyncio.run(series(copy, own)))
        record(row, outcome, f"series {number}")
        row.trials += EACH - 1
        if outcome.end == "ok" and any(outcome.value.values()):
            row.note("silent", f"series {number}: {outcome.value}")
        shutil.rmtree(copy, ignore_errors=True)
    return row
