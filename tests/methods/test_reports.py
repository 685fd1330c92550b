"""Reports on groups: what a model says is taken as it is meant; what it fails to say is made of the texts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from stratagraph.ingest.summarize import EXTRACTIVE, FAILED, MODEL, Group, extractive_summary
from stratagraph.methods.reports import WrittenReport, joined_members, write_reports
from stratagraph.models.gate import ModelGate
from stratagraph.testing import ScriptedChatModel

GROUP = Group(
    "Ada, Lamp",
    ["Ada brought oil to the lamp of the lighthouse.", "The lamp of the lighthouse burns oil."],
    ["c1", "c2", "c3"],
)


def words(text: str) -> int:
    return len(text.split())


def gate(answers: Sequence[str] | str | None, **kwargs: float) -> ModelGate:
    return ModelGate(ScriptedChatModel(answers), None, count_tokens=words, max_failures=1.0)


async def reports(answers: Sequence[str] | str, groups: Sequence[Group] = (GROUP,)) -> list[WrittenReport]:
    return await write_reports(groups, gate(answers), max_tokens=20, form="short")


def answer(**fields: object) -> str:
    return json.dumps({"title": "Oil", "summary": "Ada brings oil.", **fields})


async def test_what_the_model_says() -> None:
    (report,) = await reports(answer(rating=85))  # what else it says is left out
    assert report == WrittenReport("Oil", "Ada brings oil.", MODEL)
    assert report.text == "Oil: Ada brings oil."


async def test_a_summary_that_is_far_too_long_is_cut_where_a_sentence_ends() -> None:
    (report,) = await reports(answer(summary="Ten words are in this sentence, and it is long. " * 50))
    assert 0 < words(report.summary) <= 2 * 8 * 20
    assert report.summary.endswith("it is long.")
    (endless,) = await reports(answer(summary="word " * 5000))
    assert 0 < words(endless.summary) <= 2 * 8 * 20


async def test_words_grow_with_the_members() -> None:
    granted = []
    for count in (3, 30):
        model = ScriptedChatModel(answer())
        group = Group("g", [f"Member {n} is here." for n in range(count)], ["c"])
        await write_reports([group], ModelGate(model, None), max_tokens=20, form="short")
        granted.append(int(model.prompts[0].split("at most ")[1].split(" words")[0]))
    assert granted[0] < granted[1]
    assert granted[1] >= 8 * 30


async def test_findings_name_the_members_that_state_them() -> None:
    said = [
        {"text": "Ada brought oil.", "members": ["[1]", 2]},
        {"text": "The lamp burns oil.", "members": "2, 9"},
        {"text": "", "members": [1]},
    ]
    model = ScriptedChatModel(answer(findings=said))
    group = Group(GROUP.item, GROUP.texts, GROUP.sources, [("ada",), ("ada", "lamp")])
    (report,) = await write_reports([group], ModelGate(model, None), max_tokens=20, form="findings")
    assert report.text == "Oil: Ada brings oil.\nAda brought oil.\nThe lamp burns oil."
    assert report.extra["findings"] == [
        {"text": "Ada brought oil.", "members": ["ada", "lamp"]},
        {"text": "The lamp burns oil.", "members": ["ada", "lamp"]},
    ]
    assert "[1] Ada brought oil to the lamp" in model.prompts[0]


async def test_a_failed_report_is_extractive_and_listed() -> None:
    failing = gate("no JSON at all")
    (report,) = await write_reports([GROUP], failing, max_tokens=20, form="findings")
    assert report.by == FAILED
    assert report.title == "Ada, Lamp"
    assert report.summary in GROUP.texts or set(report.summary.splitlines()) <= set(GROUP.texts)
    assert [failure.item for failure in failing.failures] == ["Ada, Lamp"]


async def test_without_a_model_sentences_are_taken() -> None:
    without = ModelGate(None, None, count_tokens=words)
    (report,) = await write_reports([GROUP], without, max_tokens=20, form="findings")
    assert report.summary == extractive_summary(GROUP.texts, 20, words)
    assert report.by == EXTRACTIVE
    assert set(report.summary.splitlines()) <= set(GROUP.texts)


def test_members_fit_and_the_first_come_first() -> None:
    shown, count = joined_members([f"member{n} " + "word " * 30 for n in range(50)], 200, words)
    assert words(shown) <= 200 + 50
    assert count == shown.count("<member>")
    assert shown.index("member0") < shown.index("member1")
    assert "member40" not in shown


def test_one_endless_member_leaves_room_for_others() -> None:
    shown, count = joined_members(["first " * 1000, "second"], 100, words)
    assert ("second" in shown, "first" in shown, count) == (True, False, 1)
    shown, count = joined_members(["first " * 1000], 100, words)
    assert (words(shown) <= 100, "first" in shown, count) == (True, True, 1)


def test_members_are_cut_where_a_sentence_ends() -> None:
    shown, _ = joined_members(["One sentence is short. Another one is " + "long " * 50 + "."], 80, words)
    assert shown == "<member>\nOne sentence is short.\n</member>"


def test_what_an_earlier_member_says_is_not_shown_again() -> None:
    texts = ["Runa Vik: She sold the mill.", "mill: She sold the mill.", "Soll: It is a river."]
    shown, count = joined_members(texts, 80, words)
    assert (shown.count("sold the mill"), count) == (1, 2)
    assert "\nmill" not in shown
    shown, count = joined_members(texts, 80, words, numbered=True)
    assert (shown.count("sold the mill"), count) == (1, 3)
    assert "\n[2] mill\n" in shown
