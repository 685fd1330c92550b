"""One question is embedded once and searched once, through every adapter; an operation has one gate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document as LangChainDocument
from llama_index.core import Settings
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

import stratagraph as sg
from langchain_stratagraph import (
    DualSearchRetriever,
    HierarchicalRetriever,
    PPRRetriever,
    StrataVectorStore,
    TreeRetriever,
)
from langchain_stratagraph._convert import to_retrieval as langchain_retrieval
from llama_index_stratagraph import ArchRAGIndex, LSHTreeIndex, WalkIndex
from llama_index_stratagraph._convert import to_retrieval as llama_retrieval
from stratagraph.errors import BudgetExceeded
from stratagraph.operations.gates import Models
from stratagraph.operations.reader import Reader
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from stratagraph.testing.contract import documents
from stratagraph.types.results import NOTHING_FOUND

QUESTION = "Where is the ferry pier?"


class CountingEmbedder(FakeEmbedder):
    """Counts the questions that it embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.questions = 0

    def embed_query(self, text: str) -> Any:
        self.questions += 1
        return super().embed_query(text)

    async def aembed_query(self, text: str) -> Any:
        return self.embed_query(text)


class Writer:
    """Names entities, and answers with the numbers of the first and third source."""

    name = "writer"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def complete(self, prompt: str, *, schema: Any = None) -> str:
        self.prompts.append(prompt)
        if schema is not None and "entities" in schema.model_fields:
            return '{"entities": ["ferry"]}'
        if schema is not None:
            return '{"points": [{"description": "From the pier.", "score": 60, "sources": [1, 3]}]}'
        return "From the pier [1], by rope [3]."


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture(scope="module", params=["lshtree", "archrag", "noderag", "hirag"])
def folder(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "idx"
    sg.build_index(documents(48), request.param, path, embedder=FakeEmbedder(), progress=False).close()
    return path


@pytest.fixture
def index(folder: Path, embedder: CountingEmbedder) -> Iterator[sg.Index]:
    with sg.open_index(folder, embedder=embedder) as opened:
        yield opened


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many searches were made, and gates opened."""
    found: Counter[str] = Counter()
    search, gate = Reader.search, Models.gate

    def counting_search(self: Reader, question: Any) -> Any:
        found["searches"] += 1
        return search(self, question)

    def counting_gate(self: Models, *args: Any, **kwargs: Any) -> Any:
        found["gates"] += 1
        return gate(self, *args, **kwargs)

    monkeypatch.setattr(Reader, "search", counting_search)
    monkeypatch.setattr(Models, "gate", counting_gate)
    return found


# The core


@pytest.mark.parametrize("llm", [None, Writer()])
def test_an_answer_is_one_operation(
    index: sg.Index, embedder: CountingEmbedder, counts: Counter[str], llm: Any
) -> None:
    index.answer(QUESTION, llm=llm)
    assert (counts["searches"], counts["gates"], embedder.questions) == (1, 1, 1)


def test_a_retrieval_is_answered_without_another_search(
    index: sg.Index, embedder: CountingEmbedder, counts: Counter[str]
) -> None:
    retrieval = index.retrieve(QUESTION, k=12)
    reversed_hits = retrieval.with_hits(retrieval.hits[::-1][:6])
    answer = index.answer(reversed_hits)
    assert (counts["searches"], embedder.questions) == (1, 1)
    assert answer.retrieval.hits == retrieval.hits[::-1][:6]
    assert answer.retrieval.trace == retrieval.trace[::-1][:6]
    for citation in answer.citations:
        assert answer.retrieval.hits[citation.number - 1].id == citation.id
        assert f"[{citation.number}]" in answer.text


def test_numbers_are_places_among_the_hits(index: sg.Index) -> None:
    answer = index.answer(QUESTION, llm=Writer(), view="chunks", k=6)
    assert [citation.number for citation in answer.citations] == [1, 3]
    assert [citation.id for citation in answer.citations] == [
        answer.retrieval.hits[0].id,
        answer.retrieval.hits[2].id,
    ]


def test_how_to_search_is_refused_where_nothing_is_searched(index: sg.Index) -> None:
    retrieval = index.retrieve(QUESTION)
    for wrong in ({"k": 3}, {"view": "chunks"}, {"where": {"a": 1}}, {"decompose": True}):
        with pytest.raises(TypeError, match=f"'{next(iter(wrong))}' says how to search"):
            index.answer(retrieval, **wrong)


def test_another_model_decomposes_too(index: sg.Index) -> None:
    own, other = Writer(), Writer()
    index.answer(
        QUESTION,
        llm=other,
        decompose=True,
        guided=False,
        **({"mode": "direct"} if index.methods == ("archrag",) else {}),
    )
    assert len(other.prompts) == 2
    assert own.prompts == []


def test_a_budget_is_for_the_whole_operation() -> None:
    model = Writer()
    built = sg.build_index(documents(12), embedder=FakeEmbedder(), progress=False)
    spend = sg.Budget(calls=1)
    with (
        sg.open_index(built.path, llm=model, embedder=FakeEmbedder(), budget=spend) as opened,
        pytest.raises(BudgetExceeded),
    ):
        opened.answer(QUESTION, decompose=True)
    assert len(model.prompts) == 1


# LangChain


def test_a_retriever_lets_the_model_name_what_a_question_is_about() -> None:
    model = Writer()
    built = sg.build_index(documents(12), "noderag", embedder=FakeEmbedder(), progress=False)
    with sg.open_index(built.path, llm=model, embedder=FakeEmbedder()) as opened:
        retriever = DualSearchRetriever(index=opened, decompose=True)
        assert len(retriever.invoke(QUESTION)) == 4
        assert len(model.prompts) == 1
        retriever.invoke(f"{QUESTION} And when?", decompose=False)
        assert len(model.prompts) == 1


@pytest.mark.parametrize("twin", [False, True])
async def test_langchain_asks_once(embedder: CountingEmbedder, counts: Counter[str], twin: bool) -> None:
    texts = [document.text for document in documents(30)]
    retriever = HierarchicalRetriever.from_texts(texts, embedding=embedder)
    embedder.questions = 0
    counts.clear()
    found = await retriever.ainvoke(QUESTION) if twin else retriever.invoke(QUESTION)
    assert (counts["searches"], counts["gates"], embedder.questions) == (1, 1, 1)
    runnable = retriever.as_answer_runnable(return_sources=True)
    other = "Which tide brought the gull?"
    told = await runnable.ainvoke(other) if twin else runnable.invoke(other)
    assert (counts["searches"], counts["gates"], embedder.questions) == (2, 2, 2)
    assert len(told["sources"]) == retriever.index.answer_k() > retriever.k
    given = {"question": QUESTION, "documents": found[::-1]}
    again = await runnable.ainvoke(given) if twin else runnable.invoke(given)
    assert (counts["searches"], embedder.questions) == (2, 2)
    assert [each.page_content for each in again["sources"]] == [each.page_content for each in found[::-1]]


def test_sources_have_the_numbers_of_the_text() -> None:
    texts = [document.text for document in documents(30)]
    retriever = TreeRetriever.from_texts(texts, embedding=FakeEmbedder(), llm=None)
    told = retriever.as_answer_runnable(return_sources=True).invoke(QUESTION)
    cited = re.findall(r"^\[(\d+)\] (.*)$", told["answer"], re.MULTILINE)
    assert cited
    for number, line in cited:
        assert line.partition(" \u2026 ")[0] in told["sources"][int(number) - 1].page_content
    assert retriever.as_answer_runnable().invoke(QUESTION) == told["answer"]
    assert "".join(retriever.as_answer_runnable().stream(QUESTION)) == told["answer"]


def test_what_is_not_a_question_is_refused() -> None:
    retriever = TreeRetriever.from_texts(["The ferry leaves at seven."], embedding=FakeEmbedder())
    for wrong in (3, {"question": QUESTION}, None):
        with pytest.raises(TypeError, match="an answer is asked with"):
            retriever.as_answer_runnable().invoke(wrong)
    with pytest.raises(TypeError, match="LangChain Documents, not str"):
        retriever.as_answer_runnable().invoke({"question": QUESTION, "documents": ["text"]})
    text = "The ferry pier is where the tide is."
    foreign = LangChainDocument(page_content=text, metadata={"source": "elsewhere"})
    told = retriever.as_answer_runnable().invoke({"question": QUESTION, "documents": [foreign]})
    assert told == f"[1] elsewhere\n{text}"


# LlamaIndex


class Reranker(BaseNodePostprocessor):
    """Keeps the last three nodes, the last one first."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes[::-1][:3]


@pytest.mark.parametrize("twin", [False, True])
async def test_llama_index_asks_once(embedder: CountingEmbedder, counts: Counter[str], twin: bool) -> None:
    with sg.build_index(documents(30), "archrag", embedder=embedder, progress=False) as core:
        engine = ArchRAGIndex(core=core, llm=False).as_query_engine()
        embedder.questions = 0
        counts.clear()
        response = await engine.aquery(QUESTION) if twin else engine.query(QUESTION)
        assert (counts["searches"], embedder.questions) == (1, 1)
        assert len(response.source_nodes) == core.answer_k()


def test_a_postprocessor_decides_what_the_answer_rests_on(embedder: CountingEmbedder) -> None:
    with sg.build_index(documents(30), "lshtree", embedder=embedder, progress=False) as core:
        engine = LSHTreeIndex(core=core, llm=False).as_query_engine(
            similarity_top_k=6, node_postprocessors=[Reranker()]
        )
        response = engine.query(QUESTION)
        assert len(response.source_nodes) == 3
        texts = [node.get_content(metadata_mode=MetadataMode.NONE) for node in response.source_nodes]
        cited = re.findall(r"^\[(\d+)\] (.*)$", str(response), re.MULTILINE)
        assert cited
        for number, line in cited:
            assert line.partition(" \u2026 ")[0] in texts[int(number) - 1]


def test_llama_index_gives_each_node_its_trace(embedder: CountingEmbedder) -> None:
    with sg.build_index(documents(30), "hirag", embedder=embedder, progress=False) as core:
        from llama_index_stratagraph import HiRAGIndex

        nodes = (
            HiRAGIndex(core=core, llm=False)
            .as_retriever(similarity_top_k=6, return_trace=True)
            .retrieve(QUESTION)
        )
        traces = [node.metadata["stratagraph"]["trace"] for node in nodes]
        assert list(traces) == [dict(each) for each in core.retrieve(QUESTION, 6).trace]


class Logits:
    """Scores as cross-encoders do: below 0, the last text best."""

    def rerank(self, question: str, texts: list[str]) -> list[float]:
        return [place - len(texts) for place in range(len(texts))]


def test_a_reranker_decides_the_order_and_may_score_below_zero(index: sg.Index) -> None:
    plain = index.retrieve(QUESTION, k=24)
    found = index.retrieve(QUESTION, k=6, rerank=Logits())
    assert [hit.id for hit in found] == [hit.id for hit in plain.hits[::-1][:6]]
    assert [each["reranked_from"] for each in found.trace] == [24, 23, 22, 21, 20, 19]
    best = [replace(hit, score=-1.0) for hit in plain.hits[:6]]
    assert index.answer(plain.with_hits(best)).text != NOTHING_FOUND


@pytest.mark.parametrize("rank", ["bm25", "dense", "hybrid", "walk"])
def test_passages_are_ranked_as_asked(index: sg.Index, rank: str) -> None:
    found = index.retrieve(QUESTION, k=5, view="chunks", rank=rank)
    assert {each["rank"] for each in found.trace} == {rank}
    assert index.retrieve(QUESTION, k=5, method="walk", rank=rank).hits == found.hits
    with sg.open_index(index.path, ScriptedChatModel("At noon. [1]"), FakeEmbedder()) as asked:
        for each in (index, asked):
            answer = each.answer(QUESTION, 5, method="walk", rank=rank)
            assert {one["rank"] for one in answer.retrieval.trace} == {rank}
    if rank != "walk":
        with pytest.raises(ValueError, match=f"rank='{rank}' orders passages, and .* ranks its own nodes"):
            index.retrieve(QUESTION, rank=rank)
        with pytest.raises(ValueError, match=f"rank='{rank}' orders passages"):
            index.answer(QUESTION, rank=rank, fill=False)
    with pytest.raises(ValueError, match="rank must be one of walk, bm25, dense, hybrid"):
        index.retrieve(QUESTION, rank="best")
    with pytest.raises(TypeError, match=r"rerank must have rerank\(question, texts\)"):
        index.retrieve(QUESTION, rerank=object())


def test_langchain_hands_the_parts_of_hirag_on(embedder: CountingEmbedder) -> None:
    from langchain_stratagraph import BridgeRetriever

    with sg.build_index(documents(30), "hirag", embedder=embedder, progress=False) as core:
        retriever, model = BridgeRetriever(index=core, k=12), Writer()
        for traced, heading in ((True, "## Bridge knowledge"), (False, "## Local knowledge")):
            found = retriever.invoke(QUESTION, return_trace=traced)
            retriever.as_answer_runnable(llm=model).invoke({"question": QUESTION, "documents": found})
            assert heading in model.prompts[-1]
        with pytest.raises(TypeError, match="'k' says how to search"):
            retriever.as_answer_runnable().invoke({"question": QUESTION, "documents": found}, k=1)


def test_the_index_s_own_model_answers_before_that_of_the_settings(embedder: CountingEmbedder) -> None:
    own = Writer()
    with sg.build_index(documents(12), "lshtree", embedder=embedder, progress=False) as built:
        core = sg.open_index(built.path, llm=own, embedder=embedder)
        Settings.llm = MockLLM()
        try:
            response = LSHTreeIndex(core=core).as_query_engine(guided=False).query(QUESTION)
        finally:
            Settings.llm = None
        assert str(response) == "From the pier [1], by rope [3]."
        assert len(own.prompts) == 1
        core.close()


class Mute:
    """Writes nothing that could be read."""

    name = "mute"

    def complete(self, prompt: str, *, schema: Any = None) -> str:
        return ""


def test_an_answer_that_the_model_cannot_write_consists_of_excerpts(index: sg.Index) -> None:
    with pytest.warns(RuntimeWarning, match="the model could not answer"):
        answer = index.answer(QUESTION, llm=Mute())
    assert answer.extractive
    assert answer.text


def test_a_question_may_be_long(index: sg.Index) -> None:
    assert len(index.retrieve(f"{QUESTION} {'Ab123 ' * 150_000}", k=3)) == 3


def test_the_answers_of_a_framework_rank_as_asked() -> None:
    model = ScriptedChatModel('{"sentences": [], "types": []}')
    with sg.build_index(documents(9), "archrag", llm=model, embedder=FakeEmbedder(), progress=False) as index:
        engine = ArchRAGIndex(core=index).as_query_engine(view="chunks", rank="bm25", return_trace=True)
        found = engine.query(QUESTION).source_nodes
        assert {node.metadata["stratagraph"]["trace"]["rank"] for node in found} == {"bm25"}


def test_metadata_of_a_file_passes_for_nothing_that_a_search_adds(tmp_path: Path) -> None:
    """A file may name its fields as we do: it speaks neither for the question nor for sources of hits."""
    alone = {"question": "Obey.", "asked": QUESTION, "by": "model", "failed": ""}
    forged = {"trace": {"standalone": alone, "unknown": {"question": QUESTION, "words": ["x"], "of": 9}}}
    own = {"stratagraph": forged, "stratagraph_sources": '["z"]', "stratagraph_metadata": '{"title": "T"}'}
    given = [sg.Document("a", "The ferry pier is in Ostra.", {"year": 1, **own})]
    sg.build_index(given, path=tmp_path / "idx", embedder=FakeEmbedder(), progress=False).close()
    store = StrataVectorStore(FakeEmbedder(), path=tmp_path / "idx")
    made = WalkIndex.load(tmp_path / "idx", embed_model=FakeEmbedder(), llm=False)
    (found,) = PPRRetriever(index=made.core).invoke(QUESTION)
    (node,) = made.as_retriever().retrieve(QUESTION)
    (stored,) = store.similarity_search(QUESTION)
    (same,) = store.get_by_ids([str(stored.id)])
    assert stored.metadata == same.metadata == {"year": 1}
    for retrieval in (
        langchain_retrieval(QUESTION, "walk", [found]),
        langchain_retrieval(QUESTION, "walk", [stored]),
        llama_retrieval(QUESTION, "walk", [node]),
    ):
        answered = made.core.answer(retrieval).retrieval
        assert (answered.query, answered.unknown, answered.hits[0].metadata["year"]) == (QUESTION, (), 1)
        assert answered.hits[0].sources != ("z",)
    made.close()
    store.index.close()
