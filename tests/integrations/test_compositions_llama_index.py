"""LlamaIndex's own recipes over an index of stratagraph, and the passages that come."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import Settings, StorageContext
from llama_index.core import postprocessor as post
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.evaluation import FaithfulnessEvaluator, RetrieverEvaluator
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import ChatMessage, CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
    get_leaf_nodes,
)
from llama_index.core.query_engine import (
    CitationQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
    RouterRetriever,
    TransformRetriever,
)
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import Document, IndexNode, NodeWithScore, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool, RetrieverTool, ToolMetadata
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from llama_index_stratagraph import WalkIndex, to_property_graph
from stratagraph import HashingEmbedder
from stratagraph.types.results import NOTHING_FOUND
from tests.integrations.corpus import LAMP, SHIPS, STEERED, llama_ships
from tests.integrations.test_agents import ScriptedLLM
from tests.integrations.typed import llama_index_user

pytestmark = pytest.mark.usefixtures("fresh_settings")
Composition = Callable[[WalkIndex], Any]
TABLE: list[Any] = []
WALKED = "wreck keeper quill"


def comes(expected: str) -> Callable[[Composition], Composition]:
    """Enter a composition, and the documents whose passages it gives, into the table."""

    def enter(composition: Composition) -> Composition:
        TABLE.append(pytest.param(composition, expected.split(), id=composition.__name__))
        return composition

    return enter


class Says(CustomLLM):
    """Writes the given texts in turn, and the last one again."""

    texts: list[str]
    prompts: list[str] = []  # noqa: RUF012  # a field of pydantic

    @property
    def metadata(self) -> Any:
        return LLMMetadata(num_output=64)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        self.prompts.append(prompt)
        return CompletionResponse(text=self.texts.pop(0) if len(self.texts) > 1 else self.texts[0])

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        whole = self.complete(prompt)
        yield type(whole)(text=whole.text, delta=whole.text)


def says(*texts: str) -> Says:
    return Says(texts=list(texts), prompts=[])


@pytest.fixture(scope="module")
def index() -> Iterator[WalkIndex]:
    made = made_of(llama_ships())
    yield made
    made.core.close()


def made_of(documents: Sequence[Document], **arguments: Any) -> WalkIndex:
    return WalkIndex.from_documents(documents, llm=False, embed_model=HashingEmbedder(), **arguments)


def ids(found: Sequence[NodeWithScore]) -> list[str]:
    return [str(each.node.ref_doc_id) for each in found]


def passages(index: WalkIndex, k: int = 3, **options: Any) -> Any:
    return index.as_retriever(similarity_top_k=k, **options)


def processed(index: WalkIndex, *processors: Any, k: int = 3, **options: Any) -> list[str]:
    engine = index.as_query_engine(similarity_top_k=k, node_postprocessors=list(processors), **options)
    return ids(engine.query(STEERED).source_nodes)


def chosen(*numbers: int) -> Says:
    return says(json.dumps([{"choice": number, "reason": "It fits."} for number in numbers]))


def about_ships(engine: Any) -> QueryEngineTool:
    return QueryEngineTool(query_engine=engine, metadata=ToolMetadata(name="ships", description="Ships."))


# Retrievers of retrievers


def fused(mode: FUSION_MODES, expected: str) -> None:
    async def fusion(index: WalkIndex) -> list[str]:
        dense = passages(index, rank="dense")
        fusing = QueryFusionRetriever(
            [passages(index), dense],
            similarity_top_k=4,
            num_queries=1,
            mode=mode,
            llm=says(""),
            use_async=True,
        )
        return ids(await fusing.aretrieve(STEERED))

    fusion.__name__ = f"a_fusion_by_{mode.value}"
    comes(expected)(fusion)


fused(FUSION_MODES.RECIPROCAL_RANK, "wreck keeper quill tow")
fused(FUSION_MODES.RELATIVE_SCORE, "wreck keeper quill tow")
fused(FUSION_MODES.DIST_BASED_SCORE, "wreck keeper tow quill")
fused(FUSION_MODES.SIMPLE, "wreck keeper tow quill")


@comes("wreck keeper quill")
def a_fusion_of_written_queries(index: WalkIndex) -> list[str]:
    fusing = QueryFusionRetriever(
        [passages(index)], similarity_top_k=9, num_queries=2, llm=says(LAMP), use_async=False
    )
    return sorted(ids(fusing.retrieve(STEERED)), key="wreck keeper quill".index)


@comes("keeper wreck quill")
def a_router_of_retrievers(index: WalkIndex) -> list[str]:
    tools = [
        RetrieverTool.from_defaults(passages(index, where={"year": 1902}), description="1902."),
        RetrieverTool.from_defaults(passages(index), description="All."),
    ]
    routing = RouterRetriever(LLMSingleSelector.from_defaults(llm=chosen(2)), tools, llm=says(""))
    return ids(routing.retrieve(LAMP))


@comes(WALKED)
def nodes_that_lead_to_a_retriever(index: WalkIndex) -> list[str]:
    top = WalkIndex(
        [IndexNode(text="All about ships.", index_id="ships")], llm=False, embed_model=HashingEmbedder()
    )
    recursive = RecursiveRetriever("top", retriever_dict={"top": passages(top, 1), "ships": passages(index)})
    return ids(recursive.retrieve(STEERED))


@comes("letter")
def leaves_merged_into_their_parent(index: WalkIndex) -> list[str]:
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=[256, 32], chunk_overlap=0)
    nodes = parser.get_nodes_from_documents([Document(text=" ".join(SHIPS.values()), id_="letter")])
    context = StorageContext.from_defaults()
    context.docstore.add_documents(nodes)
    leaves = WalkIndex(get_leaf_nodes(nodes), llm=False, embed_model=HashingEmbedder())
    merged = AutoMergingRetriever(passages(leaves, 6), context).retrieve(STEERED)
    assert [each.node.get_content() for each in merged] == [" ".join(SHIPS.values())]
    return ids(merged)


@comes("keeper wreck quill")
def a_question_that_a_model_imagined_answered(index: WalkIndex) -> list[str]:
    hyde = HyDEQueryTransform(llm=says("Tomas Quill kept the lamp."), include_original=False)
    return ids(TransformRetriever(passages(index), hyde).retrieve("Who?"))


# Postprocessors


@comes("wreck keeper")
def a_cut_off_belongs_to_the_search(index: WalkIndex) -> list[str]:
    cutting = post.SimilarityPostprocessor(similarity_cutoff=0.99)
    empty = index.as_query_engine(node_postprocessors=[cutting]).query(STEERED)
    assert (str(empty), empty.source_nodes) == (NOTHING_FOUND, [])
    return processed(index, min_score=0.1)


@comes("wreck quill keeper")
def a_reordered_context(index: WalkIndex) -> list[str]:
    return processed(index, post.LongContextReorder())


@comes("quill wreck")
def a_reranking_model(index: WalkIndex) -> list[str]:
    ranked = says("Doc: 3, Relevance: 9\nDoc: 1, Relevance: 7")
    return processed(index, post.LLMRerank(llm=ranked, top_n=2))


@comes("wreck keeper quill")
def sentences_chosen_by_an_embedding(index: WalkIndex) -> list[str]:
    optimizer = post.SentenceEmbeddingOptimizer(embed_model=MockEmbedding(embed_dim=4), percentile_cutoff=1.0)
    return processed(index, optimizer)


@comes("diary")
def sentences_replaced_by_their_window(index: WalkIndex) -> list[str]:
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    diary = Document(text=" ".join(SHIPS.values()), id_="diary")
    made = made_of([diary], transformations=[parser])
    replaced = post.MetadataReplacementPostProcessor(target_metadata_key="window")
    engine = made.as_query_engine(similarity_top_k=1, node_postprocessors=[replaced])
    (source,) = engine.query(LAMP).source_nodes
    assert SHIPS["keeper"] in source.node.get_content()
    assert SHIPS["captain"] in source.node.get_content()
    return ids([source])


@comes("diary diary diary")
def neighbours(index: WalkIndex) -> list[str]:
    splitter = SentenceSplitter(chunk_size=24, chunk_overlap=0)
    made = made_of([Document(text=" ".join(SHIPS.values()), id_="diary")], transformations=[splitter])
    beside = post.PrevNextNodePostprocessor(docstore=made.docstore, num_nodes=1, mode="both")
    engine = made.as_query_engine(similarity_top_k=1, node_postprocessors=[beside])
    return ids(engine.query("Which ships were towed?").source_nodes)


# Query engines


for each in (ResponseMode.COMPACT, ResponseMode.REFINE, ResponseMode.TREE_SUMMARIZE, ResponseMode.ACCUMULATE):

    def answered(index: WalkIndex, mode: ResponseMode = each) -> list[str]:
        llm = says("Mara Quill.")
        writer = get_response_synthesizer(response_mode=mode, llm=llm)
        answer = RetrieverQueryEngine(passages(index), writer).query(STEERED)
        assert "Mara Quill." in str(answer)
        assert all(text in "".join(llm.prompts) for text in (SHIPS["wreck"], SHIPS["quill"]))
        return ids(answer.source_nodes)

    answered.__name__ = f"an_answer_by_{each.value}"
    comes(WALKED)(answered)


@comes(WALKED)
async def a_streamed_answer(index: WalkIndex) -> list[str]:
    llm = says("Mara Quill [3].")
    engine = index.as_query_engine(similarity_top_k=3, streaming=True, llm=llm)
    answer = await engine.aquery(STEERED)
    assert "".join([piece async for piece in answer.async_response_gen()]) == "Mara Quill [3]."
    assert "<passages>" in llm.prompts[-1]
    excerpts = index.as_query_engine(similarity_top_k=3, streaming=True).query(STEERED)
    assert SHIPS["quill"] in "".join(excerpts.response_gen)
    return ids(answer.source_nodes)


@comes(WALKED)
def a_router_of_engines(index: WalkIndex) -> list[str]:
    tools = [
        about_ships(index.as_query_engine(similarity_top_k=3)),
        about_ships(made_of([]).as_query_engine()),
    ]
    engine = RouterQueryEngine(LLMSingleSelector.from_defaults(llm=chosen(1)), tools, llm=says("Mara."))
    return ids(engine.query(STEERED).source_nodes)


@comes("wreck keeper quill keeper wreck quill")
def sub_questions(index: WalkIndex) -> list[str]:
    asked = [{"sub_question": each, "tool_name": "ships"} for each in (STEERED, LAMP)]
    generator = LLMQuestionGenerator.from_defaults(llm=says(f"```json\n{json.dumps({'items': asked})}\n```"))
    engine = SubQuestionQueryEngine.from_defaults(
        [about_ships(index.as_query_engine(similarity_top_k=3))],
        llm=says("Mara."),
        question_gen=generator,
        use_async=False,
        verbose=False,
    )
    found = engine.query("Who?").source_nodes
    return ids([each for each in found if each.node.ref_doc_id])


@comes(WALKED)
def citations(index: WalkIndex) -> list[str]:
    engine = CitationQueryEngine.from_args(index, llm=says("Mara [3]."), retriever=passages(index))
    answer = engine.query(STEERED)
    assert answer.source_nodes[0].node.get_content().startswith("Source 1:")
    return ids(answer.source_nodes)


@comes("keeper wreck quill")
def a_transformed_query(index: WalkIndex) -> list[str]:
    hyde = HyDEQueryTransform(llm=says("Tomas Quill kept the lamp."), include_original=False)
    engine = TransformQueryEngine(index.as_query_engine(similarity_top_k=3), hyde)
    return ids(engine.query("Who?").source_nodes)


@comes("wreck")
def filters_of_llama_index(index: WalkIndex) -> list[str]:
    early = MetadataFilters(filters=[MetadataFilter(key="year", value=1900, operator="<")])
    return ids(index.as_query_engine(filters=early).query(STEERED).source_nodes)


# Conversations and agents


def chatting(mode: ChatMode, *texts: str) -> None:
    async def chat(index: WalkIndex) -> list[str]:
        engine = index.as_chat_engine(
            chat_mode=mode,
            llm=says(*texts),
            similarity_top_k=3,
            memory=ChatMemoryBuffer.from_defaults(llm=says("")),
        )
        history = [
            ChatMessage(role="user", content="The lamp?"),
            ChatMessage(role="assistant", content="Yes."),
        ]
        return ids((await engine.achat(LAMP, chat_history=history)).source_nodes)

    chat.__name__ = f"a_chat_by_{mode.value}"
    comes("keeper wreck quill")(chat)


chatting(ChatMode.CONTEXT, "Tomas.")
chatting(ChatMode.CONDENSE_PLUS_CONTEXT, LAMP, "Tomas.")
chatting(ChatMode.CONDENSE_QUESTION, LAMP, "Tomas.")


@comes(WALKED)
async def an_agent_with_a_tool(index: WalkIndex) -> list[str]:
    tool = index.as_retriever_tool(similarity_top_k=3)
    agent = FunctionAgent(
        tools=[tool], llm=ScriptedLLM(tool.metadata.get_name(), {"input": STEERED}), streaming=False
    )
    said = str(await agent.run("Go on."))
    return sorted(
        (key for key, text in SHIPS.items() if text in said), key=lambda key: said.index(SHIPS[key])
    )


@comes(WALKED)
async def a_workflow(index: WalkIndex) -> list[str]:
    class Found(Event):
        nodes: list[NodeWithScore]

    class Flow(Workflow):
        @step
        async def search(self, ctx: Context, ev: StartEvent) -> Found:
            return Found(nodes=await passages(index).aretrieve(ev.question))

        @step
        async def end(self, ctx: Context, ev: Found) -> StopEvent:
            return StopEvent(result=ids(ev.nodes))

    return list(await Flow(timeout=60).run(question=STEERED))


# Ingestion, storage, evaluation


@comes(WALKED)
def a_pipeline_and_its_docstore(index: WalkIndex) -> list[str]:
    pipeline = IngestionPipeline(transformations=[SentenceSplitter()], docstore=SimpleDocumentStore())
    made = WalkIndex(pipeline.run(documents=llama_ships()), llm=False, embed_model=HashingEmbedder())
    assert pipeline.run(documents=llama_ships()) == []
    return ids(passages(made).retrieve(STEERED))


@comes("keeper wreck captain")
def documents_refreshed_inserted_and_deleted(index: WalkIndex) -> list[str]:
    made = made_of(llama_ships())
    made.refresh_ref_docs([Document(text="Mara Quill was a painter.", id_="quill")])
    made.insert(Document(text="A whale was seen.", id_="whale"))
    made.delete_ref_doc("whale", delete_from_docstore=True)
    return ids(passages(made).retrieve(LAMP))


@comes(WALKED)
def nodes_pickled_and_written_as_json(index: WalkIndex) -> list[str]:
    found = passages(index).retrieve(STEERED)
    nodes = [TextNode.from_json(each.node.to_json()) for each in found]
    assert [each.hash for each in nodes] == [each.node.hash for each in found]
    return ids(pickle.loads(pickle.dumps(found)))


@comes(WALKED)
def models_of_the_settings(index: WalkIndex) -> list[str]:
    Settings.llm = says("Mara Quill [3].")
    engine = WalkIndex(core=index.core, embed_model=False).as_query_engine(similarity_top_k=3, guided=False)
    answer = engine.query(STEERED)
    assert str(answer) == "Mara Quill [3]."
    return [str(each.node.metadata["stratagraph_documents"]).strip('[]"') for each in answer.source_nodes]


@comes("quill wreck keeper")
async def an_evaluation(index: WalkIndex) -> list[str]:
    found = await passages(index).aretrieve("Who steered the Dunlin?")
    measured = RetrieverEvaluator.from_metric_names(["mrr", "hit_rate"], retriever=passages(index))
    result = await measured.aevaluate("Who steered the Dunlin?", [found[0].node.node_id])
    assert set(result.metric_vals_dict.values()) == {1.0}
    answer = index.as_query_engine(similarity_top_k=3).query("Who steered the Dunlin?")
    assert FaithfulnessEvaluator(llm=says("YES")).evaluate_response(response=answer).passing
    return ids(answer.source_nodes)


@comes(" ".join(SHIPS))
def the_passages_of_a_property_graph(index: WalkIndex) -> list[str]:
    texts = [getattr(each, "text", "") for each in to_property_graph(index.core).get()]
    return [key for key, text in SHIPS.items() if text in texts]


@pytest.mark.parametrize(("composition", "expected"), TABLE)
async def test_passages_that_come(index: WalkIndex, composition: Composition, expected: list[str]) -> None:
    found = composition(index)
    assert (await found if isawaitable(found) else found) == expected


async def test_the_script_of_a_user(tmp_path: Path) -> None:
    told = await llama_index_user.main(tmp_path / "idx")
    assert told[3] == "[1] Mara Quill steered the ferry Dunlin to Bremen."
