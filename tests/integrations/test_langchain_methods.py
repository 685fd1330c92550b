"""Every retriever, whatever its method: its options, and folders that are built, saved and loaded."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core")


import langchain_stratagraph
import stratagraph as sg
from langchain_stratagraph._base import IndexRetriever
from stratagraph import HashingEmbedder
from tests.integrations.corpus import QUESTION, langchain_documents

RETRIEVERS: list[type[IndexRetriever]] = [
    kind
    for name in langchain_stratagraph.__all__
    if isinstance(kind := getattr(langchain_stratagraph, name), type) and issubclass(kind, IndexRetriever)
]


@pytest.mark.parametrize("kind", RETRIEVERS, ids=lambda kind: kind.__name__)
def test_fields_are_the_options_of_the_method(kind: type[IndexRetriever]) -> None:
    given = {name for name in kind.model_fields if name not in IndexRetriever.model_fields}
    assert given == set(kind.options)
    for option in sg.search_options(kind.method):
        field = kind.model_fields[option.name]
        assert (field.annotation, field.default) == (option.type, option.default)
        assert option.description in " ".join((kind.__doc__ or "").split())


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
