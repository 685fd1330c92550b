"""The LlamaIndex index over time: insert, delete, refresh, persist and load; folder and docstore agree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, load_index_from_storage
from llama_index.core.indices.loading import load_indices_from_storage
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.index_store import SimpleIndexStore

import stratagraph
from llama_index_stratagraph import LSHTreeIndex
from stratagraph import HashingEmbedder
from stratagraph.errors import EmbedderError, Locked, NotAnIndex
from tests.integrations.corpus import QUESTION, llama_documents, passages

pytestmark = pytest.mark.usefixtures("fresh_settings")
SPLIT = SentenceSplitter(chunk_size=40, chunk_overlap=0, include_metadata=False)


def tale(word: str = "tale", sentences: int = 12) -> Document:
    return Document(id_="tale", text=" ".join(f"Sentence {n} of the long {word}." for n in range(sentences)))


def build(documents: list[Document] | None = None, **kwargs: Any) -> LSHTreeIndex:
    kwargs.setdefault("embed_model", HashingEmbedder())
    kwargs.setdefault("transformations", [SPLIT])
    given = [*llama_documents(), tale()] if documents is None else documents
    return LSHTreeIndex.from_documents(given, **kwargs)


def found(index: LSHTreeIndex, question: str = QUESTION, k: int = 200) -> list[tuple[str, str, Any]]:
    nodes = index.as_retriever(similarity_top_k=k).retrieve(question)
    return [(node.metadata["stratagraph_id"], node.get_content(), node.score) for node in nodes]


def documents_in(index: LSHTreeIndex) -> set[str]:
    nodes = index.as_retriever(similarity_top_k=500).retrieve(QUESTION)
    return {document for node in nodes for document in json.loads(node.metadata["stratagraph_documents"])}


def agree(index: LSHTreeIndex) -> None:
    """The folder, the docstore and the struct tell one story."""
    infos = index.ref_doc_info
    assert {name: set(info.node_ids) for name, info in infos.items()} == {
        name: set(info.node_ids) for name, info in (index.docstore.get_all_ref_doc_info() or {}).items()
    }
    for info in infos.values():
        assert all(index.docstore.document_exists(node) for node in info.node_ids)
    assert documents_in(index) == set(infos)
    held = index.storage_context.index_store.get_index_struct(index.index_id)
    assert held.generation == index.core.generation
    assert held.folder == str(index.core.path)
    assert index.core.verify() == []


@pytest.fixture
def index() -> Any:
    index = build()
    yield index
    index.close()


class Caller:
    """Calls a method of an index, or its async twin."""

    def __init__(self, twin: bool) -> None:
        self._twin = twin

    async def __call__(self, index: LSHTreeIndex, name: str, *args: Any, **kwargs: Any) -> Any:
        if self._twin:
            return await getattr(index, f"a{name}")(*args, **kwargs)
        return getattr(index, name)(*args, **kwargs)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Caller:
    return Caller(request.param)


# Documents


async def test_insert_equals_build(index: LSHTreeIndex, call: Caller) -> None:
    grown = build([*llama_documents()[:10]])
    for document in llama_documents()[10:12]:
        await call(grown, "insert", document)
    await call(grown, "refresh_ref_docs", [*llama_documents()[12:], tale()])
    agree(grown)
    assert found(grown) == found(index)
    grown.close()


async def test_a_document_inserted_again_replaces_itself(index: LSHTreeIndex, call: Caller) -> None:
    before = index.core.generation
    await call(index, "insert", tale("poem", 3))
    assert index.core.generation == before + 1
    texts = [text for _, text, _ in found(index, "Sentence of the long tale or poem")]
    assert any("poem" in text for text in texts)
    assert not any("long tale" in text for text in texts)
    agree(index)
    await call(index, "update_ref_doc", tale("song", 3))
    assert not any("poem" in text for _, text, _ in found(index))
    agree(index)


@pytest.mark.parametrize("from_docstore", [True, False])
async def test_delete_ref_doc(index: LSHTreeIndex, call: Caller, from_docstore: bool) -> None:
    assert len(index.ref_doc_info["tale"].node_ids) > 2
    before = index.core.generation
    await call(index, "delete_ref_doc", "tale", delete_from_docstore=from_docstore)
    assert index.core.generation == before + 1
    assert documents_in(index) == {name for name, _, _ in passages()}
    assert "tale" not in index.ref_doc_info
    assert index.docstore.ref_doc_exists("tale") is not from_docstore
    # Whatever the docstore still has, what is not in the folder is new.
    assert await call(index, "refresh_ref_docs", [tale()]) == [True]
    agree(index)


async def test_deleting_what_is_not_there(
    index: LSHTreeIndex, call: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    before = index.core.generation
    await call(index, "delete_ref_doc", "nobody", delete_from_docstore=True)
    await call(index, "delete_nodes", ["nothing"], delete_from_docstore=True)
    assert index.core.generation == before
    assert "nobody" in caplog.text
    assert "nothing" in caplog.text


async def test_refresh_is_one_step_and_tells_what_changed(index: LSHTreeIndex, call: Caller) -> None:
    before = index.core.generation
    documents = llama_documents()
    documents[0].metadata["topic"] = "docks"
    documents[1].set_content("The harbour burnt down.")
    documents.append(Document(id_="new", text="A new house by the sea."))
    assert await call(index, "refresh_ref_docs", documents) == [True, True, *[False] * 22, True]
    assert index.core.generation == before + 1
    assert await call(index, "refresh_ref_docs", documents) == [False] * 25
    assert index.core.generation == before + 1
    assert documents_in(index) == {name for name, _, _ in passages()} | {"tale", "new"}
    docks = index.as_retriever(similarity_top_k=9, where={"topic": "docks"}, view="chunks").retrieve("docks")
    assert [node.node.ref_doc_id for node in docks] == ["harbour-0"] * len(docks)
    agree(index)


async def test_a_document_that_becomes_blank_goes(index: LSHTreeIndex, call: Caller) -> None:
    blank = Document(id_="tale", text=" ")
    assert await call(index, "refresh_ref_docs", [blank]) == [True]
    assert "tale" not in documents_in(index)
    assert await call(index, "refresh_ref_docs", [blank]) == [False]
    assert index.core.verify() == []


def test_of_several_versions_the_last_counts(index: LSHTreeIndex) -> None:
    assert index.refresh_ref_docs([tale("first"), tale("second")]) == [True, True]
    texts = [text for _, text, _ in found(index, "Sentence of the long")]
    assert any("second" in text for text in texts)
    assert not any("first" in text for text in texts)


def test_what_a_failed_build_left_out_is_not_hidden_from_a_refresh() -> None:
    class Failing(HashingEmbedder):
        def embed_documents(self, texts: Any) -> Any:
            return [[float("nan")] for _ in texts]

    context = StorageContext.from_defaults()
    with pytest.raises(EmbedderError):
        build(storage_context=context, embed_model=Failing())
    index = build(llama_documents()[:4], storage_context=context)
    assert index.refresh_ref_docs(llama_documents()) == [*[False] * 4, *[True] * 20]
    agree(index)
    # A hash that says that the document is there, set by someone who did not index it.
    index.docstore.set_document_hash("tale", tale().hash)
    assert index.refresh_ref_docs([tale()]) == [True]
    agree(index)


def test_a_failed_insert_changes_nothing(index: LSHTreeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    before = found(index)

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(stratagraph.Index, "insert", fail)
        with pytest.raises(RuntimeError, match="no space"):
            index.insert(Document(id_="new", text="A new house by the sea."))
    assert found(index) == before
    agree(index)
    assert index.refresh_ref_docs([Document(id_="new", text="A new house by the sea.")]) == [True]


# Nodes


def node(name: str, text: str, document: str = "tale") -> TextNode:
    source = RelatedNodeInfo(node_id=document)
    return TextNode(id_=name, text=text, relationships={NodeRelationship.SOURCE: source})


async def test_inserting_nodes_adds_to_their_document(index: LSHTreeIndex, call: Caller) -> None:
    held = len(index.ref_doc_info["tale"].node_ids)
    await call(index, "insert_nodes", [node("n1", "The tale goes on."), node("n2", "Apart.", "other")])
    assert len(index.ref_doc_info["tale"].node_ids) == held + 1
    assert index.ref_doc_info["other"].node_ids == ["n2"]
    await call(index, "insert_nodes", [node("n1", "The tale ends.")])
    texts = [text for _, text, _ in found(index)]
    assert "The tale ends." in texts
    assert "The tale goes on." not in texts
    await call(index, "insert_nodes", [])
    agree(index)


async def test_deleting_nodes_leaves_the_rest_of_a_document(index: LSHTreeIndex, call: Caller) -> None:
    first, *rest = list(index.ref_doc_info["tale"].node_ids)
    text = index.docstore.get_node(first).get_content()
    await call(index, "delete_nodes", [first], delete_from_docstore=True)
    assert index.ref_doc_info["tale"].node_ids == rest
    assert text not in [found_text for _, found_text, _ in found(index)]
    agree(index)
    before = index.core.generation
    await call(
        index, "delete_nodes", index.docstore.get_ref_doc_info("tale").node_ids, delete_from_docstore=True
    )
    assert "tale" not in index.ref_doc_info
    assert index.core.generation == before + 1
    agree(index)


async def test_a_folder_of_another_program(tmp_path: Path, call: Caller) -> None:
    documents = [stratagraph.Document(name, text, data) for name, text, data in passages()]
    stratagraph.build_index(
        documents, "lshtree", tmp_path / "idx", embedder=HashingEmbedder(), progress=False
    ).close()
    index = LSHTreeIndex.load(tmp_path / "idx", embed_model=HashingEmbedder(), transformations=[SPLIT])
    best = index.as_retriever().retrieve(QUESTION)[0]
    assert best.node.ref_doc_id == "observatory-1"
    assert best.node_id == best.metadata["stratagraph_id"]
    await call(index, "delete_nodes", [best.node_id])
    assert documents_in(index) == {name for name, _, _ in passages()} - {"observatory-1"}
    await call(index, "delete_ref_doc", "observatory-2")
    await call(index, "insert", llama_documents()[0])
    assert len(documents_in(index)) == 22
    index.close()


def test_two_who_add_to_one_document_at_once(index: LSHTreeIndex) -> None:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="log")}
    nodes = [TextNode(id_=f"log-{n}", text=f"Day {n} at sea.", relationships=source) for n in range(8)]
    other = LSHTreeIndex.load(index.core.path, embed_model=HashingEmbedder())  # as in another process
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda n: _added(other if n % 2 else index, nodes[n]), range(8)))
    index.core.reload()
    assert sorted(index.ref_doc_info["log"].node_ids) == [node.node_id for node in nodes]
    other.close()


def _added(index: LSHTreeIndex, node: TextNode) -> None:
    """Add a node once it is this one's turn: a writer that waits too long is told who writes."""
    while True:
        try:
            return index.insert_nodes([node])
        except Locked:
            continue


