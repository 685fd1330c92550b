"""The contract on vector stores that people run, Qdrant, Chroma, pgvector ..., through both frameworks.

Each is skipped where its package is not installed (`pip install "stratagraph[dev-vectors]"`). That group
lacks
what LanceDB and Milvus Lite need, hundreds of MB: llama-index-vector-stores-lancedb and -milvus, milvus-lite.
PostgreSQL is the server at STRATAGRAPH_POSTGRES, a URL, or the one that the package `pgserver` brings.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core import StorageContext, load_index_from_storage
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery

import stratagraph as sg
from langchain_stratagraph import TreeRetriever
from llama_index_stratagraph import LSHTreeIndex
from stratagraph import errors
from tests.vectors.support import DIMENSION, built, documents, embedder, found

EMBEDDING = DeterministicFakeEmbedding(size=DIMENSION)


def langchain_qdrant(_: Path, distance: str = "COSINE", dimension: int = DIMENSION) -> Any:
    module, client = pytest.importorskip("langchain_qdrant"), pytest.importorskip("qdrant_client")
    opened = client.QdrantClient(":memory:")
    measure = getattr(client.models.Distance, distance)
    opened.create_collection("notes", client.models.VectorParams(size=dimension, distance=measure))
    fake = DeterministicFakeEmbedding(size=dimension)
    return module.QdrantVectorStore(opened, "notes", embedding=fake, distance=measure)


def llama_index_qdrant(_: Path) -> Any:
    module = pytest.importorskip("llama_index.vector_stores.qdrant")
    client = pytest.importorskip("qdrant_client").QdrantClient(":memory:")
    return module.QdrantVectorStore(collection_name="notes", client=client)


def langchain_chroma(folder: Path) -> Any:
    module = pytest.importorskip("langchain_chroma")
    return module.Chroma("notes", EMBEDDING, persist_directory=str(folder / "chroma"))


def llama_index_chroma(folder: Path) -> Any:
    module = pytest.importorskip("llama_index.vector_stores.chroma")
    client = pytest.importorskip("chromadb").PersistentClient(str(folder / "chroma"))
    return module.ChromaVectorStore(chroma_collection=client.create_collection("notes"))


def langchain_pgvector(folder: Path) -> Any:
    module = pytest.importorskip("langchain_postgres")
    url = postgres(folder).replace("postgresql:", "postgresql+psycopg:")
    return module.PGVector(EMBEDDING, connection=url, collection_name=uuid.uuid4().hex)


def llama_index_pgvector(folder: Path) -> Any:
    module, url = pytest.importorskip("llama_index.vector_stores.postgres"), postgres(folder)
    return module.PGVectorStore.from_params(
        connection_string=url,
        async_connection_string=url.replace("postgresql:", "postgresql+asyncpg:"),
        table_name=f"t{uuid.uuid4().hex}",
        embed_dim=DIMENSION,
        use_jsonb=True,
    )


def llama_index_milvus(folder: Path) -> Any:
    module, _ = pytest.importorskip("llama_index.vector_stores.milvus"), pytest.importorskip("milvus_lite")
    return module.MilvusVectorStore(
        uri=str(folder / "milvus.db"),
        collection_name="notes",
        dim=DIMENSION,
        similarity_metric="COSINE",
        overwrite=False,
    )


def postgres(folder: Path) -> str:
    if url := os.environ.get("STRATAGRAPH_POSTGRES"):
        return url
    server = pytest.importorskip("pgserver").get_server(folder / "postgres")
    server.psql("CREATE EXTENSION IF NOT EXISTS vector")
    url: str = server.get_uri()
    return url


STORES: list[Callable[[Path], Any]] = [
    langchain_qdrant,
    llama_index_qdrant,
    langchain_chroma,
    llama_index_chroma,
    langchain_pgvector,
    llama_index_pgvector,
    llama_index_milvus,
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sg.Index]:
    with built(tmp_path_factory.mktemp("plain") / "idx") as index:
        yield index


@pytest.fixture(params=STORES, ids=lambda each: each.__name__)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path)


def test_an_index_lives_in_a_store(store: Any, plain: sg.Index, tmp_path: Path) -> None:
    theirs = _others(store)
    index = built(tmp_path / "idx", store)
    assert found(index) == found(plain)
    assert found(index, {"year": {"$lt": 1930}}) == found(plain, {"year": {"$lt": 1930}})
    index.insert([sg.Document("hopper", "Grace Hopper read the notes of Ada Lovelace on the Rhine.")])
    index.delete("hopper")
    assert index.verify() == []
    index.close()
    with sg.open_index(tmp_path / "idx", embedder=embedder(), vectors=store) as opened:
        assert opened.verify() == []
        opened.delete([document.id for document in documents()[1:]])
    assert theirs()


def test_lancedb_in_a_table_of_its_own(plain: sg.Index, tmp_path: Path) -> None:
    """Its tables have the columns of their first rows, so that there is no place for rows of others."""
    module = pytest.importorskip("llama_index.vector_stores.lancedb")
    store = module.LanceDBVectorStore(uri=str(tmp_path / "lance"), table_name="notes", mode="create")
    with built(tmp_path / "idx", store) as index:
        assert found(index) == found(plain)
        assert found(index, {"year": {"$lt": 1930}}) == found(plain, {"year": {"$lt": 1930}})
        index.insert([sg.Document("new", "Grace Hopper read the notes of Ada Lovelace.")])
        index.delete(["person 0"])
        assert index.verify() == []
        after = found(index)
    reopened = module.LanceDBVectorStore(uri=str(tmp_path / "lance"), table_name="notes", mode="create")
    with sg.open_index(tmp_path / "idx", embedder=embedder(), vectors=reopened) as index:
        assert found(index) == after


def _others(store: Any) -> Callable[[], bool]:
    """Put a row of somebody else in a store, and return what tells whether it is still there."""
    identity = str(uuid.uuid4())
    if hasattr(store, "similarity_search_by_vector"):
        store.add_documents([Document("theirs", metadata={"of": "others"})], ids=[identity])
        return lambda: [each.page_content for each in store.similarity_search("theirs", k=1)] == ["theirs"]
    vector = EMBEDDING.embed_query("theirs")
    store.add([TextNode(id_=identity, text="theirs", embedding=vector)])
    asked = VectorStoreQuery(query_embedding=vector, similarity_top_k=1)
    return lambda: store.query(asked).ids == [identity]


def test_an_emptied_collection_is_found_out_and_filled_again(plain: sg.Index, tmp_path: Path) -> None:
    store = llama_index_qdrant(tmp_path)
    built(tmp_path / "idx", store, "lshtree").close()
    store.client.delete_collection("notes")
    with pytest.raises(errors.VectorStoreStale, match="none of this index"):
        sg.open_index(tmp_path / "idx", embedder=embedder(), vectors=store)
    emptied = llama_index_qdrant(tmp_path)
    with sg.open_index(tmp_path / "idx", embedder=embedder(), vectors=emptied, repair=True) as index:
        assert index.verify() == []


def test_a_qdrant_collection_of_another_dimension_or_measure(tmp_path: Path) -> None:
    with pytest.raises(errors.VectorStoreError, match="of 128 dimensions"):
        built(tmp_path / "a", langchain_qdrant(tmp_path, dimension=64), "lshtree")
    with (
        built(tmp_path / "b", langchain_qdrant(tmp_path, "EUCLID")) as euclid,
        built(tmp_path / "c") as plain,
    ):
        assert found(euclid) == found(plain)


class _NoCollection(BaseHTTPRequestHandler):
    """A Qdrant server that has nothing."""

    def do_GET(self) -> None:  # the name that the base class calls
        body = b'{"result": {"exists": false}, "status": "ok", "time": 0}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    module = pytest.importorskip("llama_index.vector_stores.qdrant")
    server = HTTPServer(("127.0.0.1", 0), _NoCollection)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = pytest.importorskip("qdrant_client").QdrantClient(
        url=f"http://127.0.0.1:{server.server_port}", check_compatibility=False, timeout=2
    )
    store = module.QdrantVectorStore(collection_name="notes", client=client)
    server.shutdown()
    server.server_close()
    with pytest.raises(errors.VectorStoreError, match=r"could not add .* Connection refused"):
        built(tmp_path / "idx", store, "lshtree")


def test_both_frameworks_take_their_own_stores(tmp_path: Path) -> None:
    texts = [document.text for document in documents()]
    store = langchain_qdrant(tmp_path)
    given = {"embedding": embedder(), "vectors": store}
    retriever = TreeRetriever.from_texts(texts, path=tmp_path / "one", **given)
    hits = [each.id for each in retriever.invoke("Who opened bridge 7?")]
    retriever.index.close()
    assert [
        each.id for each in TreeRetriever.load(tmp_path / "one", **given).invoke("Who opened bridge 7?")
    ] == hits

    store = llama_index_qdrant(tmp_path)
    nodes = [TextNode(id_=str(number), text=text) for number, text in enumerate(texts)]
    index = LSHTreeIndex(nodes, path=tmp_path / "two", vectors=store, embed_model=embedder(), llm=False)
    found = [each.text for each in index.as_retriever(similarity_top_k=4).retrieve("Who opened bridge 7?")]
    index.storage_context.persist(str(tmp_path / "kept"))
    index.close()
    context = StorageContext.from_defaults(persist_dir=str(tmp_path / "kept"))
    kept = load_index_from_storage(context, vectors=store, embed_model=embedder(), llm=False)
    again = kept.as_retriever(similarity_top_k=4).retrieve("Who opened bridge 7?")
    assert [each.text for each in again] == found
    loaded = LSHTreeIndex.load(tmp_path / "two", vectors=store, embed_model=embedder(), llm=False)
    again = loaded.as_retriever(similarity_top_k=4).retrieve("Who opened bridge 7?")
    assert [each.text for each in again] == found
