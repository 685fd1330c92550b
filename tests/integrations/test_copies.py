"""Pickled and deep-copied retrievers and indexes, and folders that another process changes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from llama_index.core import Document as LlamaDocument
from llama_index.core import MockEmbedding, Settings
from llama_index.core.llms import MockLLM
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

import stratagraph as sg
from langchain_stratagraph import TreeRetriever
from llama_index_stratagraph import LSHTreeIndex
from tests.integrations.corpus import QUESTION, langchain_documents, llama_documents, passages

WAYS = {"pickle": lambda held: pickle.loads(pickle.dumps(held)), "deepcopy": copy.deepcopy}
COPIES = pytest.mark.parametrize("again", WAYS.values(), ids=WAYS)


def tree(path: Path | None, **settings: Any) -> TreeRetriever:
    return TreeRetriever.from_documents(
        langchain_documents(), path=path, embedding=DeterministicFakeEmbedding(size=32), **settings
    )


def lsh_tree(path: Path | None, **settings: Any) -> LSHTreeIndex:
    return LSHTreeIndex.from_documents(
        llama_documents(), path=path, embed_model=MockEmbedding(32), **settings
    )


@COPIES
def test_an_index_of_the_core(again: Any, tmp_path: Path) -> None:
    given = {"path": tmp_path / "idx", "embedder": sg.HashingEmbedder(), "progress": False}
    index = sg.build_index([text for _, text, _ in passages()], **given)
    hits = index.retrieve(QUESTION).hits
    for held in (index, sg.open_index(tmp_path / "idx")):
        other = again(held)
        held.close()  # each has a folder of its own
        assert other.path == index.path
        assert other.retrieve(QUESTION).hits == hits
    assert copy.copy(other) is not other


@COPIES
def test_an_index_in_a_temporary_folder_says_what_to_do(again: Any) -> None:
    for held in (tree(None).index, tree(None), lsh_tree(None), lsh_tree(None).as_retriever()):
        with pytest.raises(TypeError, match=r"temporary folder cannot be pickled .* with path="):
            again(held)


@COPIES
def test_shards(again: Any, tmp_path: Path) -> None:
    retriever = tree(tmp_path / "idx", shards="topic")
    assert again(retriever).invoke(QUESTION) == retriever.invoke(QUESTION)


@COPIES
def test_what_langchain_holds(again: Any, tmp_path: Path) -> None:
    llm = FakeListChatModel(responses=["The keeper [1]."])
    retriever = tree(tmp_path / "idx", llm=llm, k=3, where={"topic": "observatory"})
    other = again(retriever)
    assert other.index is not retriever.index
    assert (other.k, other.where) == (retriever.k, retriever.where)
    assert other.invoke(QUESTION) == retriever.invoke(QUESTION)
    assert again(retriever.as_answer_runnable()).invoke(QUESTION) == "The keeper [1]."
    document_index = again(retriever.as_document_index())
    document_index.upsert(
        [Document(id="new", page_content="A new comet.", metadata={"topic": "observatory"})]
    )
    assert [each.id for each in document_index.get(["new"])] == ["new"]
    begun = again(TreeRetriever.document_index(tmp_path / "later", embedding=sg.HashingEmbedder()))
    begun.upsert([Document(id="new", page_content="A new comet.")])
    assert begun.retriever.invoke("comet")


@COPIES
def test_what_llama_index_holds(again: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "_llm", None)
    index = lsh_tree(tmp_path / "idx", llm=MockLLM())
    other = again(index)
    assert other.core is not index.core
    assert set(other.docstore.docs) == set(index.docstore.docs)
    only = MetadataFilters(filters=[MetadataFilter(key="topic", value="observatory")])
    retriever = index.as_retriever(filters=only, similarity_top_k=3)
    expected = [(each.node_id, each.score) for each in retriever.retrieve(QUESTION)]
    for copied in (again(retriever), other.as_retriever(filters=only, similarity_top_k=3)):
        assert [(each.node_id, each.score) for each in copied.retrieve(QUESTION)] == expected
    assert str(again(index.as_query_engine()).query(QUESTION)) == str(index.as_query_engine().query(QUESTION))
    other.insert(LlamaDocument(id_="new", text="A new comet."))
    assert "new" in other.ref_doc_info
    other.storage_context.persist(tmp_path / "persisted")
    assert (tmp_path / "persisted" / "stratagraph" / other.index_id / "CURRENT").exists()


WRITER = """
import sys, stratagraph as sg
index = sg.open_index(sys.argv[1], embedder=sg.HashingEmbedder(32) if sys.argv[2:] else None)
index.insert([sg.Document("zeppelin", "The zeppelin landed at the observatory in 1931.")])
"""
ZEPPELIN = "When did the zeppelin land?"


def write_elsewhere(path: Path) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", WRITER, str(path)], check=True, timeout=120)


def built(path: Path) -> sg.Index:
    given = [sg.Document(*each) for each in passages()]
    return sg.build_index(given, "lshtree", path=path, embedder=sg.HashingEmbedder(), progress=False)


async def test_an_open_index_sees_what_another_process_wrote(tmp_path: Path) -> None:
    index = built(tmp_path / "idx")
    retriever = TreeRetriever.load(tmp_path / "idx", embedding=sg.HashingEmbedder())
    document_index = retriever.as_document_index()
    llama = LSHTreeIndex.load(tmp_path / "idx", llm=False, embed_model=False)
    asked = [
        lambda: index.retrieve(ZEPPELIN).hits[0].text,
        lambda: index.answer(ZEPPELIN).text,
        lambda: "".join(index.stream(ZEPPELIN)),
        lambda: retriever.invoke(ZEPPELIN)[0].page_content,
        lambda: document_index.invoke(ZEPPELIN)[0].page_content,
        lambda: llama.as_retriever().retrieve(ZEPPELIN)[0].text,
        lambda: str(llama.as_query_engine().query(ZEPPELIN)),
    ]
    assert not any("1931" in ask() for ask in asked)
    write_elsewhere(tmp_path / "idx")
    assert all("1931" in ask() for ask in asked)
    assert "1931" in (await index.aretrieve(ZEPPELIN)).hits[0].text
    assert index.generation == 2


def test_an_unreadable_generation_leaves_what_was_open(tmp_path: Path) -> None:
    index = built(tmp_path / "idx")
    before = index.retrieve(QUESTION).hits
    with sg.open_index(tmp_path / "idx") as other:
        other.insert(["The zeppelin landed at the observatory in 1931."])
    manifest = tmp_path / "idx" / "generations" / "2" / "manifest.json"
    manifest.write_text(manifest.read_text()[:-40])
    with pytest.warns(RuntimeWarning, match=r"still answers from generation 1.*manifest\.json"):
        assert index.retrieve(QUESTION).hits == before
    assert index.retrieve(QUESTION).hits == before  # and it is said once
    with pytest.raises(sg.errors.Damaged):
        index.reload()