# Persisting


def persisted(index: LSHTreeIndex, directory: Any, **kwargs: Any) -> LSHTreeIndex:
    index.storage_context.persist(directory, **kwargs)
    return stored(directory, **kwargs)


def stored(directory: Any, path: str | None = None, **kwargs: Any) -> LSHTreeIndex:
    context = StorageContext.from_defaults(persist_dir=str(directory), **kwargs)
    return load_index_from_storage(context, embed_model=HashingEmbedder(), transformations=[SPLIT], path=path)


async def test_persist_and_load(index: LSHTreeIndex, tmp_path: Path) -> None:
    expected = found(index)
    loaded = persisted(index, tmp_path / "dir")
    assert type(loaded) is LSHTreeIndex
    assert loaded.index_id == index.index_id
    index.close()
    assert found(loaded) == expected
    assert str(loaded.core.path).startswith(str(tmp_path / "dir"))
    assert [file.name for file in (tmp_path / "dir").glob("stratagraph*.json")] == []
    best = loaded.as_retriever().retrieve(QUESTION)[0].node
    assert NodeRelationship.SOURCE in best.relationships
    agree(loaded)
    await loaded.ainsert(Document(id_="new", text="A new house by the sea."))
    loaded.delete_ref_doc("tale", delete_from_docstore=True)
    again = persisted(loaded, tmp_path / "dir")
    assert documents_in(again) == {name for name, _, _ in passages()} | {"new"}
    agree(again)


