"""Every retriever, whatever its method: LangChain's own suite, its options, and folders of the other side."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")

from langchain_core.documents import Document
from langchain_tests.integration_tests import RetrieversIntegrationTests

import langchain_stratagraph
import stratagraph
from langchain_stratagraph._base import IndexRetriever
from stratagraph import HashingEmbedder
from stratagraph.methods import NAMES, get_way
from tests.integrations.corpus import QUESTION, passages

RETRIEVERS: list[type[IndexRetriever]] = [
    kind
    for name in langchain_stratagraph.__all__
    if isinstance(kind := getattr(langchain_stratagraph, name), type) and issubclass(kind, IndexRetriever)
]


@pytest.fixture(scope="module")
def index() -> Any:
    documents = [stratagraph.Chunk(text, name, metadata=data) for name, text, data in passages()]
    with stratagraph.build_index(
        documents, method=list(NAMES), embedder=HashingEmbedder(), progress=False
    ) as built:
        yield built


class _Suite(RetrieversIntegrationTests):
    kind: type[IndexRetriever]

    @pytest.fixture(autouse=True)
    def _index(self, index: Any) -> None:
        self.index = index

    @property
    def retriever_constructor(self) -> type[IndexRetriever]:
        return self.kind

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": self.index}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


class TestHierarchical(_Suite):
    kind = langchain_stratagraph.HierarchicalRetriever


class TestDualSearch(_Suite):
    kind = langchain_stratagraph.DualSearchRetriever


class TestPPR(_Suite):
    kind = langchain_stratagraph.PPRRetriever


class TestBridge(_Suite):
    kind = langchain_stratagraph.BridgeRetriever


@pytest.mark.parametrize("kind", RETRIEVERS, ids=lambda kind: kind.__name__)
def test_fields_are_the_options_of_the_method(kind: type[IndexRetriever]) -> None:
    known = {item.name: item for item in fields(get_way(kind.method).options_type)}
    assert set(kind.options) == set(known)
    for name in kind.options:
        field = kind.model_fields[name]
        expected = known[name].default if known[name].default is not MISSING else None
        if expected is not None:
            assert field.get_default(call_default_factory=True) == expected, name


@pytest.mark.parametrize("kind", RETRIEVERS, ids=lambda kind: kind.__name__)
def test_passages_are_found_whatever_the_method(kind: type[IndexRetriever], index: Any) -> None:
    retriever = kind(index=index, k=3)
    found = retriever.invoke(QUESTION, view="chunks")
    assert ["observatory-1"] in [document.metadata["stratagraph"]["documents"] for document in found]
    only = retriever.invoke(QUESTION, k=24, where={"topic": "orchard"})
    assert only
    assert all(
        set(d.metadata["stratagraph"]["documents"]) <= {f"orchard-{i}" for i in range(6)} for d in only
    )


@pytest.mark.parametrize("kind", RETRIEVERS, ids=lambda kind: kind.__name__)
def test_built_saved_and_loaded(kind: type[IndexRetriever], tmp_path: Any) -> None:
    documents = [Document(id=name, page_content=text, metadata=data) for name, text, data in passages()]
    built = kind.from_documents(documents, embedding=HashingEmbedder(), path=tmp_path / "idx", k=5)
    found = built.invoke(QUESTION)
    built.index.close()
    loaded = kind.load(tmp_path / "idx", embedding=HashingEmbedder(), k=5)
    assert loaded.invoke(QUESTION) == found
    assert "comet" in loaded.as_answer_runnable().invoke(QUESTION)
    loaded.index.close()
