"""HiRAG's search: its three parts, the bridge, filters, answers, and settings that make no sense."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.methods.hirag import HiRAGConfig, HiRAGOptions
from stratagraph.methods.hirag.search import fresh
from stratagraph.testing.contract import documents
from tests.methods.hirag import SMALL, Answering, build


@pytest.fixture(scope="module")
def index() -> sg.Index:
    return build(documents(60), SMALL, llm=Answering())


# The search


def test_parts_and_modes(index):
    question = "the ferry captain and the apple blossom"
    for mode, parts in {
        "hi": {"local", "bridge", "global"},
        "no_bridge": {"local", "global"},
        "local": {"local"},
        "global": {"global"},
        "bridge": {"bridge"},
    }.items():
        found = index.retrieve(question, k=10, fill=False, mode=mode)
        assert len(found) == 10
        scores = [hit.score for hit in found]
        assert scores == sorted(scores, reverse=True)
        assert {entry["part"] for entry in found.trace if "part" in entry} == parts
        json.dumps(found.trace)
        for hit, entry in zip(found.hits, found.trace, strict=True):
            if entry.get("part") == "global":
                assert hit.kind == "community"
            elif entry.get("part") == "bridge":
                assert hit.kind in ("relation", "summary_entity")
                assert len(entry["path"]) >= 1


def test_a_relation_of_the_bridge_lies_on_its_path(index):
    found = index.retrieve("the ferry captain and the apple blossom", k=30, mode="bridge")
    on_path = 0
    for hit, entry in zip(found.hits, found.trace, strict=True):
        if hit.kind == "relation":
            ends = set(hit.metadata["ends"])
            assert ends <= set(entry["path"])
            on_path += any(ends == set(step) for step in pairwise(entry["path"]))
    assert on_path


def test_quotas_share_out_k(index):
    question = "ferry captain and apple"
    found = index.retrieve(question, k=10, quotas=[1, 0, 1], fill=False)
    parts = [entry["part"] for entry in found.trace]
    assert parts.count("local") == parts.count("global") == 5
    everything = index.retrieve(question, k=20, fill=False)
    assert [hit.id for hit in index.retrieve(question, k=7, fill=False)] == [
        hit.id for hit in everything.hits[:7]
    ]
    assert [entry["part"] for entry in everything.trace[:5]] == [
        "local",
        "bridge",
        "local",
        "bridge",
        "global",
    ]


def test_a_filter_holds_on_the_bridge(index):
    allowed = {document.id for document in documents(60) if document.metadata["topic"] == "orchard"}
    for mode in ("hi", "bridge"):
        found = index.retrieve("ferry apple", k=40, mode=mode, where={"topic": "orchard"})
        assert found.hits
        assert all(set(hit.documents) <= allowed for hit in found)
        names = {name for entry in found.trace for name in entry.get("path", ())}
        assert not names & {"ferry", "captain", "harbour"}


def test_the_answer_has_three_parts_within_the_budget():
    prompts: list[str] = []

    class Recording(Answering):
        async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
            if "<knowledge>" in prompt:
                prompts.append(prompt)
                return "So it is [2]."
            return await super().acomplete(prompt, schema=schema)

    built = build(documents(40), SMALL, llm=Recording())
    answer = built.answer("the ferry captain and the apple blossom")
    (prompt,) = prompts
    order = [prompt.index(f"## {part} knowledge\n") for part in ("Local", "Bridge", "Global")]
    assert order == sorted(order)
    assert [citation.number for citation in answer.citations] == [2]
    assert f"[2] {answer.citations[0].text}" in prompt
    assert answer.citations[0].sources


def test_triples_that_repeat_a_better_triple_come_later():
    assert fresh([[1], [1], [2], [3]], 3).tolist() == [0, 2, 3]
    assert fresh([[1], [1], [2], [3]], 4).tolist() == [0, 2, 3, 1]
    assert fresh([[1, 2, 3, 4], [1]], 2).tolist() == [0, 1]
    assert fresh([[]], 2).tolist() == [0]
    assert fresh([], 3).tolist() == []


def test_the_best_triple_of_the_bridge_is_always_a_result(index):
    for question in ("the ferry captain and the apple blossom", "ferry", "apple and captain", "nothing"):
        alone = index.retrieve(question, k=40, mode="bridge", fill=False)
        best = next(hit.id for hit in alone if hit.kind == "relation")
        for k in (2, 4, 10, 40):
            assert best in {hit.id for hit in index.retrieve(question, k=k, fill=False)}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"mode": "all"}, ValueError),
        ({"entities": 0}, ValueError),
        ({"communities": 1.5}, TypeError),
        ({"quotas": (1, 1)}, TypeError),
        ({"quotas": (0, 0, 0)}, ValueError),
        ({"quotas": (1, -1, 1)}, ValueError),
    ],
)
def test_options_that_make_no_sense(wrong, error):
    with pytest.raises(error, match=next(iter(wrong))):
        HiRAGOptions(**wrong)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"cluster_size": 1}, ValueError),
        ({"max_cluster": 4}, ValueError),
        ({"threshold": 0.0}, ValueError),
        ({"report_form": "long"}, ValueError),
        ({"context_tokens": 99}, ValueError),
        ({"meta_types": "place"}, TypeError),
        ({"meta_types": [""]}, ValueError),
        ({"seed": True}, TypeError),
    ],
)
def test_settings_that_make_no_sense(wrong, error):
    with pytest.raises(error, match=next(iter(wrong))):
        HiRAGConfig(**wrong)
