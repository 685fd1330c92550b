"""An index in the place of a LlamaIndex vector store: what builds on one finds nodes as they were given."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import HierarchicalNodeParser, SentenceSplitter, get_leaf_nodes
from llama_index.core.retrievers import AutoMergingRetriever, VectorIndexAutoRetriever
from llama_index.core.schema import Document, IndexNode, NodeRelationship, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, MetadataInfo, VectorStoreInfo
from llama_index.core.vector_stores.types import FilterOperator, VectorStoreQuery, VectorStoreQueryMode

from llama_index_stratagraph import StrataVectorStore, WalkIndex
from stratagraph import HashingEmbedder
from tests.integrations.corpus import QUESTION, llama_documents
from tests.integrations.test_llama_index import WritingLLM

pytestmark = pytest.mark.usefixtures("fresh_settings")
UNUSED = MockEmbedding(embed_dim=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StrataVectorStore]:
    store = StrataVectorStore(tmp_path / "idx", embed_model=HashingEmbedder())
    yield store
    store.client.close()


def over(store: StrataVectorStore, documents: list[Document] | None = None) -> VectorStoreIndex:
    index = VectorStoreIndex.from_vector_store(store, embed_model=UNUSED)
    index.insert_nodes(SentenceSplitter()(llama_documents() if documents is None else documents))
    return index


def only(key: str, value: Any, operator: str = "==") -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=FilterOperator(operator))])


@pytest.mark.parametrize("twin", [False, True])
async def test_a_vector_store_index_answers_by_the_walk(store: StrataVectorStore, twin: bool) -> None:
    retriever = over(store).as_retriever(similarity_top_k=8)
    found = await retriever.aretrieve(QUESTION) if twin else retriever.retrieve(QUESTION)
    walk = WalkIndex(core=store.client).as_retriever(similarity_top_k=8).retrieve(QUESTION)
    assert [(each.node_id, each.score) for each in found] == [(each.node_id, each.score) for each in walk]
    assert found[0].node.metadata == {"topic": "observatory", "year": 1901}


def test_changes_and_filters(store: StrataVectorStore) -> None:
    index = over(store)
    foundry = only("topic", "foundry")
    found = index.as_retriever(similarity_top_k=30, filters=foundry).retrieve(QUESTION)
    assert {each.node.ref_doc_id for each in found} == {f"foundry-{n}" for n in range(6)}
    index.update_ref_doc(Document(text="The bell of the foundry fell.", id_="foundry-3"))
    index.delete_ref_doc("foundry-4")
    index.delete_ref_doc("unknown")
    assert len(store.get_nodes(filters=foundry)) == 4
    [first, *_] = store.get_nodes(filters=only("year", 1905))
    store.delete_nodes([first.node_id])
    assert store.get_nodes([first.node_id]) == []
    store.delete_nodes(filters=only("year", 1905))
    assert len(store.get_nodes()) == 24 - 1 - 4
    store.clear()
    assert store.get_nodes() == index.as_retriever().retrieve(QUESTION) == []


def test_a_query_narrows_its_filters(store: StrataVectorStore) -> None:
    index = over(store)

    def found(where: Any, **narrow: Any) -> set[str | None]:
        chosen = index.as_retriever(similarity_top_k=30, vector_store_kwargs={"where": where}, **narrow)
        return {each.node.ref_doc_id for each in chosen.retrieve(QUESTION)}

    foundry = {f"foundry-{n}" for n in range(6)}
    assert found({"topic": "orchard"}, filters=only("topic", "foundry")) == set()
    assert found({}, filters=only("topic", "foundry")) == foundry
    assert found({"year": 1901}, filters=only("topic", "foundry")) == {"foundry-1"}
    assert found({"topic": "foundry"}, doc_ids=["foundry-2", "orchard-1"]) == {"foundry-2"}


@pytest.mark.parametrize("key", ["$document", "$passage"])
def test_filters_by_ids_hold_in_searches_and_changes(store: StrataVectorStore, key: str) -> None:
    store.add([TextNode(text=f"The comet of {name}.", id_=name) for name in "abc"])
    index = over(store, [])

    def admitted(filters: MetadataFilters) -> str:
        found = index.as_retriever(similarity_top_k=9, filters=filters).retrieve("comet")
        assert {each.node_id for each in found} == {each.node_id for each in store.get_nodes(filters=filters)}
        return "".join(sorted(each.node_id for each in found))

    assert admitted(only(key, "a")) == "a"
    assert admitted(only(key, "a", "!=")) == "bc"
    assert admitted(only(key, ["a", "b"], "in")) == "ab"
    assert admitted(only(key, "a", "nin")) == admitted(only(key, ["a"], "nin")) == "bc"
    assert admitted(only(key, "a", "contains")) == "a"
    for operator in ("==", "contains"):
        tests = MetadataFilters(filters=only(key, "a", operator).filters, condition="not")
        assert admitted(tests) == "bc"
    store.delete_nodes(filters=only(key, "a", "!="))
    assert [each.node_id for each in store.get_nodes()] == ["a"]


@pytest.mark.parametrize(
    ("template", "prefix"),
    [
        ("{content}\n---\n{metadata_str}", "---\nt: The Ferry of Ostra\n\n"),
        ("{metadata_str}\n\n{content}", "t: The Ferry of Ostra\n\n"),
        ("On {metadata_str}:\n{content}\n(end)", "On t: The Ferry of Ostra:\n\n(end)\n\n"),
    ],
)
def test_what_a_template_adds_to_a_text_is_its_prefix(
    store: StrataVectorStore, template: str, prefix: str
) -> None:
    about = {"t": "The Ferry of Ostra"}
    store.add([TextNode(text="Ferry", id_="ferry", metadata=about, text_template=template)])
    [chunk] = store.client.find_chunks("ferry")
    assert (chunk.text, chunk.prefix) == ("Ferry", prefix)


def test_nodes_come_back_as_they_were_given(store: StrataVectorStore) -> None:
    nodes = SentenceSplitter(chunk_size=12, chunk_overlap=0).get_nodes_from_documents(
        [
            Document(
                text="A lamp. " * 30,
                id_="d",
                metadata={"day": date(1895, 2, 1)},
                excluded_llm_metadata_keys=["day"],
            )
        ]
    )
    pointer = IndexNode(text="A pointer to the lamp.", index_id="elsewhere", id_="pointer")
    assert store.add([*nodes, pointer]) == [each.node_id for each in (*nodes, pointer)]
    store.client.close()
    again = StrataVectorStore(store.client.path, embed_model=HashingEmbedder())
    kept = {each.node_id: each for each in again.get_nodes()}
    for node in nodes:
        assert kept[node.node_id].text == node.text
        assert kept[node.node_id].metadata == {"day": "1895-02-01"}
        assert kept[node.node_id].excluded_llm_metadata_keys == ["day"]
        assert kept[node.node_id].relationships.keys() == node.relationships.keys()
    assert isinstance(kept["pointer"], IndexNode)
    assert kept["pointer"].index_id == "elsewhere"
    [found] = (
        WalkIndex(core=again.client).as_retriever(similarity_top_k=1, node_ids=["pointer"]).retrieve("lamp")
    )
    assert "_node_content" not in found.node.metadata
    again.client.close()


def test_a_pipeline_updates_documents(store: StrataVectorStore) -> None:
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(), UNUSED], vector_store=store, docstore=SimpleDocumentStore()
    )
    assert len(pipeline.run(documents=llama_documents())) == 24
    assert pipeline.run(documents=llama_documents()) == []
    pipeline.run(documents=[Document(text="The comet came back.", id_="observatory-1")])
    assert len(store.get_nodes()) == 24
    [best] = over(store, []).as_retriever(similarity_top_k=1).retrieve("Did the comet come back?")
    assert best.node.ref_doc_id == "observatory-1"


def test_a_model_writes_the_filters(store: StrataVectorStore) -> None:
    condition = '{"key": "topic", "value": "harbour", "operator": "=="}'
    request = f'{{"query": "lantern", "filters": [{condition}], "top_k": 30}}'
    about = VectorStoreInfo(
        content_info="A town.",
        metadata_info=[MetadataInfo(name="topic", type="str", description="The trade.")],
    )
    retriever = VectorIndexAutoRetriever(
        over(store), vector_store_info=about, llm=WritingLLM(request), similarity_top_k=30, max_top_k=30
    )
    found = retriever.retrieve("What had the harbour?")
    assert {each.node.ref_doc_id for each in found} == {f"harbour-{n}" for n in range(6)}


def test_leaves_are_merged_into_their_parents(store: StrataVectorStore) -> None:
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=[64, 16], chunk_overlap=0)
    text = " ".join(f"The lamp of Crake failed in gale {number}." for number in range(12))
    nodes = parser.get_nodes_from_documents([Document(text=text, id_="d")])
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    store.add(get_leaf_nodes(nodes))
    context = StorageContext.from_defaults(vector_store=store, docstore=docstore)
    merging = AutoMergingRetriever(over(store, []).as_retriever(similarity_top_k=50), context)
    found = merging.retrieve("When did the lamp fail?")
    assert any(NodeRelationship.CHILD in each.node.relationships for each in found)


def test_modes_of_a_query(store: StrataVectorStore) -> None:
    store.add([TextNode(text=each.text, id_=each.id_) for each in llama_documents()])
    for mode in (VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.TEXT_SEARCH):
        found = store.query(VectorStoreQuery(query_str="comet", similarity_top_k=1, mode=mode))
        assert found.ids == ["observatory-1"]
    vector = HashingEmbedder().embed_query("The observatory kept its comet.").tolist()
    by_vector = VectorStoreQuery(query_embedding=vector, similarity_top_k=9)
    assert (store.query(by_vector).ids or [])[0] == "observatory-1"
    some = store.query(by_vector, where={"$document": ["foundry-1", "orchard-1"]}).ids
    assert {*(some or ())} == {"foundry-1", "orchard-1"}
    for unknown in ({"as_of": "2022"}, {"bogus": 1}):
        with pytest.raises(TypeError, match=f"no argument '{next(iter(unknown))}'"):
            store.query(by_vector, **unknown)
    among = VectorStoreQuery(query_str="comet", similarity_top_k=9, doc_ids=["foundry-1", "orchard-1"])
    assert {*(store.query(among).ids or ())} == {"foundry-1", "orchard-1"}
    assert store.query(VectorStoreQuery(query_str="comet", similarity_top_k=9), min_score=0.99).ids == []
    with pytest.raises(ValueError, match="no query mode 'mmr'; there are default"):
        store.query(VectorStoreQuery(query_str="comet", mode=VectorStoreQueryMode.MMR))


def test_passages_of_another_program_are_nodes_too(tmp_path: Path) -> None:
    WalkIndex.from_documents(llama_documents(), path=tmp_path / "idx", embed_model=HashingEmbedder()).close()
    store = StrataVectorStore(tmp_path / "idx", embed_model=HashingEmbedder())
    assert len(store.get_nodes()) == 24
    [best] = over(store, []).as_retriever(similarity_top_k=1).retrieve(QUESTION)
    assert best.node.ref_doc_id == "observatory-1"
    store.client.close()
