"""Answers by rankers' own prompts: side by side, in order, each with its own cost; or by the one for all."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.clients.writer import written

from stratagraph.errors import ModelError
from stratagraph.eval import AnswerConfig, Evaluation, evaluate, load_dataset
from stratagraph.testing import FakeEmbedder

QUIET = AnswerConfig(judge=False)
PLACES = ("Crake", "Perrow", "Tarrant", "Hathe", "Ansley", "Marl")
ROWS = ("lshtree?own_prompt=true", "hirag?own_prompt=true")


class Slow:
    """Answers with the question after a while, and knows how many answers it was writing at once."""

    name = "slow"

    def __init__(self, fails_at: int | None = None, together: int = 1) -> None:
        self.most = self.now = self.answered = 0
        self._fails_at, self._together = fails_at, together

    async def acomplete(self, prompt: str, *, schema: Any = None) -> str:
        asked = re.search(r"Question \d+\?", prompt)
        if asked is None:
            return written(prompt)
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(200):  # let others ask before this one is answered
            if self.most >= self._together:
                break
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001 * (int(asked[0].split()[1][:-1]) % 3))  # those begun later may end first
        if self._fails_at is not None and self.answered >= self._fails_at:
            await asyncio.sleep(0.1)  # what is under way ends after the failure was seen
        self.now -= 1
        self.answered += 1
        if self.answered == self._fails_at:
            raise ModelError("the key is not valid")
        if schema is not None:
            return json.dumps({"points": [{"description": asked[0], "score": 50}]})
        return asked[0]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    texts = [
        f"{one} lies north of {two}. Ada {one} sold honey to Ben {two}."
        for one, two in zip(PLACES, (*PLACES[1:], PLACES[0]), strict=True)
    ]
    lines = [json.dumps({"id": f"{n}", "text": text}) for n, text in enumerate(texts)]
    asked = [
        {"id": f"q{n}", "question": f"Question {n}?", "answers": ["honey"], "supporting_ids": ["1"]}
        for n in range(12)
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, asked)), "utf-8")
    return tmp_path


def measured(corpus: Path, model: Slow, *rows: str, **options: Any) -> Evaluation:
    return evaluate(
        load_dataset(corpus), rows, reference="", llm=model, embedder=FakeEmbedder(), answers=QUIET, **options
    )


def test_own_answers_run_side_by_side_within_the_limits_and_cost_the_same(corpus: Path) -> None:
    costs = []
    for concurrency in (1, 4):
        model = Slow(together=concurrency)
        found = measured(corpus, model, *ROWS, config={"limits": {"concurrency": concurrency}})
        assert model.most == concurrency
        for row in found.rows:
            assert not row.error, row.name
            said = [re.findall(r"Question \d+\?", answer or "") for answer in row.answers]
            assert said == [[f"Question {n}?"] for n in range(12)], "each its own, in the order of questions"
        costs.append([replace(row.usage, seconds=0) for row in found.rows])
    assert costs[0] == costs[1]
    assert [each.calls for each in costs[0]] == [12, 12]


@pytest.mark.filterwarnings("ignore:the model could not answer")
def test_an_answer_that_fails_costs_what_was_spent_on_it(corpus: Path) -> None:
    prompts: list[str] = []

    class Mute(Slow):
        """Says what cannot be read, or nothing, where an answer to question 3 is wanted."""

        async def acomplete(self, prompt: str, *, schema: Any = None) -> str:
            said = await super().acomplete(prompt, schema=schema)
            if "Question 3?" in prompt and schema is None:
                said = ""
            if re.search(r"Question \d+\?", prompt):
                prompts.append(prompt)
            return said

    for name in ROWS:
        prompts.clear()
        row = measured(corpus, Mute(), name, config={"limits": {"retries": 0}}).row(name)
        assert not row.error, name
        assert [answer is None for answer in row.answers] == [n == 3 for n in range(12)], name
        assert [failure.item for failure in row.failures] == ["q3"], name
        assert row.usage.calls == len(prompts), name
        assert row.usage.input_tokens >= 0.9 * sum(len(prompt.split()) for prompt in prompts), name


def test_a_model_that_ends_in_the_middle_ends_its_row_and_keeps_what_was_answered(
    corpus: Path, tmp_path: Path
) -> None:
    kept: dict[str, Any] = {"cache": tmp_path / "kept", "config": {"limits": {"concurrency": 3}}}
    first = Slow(fails_at=6)
    stopped = measured(corpus, first, ROWS[0], **kept).row(ROWS[0])
    assert "not valid" in stopped.error
    assert first.answered <= 8, "none is begun after it, and those under way end"
    second = Slow()
    row = measured(corpus, second, ROWS[0], **kept).row(ROWS[0])
    assert not row.error
    assert row.usage.cached_calls == first.answered - 1
    assert second.answered == 12 - row.usage.cached_calls