async def test_what_is_inserted_after_loading_is_in_folder_and_docstore(
    index: LSHTreeIndex, call: Caller, tmp_path: Path
) -> None:
    loaded = persisted(index, tmp_path / "dir")
    await call(loaded, "insert", Document(id_="new", text="A new house by the sea."))
    await call(loaded, "insert_nodes", [TextNode(id_="alone", text="A lone whale.")])
    loaded.close()  # and the docstore is not persisted again
    again = stored(tmp_path / "dir")
    assert {"new", "alone"} < documents_in(again)
    assert again.docstore.document_exists("alone")
    assert set(again.docstore.get_all_ref_doc_info() or {}) == set(again.ref_doc_info) - {"alone"}
    path = again.core.path
    again.storage_context.persist(tmp_path / "dir")
    with stratagraph.open_index(path, embedder=HashingEmbedder()) as core:
        core.insert([stratagraph.Document("core", "The core wrote this.", {"year": 1931})])
    last = stored(tmp_path / "dir")
    [identity] = last.ref_doc_info["core"].node_ids
    node = last.docstore.get_node(identity)
    assert (node.get_content(), node.metadata, node.ref_doc_id) == (
        "The core wrote this.",
        {"year": 1931},
        "core",
    )


async def test_an_index_opened_by_its_path_has_its_nodes_in_the_folder_alone(
    index: LSHTreeIndex, call: Caller, tmp_path: Path
) -> None:
    opened = LSHTreeIndex.load(index.core.path, embed_model=HashingEmbedder(), transformations=[SPLIT])
    await call(opened, "insert", Document(id_="new", text="A new house by the sea."))
    assert opened.docstore.docs == {}
    assert "new" in documents_in(opened)
    loaded = persisted(opened, tmp_path / "dir")
    assert loaded.docstore.docs == {}
    assert documents_in(loaded) == documents_in(opened)


