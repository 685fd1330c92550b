"""HiRAG's own promises: its hierarchy, updates, what models get wrong, and the three parts of its search."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.ingest.names.spelling import telling
from stratagraph.methods.hirag.naming import cluster_name, members_named
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from stratagraph.testing.contract import documents
from stratagraph.testing.opened import snapshot_of
from tests.methods.hirag import SMALL, Answering, build, check, hash_of, stored


@pytest.fixture(scope="module")
def index() -> sg.Index:
    return build(documents(60), SMALL, llm=Answering())


# The hierarchy


def test_layers_go_on_until_one_is_too_small_or_hardly_smaller():
    details = build(documents(60), SMALL).stats()["methods"]["hirag"]
    few = documents(20)
    sizes = details["layers"]
    assert len(sizes) >= 3
    assert len(details["sparsity"]) == len(sizes)
    assert all(size >= 2 * SMALL["cluster_size"] for size in sizes)
    assert all(above <= 0.9 * below for below, above in pairwise(sizes))
    assert details["summary_entities"][str(len(sizes))] < 2 * SMALL["cluster_size"]
    assert len(build(few, SMALL | {"max_layers": 1}).stats()["methods"]["hirag"]["layers"]) == 1
    assert len(build(few, SMALL | {"max_layers": 0}).stats()["methods"]["hirag"]["layers"]) == 0


def test_a_summary_entity_with_the_name_of_an_entity_is_that_entity():
    def named(prompt: str) -> list[str]:
        return ["Ferry", "ferry"] if "told" in prompt.split("<entities>")[-1] else ["harbour life"]

    built = build(documents(20), SMALL, llm=Answering(named))
    graph, own, arrays = stored(built)
    ferry = next(row for row, node in enumerate(graph) if node.id == "ferry")
    assert not [node for node in own if node.kind == "summary_entity" and node.extra["name"] == "Ferry"]
    assert "of Ferry" not in graph[ferry].text
    start, end = arrays["layered.indptr"][ferry : ferry + 2]
    neighbours = arrays["layered.indices"][start:end].tolist()
    assert len(neighbours) > 5
    assert ferry not in neighbours
    check(built, max_cluster=5, max_community=6)


def test_an_index_whose_summaries_all_have_names_of_entities_can_change():
    def member(prompt: str) -> list[str]:
        return re.findall(r"^<member(?:-\w+)?>\n(?:\[\d+\] )?([^:\n]+)", prompt, re.MULTILINE)[:1]

    model = Answering(member)
    index = build(documents(20), SMALL, llm=model)
    assert index.stats()["methods"]["hirag"]["nodes"]["summary_entities"] == 0
    for change in (
        lambda: index.insert(documents(3, start=20)),
        lambda: index.delete("doc-004"),
        index.regroup,
    ):
        change()
        check(index, max_cluster=5, max_community=6)
    model._summaries = lambda prompt: [f"group {hash_of(prompt)}"]
    index.insert(documents(4, start=30))
    assert index.stats()["methods"]["hirag"]["nodes"]["summary_entities"] > 0
    check(index, max_cluster=5, max_community=6)


def test_a_group_with_nothing_in_common_gets_no_summary_entity():
    def some(prompt: str) -> list[str]:
        return [f"group {hash_of(prompt)}"] if hash_of(prompt) % 2 else []

    model = Answering(some)
    index = build(documents(60), SMALL, llm=model)
    assert index.last_report.failures == ()
    check(index, max_cluster=5, max_community=6)
    _, own, _ = stored(index)
    asked, made = model.asked["SummarySchema"], [node for node in own if node.kind == "summary_entity"]
    assert 0 < len(made) < asked
    index.insert(documents(1, start=60))
    assert model.asked["SummarySchema"] - asked < asked / 3  # a refusal is not asked for again
    check(index, max_cluster=5, max_community=6)
    none = build(documents(16), SMALL, llm=Answering(lambda prompt: []))
    assert none.last_report.failures == ()
    assert none.stats()["methods"]["hirag"]["nodes"]["summary_entities"] == 0
    assert len(none.stats()["methods"]["hirag"]["layers"]) == 1
    check(none, max_cluster=5, max_community=6)


@pytest.mark.parametrize("names", [[""], ["...", "  "]], ids=["blank", "no names"])
def test_a_model_that_names_no_summary_entity(names):
    model = Answering(lambda prompt: names)
    index = sg.build_index(
        documents(30),
        method="hirag",
        llm=model,
        embedder=FakeEmbedder(),
        config={"max_failures": 1.0, "hirag": SMALL | {"max_layers": 1}},
        progress=False,
    )
    assert index.last_report.failures
    _, own, arrays = stored(index)
    assert not any(node.extra["by"] == "model" for node in own if node.kind == "summary_entity")
    assert arrays["layered.edges"].max() >= snapshot_of(index).part("graph").arrays["counts"][1]
    check(index, max_cluster=5, max_community=6)
    model._summaries = lambda prompt: [f"group {hash_of(prompt)}"]
    assert index.insert(documents(30)).failures == ()
    _, own, _ = stored(index)
    assert all(node.extra.get("by", "model") == "model" for node in own)


def test_meta_types_are_chosen_once_or_given():
    model = Answering()
    built = build(documents(30), SMALL, llm=model)
    assert model.asked["MetaTypesSchema"] == 1
    built.insert(documents(2, start=30))
    assert model.asked["MetaTypesSchema"] == 1
    given = Answering()
    build(documents(30), SMALL | {"meta_types": ["craft"]}, llm=given)
    assert "MetaTypesSchema" not in given.asked


def test_without_a_model_a_cluster_is_named_by_its_central_members():
    names = ["Siskin Bridge", "Roake Bridge", "Sarn", "New Bridge", "Vell", "the Narrow"]
    vectors = np.ones((6, 2), np.float32)
    vectors[2] = 5, 5

    def named(*places: int) -> str:
        return cluster_name([names[place] for place in places], vectors[list(places)])

    assert named(4, 2) == "Sarn and Vell"
    assert named(0, 2, 4, 5) == "Sarn, Siskin Bridge and Vell"
    assert named(0, 1, 2, 3) == "Siskin Bridge and other Bridges"
    assert members_named("Sarn, Siskin Bridge and Vell") == ["Sarn", "Siskin Bridge", "Vell"]
    same = cluster_name(["Sarn", "Sarn"], vectors[:2])
    assert same != "Sarn", "a cluster that has a member's name would be that member"


def test_a_group_is_called_by_names_before_phrases_and_by_nothing_twice() -> None:
    names = ["deep yellow", "Ferrymen's Company", "Ferrymen", "Petrel", "Petrel"]
    assert telling(names, 3) == ["Ferrymen's Company", "Petrel", "deep yellow"]
    assert telling(["東京 大学", "東京", "京都"], 3) == ["東京 大学", "京都"]


# Input that offers little


def test_all_entities_equal():
    class Constant(FakeEmbedder):
        def _vector(self, text: str) -> Any:
            return np.full(self.dimension, self.dimension**-0.5, np.float32)

    built = build(documents(20), SMALL, embedder=Constant())
    check(built, max_cluster=5, max_community=6)
    assert len(built.retrieve("ferry", k=20)) == 20


def test_key_entities_that_cannot_be_reached():
    apart = ["Aldo met Berta. " * 3, "Carlo met Dora. " * 3]
    built = build(apart, {"max_layers": 0})
    found = built.retrieve("Aldo Berta Carlo Dora", k=6, fill=False)
    told = found.trace[0]["bridge"]
    assert told["unreachable"] >= 1
    assert all(
        len(pair) == 2 and all(isinstance(name, str) for name in pair) for pair in told["without_path"]
    )


# Updates


def test_an_insert_costs_what_changed():
    model = Answering()
    built = build(many(150), llm=model)
    cost = sum(model.asked.values())
    for coming in (many(2, start=150, topic=99), many(2, start=160)):  # coherent, scattered
        asked = sum(model.asked.values())
        built.insert(coming)
        assert 0 < sum(model.asked.values()) - asked <= cost / 10
        check(built)


def many(count: int, start: int = 0, topic: int | None = None) -> list[sg.Document]:
    """Documents about twenty topics, each with names of its own."""
    made = []
    for number in range(start, start + count):
        kind = number * 7 % 20 if topic is None else topic
        names = " ".join(f"topic{kind}part{(number + j) % 9}no{number}" for j in range(8))
        made.append(sg.Document(f"doc-{number:04}", f"Note {number} tells of topic{kind} now {names}"))
    return made


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
    answer = built.answer("the ferry captain and the apple blossom", guided=False)
    (prompt,) = prompts
    order = [prompt.index(f"## {part} knowledge\n") for part in ("Local", "Bridge", "Global")]
    assert order == sorted(order)
    assert [citation.number for citation in answer.citations] == [2]
    assert f"[2] {answer.citations[0].text}" in prompt
    assert answer.citations[0].sources


def test_the_best_triple_of_the_bridge_is_always_a_result(index):
    for question in ("the ferry captain and the apple blossom", "ferry", "apple and captain", "nothing"):
        alone = index.retrieve(question, k=40, mode="bridge", fill=False)
        best = next(hit.id for hit in alone if hit.kind == "relation")
        for k in (2, 4, 10, 40):
            assert best in {hit.id for hit in index.retrieve(question, k=k, fill=False)}


def test_paths_of_the_bridge_take_only_what_tokens_are_left(tmp_path):
    texts = [
        "Mara Quill steered the ferry Dunlin from Ostra to Bremen for ten years.",
        "The Dunlin ran aground off Cape Ellery in the gale of 1895. All aboard were saved.",
        "The lamp of Cape Ellery was kept by Tomas Quill, who had let it go out.",
        "Tomas Quill had a sister in Perrow, Lettice Marsh.",
        "The harbour board of Perrow sold the lamp of Lettice Marsh in 1902.",
    ]
    embedder, model = FakeEmbedder(), ScriptedChatModel("By the Dunlin [1].")
    sg.build_index(texts, "hirag", path=tmp_path, embedder=embedder, progress=False).close()
    question = "How is Mara Quill connected with Lettice Marsh?"
    with sg.open_index(tmp_path, llm=model, embedder=embedder) as index:
        for tokens in range(60, 700, 20):
            index.answer(question, method="hirag", max_tokens=tokens, guided=False)
        held = index.retrieve(question, method="hirag")
    paths = [re.findall(r"^\[\d+\] (.*?)\(step \d+ of the path ", each, re.M) for each in model.prompts]
    assert all(before.strip() for found in paths for before in found), "a path follows its statement"
    assert not paths[0]
    assert paths[-1]
    assert any("path" in entry for entry in held.trace)
