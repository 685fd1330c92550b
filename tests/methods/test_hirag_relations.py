"""Relations from members to their summary entity: asked of the model, kept, and used (ERRATA H7)."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import import_module
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.methods.hirag.naming import UNKNOWN, Belonging, ProposedSummary, parse_summary, proposed
from stratagraph.testing.contract import documents
from tests.methods.hirag import SMALL, Answering, build, stored

writing = import_module("stratagraph.methods.hirag.summary_entities")


class Relating(Answering):
    """It says of every member why it belongs to the summary entity, and of one that is no member."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[str] = []

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        self.prompts.append(prompt)
        if schema is None:
            return "An answer [1]."
        answer = await super().acomplete(prompt, schema=schema)
        if schema.__name__ != "SummarySchema":
            return answer
        found = json.loads(answer)
        names = re.findall(r"<member>\n\[(\d+)\] ([^:\n]+)", prompt)
        members = [f"7/10|{number}|{name} is of it." for number, name in names]
        found["entities"][0]["members"] = [*members, "3|99|a stranger"]
        return json.dumps(found)


@pytest.fixture(scope="module")
def model() -> Relating:
    return Relating()


@pytest.fixture(scope="module")
def index(model: Relating) -> sg.Index:
    return build(documents(60), SMALL, llm=model)


def relations_of(index: sg.Index) -> dict[str, dict[str, Any]]:
    _, own, _ = stored(index)
    made = [node for node in own if node.kind == "summary_entity"]
    return {node.id: each["members"] for node in made for each in node.extra["summaries"]}


def test_every_member_has_its_reason_and_strength(index: sg.Index) -> None:
    _, own, _ = stored(index)
    found = relations_of(index)
    for node in own:
        if node.kind == "summary_entity":
            assert set(found[node.id]) <= set(node.extra["members"])
            assert found[node.id]
    reason, strength = next(iter(next(iter(found.values())).values()))
    assert reason.endswith("is of it.")
    assert strength == 7.0


def test_the_bridge_tells_them_and_the_answer_rests_on_them(index: sg.Index, model: Relating) -> None:
    found = index.retrieve("the ferry captain and the apple blossom", k=40, mode="bridge", fill=False)
    told = [entry["members"] for entry in found.trace if "members" in entry]
    assert told
    assert all(set(each) == {"name", "reason", "strength"} for members in told for each in members)
    index.answer("the ferry captain and the apple blossom", mode="bridge")
    assert "It connects " in model.prompts[-1]
    assert told[0][0]["reason"] in model.prompts[-1]


def test_the_report_counts_members_that_are_not_in_their_group(index: sg.Index, model: Relating) -> None:
    assert index.last_report is not None
    assert index.last_report.notes[UNKNOWN] >= model.asked["SummarySchema"]


def test_relations_that_cannot_be_read_do_not_cost_the_summary() -> None:
    assert members_of(["?", "|", "9|4", "9|-1", "8|0", "no name", None, {}, "5|1"]) == {
        "a": Belonging("", 5.0)
    }
    assert members_of(None) == {}
    assert members_of([["9", 1], 2, {"name": "1888", "strength": 4}]) == {
        "a": Belonging("", 9.0),
        "b": Belonging("", 0.0),
        "c": Belonging("", 4.0),
    }


def test_members_are_told_by_strength_and_number() -> None:
    assert members_of(["9|1|2", "6|[3]|It is a year."]) == {
        "a": Belonging("", 9.0),
        "b": Belonging("", 9.0),
        "c": Belonging("It is a year.", 6.0),
    }
    assert members_of("99|loom|1888") == {"a": Belonging("", 10.0), "c": Belonging("", 10.0)}
    assert members_of(["8|1", "3|1|again", "0|2"]) == {"a": Belonging("", 8.0), "b": Belonging("", 0.0)}


def members_of(members: object) -> dict[str, Belonging]:
    """What is read of a model's `members`, in a cluster of Loom, Mill and 1888 with the ids a, b and c."""
    answer = {"entities": [{"name": "crafts", "members": members}]}
    given = [("Loom", "a"), ("Mill", "b"), ("1888", "c")]
    (found,) = proposed("c", 1, parse_summary(json.dumps(answer)), given, Counter())
    assert found.name == "crafts"
    return dict(found.members)


def test_a_stored_summary_is_read_again() -> None:
    summary = ProposedSummary(
        "c", 1, "crafts", "", "All of them.", "model", {"id": Belonging("It is one.", 4.0)}
    )
    assert ProposedSummary.read(json.loads(json.dumps(summary.stored()))) == summary
    for members in ({"id": "text"}, None):
        with pytest.raises(sg.errors.Damaged, match="summary entities"):
            ProposedSummary.read({**summary.stored(), "members": members})


def test_a_summary_entity_of_the_local_part_has_its_members_on_the_bridge(index: sg.Index) -> None:
    found = index.retrieve(
        "the ferry captain and the apple blossom", k=60, mode="hi", fill=False, entities=60
    )
    local = [
        (hit, entry) for hit, entry in zip(found.hits, found.trace, strict=True) if entry["part"] == "local"
    ]
    told = [(hit, entry["members"]) for hit, entry in local if "members" in entry]
    assert told
    _, own, _ = stored(index)
    nodes = {node.id: node for node in own}
    for hit, members in told:
        reasons = [each for one in nodes[hit.id].extra["summaries"] for each, _ in one["members"].values()]
        assert {each["reason"] for each in members} <= set(reasons)
