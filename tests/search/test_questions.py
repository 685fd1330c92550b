from __future__ import annotations

import json
from typing import Any

import pytest

from stratagraph.errors import CallFailed, ModelError
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.search.questions import decompose

QUESTION = "Did Ada Lovelace know Charles Babbage?"


class OneAnswer:
    """A gate that gives one answer, or fails."""

    has_llm = True

    def __init__(self, answer: str | Exception) -> None:
        self._answer = answer

    async def call(self, task: Any, values: Any, *, item: str) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return task.parse(self._answer)


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ({"entities": ["Ada", "Bo", "Ada"]}, ("Ada", "Bo")),
        ([None, "Ada"], ("Ada",)),
        ({"entities": [["Ada"], [["Bo"], None]]}, ("Ada", "Bo")),
        (
            {"entities": [{"name": "Ada"}, {"entity": "Bo"}, {"name": None}, True, 1871, "?"]},
            ("Ada", "Bo", "1871"),
        ),
        ({"entities": []}, ()),
    ],
)
async def test_names_of_the_model(answer: object, names: tuple[str, ...]) -> None:
    assert await decompose(QUESTION, OneAnswer(json.dumps(answer))) == names  # type: ignore[arg-type]


async def test_the_extractor_where_the_model_failed() -> None:
    with pytest.warns(RuntimeWarning, match="timed out"):
        found = await decompose(QUESTION, OneAnswer(CallFailed("timed out")))  # type: ignore[arg-type]
    assert found == question_entities(QUESTION) != ()


async def test_a_model_that_rejects_every_call_is_an_error() -> None:
    with pytest.raises(ModelError):
        await decompose(QUESTION, OneAnswer(ModelError("no such key")))  # type: ignore[arg-type]
