"""What LlamaIndex's own parts rely on: embedded metadata, stores of a context, neighbours, ids, scores."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.extractors import TitleExtractor
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import PrevNextNodePostprocessor
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import Document, MetadataMode, TextNode
from llama_index.core.vector_stores import MetadataFilters, SimpleVectorStore

import stratagraph as sg
from llama_index_stratagraph import WalkIndex
from stratagraph import HashingEmbedder
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from tests.integrations.corpus import QUESTION, llama_documents
from tests.integrations.test_llama_index import WordEmbedding

pytestmark = pytest.mark.usefixtures("fresh_settings")
SANK = "It sank off the cape."


class Recording(WordEmbedding):
    """An embedding that remembers the texts it embedded."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: list[str] = []

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        self._texts += texts
        return super()._get_text_embeddings(texts)

    def embedded(self, kind: Any, nodes: list[TextNode]) -> set[str]:
        self._texts.clear()
        kind([node.model_copy() for node in nodes], embed_model=self)
        return {*self._texts}


def build(documents: list[Document] | None = None, **kwargs: Any) -> WalkIndex:
    kwargs = {"embed_model": HashingEmbedder(), "llm": False, **kwargs}
    return WalkIndex.from_documents(llama_documents() if documents is None else documents, **kwargs)


def names(nodes: Any) -> list[str]:
    return [each.node_id for each in nodes]


def test_what_is_embedded_is_what_llama_index_embeds() -> None:
    title = {"title": "Wrecks", "path": "/x"}
    nodes = [
        TextNode(text=SANK),
        TextNode(text=SANK, metadata=title),
        TextNode(text=SANK, metadata=title, excluded_embed_metadata_keys=["path"]),
        TextNode(text=SANK, metadata=title, excluded_embed_metadata_keys=["path", "title"]),
        TextNode(text="W", metadata=title, metadata_template="{key} is {value}", metadata_separator="; "),
    ]
    embedding = Recording()
    assert embedding.embedded(WalkIndex, nodes) == embedding.embedded(VectorStoreIndex, nodes)


def test_a_template_of_ones_own_reaches_words_and_vectors() -> None:
    below = TextNode(
        text=SANK, id_="a", metadata={"title": "Wrecks"}, text_template="{content}\n{metadata_str}"
    )
    embedding = Recording()
    index = WalkIndex([below], embed_model=embedding)
    assert f"title: Wrecks\n\n{SANK}" in embedding._texts
    [found] = index.as_retriever(rank="bm25").retrieve("wrecks")
    assert found.node.get_content(MetadataMode.EMBED) == below.get_content(MetadataMode.EMBED)


def test_what_extractors_write_is_found_and_neither_shown_nor_extracted(tmp_path: Path) -> None:
    titles = TitleExtractor(
        llm=MockLLM(), node_template="Zanzibar {context_str}", combine_template="{context_str}"
    )
    index = build(
        [Document(text=SANK, id_="ship"), *llama_documents()],
        path=tmp_path / "idx",
        transformations=[SentenceSplitter(), titles],
    )
    for rank in ("walk", "bm25", "dense"):
        [best] = index.as_retriever(similarity_top_k=1, rank=rank).retrieve("Zanzibar sank off the cape")
        assert best.node.ref_doc_id == "ship"
    assert "Zanzibar" in best.node.metadata["document_title"]
    assert best.node.get_content(MetadataMode.NONE) == SANK
    assert "Zanzibar" not in str(index.as_query_engine().query("What sank off the cape?"))
    assert not [each for each in index.core.entities() if "Zanzibar" in each.name]
    index.delete_ref_doc("ship", delete_from_docstore=True)
    assert "ship" not in {chunk.document_id for group in index.core.chunks().values() for chunk in group}


class Elsewhere(SimpleVectorStore):
    """Stands for the vector store of a server."""


def test_the_vector_store_of_a_storage_context_holds_the_vectors(tmp_path: Path) -> None:
    store = Elsewhere()
    context = StorageContext.from_defaults(vector_store=store)
    with pytest.raises(ValueError, match=r"vector store Elsewhere, and this index has no path.*path="):
        build(storage_context=context)
    index = build(storage_context=context, path=tmp_path / "idx")
    assert len(store.data.embedding_dict) >= 24
    asked = names(index.as_retriever().retrieve(QUESTION))
    again = WalkIndex.load(tmp_path / "idx", storage_context=context, embed_model=HashingEmbedder())
    assert names(again.as_retriever().retrieve(QUESTION)) == asked
    again.storage_context.persist(str(tmp_path / "kept"))
    kept = StorageContext.from_defaults(vector_store=store, persist_dir=str(tmp_path / "kept"))
    loaded = load_index_from_storage(kept, index_id=again.index_id, embed_model=HashingEmbedder())
    assert names(loaded.as_retriever().retrieve(QUESTION)) == asked


def test_a_vector_store_that_would_be_ignored_is_refused(tmp_path: Path) -> None:
    context = StorageContext.from_defaults(vector_store=Elsewhere())
    with pytest.raises(ValueError, match="has the vector store Elsewhere"):
        build(storage_context=context, vectors=Elsewhere(), path=tmp_path / "idx")
    index = build(path=tmp_path / "idx")
    with pytest.raises(ValueError, match="has the vector store Elsewhere"):
        WalkIndex(core=index.core, storage_context=context)


