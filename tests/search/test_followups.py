"""Questions: which point back to the turns before, and the names that a model takes from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratagraph.errors import CallFailed, ModelError
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.search.followups import points_back
from stratagraph.search.questions import decompose

GOLDEN = Path(__file__).with_name("golden")


def questions(name: str) -> list[str]:
    return (GOLDEN / f"{name}.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("language", ["english", "german", "french", "spanish"])
def test_a_follow_up_points_back_and_a_question_that_stands_alone_does_not(language: str) -> None:
    alone = questions(f"alone.{language}")
    assert len(alone) >= 30
    assert [question for question in alone if points_back(question)] == []
    assert [question for question in questions(f"follow-up.{language}") if not points_back(question)] == []


def test_other_languages_never_point_back() -> None:
    assert [question for question in questions("other-languages") if points_back(question)] == []


@pytest.mark.parametrize("question", ["?", "...", "42", "and", "Und", "¿?", "x" * 5000, "it " * 3000])
def test_odd_questions_are_read(question: str) -> None:
    assert points_back(question) in (True, False)


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
