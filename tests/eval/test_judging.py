"""Judges: both orders, explanations, ties, several of them, their agreement, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eval.test_harness import QUICK, SMALL, Fixed

from stratagraph.eval import AnswerConfig, evaluate
from stratagraph.eval.datasets import Question
from stratagraph.eval.judging import CRITERIA, cohen_kappa, head_to_head, judge_correctness, mean_kappa
from stratagraph.eval.metrics import Difference
from stratagraph.models.gate import ModelGate
from stratagraph.testing import FakeEmbedder, MemoryCalls, ScriptedChatModel
from stratagraph.types.records import Usage

ASKED = [f"q{number}" for number in range(6)]
GOOD, BAD = ["good"] * 6, ["bad"] * 6


def judge(prefers: Callable[[str, str], str], name: str = "judge") -> ModelGate:
    """A judge by what it makes of the first and the second answer."""

    def write(prompt: str) -> str:
        first, second = (
            prompt.split(f"<{tag}>\n")[-1].split(f"\n</{tag}>")[0]
            for tag in ("first-answer", "second-answer")
        )
        verdict = {"explanation": f"{first} or {second}", "winner": prefers(first, second)}
        return json.dumps(dict.fromkeys(CRITERIA, verdict))

    return ModelGate(ScriptedChatModel(write, name=name), None, cache=MemoryCalls())


def for_good(first: str, second: str) -> str:
    return "first" if first == "good" else "second" if second == "good" else "tie"


def replying(prompt: str) -> str:
    """Answers, verdicts and comparisons, whichever is asked for."""
    if "first-answer" in prompt:
        return json.dumps({key: {"explanation": "as good", "winner": "tie"} for key in CRITERIA})
    return json.dumps({"reason": "so", "correct": True}) if "reference-answers" in prompt else "seven"


def test_an_honest_judge_is_consistent_and_one_who_favours_a_place_says_tie() -> None:
    honest = head_to_head([judge(for_good)], ASKED, GOOD, BAD)["overall"]
    assert (honest.wins, honest.ties, honest.losses, honest.win_rate) == (6, 0, 0, 1)
    assert honest.consistency == 1
    assert honest.interval == Difference(1, 1, 1, 6)
    assert honest.agreement is None
    assert honest.explanations[0] == ("(ours first: first) good or bad", "(theirs first: second) bad or good")

    partial = head_to_head([judge(lambda first, second: "first")], ASKED, GOOD, BAD)["overall"]
    assert (partial.wins, partial.ties, partial.losses, partial.win_rate) == (0, 6, 0, 0.5)
    assert partial.consistency == 0

    half = head_to_head(
        [judge(lambda first, second: "first" if first == "good" else "tie")], ASKED, GOOD, BAD
    )["overall"]
    assert (half.wins, half.consistency) == (6, 0), "won in one order and not lost in the other"


def test_most_judges_decide_and_their_agreement_is_told() -> None:
    ours = ["good", "good", "good", "bad", "bad", "even"]
    theirs = ["bad", "bad", "bad", "good", "good", "even"]
    against = judge(
        lambda first, second: "second" if first == "good" else "first" if second == "good" else "tie"
    )
    gates = [judge(for_good, "a"), judge(for_good, "b"), against]
    found = head_to_head(gates, ASKED, ours, theirs)["overall"]
    assert (found.wins, found.ties, found.losses) == (3, 1, 2)
    # a and b agree always; each with the third on the tie alone: 1/6, where chance gives 13/36.
    third = (1 / 6 - 13 / 36) / (1 - 13 / 36)
    assert found.agreement == pytest.approx((1 + third + third) / 3)
    assert len(found.explanations[0]) == 6


def test_missing_answers_and_unreadable_verdicts_are_left_out() -> None:
    broken = ModelGate(ScriptedChatModel("no verdict"), None, cache=MemoryCalls())
    found = head_to_head([judge(for_good), broken], ASKED, [None, *GOOD[1:]], BAD)["overall"]
    assert (found.wins, found.agreement) == (5, None)
    assert found.explanations[0] == ()
    alone = head_to_head([broken], ASKED, GOOD, BAD)["overall"]
    assert (alone.win_rate, alone.interval, alone.consistency) == (None, None, None)
    assert len(broken.failures) >= 12


def test_bare_verdicts_are_read_too() -> None:
    plain = ModelGate(
        ScriptedChatModel(json.dumps(dict.fromkeys(CRITERIA, "tie"))), None, cache=MemoryCalls()
    )
    assert head_to_head([plain], ASKED, GOOD, BAD)["diversity"].ties == 6


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
    questions = [Question("a", "A?", ("gold",)), Question("b", "B?", ("gold",)), Question("c", "C?")]
    gates = [
        ModelGate(ScriptedChatModel(lambda prompt, right=right: json.dumps({"correct": right(prompt)})), None)
        for right in (lambda prompt: "<answer>\none\n" in prompt, lambda prompt: True)
    ]
    found = judge_correctness(gates, "row", questions, ["one", "two", "three"])
    assert found.scores == (1, 0.5, None)
    assert found.agreement == 0
    assert found.usage.calls == 4


def asked(usage: Usage) -> int:
    return usage.calls + usage.cached_calls


def test_a_run_with_several_judges_and_gold_is_resumed_without_a_call(tmp_path: Path) -> None:
    pytest.importorskip("nltk")
    pytest.importorskip("rouge_score")

    models = [ScriptedChatModel(replying, name=name) for name in ("answers", "judge a", "judge b")]
    config = AnswerConfig(max_tokens=8, head_to_head=True, against_gold=True, judge_llm=models[1:])
    rankers = [Fixed("ours", "ferry"), Fixed("theirs", "bell")]
    settings = {**QUICK, "reference": "theirs", "cache": tmp_path, "embedder": FakeEmbedder()}
    found = evaluate(SMALL, rankers, llm=models[0], answers=config, **settings)
    ours, theirs = found.row("ours"), found.row("theirs")
    assert ours.duels["overall"].ties == 4
    assert ours.gold_duels["overall"].ties == theirs.gold_duels["overall"].ties == 3
    assert not theirs.duels
    assert ours.agreement == 1
    assert asked(ours.usage) == 4
    assert asked(ours.judging) == 2 * (3 + 2 * 4 + 2 * 3)
    assert "against the gold answers" in str(found)
    assert "kappa of judges" in str(found)
    saved = found.to_dict()["rows"][0]
    assert saved["gold_duels"]["overall"]["explanations"][0][0] == "(ours first: tie) as good"

    before = [model.calls for model in models]
    again = evaluate(SMALL, rankers, llm=models[0], answers=config, **settings)
    assert [model.calls for model in models] == before
    assert again.row("ours").duels == ours.duels


@pytest.mark.parametrize("alone", [False, True])
def test_a_judge_who_is_gone_leaves_it_to_the_other_one(alone: bool) -> None:
    pytest.importorskip("nltk")
    pytest.importorskip("rouge_score")
    gone = ScriptedChatModel(replying, name="gone", faults=["auth"], cycle=True)
    other = ScriptedChatModel(replying, name="other")
    judges = [gone] if alone else [gone, other]
    config = AnswerConfig(max_tokens=8, head_to_head=True, judge_llm=judges)
    rankers = [Fixed("ours", "ferry"), Fixed("theirs", "bell")]
    settings = {**QUICK, "reference": "theirs", "embedder": FakeEmbedder()}
    found = evaluate(SMALL, rankers, llm=ScriptedChatModel(replying), answers=config, **settings)
    ours = found.row("ours")
    if not alone:
        assert not ours.error
        assert ours.duels["overall"].ties == 4
        assert ours.scores["judged"] == (1, 1, 1, None)
        assert {each.stage for each in ours.failures} == {"judge ours", "compare ours"}
        assert "failed: compare ours: 4 of 4 questions" in str(found)
    else:
        assert ours.error.startswith("comparison: ModelError")
        assert ours.scores["em"]
