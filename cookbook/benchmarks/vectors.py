"""An index that holds its vectors beside one whose vectors are in a vector store: hits, sizes, times.

    python cookbook/benchmarks/vectors.py DATA_FOLDER [--passages 300] [--questions 20]
        [--embedder minilm|hashing]
        [--stores simple,in_memory,lc_qdrant,li_qdrant,lc_chroma,li_chroma,lc_pgvector]
        [--postgres postgresql://USER@HOST:PORT/DATABASE]

DATA_FOLDER holds `corpus.jsonl` and `questions.jsonl`. Of each question the walk's passages and each
method's own nodes are compared, 10 hits each: how many have the same ids in the same order. Times are CPU of
the process, which with local stores has their part in it; `first` is a question that was not asked before,
`again` the same one later.
"""

import argparse
import json
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import DeterministicFakeEmbedding

import stratagraph as sg
from stratagraph.models.named import as_embedder

METHODS = ("lshtree", "archrag", "noderag", "hirag")


class Stores:
    """Empty collections, by name."""

    def __init__(self, folder: Path, dimension: int, postgres: str) -> None:
        self.folder = folder
        self.dimension = dimension
        self.postgres = postgres
        self.embedding = DeterministicFakeEmbedding(size=dimension)
        self.name = f"bench{uuid.uuid4().hex[:12]}"

    def simple(self) -> Any:
        from llama_index.core.vector_stores import SimpleVectorStore

        return SimpleVectorStore()

    def in_memory(self) -> Any:
        from langchain_core.vectorstores import InMemoryVectorStore

        return InMemoryVectorStore(self.embedding)

    def lc_qdrant(self) -> Any:
        from langchain_qdrant import QdrantVectorStore
        from qdrant_client import QdrantClient, models

        client = QdrantClient(":memory:")
        client.create_collection(
            self.name, models.VectorParams(size=self.dimension, distance=models.Distance.COSINE)
        )
        return QdrantVectorStore(client, self.name, embedding=self.embedding)

    def li_qdrant(self) -> Any:
        from llama_index.vector_stores.qdrant import QdrantVectorStore
        from qdrant_client import QdrantClient

        return QdrantVectorStore(collection_name=self.name, client=QdrantClient(":memory:"))

    def lc_chroma(self) -> Any:
        from langchain_chroma import Chroma

        return Chroma(self.name, self.embedding, persist_directory=str(self.folder / "chroma"))

    def li_chroma(self) -> Any:
        import chromadb
        from llama_index.vector_stores.chroma import ChromaVectorStore

        client = chromadb.PersistentClient(str(self.folder / "chroma"))
        return ChromaVectorStore(
            chroma_collection=client.create_collection(f"{self.name}l", metadata={"hnsw:space": "cosine"})
        )

    def lc_pgvector(self) -> Any:
        from langchain_postgres import PGVector

        url = self.postgres.replace("postgresql:", "postgresql+psycopg:")
        return PGVector(self.embedding, connection=url, collection_name=self.name)

    def li_pgvector(self) -> Any:
        from llama_index.vector_stores.postgres import PGVectorStore

        return PGVectorStore.from_params(
            connection_string=self.postgres,
            async_connection_string=self.postgres.replace("postgresql:", "postgresql+asyncpg:"),
            table_name=self.name,
            embed_dim=self.dimension,
            use_jsonb=True,
        )


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    return work(), time.process_time() - began


def read(folder: Path, passages: int, questions: int) -> tuple[list[sg.Document], list[str]]:
    lines = [json.loads(line) for line in (folder / "corpus.jsonl").open()][:passages]
    documents = [sg.Document(str(each["id"]), f"{each.get('title') or ''}\n{each['text']}") for each in lines]
    return documents, [json.loads(line)["question"] for line in (folder / "questions.jsonl").open()][
        :questions
    ]


def compare(plain: sg.Index, other: sg.Index, questions: list[str]) -> str:
    same, spent = 0, {"plain": [], "first": [], "again": []}
    ways = [{"method": "walk"}, *({"method": method, "fill": False} for method in METHODS)]
    asked = [(question, way) for question in questions for way in ways]
    for question, way in asked:
        for name, index in (("plain", plain), ("first", other), ("again", other)):
            found, seconds = timed(partial(index.retrieve, question, 10, **way))
            spent[name].append(1e3 * seconds)
            ids = [hit.id for hit in found.hits]
            if name == "plain":
                wanted = ids
        same += ids == wanted
    times = ", ".join(f"{name} {np.median(each):.1f}" for name, each in spent.items())
    return f"same hits {same} of {len(asked)}; ms CPU p50: {times}"


def size(index: sg.Index, folder: str = "") -> int:
    return sum(
        each.stat().st_size for each in index.path.glob(f"generations/*/{folder}**/*") if each.is_file()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--passages", type=int, default=300)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--stores", default="simple,in_memory,lc_qdrant,li_qdrant")
    parser.add_argument("--postgres", default="postgresql://postgres@127.0.0.1:5432/postgres")
    options = parser.parse_args()
    documents, questions = read(options.data, options.passages, options.questions)
    folder = Path(tempfile.mkdtemp(prefix="vectors-"))
    given = {"method": METHODS, "embedder": as_embedder(options.embedder), "progress": False}
    first, rest = documents[:-1], documents[-1:]
    plain, seconds = timed(lambda: sg.build_index(first, path=folder / "plain", **given))
    _, inserted = timed(lambda: plain.insert(rest))
    stats = plain.stats()
    print(
        f"{stats['chunks']} passages, four methods, {stats['dimension']} dimensions; in the folder: "
        f"{size(plain) / 1e6:.1f} MB, of vectors {size(plain, 'vectors/') / 1e6:.1f}; build {seconds:.1f}, "
        f"insert of one {inserted:.1f} CPU-s",
        flush=True,
    )
    stores = Stores(folder, stats["dimension"], options.postgres)
    for name in options.stores.split(","):
        store = getattr(stores, name)()
        path = folder / name
        index, seconds = timed(lambda p=path, s=store: sg.build_index(first, path=p, vectors=s, **given))
        _, inserted = timed(lambda i=index: i.insert(rest))
        index.close()
        index, opened = timed(lambda p=path, s=store: sg.open_index(p, embedder=given["embedder"], vectors=s))
        told = compare(plain, index, questions)
        print(
            f"{name:12} {size(index) / 1e6:.1f} MB; build {seconds:.1f}, insert {inserted:.1f}, "
            f"open {opened:.2f} CPU-s; {told}; verify {index.verify() or 'sound'}",
            flush=True,
        )
        index.close()


if __name__ == "__main__":
    main()
