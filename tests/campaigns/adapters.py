"""Damage and kills as users of LangChain and of LlamaIndex meet them."""

from __future__ import annotations

import importlib
import random
import signal
import time
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.testing import FakeEmbedder
from stratagraph.text.tokens import choose
from tests.campaigns.damage import KINDS, damaged
from tests.campaigns.trials import QUESTIONS, Tally, documents, fresh, record, tried


class Core:
    """What the users of a framework do with an index; here those of the core itself."""

    name = "core"

    def build(self, path: Path, given: list[sg.Document]) -> Any:
        return sg.build_index(given, "lshtree", path, embedder=FakeEmbedder(), progress=False)

    def load(self, path: Path) -> Any:
        return sg.open_index(path, embedder=FakeEmbedder())

    def core(self, opened: Any) -> sg.Index:
        """The index below."""
        return opened

    async def ainsert(self, opened: Any, document: sg.Document) -> None:
        await opened.ainsert([document])

    async def adelete(self, opened: Any, identity: str) -> None:
        """Remove a document, if it is there."""
        await opened.adelete([identity], missing_ok=True)


class LangChain(Core):
    """`TreeRetriever`."""

    name = "LangChain"

    def _documents(self, given: list[sg.Document]) -> list[Any]:
        from langchain_core.documents import Document

        return [Document(page_content=each.text, id=each.id, metadata=dict(each.metadata)) for each in given]

    def build(self, path: Path, given: list[sg.Document]) -> Any:
        from langchain_stratagraph import TreeRetriever

        return TreeRetriever.from_documents(self._documents(given), embedding=FakeEmbedder(), path=path, k=5)

    def load(self, path: Path) -> Any:
        from langchain_stratagraph import TreeRetriever

        return TreeRetriever.load(path, embedding=FakeEmbedder(), k=5)

    def ask(self, opened: Any, question: str) -> list[tuple[str, str]]:
        """Ids and texts of what is found."""
        return [(each.metadata["stratagraph_id"], each.page_content) for each in opened.invoke(question)]

    def core(self, opened: Any) -> sg.Index:
        return opened.index

    def insert(self, opened: Any, document: sg.Document) -> None:
        opened.add_documents(self._documents([document]))

    async def ainsert(self, opened: Any, document: sg.Document) -> None:
        await opened.aadd_documents(self._documents([document]))

    def delete(self, opened: Any, identity: str) -> None:
        opened.delete([identity])

    async def adelete(self, opened: Any, identity: str) -> None:
        await opened.adelete([identity], missing_ok=True)


class LlamaIndex(Core):
    """`LSHTreeIndex`."""

    name = "LlamaIndex"

    def _document(self, document: sg.Document) -> Any:
        from llama_index.core import Document

        return Document(id_=document.id, text=document.text, metadata=dict(document.metadata))

    def build(self, path: Path, given: list[sg.Document]) -> Any:
        from llama_index_stratagraph import LSHTreeIndex

        own = [self._document(each) for each in given]
        return LSHTreeIndex.from_documents(own, embed_model=FakeEmbedder(), path=path)

    def load(self, path: Path) -> Any:
        from llama_index_stratagraph import LSHTreeIndex

        return LSHTreeIndex.load(path, embed_model=FakeEmbedder())

    def ask(self, opened: Any, question: str) -> list[tuple[str, str]]:
        """Ids and texts of what is found."""
        found = opened.as_retriever(similarity_top_k=5).retrieve(question)
        return [(each.metadata["stratagraph_id"], each.get_content()) for each in found]

    def core(self, opened: Any) -> sg.Index:
        return opened.core

    def insert(self, opened: Any, document: sg.Document) -> None:
        opened.insert(self._document(document))

    async def ainsert(self, opened: Any, document: sg.Document) -> None:
        await opened.ainsert(self._document(document))

    def delete(self, opened: Any, identity: str) -> None:
        opened.delete_ref_doc(identity)

    async def adelete(self, opened: Any, identity: str) -> None:
        await opened.adelete_ref_doc(identity)


def preload() -> None:
    """Import the frameworks and read the vocabulary of tokens here, and not in each child."""
    for module in ("langchain_stratagraph", "llama_index_stratagraph", "llama_index.core"):
        importlib.import_module(module)
    choose()("one")


def campaign(work: Path, trials: int, seed: int = 9) -> None:
    """Half of the trials each: a damaged folder, a killed insert."""
    preload()
    for framework in (LangChain(), LlamaIndex()):
        chance, place = random.Random(seed), work / framework.name
        place.mkdir()
        base = place / "base"
        built = tried(lambda framework=framework, base=base: _built(framework, base))
        if built.end != "ok":
            raise RuntimeError(f"{framework.name}: {built.end}: {built.message}")
        share = max(1, trials // 4)
        _damage(f"{framework.name}: damage", framework, base, share, chance)
        _kills(f"{framework.name}: killed inserts", framework, base, share, chance)


def _built(framework: Any, base: Path) -> None:
    made = framework.build(base, documents(0, 8))
    framework.insert(made, documents(8, 9)[0])
    framework.delete(made, "note-008")


def _answers(framework: Any, path: Path) -> list[Any]:
    opened = framework.load(path)
    held = sorted(framework.core(opened).documents())
    return [held, *([list(each) for each in framework.ask(opened, question)] for question in QUESTIONS)]


def _damage(kind: str, framework: Any, base: Path, trials: int, chance: random.Random) -> None:
    row, copy = Tally(kind), base.parent / "copy"
    files = sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file())
    right = tried(lambda: _answers(framework, base)).value

    def use() -> Any:
        found = _answers(framework, copy)
        framework.insert(framework.load(copy), documents(30, 31)[0])
        return found

    for number in range(trials):
        fresh(base, copy)
        file, how = chance.choice(files), chance.choice(KINDS)
        damaged(copy / file, how, chance)
        outcome = tried(use)
        what = f"{how} of {file}, trial {number}"
        record(row, outcome, what, lambda value: value != right and "other answers")


def _kills(kind: str, framework: Any, base: Path, trials: int, chance: random.Random) -> None:
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

    fresh(base, copy)
    old, seconds, new = tried(looked).value, tried(insert).value, tried(looked).value
    for number in range(trials):
        fresh(base, copy)
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
