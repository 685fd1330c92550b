"""Retrievers and indexes as tools of agents, and what callbacks are told."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")
pytest.importorskip("langchain.agents")

from langchain import agents
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, create_retriever_tool
from langchain_core.tracers.context import collect_runs
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms.mock import MockFunctionCallingLLM
from pydantic import Field

import stratagraph as sg
from langchain_stratagraph import (
    BridgeRetriever,
    DualSearchRetriever,
    HierarchicalRetriever,
    PPRRetriever,
    TreeRetriever,
)
from llama_index_stratagraph import LSHTreeIndex
from stratagraph import demo
from tests.integrations.corpus import QUESTION, passages

RETRIEVERS = [BridgeRetriever, DualSearchRetriever, HierarchicalRetriever, PPRRetriever, TreeRetriever]


class Scripted(GenericFakeChatModel):
    """Writes the given messages, and takes any tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Scripted:
        return self


@pytest.fixture(scope="module")
def index() -> Iterator[sg.Index]:
    given = [sg.Document(*each) for each in passages()]
    with sg.build_index(given, "lshtree", embedder=sg.HashingEmbedder(), progress=False) as built:
        yield built


@pytest.fixture(scope="module")
def demo_index() -> Iterator[sg.Index]:
    corpus = Path(demo.__file__).parent / "corpus.jsonl"
    rows = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    given = [sg.Document(row["id"], row["text"], {"source": row["id"]}) for row in rows]
    methods = ["noderag", "archrag", "hirag", "lshtree"]
    with sg.build_index(given, methods, embedder=sg.HashingEmbedder(), progress=False) as built:
        yield built


def answer_of_tool(tool: BaseTool, arguments: dict[str, Any]) -> ToolMessage:
    """What an agent's model reads after it has called a tool."""
    call = {"name": tool.name, "args": arguments, "id": "1", "type": "tool_call"}
    model = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Done.")]))
    agent = agents.create_agent(model, [tool])
    said = agent.invoke({"messages": [("user", "Go on.")]})["messages"]
    assert said[-1].content == "Done."
    assert isinstance(said[-2], ToolMessage)
    return said[-2]


@pytest.mark.parametrize("kind", RETRIEVERS)
def test_documents_that_are_printed_are_mostly_text(kind: Any, demo_index: sg.Index) -> None:
    retriever = kind(index=demo_index, k=6)
    questions = (Path(demo.__file__).parent / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    found = [retriever.invoke(json.loads(line)["question"]) for line in questions]
    text = sum(len(each.page_content) for documents in found for each in documents)
    assert sum(len(str(documents)) for documents in found) < 2 * text
    tool = retriever.as_tool(name="search", description="Search.")
    (argument,) = tool.args
    message = answer_of_tool(tool, {argument: json.loads(questions[0])["question"]})
    assert len(message.content) < 2 * sum(len(each.page_content) for each in found[0])
    assert found[0][0].metadata["stratagraph_kind"] in {"chunk", "entity", "community", "attribute"}


def test_an_answer_reads_what_is_not_printed(demo_index: sg.Index) -> None:
    retriever = HierarchicalRetriever(index=demo_index, k=6)
    found = retriever.invoke("Who broke the bridge?")
    answering = retriever.as_answer_runnable(return_sources=True)
    for given in (found, copy.deepcopy(found), [Document(**each.model_dump()) for each in found]):
        written = answering.invoke({"question": "Who broke the bridge?", "documents": given})
        assert [each.metadata for each in written["sources"]] == [each.metadata for each in found]


@pytest.mark.parametrize("blank", ["", " \n"])
async def test_a_blank_question_does_not_end_the_run_of_an_agent(index: sg.Index, blank: str) -> None:
    retriever = TreeRetriever(index=index)
    own = retriever.as_tool(name="search", description="Search.")
    assert "blank" in await own.ainvoke(blank)
    assert own.invoke(QUESTION) == await own.ainvoke(QUESTION) == retriever.invoke(QUESTION)
    made = create_retriever_tool(retriever, "search", "Search.")
    with pytest.raises(ValueError, match="blank"):
        answer_of_tool(made, {"query": blank})  # LangChain raises unless its tool is told to go on
    made.handle_tool_error = True
    for tool, argument in ((own, "__arg1"), (made, "query")):
        assert re.match("the question is blank", str(answer_of_tool(tool, {argument: blank}).content))
        assert "comet" in answer_of_tool(tool, {argument: QUESTION}).content
    with pytest.raises(ValueError, match="blank"):
        retriever.as_answer_runnable().invoke(blank)


class Told(BaseCallbackHandler):
    """Remembers runs, as (kind, name of the parent's kind), and what retrievers found."""

    def __init__(self) -> None:
        self.kinds: dict[Any, str] = {}
        self.runs: list[tuple[str, str]] = []
        self.found: list[Any] = []

    def _started(self, kind: str, run_id: Any, parent_run_id: Any) -> None:
        self.kinds[run_id] = kind
        self.runs.append((kind, self.kinds.get(parent_run_id, "")))

    def on_chain_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        self._started("chain", run_id, parent_run_id)

    def on_retriever_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        self._started("retriever", run_id, parent_run_id)

    def on_chat_model_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        self._started("model", run_id, parent_run_id)

    def on_retriever_end(self, documents: Any, **_: Any) -> None:
        self.found.append(documents)

    def on_retriever_error(self, error: Any, **_: Any) -> None:
        self.found.append(error)


def writer(*texts: str) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter([AIMessage(text) for text in texts]))