@pytest.mark.parametrize("opened", ["built", "persisted", "path", "completed"])
def test_the_nodes_beside_a_node_are_found(opened: str, tmp_path: Path) -> None:
    words = ["ferry", "lamp", "rope", "cook", "mast", "gale"]
    nodes = [Document(text=" ".join(f"The {word} was old." for word in words), id_="tale")]
    splitter = [SentenceSplitter(chunk_size=8, chunk_overlap=0)]
    kwargs = {"embed_model": HashingEmbedder(), "path": tmp_path / "idx"}
    index = WalkIndex.from_documents(nodes, transformations=splitter, **kwargs)
    order = index.ref_doc_info["tale"].node_ids
    assert len(order) == len(words)
    if opened == "persisted":
        index.storage_context.persist(str(tmp_path / "kept"))
        index = load_index_from_storage(StorageContext.from_defaults(persist_dir=str(tmp_path / "kept")))
    elif opened == "path":
        index = WalkIndex.load(tmp_path / "idx")
    elif opened == "completed":  # the docstore lacks what another program wrote
        index = WalkIndex.from_documents(llama_documents(), **kwargs)
    [best] = index.as_retriever(similarity_top_k=1).retrieve("Where is the rope?")
    beside = PrevNextNodePostprocessor(docstore=index.docstore, num_nodes=2, mode="both")
    assert names(beside.postprocess_nodes([best])) == order[:5]
    [last] = index.as_retriever(similarity_top_k=1).retrieve("Where is the gale?")
    assert names(beside.postprocess_nodes([last])) == order[3:]


def test_ids_of_nodes_and_documents_narrow_a_search() -> None:
    index = build()
    ids = {name: info.node_ids[0] for name, info in index.ref_doc_info.items()}
    chosen = ["foundry-1", "orchard-2", "harbour-3"]

    def found(**given: Any) -> set[str]:
        nodes = index.as_retriever(similarity_top_k=30, **given).retrieve(QUESTION)
        return {node.node.ref_doc_id for node in nodes}

    assert found(doc_ids=chosen) == {*chosen}
    assert found(node_ids=[ids[name] for name in chosen]) == {*chosen}
    assert found(node_ids=[ids[name] for name in chosen], doc_ids=chosen[:2]) == {*chosen[:2]}
    assert found(doc_ids=chosen, where={"topic": "foundry"}) == {"foundry-1"}
    assert found(doc_ids=["unknown"]) == found(node_ids=[]) == set()
    assert found(filters=MetadataFilters(filters=[], condition="or")) == {*ids}
    assert "3 documents" in index.as_retriever_tool(doc_ids=chosen).metadata.description


MODES = ["simple", "reciprocal_rerank", "relative_score", "dist_based_score"]


@pytest.mark.parametrize("mode", MODES)
def test_a_fusion_of_one_query_keeps_the_order(mode: str) -> None:
    retriever = build().as_retriever(similarity_top_k=12)
    fused = QueryFusionRetriever(
        [retriever], llm=MockLLM(), num_queries=1, mode=mode, similarity_top_k=12, use_async=False
    )
    assert names(fused.retrieve(QUESTION)) == names(retriever.retrieve(QUESTION))


def test_scores_never_rise_where_a_model_chose_the_order() -> None:
    needed = ScriptedChatModel(
        lambda prompt: '{"kind": "facts", "needed": [9, 4], "missing": "foundry bell"}'
    )
    index = build(llm=None)
    plain = index.as_retriever(similarity_top_k=12).retrieve(QUESTION)
    with sg.open_index(index.core.path, llm=needed, embedder=HashingEmbedder()) as core:
        guided = WalkIndex(core=core).as_retriever(similarity_top_k=12, guided=True).retrieve(QUESTION)
    assert names(guided) != names(plain)
    scores = [node.score for node in guided]
    assert scores == sorted(scores, reverse=True)


def test_cosines_are_in_the_trace_and_min_score_cuts_them_off() -> None:
    index = build()
    found = index.as_retriever(similarity_top_k=24, return_trace=True).retrieve(QUESTION)
    cosines = {node.node_id: node.metadata["stratagraph"]["trace"]["similarity"] for node in found}
    cut = index.as_retriever(similarity_top_k=24, min_score=0.3).retrieve(QUESTION)
    assert {*names(cut)} == {name for name, cosine in cosines.items() if cosine >= 0.3} != {*cosines}


def test_metadata_of_a_node_is_the_same_from_docstore_and_folder(tmp_path: Path) -> None:
    day = Document(text=SANK, id_="ship", metadata={"day": date(1895, 2, 1)})
    index = build([day, *llama_documents()], path=tmp_path / "idx", embed_model=FakeEmbedder())
    loaded = WalkIndex.load(tmp_path / "idx", embed_model=FakeEmbedder())
    built, read = (
        each.as_retriever(where={"day": date(1895, 2, 1)}).retrieve("ship")[0].node
        for each in (index, loaded)
    )
    assert read.metadata["day"] == "1895-02-01"
    assert built.hash == read.hash == TextNode.from_json(read.to_json()).hash
