"""Judges of answers: several of them, their agreement, what fails, and what it costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.eval.test_harness import QUICK, SMALL, Fixed

from stratagraph.eval import AnswerConfig, evaluate
from stratagraph.eval.answering import cohen_kappa, mean_kappa
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from stratagraph.types.records import Usage


def replying(prompt: str) -> str:
    return json.dumps({"reason": "so", "correct": True}) if "reference-answers" in prompt else "seven"


def test_kappa_is_that_of_the_textbook() -> None:
    # Cohen's own kind of table: 20 + 15 agreements of 50, marginals 25/25 and 30/20: (.7 - .5) / (1 - .5).
    one = ["yes"] * 25 + ["no"] * 25
    other = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(one, other) == pytest.approx(0.4)
    assert cohen_kappa(one, one) == 1
    assert cohen_kappa(["a", "a"], ["a", "a"]) == 1
    assert cohen_kappa(["a", "b"], ["b", "a"]) == -1
    assert cohen_kappa(["a", None], [None, "a"]) is None
    assert mean_kappa([one]) is None
    assert mean_kappa([one, other, one]) == pytest.approx((0.4 + 1 + 0.4) / 3)


def test_correctness_is_the_share_of_the_judges() -> None:
    judges = [
        ScriptedChatModel(lambda prompt, word=word: json.dumps({"correct": word in prompt}), name=word)
        for word in ("ferry", "?")
    ]
    config = AnswerConfig(judge_llm=judges)
    model = ScriptedChatModel(replying)
    row = evaluate(
        SMALL, [Fixed("ours", "ferry")], llm=model, answers=config, embedder=FakeEmbedder(), **QUICK
    ).row("ours")
    assert row.scores["judged"] == (1, 0.5, 0.5, None)
    assert row.agreement == 0
    assert row.judging.calls == 6


def asked(usage: Usage) -> int:
    return usage.calls + usage.cached_calls


def test_a_run_with_several_judges_is_resumed_without_a_call(tmp_path: Path) -> None:
    models = [ScriptedChatModel(replying, name=name) for name in ("answers", "judge a", "judge b")]
    config = AnswerConfig(max_tokens=8, judge_llm=models[1:])
    rankers = [Fixed("ours", "ferry"), Fixed("theirs", "bell")]
    embedder = FakeEmbedder()
    settings = {**QUICK, "reference": "theirs", "cache": tmp_path, "embedder": embedder}
    found = evaluate(SMALL, rankers, llm=models[0], answers=config, **settings)
    ours = found.row("ours")
    assert ours.agreement == 1
    assert (asked(ours.usage), asked(ours.judging)) == (4, 2 * 3)
    assert "kappa of judges" in str(found)
    before, embedded = [model.calls for model in models], sum(embedder.requests)
    assert embedded == len({each.text for each in SMALL.documents})
    again = evaluate(SMALL, rankers, llm=models[0], answers=config, **settings)
    assert [model.calls for model in models] == before
    assert sum(embedder.requests) == embedded
    assert again.row("ours").scores == ours.scores


@pytest.mark.parametrize("alone", [False, True])
def test_a_judge_who_is_gone_leaves_it_to_the_other_one(alone: bool) -> None:
    gone = ScriptedChatModel(replying, name="gone", faults=["auth"], cycle=True)
    judges = [gone] if alone else [gone, ScriptedChatModel(replying, name="other")]
    config = AnswerConfig(max_tokens=8, judge_llm=judges)
    model, settings = ScriptedChatModel(replying), {**QUICK, "embedder": FakeEmbedder()}
    found = evaluate(SMALL, [Fixed("ours", "ferry")], llm=model, answers=config, **settings)
    ours = found.row("ours")
    if alone:
        assert ours.error.startswith("judging: ModelError")
        assert ours.scores["em"]
    else:
        assert not ours.error
        assert ours.scores["judged"] == (1, 1, 1, None)
        assert {each.stage for each in ours.failures} == {"judge ours"}
        assert "failed: judge ours: 3 of 4 questions" in str(found)
