"""The LangChain retriever over time: pieces that come and go, and LangChain's own indexing of documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import PromptTemplate, format_document
from langchain_tests.integration_tests.indexer import AsyncDocumentIndexTestSuite, DocumentIndexerTestSuite

import stratagraph
from langchain_stratagraph import HierarchicalRetriever, StrataDocumentIndex, TreeRetriever
from stratagraph import HashingEmbedder
from stratagraph.errors import Locked
from stratagraph.types.results import IDENTITY
from tests.integrations.corpus import QUESTION, langchain_documents, passages

pytestmark = pytest.mark.filterwarnings("ignore:.*DocumentIndex.*")


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Callable[..., Any]:
    async def called(of: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if request.param == "sync":
            return getattr(of, name)(*args, **kwargs)
        return await getattr(of, f"a{name}")(*args, **kwargs)

    return called


def pages(count: int, source: str = "book.pdf", **metadata: Any) -> list[Document]:
    return [
        Document(f"Page {n} tells of the {n}th voyage.", metadata={"source": source, "page": n, **metadata})
        for n in range(count)
    ]


def made(documents: list[Document], **arguments: Any) -> TreeRetriever:
    return TreeRetriever.from_documents(documents, embedding=HashingEmbedder(), **arguments)


def texts_of(retriever: TreeRetriever, document: str) -> list[str]:
    return [chunk.text for chunk in retriever.index.chunks(document).get(document, [])]


# Pieces


async def test_batches_of_one_source_lose_nothing(call: Callable[..., Any]) -> None:
    given = pages(20)
    retriever = made(given[:3])
    for start in range(3, 20, 4):
        ids = await call(retriever, "add_documents", given[start : start + 4])
        assert ids == ["book.pdf"] * len(given[start : start + 4])
        report = retriever.index.last_report
        assert report is not None
        assert report.updated == ("book.pdf",)
    assert texts_of(retriever, "book.pdf") == [page.page_content for page in given]
    await call(retriever, "add_documents", given[5:9])
    report = retriever.index.last_report
    assert report is not None
    assert (report.updated, report.unchanged) == ((), ("book.pdf",))
    assert retriever.index.verify() == []
    retriever.index.close()


async def test_a_piece_at_the_same_place_is_replaced(call: Callable[..., Any]) -> None:
    def piece(text: str, start: int, page: int = 1) -> Document:
        return Document(text, metadata={"source": "tale", "start_index": start, "page": page})

    retriever = made([piece("one", 0), piece("two", 4), piece("other page", 4, page=2)])
    await call(retriever, "add_documents", [piece("TWO", 4), piece("three", 8)])
    assert texts_of(retriever, "tale") == ["one", "TWO", "other page", "three"]
    await call(retriever, "add_documents", [piece("new edition", 0)], replace=True)
    assert texts_of(retriever, "tale") == ["new edition"]
    retriever.index.close()


async def test_pieces_with_ids_of_their_own(call: Callable[..., Any]) -> None:
    given = [Document(f"part {n}", id=f"id-{n}", metadata={"source": "tale"}) for n in range(3)]
    retriever = made(given, id_key="source")
    await call(retriever, "add_documents", [Document("part one", id="id-1", metadata={"source": "tale"})])
    assert texts_of(retriever, "tale") == ["part 0", "part one", "part 2"]
    await call(retriever, "add_documents", [Document("part 2", id="id-2", metadata={"source": "sequel"})])
    assert texts_of(retriever, "tale") == ["part 0", "part one"]
    assert texts_of(retriever, "sequel") == ["part 2"]
    retriever.index.close()


def test_two_who_add_to_one_source_at_once(tmp_path: Path) -> None:
    given = pages(24)
    retriever = made(given[:4], path=tmp_path / "idx")
    other = TreeRetriever.load(tmp_path / "idx", embedding=HashingEmbedder())  # as in another process
    batches = [given[start : start + 2] for start in range(4, 24, 2)]

    def add(place: int) -> bool:
        """Whether it was this one's turn; a writer that waits too long is told who writes."""
        try:
            (other if place % 2 else retriever).add_documents(batches[place])
        except Locked:
            return False
        return True

    left = list(range(len(batches)))
    with ThreadPoolExecutor(4) as pool:
        while left:
            left = [place for place, done in zip(left, list(pool.map(add, left)), strict=True) if not done]
    retriever.index.reload()
    assert sorted(texts_of(retriever, "book.pdf")) == sorted(page.page_content for page in given)