async def test_a_build_over_a_folder_completes_the_docstore(call: Caller, tmp_path: Path) -> None:
    build(path=tmp_path / "idx").close()
    agree(build([Document(id_="new", text="A new house by the sea.")], path=tmp_path / "idx"))


def test_storage_without_its_docstore_says_what_to_do(index: LSHTreeIndex, tmp_path: Path) -> None:
    index.storage_context.persist(tmp_path / "dir")
    structs = SimpleIndexStore.from_persist_dir(str(tmp_path / "dir"))
    context = StorageContext.from_defaults(index_store=structs)
    with pytest.raises(ValueError, match=r"has no document .*docstore=.*LSHTreeIndex\.load\('") as raised:
        load_index_from_storage(context, embed_model=HashingEmbedder())
    [path] = re.findall(r"load\('(.*)'\)", str(raised.value))
    assert documents_in(LSHTreeIndex.load(path, embed_model=HashingEmbedder())) == documents_in(index)


def test_persisting_again_replaces_the_copy(index: LSHTreeIndex, tmp_path: Path) -> None:
    persisted(index, tmp_path / "dir").close()
    index.delete_ref_doc("tale", delete_from_docstore=True)
    loaded = persisted(index, tmp_path / "dir")
    assert "tale" not in documents_in(loaded)
    agree(loaded)
    agree(index)
    index.insert(tale("poem"))
    assert "tale" not in documents_in(loaded)
    [copy] = (tmp_path / "dir" / "stratagraph").iterdir()
    assert not {"journal.sqlite", "lock.json"} & {entry.name for entry in copy.iterdir()}


