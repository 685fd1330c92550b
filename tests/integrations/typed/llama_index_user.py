"""What a user of LlamaIndex writes; `.ci/check` reads it with mypy --strict, and a test runs it."""

from __future__ import annotations

from pathlib import Path

from llama_index.core import Document, StorageContext, load_index_from_storage
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LongContextReorder
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import QueryEngineTool
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

import stratagraph as sg
from llama_index_stratagraph import (
    ArchRAGIndex,
    CoreSynthesizer,
    HiRAGIndex,
    LSHTreeIndex,
    NodeRAGIndex,
    StrataRetriever,
    WalkIndex,
    to_property_graph,
)

DOCUMENTS = [
    Document(text="Mara Quill steered the ferry Dunlin to Bremen.", id_="ferry", metadata={"year": 1894}),
    Document(text="The Dunlin ran aground off Cape Ellery.", id_="gale", metadata={"year": 1895}),
]


async def main(folder: Path) -> list[str]:
    """Build, search, answer, change and open an index in the ways that guides show."""
    index = WalkIndex.from_documents(
        DOCUMENTS,
        llm=False,
        embed_model=False,
        path=folder,
        transformations=[SentenceSplitter(chunk_size=200)],
    )
    retriever = index.as_retriever(similarity_top_k=1, where={"year": 1894})
    assert isinstance(retriever, StrataRetriever)
    found: list[NodeWithScore] = retriever.retrieve("Who steered the Dunlin?")
    late = MetadataFilters(filters=[MetadataFilter(key="year", value=1895)])
    found += await index.as_retriever(filters=late).aretrieve("Dunlin")
    engine = RetrieverQueryEngine(
        retriever, CoreSynthesizer(retriever, length="brief"), node_postprocessors=[LongContextReorder()]
    )
    answer = engine.query("Who steered the Dunlin?")
    assert isinstance(answer, Response)
    told = [str(answer), str(await index.as_query_engine(llm=MockLLM(max_tokens=8)).aquery("Dunlin?"))]
    tool: QueryEngineTool = index.as_query_engine_tool(name="ships", description="About ships.")
    told.append(
        str(index.as_chat_engine(chat_mode=ChatMode.CONTEXT, llm=MockLLM(max_tokens=8)).chat("Who steered?"))
    )
    index.insert_nodes(
        IngestionPipeline(transformations=[SentenceSplitter()]).run(
            documents=[Document(text="The lamp burns.", id_="lamp")]
        )
    )
    index.delete_ref_doc("lamp", delete_from_docstore=True)
    refreshed: list[bool] = index.refresh_ref_docs(DOCUMENTS)
    graph = to_property_graph(index.core)
    index.storage_context.persist(str(folder.with_name("kept")))
    kept = StorageContext.from_defaults(persist_dir=str(folder.with_name("kept")))
    again = load_index_from_storage(kept, llm=False, embed_model=False)
    found += again.as_retriever(similarity_top_k=1).retrieve("Cape Ellery")
    names = [each.node.node_id for each in found]
    return [*names, *told, tool.metadata.get_name(), str(refreshed), str(len(graph.get()))]


def every_method(index: sg.Index) -> None:
    """Each index class over one folder."""
    for kind in (ArchRAGIndex, HiRAGIndex, LSHTreeIndex, NodeRAGIndex):
        kind(core=index, llm=False, embed_model=False).as_retriever(similarity_top_k=2, view="chunks")
    LSHTreeIndex(core=index, llm=False).as_retriever(mode="per_level", levels=(0, 1), rank="walk")