async def test_adding_texts(call: Callable[..., Any]) -> None:
    retriever = made(pages(2))
    ids = await call(retriever, "add_texts", ["A lone whale."], [{"source": "whales"}], ids=["whale"])
    assert ids == ["whale"]
    found = await call(retriever, "invoke", "whale", k=1, view="chunks")
    assert (found[0].page_content, found[0].id, found[0].metadata["source"]) == (
        "A lone whale.", "whale", "whales",
    )  # fmt: skip
    with pytest.raises(ValueError, match="1 texts and 2 ids"):
        await call(retriever, "add_texts", ["x"], ids=["a", "b"])
    ids += await call(retriever, "add_texts", ["A third whale."])
    await call(retriever, "delete", ids)
    assert "whale" not in str(await call(retriever, "invoke", "whale", k=100))
    retriever.index.close()


# What comes back


@pytest.mark.parametrize("kind", [TreeRetriever, HierarchicalRetriever])
async def test_every_document_has_a_source(kind: Any, call: Callable[..., Any]) -> None:
    given = [Document(t, id=i, metadata={**m, "source": f"{m['topic']}.txt"}) for i, t, m in passages()]
    retriever = kind.from_documents([*given, Document("A lone whale.")], embedding=HashingEmbedder())
    found = await call(retriever, "invoke", QUESTION, k=200)
    prompt = PromptTemplate.from_template("{source}: {page_content}")
    shown = [format_document(document, prompt) for document in found]
    assert shown[0].startswith("observatory.txt: In year 1901")
    assert all(document.metadata["source"] for document in found)
    nodes = [each for each in found if each.metadata["stratagraph_kind"] != "chunk"]
    assert {key for each in nodes for key in each.metadata} <= {"source", *IDENTITY}
    retriever.index.close()


def test_a_summary_of_many_documents_names_the_first() -> None:
    retriever = made(langchain_documents())
    summaries = retriever.invoke(QUESTION, k=9, levels=(1,))
    for summary in summaries:
        documents = json.loads(summary.metadata["stratagraph_documents"])
        assert summary.metadata["source"].startswith(", ".join(documents[:3]))
        if len(documents) > 3:
            assert summary.metadata["source"].endswith(f" and {len(documents) - 3} more")
        assert json.loads(summary.metadata["stratagraph_metadata"]) == {"by": "extractive"}
    assert summaries
    retriever.index.close()


async def test_filter_is_where(call: Callable[..., Any]) -> None:
    retriever = made(langchain_documents())
    wanted = {"topic": "orchard"}
    expected = await call(retriever, "invoke", QUESTION, where=wanted)
    assert await call(retriever, "invoke", QUESTION, filter=wanted) == expected
    as_field = TreeRetriever(index=retriever.index, filter=wanted)
    assert await call(as_field, "invoke", QUESTION) == expected
    answering = retriever.as_answer_runnable(return_sources=True)
    answer = await call(answering, "invoke", "bees", filter=wanted)
    assert {each.metadata["topic"] for each in answer["sources"]} == {"orchard"}
    for wrong in (
        lambda: retriever.invoke(QUESTION, where=wanted, filter=wanted),
        lambda: TreeRetriever(index=retriever.index, where=wanted, filter=wanted),
        lambda: made(pages(1), where=wanted, filter=wanted),
    ):
        with pytest.raises(ValueError, match="not both"):
            wrong()
    retriever.index.close()


# LangChain's own indexing


class TestDocumentIndex(DocumentIndexerTestSuite):
    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[StrataDocumentIndex]:
        return TreeRetriever.document_index(tmp_path / "idx", embedding=HashingEmbedder())


def test_a_first_build_does_not_hold_up_another_index(tmp_path: Path) -> None:
    begun, may_end = Event(), Event()

    class Slow(HashingEmbedder):
        def embed_documents(self, texts: list[str]) -> Any:
            begun.set()
            assert may_end.wait(60)
            return super().embed_documents(texts)

    slow = TreeRetriever.document_index(tmp_path / "slow", embedding=Slow())
    with ThreadPoolExecutor(2) as pool:
        building = pool.submit(slow.upsert, pages(2, "slow.pdf"))
        assert begun.wait(60)
        try:
            quick = TreeRetriever.document_index(tmp_path / "quick", embedding=HashingEmbedder())
            upserted = pool.submit(quick.upsert, pages(2, "quick.pdf")).result(60)
        finally:
            may_end.set()
        assert len(upserted["succeeded"]) == len(building.result(60)["succeeded"]) == 2