@pytest.mark.parametrize("remote", [False, True])
def test_another_index_in_the_same_directory_takes_the_place_of_the_first(
    tmp_path: Path, remote: bool
) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory") if remote else None
    given = {"fs": memory} if remote else {}
    directory = "/twice/dir" if remote else str(tmp_path / "dir")

    def copies() -> list[str]:
        listed = (
            memory.ls(f"{directory}/stratagraph", detail=False)
            if remote
            else os.listdir(f"{directory}/stratagraph")
        )
        return [os.path.basename(each) for each in listed]

    first = build(llama_documents()[:12])
    first.storage_context.persist(directory, **given)
    assert copies() == [first.index_id]
    second = build(llama_documents()[12:])
    second.storage_context.persist(directory, **given)
    url = f"memory:/{directory}/stratagraph/{second.index_id}" if remote else None
    assert documents_in(stored(directory, url, **given)) == documents_in(second)
    assert copies() == [second.index_id]
    assert documents_in(first) == {document.id_ for document in llama_documents()[:12]}
    if remote:
        memory.rm("/twice", recursive=True)


def test_only_index_folders_that_nothing_names_go(tmp_path: Path) -> None:
    context = StorageContext.from_defaults()
    both = [build(part, storage_context=context) for part in (llama_documents()[:12], llama_documents()[12:])]
    context.persist(tmp_path / "dir")
    mine = tmp_path / "dir" / "stratagraph" / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")
    storage = StorageContext.from_defaults(persist_dir=str(tmp_path / "dir"))
    one = load_index_from_storage(storage, index_id=both[0].index_id, embed_model=HashingEmbedder())
    one.delete_ref_doc("harbour-0", delete_from_docstore=True)
    storage.persist(tmp_path / "dir")
    kept = {entry.name for entry in (tmp_path / "dir" / "stratagraph").iterdir()}
    assert kept == {"mine", *(index.index_id for index in both)}
    again = StorageContext.from_defaults(persist_dir=str(tmp_path / "dir"))
    loaded = load_indices_from_storage(again, embed_model=HashingEmbedder())
    assert sorted(len(documents_in(index)) for index in loaded) == [11, 12]