NAMES = '{"names": ["comet"], "entities": ["comet"]}'


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
async def test_the_search_of_an_answer_is_a_run_of_the_retriever(index: sg.Index, way: str) -> None:
    retriever, told = TreeRetriever(index=index), Told()
    answering = retriever.as_answer_runnable(writer(NAMES, "The keeper [1]."))
    config: Any = {"callbacks": [told]}
    with collect_runs() as collected:
        call = getattr(answering, way)(f"{QUESTION} ({way})", config, decompose=True, guided=False)
        if way == "astream":
            written = "".join([piece async for piece in call])
        else:
            written = await call if way == "ainvoke" else "".join(call)
    (root,) = collected.traced_runs
    assert [each.run_type for each in root.child_runs] == ["retriever", "llm"]
    assert written == "The keeper [1]."
    assert told.runs == [("chain", ""), ("retriever", "chain"), ("model", "retriever"), ("model", "chain")]
    (found,) = told.found
    assert [each.page_content for each in found] == [
        hit.text for hit in index.retrieve(QUESTION, len(found)).hits
    ]


async def test_a_search_that_fails_ends_its_run(index: sg.Index) -> None:
    def fail(metadata: Any) -> bool:
        raise LookupError("no such key")

    answering = TreeRetriever(index=index, where=fail).as_answer_runnable()
    for ask in (answering.invoke, lambda *given: list(answering.stream(*given))):
        told = Told()
        with pytest.raises(LookupError, match="no such key"):
            ask(QUESTION, {"callbacks": [told]})
        assert [str(each) for each in told.found] == ["no such key"]


def test_search_and_answer_have_one_budget(index: sg.Index, tmp_path: Path) -> None:
    index.copy_to(tmp_path / "idx")
    for calls in (1, 2):
        budget = sg.Budget(calls=calls)
        with sg.open_index(tmp_path / "idx", embedder=sg.HashingEmbedder(), budget=budget) as opened:
            answering = TreeRetriever(index=opened).as_answer_runnable(writer(NAMES, "The keeper [1]."))
            if calls == 1:
                with pytest.raises(sg.errors.BudgetExceeded):
                    answering.invoke(f"{QUESTION} Now?", decompose=True, guided=False)
            else:
                assert answering.invoke(QUESTION, decompose=True, guided=False) == "The keeper [1]."


class ScriptedLLM(MockFunctionCallingLLM):
    """Calls one tool, then repeats what the tool returned."""

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        super().__init__(response_generator=self._respond)
        self._call = ToolCallBlock(tool_call_id="1", tool_name=tool, tool_kwargs=arguments)

    def _respond(self, messages: Any, **_: Any) -> ChatMessage:
        if messages[-1].role == MessageRole.TOOL:
            return ChatMessage(role=MessageRole.ASSISTANT, content=f"It said: {messages[-1].content}")
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[self._call])


async def test_tools_of_an_agent_of_llama_index(index: sg.Index) -> None:
    tree = LSHTreeIndex(core=index, llm=False)
    tools = [tree.as_query_engine_tool(), tree.as_retriever_tool(similarity_top_k=2)]
    assert [tool.metadata.get_name() for tool in tools] == ["answer", "search"]
    assert all(index.about() in tool.metadata.description for tool in tools)
    assert tree.as_retriever_tool("find", "Find.").metadata.description == "Find."
    for tool in tools:
        for question, expected in ((QUESTION, "comet"), (" ", "blank" if tool is tools[0] else "It said")):
            llm = ScriptedLLM(tool.metadata.get_name(), {"input": question})
            agent = FunctionAgent(tools=[tool], llm=llm, streaming=False)
            said = str(await agent.run("Go on."))
            assert expected in said
            assert "'sources'" not in said


async def test_questions_are_spans_with_the_events_of_retrieval(index: sg.Index) -> None:
    class Events(BaseEventHandler):
        names: list[str] = Field(default_factory=list)

        def handle(self, event: Any, **_: Any) -> None:
            self.names.append(f"{event.class_name()} in {(event.span_id or '').partition('-')[0]}")

    events = Events()
    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(events)
    try:
        engine = LSHTreeIndex(core=index, llm=False).as_query_engine()
        engine.query(QUESTION)
        await engine.aquery(QUESTION)
    finally:
        dispatcher.event_handlers.remove(events)
    kinds = [name.partition(" ")[0] for name in events.names]
    for kind in ("QueryStartEvent", "RetrievalStartEvent", "RetrievalEndEvent", "SynthesizeEndEvent"):
        assert kinds.count(kind) == 2
    assert any("RetrievalStartEvent in StrataRetriever.retrieve" in name for name in events.names)