class TestAsyncDocumentIndex(AsyncDocumentIndexTestSuite):
    @pytest.fixture
    async def index(self, tmp_path: Path) -> Any:
        return TreeRetriever.document_index(tmp_path / "idx", embedding=HashingEmbedder())


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    records = InMemoryRecordManager(namespace="idx")
    records.create_schema()

    async def called(documents: list[Document], destination: Any, cleanup: str) -> tuple[int, ...]:
        arguments = {
            "cleanup": cleanup, "source_id_key": "source", "key_encoder": "blake2b", "batch_size": 9,
        }  # fmt: skip
        if request.param == "sync":
            done = index(documents, records, destination, **arguments)
        else:
            done = await aindex(documents, records, destination, **arguments)
        return tuple(done[f"num_{what}"] for what in ("added", "updated", "skipped", "deleted"))

    return called


def held(path: Path) -> dict[str, list[str]]:
    with stratagraph.open_index(path, embedder=HashingEmbedder()) as opened:
        assert opened.verify() == []
        return {name: [chunk.text for chunk in chunks] for name, chunks in opened.chunks().items()}


@pytest.mark.parametrize("cleanup", ["incremental", "full"])
async def test_indexing(tmp_path: Path, run: Callable[..., Any], cleanup: str) -> None:
    destination = TreeRetriever.document_index(tmp_path / "idx", embedding=HashingEmbedder(), k=3)
    assert destination.invoke(QUESTION) == []
    book, log = pages(9), pages(3, "log.txt")
    assert await run([*book, *log], destination, cleanup) == (12, 0, 0, 0)
    assert {name: len(texts) for name, texts in held(tmp_path / "idx").items()} == {
        "book.pdf": 9, "log.txt": 3,
    }  # fmt: skip
    assert await run([*book, *log], destination, cleanup) == (0, 0, 12, 0)

    book[4] = Document("Another fourth voyage.", metadata=book[4].metadata)
    expected = (1, 0, 8, 1) if cleanup == "incremental" else (1, 0, 8, 4)
    assert await run(book, destination, cleanup) == expected
    left = held(tmp_path / "idx")
    assert sorted(left["book.pdf"]) == sorted(page.page_content for page in book)
    assert left.get("log.txt", []) == (
        [page.page_content for page in log] if cleanup == "incremental" else []
    )
    assert len(await destination.ainvoke("voyage")) == 3
    assert destination.retriever.invoke("Another", k=1, view="chunks")[0].metadata["source"] == "book.pdf"


async def test_all_may_go_and_come_again(tmp_path: Path, run: Callable[..., Any]) -> None:
    destination = TreeRetriever.document_index(tmp_path / "idx", embedding=HashingEmbedder())
    await run(pages(3), destination, "full")
    assert await run([], destination, "full") == (0, 0, 0, 3)
    assert held(tmp_path / "idx") == {}
    again = TreeRetriever.document_index(tmp_path / "idx", embedding=HashingEmbedder())
    await run(pages(2), again, "full")
    assert len(held(tmp_path / "idx")["book.pdf"]) == 2


async def test_a_document_that_becomes_blank_goes(tmp_path: Path, call: Callable[..., Any]) -> None:
    destination = made(pages(3), path=tmp_path / "idx").as_document_index()
    one, two = Document("one", id="1"), Document("two", id="2")
    await call(destination, "upsert", [one, two])
    response = await call(destination, "upsert", [Document(" ", id="1"), Document("", id="3")])
    assert response == {"succeeded": [], "failed": ["1", "3"]}
    assert [each.id for each in await call(destination, "get", ["1", "2", "3"])] == ["2"]
    assert len(held(tmp_path / "idx")["book.pdf"]) == 3


class Calls(BaseCallbackHandler):
    """Counts the calls of chat models."""

    count = 0

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.count += 1


async def test_callbacks_hear_of_the_model(tmp_path: Path, call: Callable[..., Any]) -> None:
    model = FakeListChatModel(responses=["Of voyages."])
    destination = TreeRetriever.document_index(tmp_path / "idx", llm=model, embedding=HashingEmbedder())
    documents = [Document(page.page_content, id=str(n)) for n, page in enumerate(pages(12))]
    for name, given in (("upsert", documents[:9]), ("upsert", documents[9:]), ("delete", ["3"])):
        calls = Calls()
        await call(destination, name, given, callbacks=[calls])
        assert calls.count > 0, name
    with pytest.raises(TypeError, match="no argument 'batch' here"):
        await call(destination, "upsert", documents, batch=3)
