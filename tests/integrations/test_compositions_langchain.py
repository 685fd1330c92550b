"""LangChain's own recipes over a retriever and a vector store of stratagraph, and the passages that come."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain.agents")
pytest.importorskip("langchain_classic")
pytest.importorskip("langchain_graph_retriever")

from graph_retriever.strategies import Eager
from langchain.agents import create_agent
from langchain_classic import retrievers as classic
from langchain_classic.chains import (
    ConversationalRetrievalChain,
    RetrievalQA,
    create_history_aware_retriever,
    create_retrieval_chain,
)
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import document_compressors as compressors
from langchain_classic.retrievers.document_compressors.cross_encoder import BaseCrossEncoder
from langchain_classic.retrievers.self_query.base import SelfQueryRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.load import dumps, loads
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import (
    ConfigurableField,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.stores import InMemoryStore
from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_graph_retriever import GraphRetriever
from langchain_text_splitters import CharacterTextSplitter
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from langchain_stratagraph import PPRRetriever, StrataTranslator, StrataVectorStore, create_search_tool
from langchain_stratagraph.graph_retriever import StrataAdapter
from langchain_stratagraph.middleware import RetrievalMiddleware
from stratagraph import HashingEmbedder
from tests.integrations.corpus import LAMP, SHIPS, STEERED, langchain_ships
from tests.integrations.typed import langchain_user

Composition = Callable[[PPRRetriever, StrataVectorStore], Any]
TABLE: list[Any] = []


def comes(expected: str) -> Callable[[Composition], Composition]:
    """Enter a composition, and the ids that it gives, into the table."""

    def enter(composition: Composition) -> Composition:
        TABLE.append(pytest.param(composition, expected.split(), id=composition.__name__))
        return composition

    return enter


@pytest.fixture(scope="module")
def retriever() -> Iterator[PPRRetriever]:
    made = PPRRetriever.from_documents(langchain_ships(), HashingEmbedder(), k=3)
    yield made
    made.index.close()


@pytest.fixture(scope="module")
def store() -> Iterator[StrataVectorStore]:
    made = StrataVectorStore.from_documents(langchain_ships(), HashingEmbedder())
    yield made
    made.index.close()


def ids(found: Sequence[Document]) -> list[str]:
    return [str(each.id) for each in found]


def keys(found: Sequence[Document]) -> list[str]:
    """Keys of texts that lost their ids on the way."""
    by_text = {text: key for key, text in SHIPS.items()}
    return [by_text[each.page_content] for each in found]


def says(*texts: str) -> FakeListChatModel:
    return FakeListChatModel(responses=list(texts))


class Agentic(GenericFakeChatModel):
    """A model that calls one tool, then answers."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def calling(name: str, **arguments: Any) -> Agentic:
    call = {"name": name, "args": arguments, "id": "1", "type": "tool_call"}
    return Agentic(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Mara Quill [3].")]))


class Shortest(BaseCrossEncoder):
    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        return [-float(len(text)) for _, text in text_pairs]


def compressed(retriever: PPRRetriever, compressor: Any) -> list[Document]:
    return classic.ContextualCompressionRetriever(
        base_compressor=compressor, base_retriever=retriever
    ).invoke(STEERED)


# Retrievers of retrievers


@comes("wreck keeper quill tow")
def an_ensemble_of_the_walk_and_vectors(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    dense = r.model_copy(update={"rank": "dense"})
    return ids(classic.EnsembleRetriever(retrievers=[r, dense], weights=[0.7, 0.3]).invoke(STEERED))


@comes("wreck keeper quill")
async def an_ensemble_of_one_index_twice_keeps_the_order(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    return ids(await classic.EnsembleRetriever(retrievers=[r, r], id_key="stratagraph_id").ainvoke(STEERED))


@comes("wreck keeper quill tow board captain")
def several_queries_give_each_passage_once(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    model = says(f"{STEERED}\n{LAMP}\nWhich ships were towed?")
    return ids(classic.MultiQueryRetriever.from_llm(retriever=r, llm=model).invoke("Who?"))


@comes("wreck keeper keeper wreck quill quill")
def two_merged_retrievers_take_turns(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    merged = classic.MergerRetriever(
        retrievers=[r, classic.RePhraseQueryRetriever(retriever=r, llm_chain=RunnableLambda(lambda _: LAMP))]
    )
    return ids(merged.invoke(STEERED))


@comes("keeper wreck quill")
def the_fusion_recipe_of_tutorials(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    scores: Counter[str] = Counter()
    for found in r.map().invoke([STEERED, LAMP, LAMP]):
        for rank, document in enumerate(found):
            scores[dumps(document)] += 1 / (60 + rank)  # type: ignore[assignment]
    return ids([loads(text, allowed_objects="core") for text, _ in scores.most_common()])


@comes("keeper wreck quill")
def a_question_that_a_model_rephrased(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    return ids(classic.RePhraseQueryRetriever.from_llm(r, says(LAMP)).invoke("The lamp, please?"))


@comes("keeper wreck quill")
def a_question_that_a_history_completed(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("chat_history"), ("human", "{input}")])
    aware = create_history_aware_retriever(says(LAMP), r, prompt)
    return ids(aware.invoke({"input": "And who kept it?", "chat_history": [HumanMessage("The lamp?")]}))


# Compressors and rerankers


@comes("keeper wreck")
def a_cross_encoder(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    return ids(compressed(r, compressors.CrossEncoderReranker(model=Shortest(), top_n=2)))


@comes("wreck quill")
def a_filter_by_a_model(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    return ids(compressed(r, compressors.LLMChainFilter.from_llm(says("YES", "NO", "YES"))))


@comes("wreck keeper quill")
def an_extractor_leaves_what_answers_need(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    found = compressed(r, compressors.LLMChainExtractor.from_llm(says("Cape Ellery.")))
    answer = r.as_answer_runnable(return_sources=True).invoke({"question": LAMP, "documents": found})
    assert {each.page_content for each in answer["sources"]} == {"Cape Ellery."}
    return [str(each.metadata["source"]) for each in answer["sources"]]


@comes("keeper")
def a_pipeline_of_a_splitter_and_a_reranker(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    splitter = CharacterTextSplitter(separator=" ", chunk_size=1_000, chunk_overlap=0)
    reranker = compressors.CrossEncoderReranker(model=Shortest(), top_n=1)
    return keys(compressed(r, compressors.DocumentCompressorPipeline(transformers=[splitter, reranker])))


# Runnables


@comes("wreck keeper quill")
def a_chain(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    shown: list[str] = []
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    read = RunnableLambda(lambda value: shown.append(value.to_string()) or value)
    given = {"context": r | (lambda found: "\n".join(ids(found))), "question": RunnablePassthrough()}
    assert (given | prompt | read | says("Mara.") | StrOutputParser()).invoke(STEERED) == "Mara."
    return shown[0].removeprefix("Human: ").splitlines()[:-1]


@comes("wreck keeper quill keeper wreck quill")
async def parallel_branches(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    both: Any = RunnableParallel(one=r, two=RunnableLambda(lambda _: LAMP) | r)
    found = await both.ainvoke(STEERED)
    return ids([*found["one"], *found["two"]])


@comes("wreck keeper quill keeper wreck quill")
def a_batch(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    return [each for found in r.batch([STEERED, LAMP]) for each in ids(found)]


@comes("wreck keeper quill keeper wreck quill")
async def an_async_batch_beside_a_failure(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    one, two, failed = await r.abatch([STEERED, LAMP, " "], return_exceptions=True)
    assert isinstance(failed, ValueError)
    return ids([*one, *two])


@comes("wreck keeper quill")
def a_stream_of_one_piece(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    (found,) = r.stream(STEERED)
    return ids(found)


@comes("wreck keeper quill")
async def events(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    ends = [e async for e in (r | len).astream_events(STEERED) if e["event"] == "on_retriever_end"]
    return ids(ends[0]["data"]["output"])


@comes("wreck board")
def arguments_bound_and_configured(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    flexible = r.configurable_fields(k=ConfigurableField(id="k"), where=ConfigurableField(id="where"))
    dated: Any = {"configurable": {"k": 1, "where": {"year": {"$gt": 1900}}}}
    return ids(r.bind(k=1).invoke(STEERED) + flexible.with_config(dated).invoke(STEERED))


@comes("wreck keeper tow")
def an_alternative_by_configuration(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    dense = r.model_copy(update={"rank": "dense"})
    chosen: Any = r.configurable_alternatives(ConfigurableField(id="by"), dense=dense)
    return ids(chosen.with_config(configurable={"by": "dense"}).invoke(STEERED))


@comes("wreck keeper quill")
def a_fallback_and_a_retry(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    failing = r.bind(where=lambda metadata: 1 / 0)
    return ids(failing.with_retry(stop_after_attempt=2).with_fallbacks([r]).invoke(STEERED))


@comes("keeper wreck quill")
def a_branch(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    by_length: Any = RunnableBranch((lambda text: len(text) > 30, r.bind(k=1)), r)
    return ids(by_length.invoke(LAMP))


@comes("quill wreck keeper")
async def a_graph_with_a_checkpoint(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    class State(MessagesState):
        found: list[Document]

    graph = StateGraph(State)
    graph.add_node("search", lambda state: {"found": r.invoke(state["messages"][-1].text)})
    graph.add_edge(START, "search").add_edge("search", END)
    app = graph.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    await app.ainvoke({"messages": [("user", "Who steered the Dunlin?")]}, thread)  # type: ignore[typeddict-item]
    return ids((await app.aget_state(thread)).values["found"])


# Chains that answer


@comes("wreck keeper quill")
def a_retrieval_chain(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    stuff = create_stuff_documents_chain(says("Mara."), ChatPromptTemplate.from_template("{context} {input}"))
    return ids(create_retrieval_chain(r, stuff).invoke({"input": STEERED})["context"])


@comes("wreck keeper quill")
def an_older_chain_with_sources(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    chain = RetrievalQA.from_chain_type(says("Mara."), retriever=r, return_source_documents=True)
    return ids(chain.invoke({"query": STEERED})["source_documents"])


@comes("keeper wreck quill")
def an_older_chain_of_a_conversation(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    chain = ConversationalRetrievalChain.from_llm(says(LAMP, "Tomas."), r, return_source_documents=True)
    return ids(
        chain.invoke({"question": "Who?", "chat_history": [("The lamp?", "Yes.")]})["source_documents"]
    )


@comes("wreck keeper quill")
async def an_answer_of_documents_that_were_reordered(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    found = list(reversed(await r.ainvoke(STEERED)))
    answering = r.as_answer_runnable(says("Mara Quill [1]."), return_sources=True)
    return ids(reversed((await answering.ainvoke({"question": STEERED, "documents": found}))["sources"]))


# Agents


@comes("wreck keeper quill")
def an_agent_with_a_search_tool(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    agent = create_agent(calling("search", query=STEERED), [create_search_tool(r)])
    said = agent.invoke({"messages": [HumanMessage(STEERED)]})["messages"]
    return ids(next(each.artifact for each in said if isinstance(each, ToolMessage)))


@comes("wreck keeper quill")
async def an_agent_with_langchains_retriever_tool(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    tool = create_retriever_tool(r, "find", "Finds.", response_format="content_and_artifact")
    agent = create_agent(calling("find", query=STEERED), [tool])
    said = (await agent.ainvoke({"messages": [HumanMessage(STEERED)]}))["messages"]
    return ids(next(each.artifact for each in said if isinstance(each, ToolMessage)))


@comes("wreck keeper quill")
def an_agent_with_middleware(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    agent = create_agent(says("Mara."), middleware=[RetrievalMiddleware(r)])
    return ids(agent.invoke({"messages": [HumanMessage(STEERED)]})["passages"])  # type: ignore[typeddict-item]


# Copies


@comes("wreck keeper quill")
def a_copied_model_beside_the_first(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    narrow = r.model_copy(update={"k": 1})
    assert ids(narrow.invoke(STEERED)) == ["wreck"]
    return ids(r.invoke(STEERED))


@comes("wreck keeper quill")
def documents_pickled_and_written_as_json(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    found = r.invoke(STEERED)
    assert pickle.loads(pickle.dumps(found)) == found
    assert [Document.model_validate_json(each.model_dump_json()) for each in found] == found
    return ids(loads(dumps(found), allowed_objects="core"))


@comes("keeper quill wreck")
def what_was_found_in_another_vector_store(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    other = InMemoryVectorStore.from_documents(r.invoke(STEERED), DeterministicFakeEmbedding(size=8))
    return sorted(ids(other.similarity_search(LAMP, k=9)))


# The vector store


@comes("wreck keeper quill")
def a_retriever_of_the_store(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    return ids(s.as_retriever(search_kwargs={"k": 3}).invoke(STEERED))


@comes("wreck")
def a_filter_that_a_model_wrote(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    not_1902 = Operation(Operator.NOT, [Comparison(Comparator.EQ, "year", 1902)])
    wanted = Operation(Operator.AND, [Comparison(Comparator.GTE, "year", 1890), not_1902])
    query = RunnableLambda(lambda _: StructuredQuery("the gale", wanted, 3))
    translator = StrataTranslator()
    made = SelfQueryRetriever(vectorstore=s, query_constructor=query, structured_query_translator=translator)
    return ids(made.invoke("What happened in the gale of the nineties?"))


def parents_of(kind: Any) -> list[str]:
    splitter = CharacterTextSplitter(separator="\n\n", chunk_size=1, chunk_overlap=0)
    made = classic.ParentDocumentRetriever(
        vectorstore=kind(HashingEmbedder()),
        docstore=InMemoryStore(),
        child_splitter=splitter,
        search_kwargs={"k": 3},
    )
    made.add_documents(
        [
            Document(page_content=f"{text}\n\nFiled by the board.", metadata={"key": key})
            for key, text in SHIPS.items()
        ],
        ids=list(SHIPS),
    )
    return [each.metadata["key"] for each in made.invoke(STEERED)]


@comes("wreck keeper quill")
def parents_of_what_the_walk_finds(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    assert "quill" not in parents_of(InMemoryVectorStore)
    return parents_of(StrataVectorStore)


def others_of(kind: Any) -> list[str]:
    made = classic.MultiVectorRetriever(
        vectorstore=kind(HashingEmbedder()), docstore=InMemoryStore(), id_key="of", search_kwargs={"k": 3}
    )
    made.vectorstore.add_documents([Document(page_content=SHIPS[key], metadata={"of": key}) for key in SHIPS])
    made.docstore.mset([(key, Document(page_content=key)) for key in SHIPS])
    return [each.page_content for each in made.invoke(STEERED)]


@comes("wreck keeper quill")
def documents_behind_several_vectors(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    assert "quill" not in others_of(InMemoryVectorStore)
    return others_of(StrataVectorStore)


@comes("wreck keeper tow")
def the_indexing_api_with_cleanup(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    records = InMemoryRecordManager("harbour")
    records.create_schema()
    made = StrataVectorStore(HashingEmbedder())
    files = [Document(page_content=text, metadata={"source": key}) for key, text in SHIPS.items()]
    given: dict[str, Any] = {"source_id_key": "source", "key_encoder": "sha256", "cleanup": "full"}
    assert index(files, records, made, **given)["num_added"] == len(files)
    done = index(files[1:], records, made, **given)
    assert (done["num_skipped"], done["num_deleted"]) == (len(files) - 1, 1)
    return keys(made.similarity_search(STEERED, k=3))


@comes("wreck keeper board")
def edges_between_metadata_fields(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    links = {"wreck": ["keeper"], "keeper": ["board"], "board": []}
    linked = [
        Document(id=key, page_content=SHIPS[key], metadata={"name": key, "mentions": others})
        for key, others in links.items()
    ]
    strategy = Eager(select_k=3, start_k=1, max_depth=2)
    made = StrataAdapter(StrataVectorStore.from_documents(linked, HashingEmbedder()))
    found = GraphRetriever(store=made, edges=[("mentions", "name")], strategy=strategy).invoke(STEERED)
    assert [each.metadata["_depth"] for each in found] == [0, 1, 2]
    return ids(found)


@comes("wreck")
def a_cut_off_by_the_cosine(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    least = max(cosine for _, cosine in s.similarity_search_with_relevance_scores(STEERED, k=6))
    searching = {"k": 6, "score_threshold": least}
    return ids(
        s.as_retriever(search_type="similarity_score_threshold", search_kwargs=searching).invoke(STEERED)
    )


@comes("wreck board")
async def variety(r: PPRRetriever, s: StrataVectorStore) -> list[str]:
    searching = {"k": 2, "fetch_k": 6, "lambda_mult": 0.1}
    return ids(await s.as_retriever(search_type="mmr", search_kwargs=searching).ainvoke(STEERED))


@pytest.mark.parametrize(("composition", "expected"), TABLE)
async def test_passages_that_come(
    retriever: PPRRetriever, store: StrataVectorStore, composition: Composition, expected: list[str]
) -> None:
    found = composition(retriever, store)
    assert (await found if isawaitable(found) else found) == expected


async def test_the_script_of_a_user(tmp_path: Path) -> None:
    shown = await langchain_user.main(tmp_path / "idx")
    assert shown[:7] == ["ferry", "ferry", "ferry", "gale", "gale", "lamp", "2"]
