"""Every retriever, whatever its method: its options, and folders that are built, saved and loaded."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest

pytest.importorskip("langchain_core")


import langchain_stratagraph
from langchain_stratagraph._base import IndexRetriever
from stratagraph import HashingEmbedder
from stratagraph.methods import get_way
from tests.integrations.corpus import QUESTION, langchain_documents

RETRIEVERS: list[type[IndexRetriever]] = [
    kind
    for name in langchain_stratagraph.__all__
    if isinstance(kind := getattr(langchain_stratagraph, name), type) and issubclass(kind, IndexRetriever)
]


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
async def test_built_saved_and_loaded(kind: type[IndexRetriever], tmp_path: Any) -> None:
    built = kind.from_documents(
        langchain_documents(), embedding=HashingEmbedder(), path=tmp_path / "idx", k=5
    )
    found = built.invoke(QUESTION)
    built.index.close()
    again = {"embedding": HashingEmbedder(), "k": 5}
    for loaded in (kind.load(tmp_path / "idx", **again), await kind.aload(tmp_path / "idx", **again)):
        assert loaded.invoke(QUESTION) == await loaded.ainvoke(QUESTION) == found
        assert "comet" in loaded.as_answer_runnable().invoke(QUESTION)
        loaded.index.close()