def test_loading_in_another_process_says_what_to_import(index: LSHTreeIndex, tmp_path: Path) -> None:
    index.storage_context.persist(tmp_path / "dir")
    program = f"""
from llama_index.core import StorageContext, load_index_from_storage
context = StorageContext.from_defaults(persist_dir={str(tmp_path / "dir")!r})
try:
    load_index_from_storage(context)
except KeyError as error:
    print(error)
import llama_index_stratagraph
from stratagraph import HashingEmbedder
loaded = load_index_from_storage(context, llm=False, embed_model=HashingEmbedder())
print(loaded.as_retriever().retrieve({QUESTION!r})[0].node.node_id)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    said, best = done.stdout.splitlines()
    assert "import llama_index_stratagraph first" in said
    assert best == index.as_retriever().retrieve(QUESTION)[0].node.node_id


def test_a_folder_of_ones_own_is_copied_too(tmp_path: Path) -> None:
    index = build(path=tmp_path / "idx")
    loaded = persisted(index, tmp_path / "dir")
    assert loaded.core.path != index.core.path
    index.close()
    shutil.rmtree(tmp_path / "idx")
    assert len(documents_in(loaded)) == 25


def test_a_relative_directory_may_move(
    index: LSHTreeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    persisted(index, "storage").close()
    monkeypatch.chdir(tmp_path)
    os.rename("project", "renamed")
    monkeypatch.chdir(tmp_path / "renamed")
    context = StorageContext.from_defaults(persist_dir="storage")
    assert len(documents_in(load_index_from_storage(context, embed_model=HashingEmbedder()))) == 25


def test_a_moved_directory_is_named(index: LSHTreeIndex, tmp_path: Path) -> None:
    persisted(index, tmp_path / "dir").close()
    os.rename(tmp_path / "dir", tmp_path / "moved")
    context = StorageContext.from_defaults(persist_dir=str(tmp_path / "moved"))
    with pytest.raises(NotAnIndex, match=rf"path='<persist directory>/stratagraph/{index.index_id}'"):
        load_index_from_storage(context, embed_model=HashingEmbedder())
    path = tmp_path / "moved" / "stratagraph" / index.index_id
    loaded = load_index_from_storage(context, embed_model=HashingEmbedder(), path=path)
    assert len(documents_in(loaded)) == 25


def test_ids_of_ones_own_and_two_indexes_in_one_context(tmp_path: Path) -> None:
    context = StorageContext.from_defaults()
    first = build(llama_documents()[:12], storage_context=context)
    first.set_index_id("../first/index")
    second = build(llama_documents()[12:], storage_context=context)
    second.set_index_id("second")
    context.persist(tmp_path / "dir")
    assert len(list((tmp_path / "dir" / "stratagraph").iterdir())) == 2
    loaded = StorageContext.from_defaults(persist_dir=str(tmp_path / "dir"))
    indexes = load_indices_from_storage(loaded, embed_model=HashingEmbedder())
    assert sorted(len(documents_in(index)) for index in indexes) == [12, 12]
    one = load_index_from_storage(loaded, index_id="../first/index", embed_model=HashingEmbedder())
    assert documents_in(one) == documents_in(first)


def test_other_file_systems(index: LSHTreeIndex, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    expected = found(index)
    memory = fsspec.filesystem("memory")
    with pytest.raises(NotAnIndex, match="names the URL 'memory://") as raised:
        persisted(index, "/bucket/dir", fs=memory)
    url = str(raised.value).split("'")[1]
    context = StorageContext.from_defaults(persist_dir="/bucket/dir", fs=memory)
    assert found(load_index_from_storage(context, embed_model=HashingEmbedder(), path=url)) == expected
    assert persisted(index, str(tmp_path / "dir"), fs=fsspec.filesystem("file")).core.verify() == []
    memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize("kind", ["http", "file", "folder", "link"])
def test_a_strangers_persist_directory_names_nothing_but_its_own_folder(
    kind: str, index: LSHTreeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = build(path=tmp_path / "mine")
    mine.close()
    index.storage_context.persist(tmp_path / "dir")
    copy = tmp_path / "dir" / "stratagraph" / index.index_id
    if kind == "link":
        shutil.rmtree(copy)
        copy.symlink_to(tmp_path / "mine")
    else:
        store = tmp_path / "dir" / "index_store.json"
        other = {
            "http": "http://127.0.0.1:9/x",
            "file": f"file://{tmp_path}/mine",
            "folder": f"{tmp_path}/mine",
        }
        store.write_text(store.read_text().replace(str(copy), other[kind]))
    monkeypatch.setattr("fsspec.core.url_to_fs", None)
    before = set(tmp_path.rglob("*"))
    with pytest.raises(NotAnIndex, match="load with path=") as raised:
        stored(tmp_path / "dir")
    assert ("names the URL" in str(raised.value)) == (kind in ("http", "file"))
    assert set(tmp_path.rglob("*")) == before


def test_a_foreign_folder_is_not_replaced(index: LSHTreeIndex, tmp_path: Path) -> None:
    foreign = tmp_path / "dir" / "stratagraph" / index.index_id
    foreign.mkdir(parents=True)
    (foreign / "thesis.txt").write_text("mine")
    with pytest.raises(NotAnIndex, match="not an index"):
        index.storage_context.persist(tmp_path / "dir")
    assert (foreign / "thesis.txt").read_text() == "mine"
