"""Which questions point back: standalone ones never do, follow-ups do, other languages are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratagraph.search.followups import points_back

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
