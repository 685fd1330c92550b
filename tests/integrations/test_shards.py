"""Shards through both frameworks: built, opened, asked, changed and persisted like one index."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")

from langchain_core.documents import Document
from llama_index.core import Document as LlamaDocument
from llama_index.core import StorageContext, load_index_from_storage

import stratagraph as sg
from langchain_stratagraph import TreeRetriever
from llama_index_stratagraph import LSHTreeIndex
from stratagraph.errors import ShardMissing

TEXTS = {
    "ferry": ("The ferry to Ostra leaves at seven from the old pier.", "north"),
    "bridge": ("The bridge to Ostra fell in the storm of that winter.", "south"),
    "honey": ("Honey of the marsh is dark and tastes of thyme.", "south"),
    "choir": ("The choir of Dunlin sings in the chapel on Sundays.", "north"),
}
QUESTION = "When does the ferry to Ostra leave?"


def langchain_documents() -> list[Document]:
    return [Document(text, id=name, metadata={"tenant": of}) for name, (text, of) in TEXTS.items()]


@pytest.mark.parametrize("shards", [3, "tenant"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_langchain(tmp_path: Path, shards: Any, mode: str) -> None:
    given = {"embedding": sg.HashingEmbedder(128), "path": tmp_path / "idx", "shards": shards, "k": 2}
    if mode == "sync":
        retriever = TreeRetriever.from_documents(langchain_documents(), **given)
    else:
        retriever = asyncio.run(TreeRetriever.afrom_documents(langchain_documents(), **given))
    assert retriever.invoke(QUESTION)[0].id == "ferry"
    north = retriever.invoke(QUESTION, k=4, where={"tenant": "north"})
    assert {document.id for document in north} == {"ferry", "choir"}
    retriever.add_documents(
        [Document("A zeppelin is moored at the mill.", id="new", metadata={"tenant": "east"})]
    )
    assert (
        TreeRetriever.load(given["path"], embedding=given["embedding"]).invoke("zeppelin", k=1)[0].id == "new"
    )
    retriever.delete(["new"])
    assert "new" not in {document.id for document in retriever.invoke("zeppelin", k=5)}
    answer = retriever.as_answer_runnable(return_sources=True).invoke(QUESTION)
    assert "seven" in answer["answer"]
    assert answer["sources"][0].id == "ferry"


@pytest.mark.parametrize("shards", [3, "tenant"])
def test_llama_index(tmp_path: Path, shards: Any) -> None:
    embedder = sg.HashingEmbedder(128)
    documents = [LlamaDocument(text=t, id_=name, metadata={"tenant": of}) for name, (t, of) in TEXTS.items()]
    path = tmp_path / "idx"
    index = LSHTreeIndex.from_documents(documents, embed_model=embedder, path=path, shards=shards, llm=False)
    assert index.core.stats()["shards"] > 1
    assert index.as_retriever(similarity_top_k=1).retrieve(QUESTION)[0].node.ref_doc_id == "ferry"
    index.insert(LlamaDocument(text="A zeppelin is moored.", id_="new", metadata={"tenant": "east"}))
    index.delete_ref_doc("honey", delete_from_docstore=True)
    index.storage_context.persist(str(tmp_path / "kept"))
    stored = StorageContext.from_defaults(persist_dir=str(tmp_path / "kept"))
    again = load_index_from_storage(stored, embed_model=embedder, llm=False)
    found = {each.node.ref_doc_id for each in again.as_retriever(similarity_top_k=9).retrieve("zeppelin")}
    assert found == {"ferry", "bridge", "choir", "new"}
    assert "seven" in str(again.as_query_engine(llm=None).query(QUESTION))


def test_a_missing_shard_is_left_out_on_request(tmp_path: Path) -> None:
    given = {"embedding": sg.HashingEmbedder(128), "path": tmp_path / "idx", "shards": "tenant"}
    TreeRetriever.from_documents(langchain_documents(), **given)
    shutil.rmtree(tmp_path / "idx" / "shard-0001")
    opening: dict[str, Any] = {"path": tmp_path / "idx", "partial": True}
    with pytest.raises(ShardMissing):
        TreeRetriever.load(tmp_path / "idx", embedding=given["embedding"])
    retrievers = [
        TreeRetriever.load(**opening, embedding=given["embedding"]),
        asyncio.run(TreeRetriever.aload(**opening, embedding=given["embedding"])),
    ]
    for retriever in retrievers:
        assert {document.id for document in retriever.invoke(QUESTION, k=4)} == {"ferry", "choir"}
    with pytest.raises(ShardMissing):
        LSHTreeIndex.load(tmp_path / "idx", embed_model=given["embedding"])
    for index in (
        LSHTreeIndex.load(**opening, embed_model=given["embedding"]),
        asyncio.run(LSHTreeIndex.aload(**opening, embed_model=given["embedding"])),
    ):
        found = index.as_retriever(similarity_top_k=4).retrieve(QUESTION)
        assert {each.text for each in found} == {TEXTS["ferry"][0], TEXTS["choir"][0]}


def test_shards_need_a_folder() -> None:
    with pytest.raises(ValueError, match="shards need a folder"):
        TreeRetriever.from_documents(langchain_documents(), embedding=sg.HashingEmbedder(128), shards=2)
    with pytest.raises(ValueError, match="shards need a folder"):
        LSHTreeIndex.from_documents([LlamaDocument(text="x y")], shards=2, llm=False, embed_model=False)
