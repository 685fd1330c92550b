"""Rerankers of LangChain and LlamaIndex, given as they are to the core and to both adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from llama_index.core import MockEmbedding
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import Field

import stratagraph as sg
from langchain_stratagraph import PPRRetriever
from llama_index_stratagraph import WalkIndex
from stratagraph.errors import RerankerError
from stratagraph.testing import FakeEmbedder

TEXTS = [f"The ferry {n} leaves at noon{' again' * n}." for n in range(8)]
LONGEST = ["ferry 7", "ferry 6"]


@pytest.fixture(scope="module")
def index() -> Iterator[sg.Index]:
    with sg.build_index(TEXTS, embedder=FakeEmbedder(), progress=False) as index:
        yield index


def both(index: sg.Index, reranker: Any, k: int = 2) -> sg.Retrieval:
    """What a search finds by a reranker, which is the same in the async API."""
    found = index.retrieve("ferry", k, rerank=reranker)
    assert asyncio.run(index.aretrieve("ferry", k, rerank=reranker)).hits == found.hits
    return found


def names(found: Sequence[Any]) -> list[str]:
    return [each.text.split(" leaves")[0].removeprefix("The ") for each in found]


class Longer(BaseCrossEncoder):
    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        assert {question for question, _ in text_pairs} == {"ferry"}
        return [len(text) for _, text in text_pairs]


class Shortening(BaseDocumentCompressor):
    """Returns the two longest documents, each with its first word alone."""

    lost: bool = False

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> list[Document]:
        best = sorted(documents, key=lambda each: -len(each.page_content))[:2]
        return [
            Document(page_content=each.page_content[:3], metadata={} if self.lost else {**each.metadata})
            for each in best
        ]


class LongerNodes(BaseNodePostprocessor):
    stranger: bool = False

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
        assert query_bundle.query_str == "ferry"
        if self.stranger:
            return [NodeWithScore(node=TextNode(text="new"))]
        return sorted(nodes, key=lambda each: -len(each.node.get_content()))[:2]


def test_a_cross_encoder_scores(index: sg.Index) -> None:
    found = both(index, Longer())
    assert names(found.hits) == LONGEST
    assert [hit.score for hit in found] == [len(hit.text) for hit in found]


@pytest.mark.parametrize("reranker", [Shortening(), LongerNodes()], ids=["compressor", "postprocessor"])
def test_what_a_framework_returns_leads_and_the_others_follow(index: sg.Index, reranker: Any) -> None:
    found = both(index, reranker, 4)
    plain = [hit for hit in index.retrieve("ferry", 9) if names([hit])[0] not in LONGEST]
    assert names(found.hits) == [*LONGEST, *names(plain[:2])]
    assert {hit.text for hit in found} <= {*TEXTS}
    assert [trace["chosen"] for trace in found.trace] == [True, True, False, False]


def test_rerankers_of_langchain_itself(index: sg.Index) -> None:
    compressors = pytest.importorskip("langchain_classic.retrievers.document_compressors")
    best = compressors.CrossEncoderReranker(model=Longer(), top_n=2)
    pipeline = compressors.DocumentCompressorPipeline(transformers=[best])
    assert names(both(index, best).hits) == names(both(index, pipeline).hits) == LONGEST


@pytest.mark.parametrize(
    ("reranker", "message"),
    [(Shortening(lost=True), "with their metadata"), (LongerNodes(stranger=True), "was not given")],
)
def test_what_cannot_be_told_apart_is_an_error(index: sg.Index, reranker: Any, message: str) -> None:
    with pytest.raises(RerankerError, match=message):
        index.retrieve("ferry", rerank=reranker)


def test_both_adapters_take_rerankers_of_both_frameworks(index: sg.Index) -> None:
    retriever = PPRRetriever(index=index, k=2, rerank=LongerNodes())
    assert [each.page_content[4:11] for each in retriever.invoke("ferry")] == LONGEST
    assert [each.page_content[4:11] for each in retriever.invoke("ferry", rerank=Shortening())] == LONGEST
    nodes = [TextNode(text=text) for text in TEXTS]
    walk = WalkIndex(nodes, embed_model=MockEmbedding(8))
    for reranker in (Shortening(), LongerNodes()):
        found = walk.as_retriever(similarity_top_k=2, rerank=reranker).retrieve("ferry")
        assert [each.node.get_content()[4:11] for each in found] == LONGEST


def decision_model(answers: Any) -> Any:
    """A decision model that finds texts with these words probable; its requests are in `seen`."""
    decisions = pytest.importorskip("langchain_core.decisions")

    class Deciding(decisions.BaseDecisionModel):
        model: str = "decider"
        seen: list[Any] = Field(default_factory=list)

        @property
        def _provider(self) -> str:
            return "nobody"

        def _classify(self, state: Any, questions: Any) -> Any:
            self.seen.append((state, questions))
            nouls = {
                number: {"type": "noul", "noul": answers(state["passages"][number])} for number in questions
            }
            return decisions.ClassifierResponse.model_validate(
                {
                    "model": self.model,
                    "answers": {number: each for number, each in nouls.items() if each["noul"] is not None},
                }
            )

    return Deciding()


def test_a_decision_model_is_asked_once_about_each_hit_and_chooses_a_set(index: sg.Index) -> None:
    model = decision_model(lambda text: {"5": 0.8, "2": 0.9}.get(text[10], 0.5))
    found = index.retrieve("ferry", 3, rerank=model)
    assert names(found.hits[:2]) == ["ferry 2", "ferry 5"]
    assert [trace["chosen"] for trace in found.trace] == [True, True, False]
    ((state, questions),) = model.seen
    assert state["question"] == "ferry"
    assert {*state["passages"].values()} == {*TEXTS}
    assert [*questions] == [*state["passages"]]
    assert all(number in each.instructions for number, each in questions.items())
    assert {each.type for each in questions.values()} == {"noul"}
    assert both(index, model.with_retry().with_config(tags=["x"]), 3).hits == found.hits


def test_a_decision_model_may_choose_none_and_must_answer_all(index: sg.Index) -> None:
    none = both(index, decision_model(lambda text: 0.1), 3)
    assert none.hits == index.retrieve("ferry", 3).hits
    assert not any(trace["chosen"] for trace in none.trace)
    partly = decision_model(lambda text: None if "ferry 4" in text else 0.9)
    with pytest.raises(RerankerError, match="answered 7 of 8 questions"):
        index.retrieve("ferry", 3, rerank=partly)


def test_what_is_no_language_model_is_refused_at_construction() -> None:
    documents = [Document(page_content=text) for text in TEXTS]
    no_models = [
        decision_model(lambda text: 1.0),
        decision_model(lambda text: 1.0).with_retry(),
        RunnableLambda(lambda prompt: "x"),
        RunnableLambda(lambda prompt: "x").with_fallbacks([RunnableLambda(lambda prompt: "y")]),
        lambda prompt: "x",
        MockEmbedding(8),
        LongerNodes(),
    ]
    for llm in no_models:
        with pytest.raises(TypeError, match="llm must"):
            sg.build_index(TEXTS, llm=llm, embedder=FakeEmbedder(), progress=False)
        with pytest.raises(TypeError, match="llm must"):
            sg.build_index(TEXTS, llm={"answer": llm}, embedder=FakeEmbedder(), progress=False)
        with pytest.raises(TypeError, match="llm must"):
            PPRRetriever.from_documents(documents, embedding=FakeEmbedder(), llm=llm)
        with pytest.raises(TypeError, match="llm must"):
            WalkIndex([TextNode(text=TEXTS[0])], embed_model=MockEmbedding(8), llm=llm)


def test_runnables_around_a_language_model_stay() -> None:
    model = FakeListChatModel(responses=["Noon. [1]"])
    runnables = [
        model.bind(stop=["x"]),
        model.with_retry(),
        model.with_fallbacks([model]),
        model.with_retry().with_fallbacks([RunnableLambda(lambda prompt: "y")]),
        model | RunnableLambda(lambda message: message.content),
        RunnableLambda(lambda prompt: prompt) | model,
    ]
    for llm in runnables:
        with sg.build_index(TEXTS, llm=llm, embedder=FakeEmbedder(), progress=False) as index:
            assert index.answer("When?", guided=False).text == "Noon. [1]"
