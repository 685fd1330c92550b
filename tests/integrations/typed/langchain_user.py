"""What a user of LangChain writes; `.ci/check` reads it with mypy --strict, and a test runs it."""

from __future__ import annotations

from pathlib import Path

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnablePassthrough

import stratagraph as sg
from langchain_stratagraph import (
    BridgeRetriever,
    DualSearchRetriever,
    HierarchicalRetriever,
    PPRRetriever,
    StrataVectorStore,
    TreeRetriever,
    create_search_tool,
    to_graph_documents,
)
from langchain_stratagraph.middleware import RetrievalMiddleware

DOCUMENTS = [
    Document(
        page_content="Mara Quill steered the ferry Dunlin to Bremen.", id="ferry", metadata={"year": 1894}
    ),
    Document(page_content="The Dunlin ran aground off Cape Ellery.", id="gale", metadata={"year": 1895}),
]


async def main(folder: Path) -> list[str]:
    """Build, search, answer, change and open an index in the ways that guides show."""
    model = FakeListChatModel(responses=["Mara Quill [1]."])
    retriever = PPRRetriever.from_documents(
        DOCUMENTS, sg.HashingEmbedder(), path=folder, config={"chunking": {"size": 200}}, k=2
    )
    narrowed = PPRRetriever(index=retriever.index, filter={"year": 1894}, rank="hybrid", min_score=-1.0)
    found: list[Document] = narrowed.invoke("Who steered the Dunlin?", k=1, where={"year": {"$lt": 1900}})
    found += await narrowed.ainvoke("Who steered the Dunlin?")
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    chain = {"context": retriever, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    answers: list[str] = chain.batch(["Who steered it?"])
    flexible = retriever.configurable_fields(k=ConfigurableField(id="k"))
    found += flexible.invoke("Dunlin", {"configurable": {"k": 1}})
    answers.append(retriever.as_answer_runnable(length="brief").invoke("Who steered the Dunlin?"))
    tool = create_search_tool(narrowed, filters={"year": "Year of the text"}, guided=False)
    agent = create_agent(model, middleware=[RetrievalMiddleware(retriever, context_where=lambda _: None)])
    agent.invoke({"messages": [{"role": "user", "content": "Who steered the Dunlin?"}]})
    answers += [str(tool.invoke({"query": "Dunlin"})), model.invoke("?").text]
    ids: list[str] = retriever.add_documents([Document(page_content="The lamp burns.", id="lamp")])
    report: sg.BuildReport = retriever.delete(ids)
    graphs = list(to_graph_documents(retriever.index))
    store = StrataVectorStore.from_documents(DOCUMENTS, embedding=None, path=folder.with_name("store"))
    pairs: list[tuple[Document, float]] = store.similarity_search_with_score(
        "Dunlin", k=1, filter={"year": 1895}
    )
    found += [pairs[0][0], *store.as_retriever(search_type="mmr", search_kwargs={"k": 1}).invoke("Dunlin")]
    return [*(str(each.id) for each in found), *report.deleted, str(len(graphs)), *answers]


def every_option(index: sg.Index) -> None:
    """Each method's retriever with its search options as fields."""
    TreeRetriever(index=index, mode="per_level", k_per_level=2, levels=(0, 1))
    HierarchicalRetriever(index=index, levels=(1,), relations=False, merge="paper", mode="direct", whole=True)
    DualSearchRetriever(
        index=index, mode="entry", names=False, entry_types=("S",), limits={"T": 3}, steps=None
    )
    DualSearchRetriever(index=index, similar=4, restart=0.4, types=("T",), semantic_edges=False)
    BridgeRetriever(
        index=index, mode="local", entities=5, communities=2, key_entities=3, quotas=(0.5, 0.3, 0.2)
    )
    PPRRetriever(index=index, k=3, view="chunks", guided="choice", guided_steps=1, fill=True, recency=365.0)
