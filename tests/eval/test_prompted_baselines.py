"""GraphRAG, LightRAG, RAPTOR, and models without retrieval: what they return, ask and answer."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.eval.benches import STANFORD, Facts, bench_of, ids, random_facts

from stratagraph.errors import ModelError, TooManyFailures
from stratagraph.eval.baselines import make, raptor
from stratagraph.eval.baselines.graphrag import LARGEST, hierarchy
from stratagraph.eval.baselines.shared import shared_out
from stratagraph.eval.workbench import Passage, Workbench
from stratagraph.testing import ScriptedChatModel

CHAIN: Facts = {
    "a": [("Windle Hill", "stands on", "Orrin")],
    "b": [("Orrin", "lies north of", "Sarn"), ("Sarn", "trades with", "Orrin")],
    "c": [("Sarn", "sells", "Honey")],
    "d": [("Panhythe", "boils", "Salt")],
}


def answered(ranker: Any, question: str, tokens: int = 1000) -> tuple[str, Any]:
    return asyncio.run(ranker.answer(question, tokens, "brief"))


# LightRAG


def keyword_bench(low: list[str], high: list[str], view: str = "chunks") -> Workbench:
    said = json.dumps({"low_level": low, "high_level": high})
    model = ScriptedChatModel(lambda prompt: said if "low_level" in prompt else '{"entities": []}')
    return bench_of(CHAIN, "what?", llm=model, view=view)


def test_low_level_keywords_lead_to_entities_and_their_passages() -> None:
    bench = keyword_bench(["Orrin"], [])
    ranking = ids(make("lightrag", bench, {"mode": "local"}).rank("what?", 4))
    # Orrin is in a and b; its neighbours are Windle Hill (in a) and Sarn (in b): one each, so in order.
    assert ranking[:2] == ["a", "b"]
    assert "d" not in ranking


def test_high_level_keywords_lead_to_relations_and_their_passages() -> None:
    bench = keyword_bench([], ["boils Salt"])
    assert ids(make("lightrag", bench, {"mode": "global"}).rank("what?", 4))[0] == "d"
    assert make("lightrag", bench, {"mode": "local"}).rank("what?", 4) == []


def test_hybrid_takes_both_levels_in_turn_and_mix_similar_passages_too() -> None:
    bench = keyword_bench(["Windle Hill"], ["boils Salt"])
    assert ids(make("lightrag", bench, {"mode": "hybrid"}).rank("what?", 2)) == ["a", "d"]
    assert ids(make("lightrag", bench, {"mode": "naive"}).rank("what?", 4)) == ids(
        make("dense", bench).rank("what?", 4)
    )
    mixed = ids(make("lightrag", bench, {"mode": "mix"}).rank("what?", 4))
    assert mixed[0] == ids(make("dense", bench).rank("what?", 1))[0]
    assert {"a", "d"} <= set(mixed[:4])


def test_nodes_are_entities_relations_and_passages() -> None:
    bench = keyword_bench(["Sarn"], ["Sarn sells Honey"], view="nodes")
    texts = [passage.text for passage in make("lightrag", bench).rank("what?", 12)]
    assert any(text.startswith("Sarn") and " - " not in text for text in texts)
    assert any("Sarn - Honey" in text for text in texts)
    assert any(text == "Sarn sells Honey." for text in texts)


def test_without_a_model_names_and_other_words_are_the_keywords() -> None:
    bench = bench_of(CHAIN, "what does Sarn sell?")
    assert "c" in ids(make("lightrag", bench).rank("what does Sarn sell?", 3))


# GraphRAG


def test_local_search_goes_from_entities_to_passages_reports_and_relations() -> None:
    question = "Stanford"
    chunks = ids(make("graphrag_local", bench_of(STANFORD, question)).rank(question, 7))
    assert {each[0] for each in chunks[:3]} == {"1", "3", "4"}, "Stanford's own passages come first"
    nodes = make("graphrag_local", bench_of(STANFORD, question, view="nodes")).rank(question, 60)
    texts = [node.text for node in nodes]
    assert any(len(node.documents) > 1 for node in nodes), "a report on a community"
    related = [text for text in texts if " - " in text.split(":")[0]]
    assert related
    assert any("Stanford" in text for text in related)


def test_global_search_maps_over_all_reports_and_reduces_the_best_points() -> None:
    def reply(prompt: str) -> str:
        if "<points>" in prompt:
            return "Sarn"
        if "<reports>" in prompt:
            points = [("weak", 20), ("useless", 0), ("strong", 90)]
            return json.dumps({"points": [{"description": text, "score": score} for text, score in points]})
        return json.dumps({"title": "Title", "summary": "Summary"})

    model = ScriptedChatModel(reply)
    ranker = make("graphrag_global", bench_of(CHAIN, "where?", llm=model))
    before = model.calls
    text, usage = answered(ranker, "where?")
    assert text == "Sarn"
    assert model.calls - before == usage.calls == 2, "all reports fit one call"
    reduced = model.prompts[-1]
    assert reduced.index("(90) strong") < reduced.index("(20) weak")
    assert "useless" not in reduced
    again, cost = answered(ranker, "where?")
    assert (again, cost.calls, cost.cached_calls) == ("Sarn", 0, 2), "its own cost, not that of both"


def test_global_search_fills_as_many_calls_as_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratagraph.eval.baselines.graphrag.MAP_TOKENS", 12)
    model = ScriptedChatModel(
        lambda prompt: (
            json.dumps({"points": []})
            if "<reports>" in prompt
            else reporting(prompt).replace("Trade", f"Trade {len(prompt)}")
        )
    )
    ranker: Any = make(
        "graphrag_global", bench_of(random_facts(2, documents=90, entities=70), "what?", llm=model)
    )
    answered(ranker, "what?")
    assert sum("<reports>" in prompt for prompt in model.prompts) > 1


@pytest.mark.parametrize("kind", ["leiden", "attributed"])
def test_levels_of_communities_are_nested_and_know_their_chunks(kind: Any) -> None:
    bench = bench_of(random_facts(2, documents=90, entities=70), "what?")
    levels = hierarchy(bench, kind)
    assert len(levels) > 1 or kind == "attributed"
    graph = bench.graph
    for level in levels:
        members = [row for each in level for row in each.members]
        assert len(members) == len(set(members))
        for each in level:
            assert set(each.sources) == {
                chunk for row in each.members for chunk in graph.entities[row].sources
            }
            assert each.text
    for coarse, fine in pairwise(levels):
        for each in fine:
            assert sum(set(each.members) <= set(above.members) for above in coarse) == 1
    if kind == "leiden":
        assert max(len(each.members) for each in levels[-1]) <= LARGEST


def reporting(prompt: str) -> str:
    if '"rating_reason"' not in prompt:
        return '{"entities": []}'
    report = {
        "title": "Trade",
        "summary": "What is sold.",
        "rating": "8/10",
        "rating_reason": "Much is sold.",
    }
    return json.dumps(
        {**report, "findings": [{"summary": "Honey is sold.", "explanation": "Sarn sells it."}]}
    )


def test_reports_have_findings_and_a_rating_and_a_stage_of_their_own() -> None:
    bench = bench_of(CHAIN, "what?", llm=ScriptedChatModel(reporting))
    reports = [each for level in hierarchy(bench) for each in level]
    assert {each.text for each in reports} == {
        "# Trade\n\nWhat is sold.\n\n## Honey is sold.\n\nSarn sells it."
    }
    assert {each.rating for each in reports} == {8.0}
    assert bench.gate.ledger.stages["graphrag reports"].calls == len({each.members for each in reports})


def test_reports_on_parts_stand_for_members_that_are_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedChatModel(reporting)
    monkeypatch.setattr("stratagraph.eval.baselines.graphrag.MEMBER_TOKENS", 120)
    bench = bench_of(random_facts(2, documents=90, entities=70), "what?", llm=model)
    levels = hierarchy(bench)
    prompts = [each for each in model.prompts if '"rating_reason"' in each]
    built_on = [each for each in prompts if "Honey is sold." in each]
    assert 0 < len(built_on) < len(prompts) == len({each.members for level in levels for each in level})


@pytest.mark.parametrize("kind", ["leiden", "attributed"])
@pytest.mark.parametrize(("faults", "error"), [(["auth"], ModelError), ([], TooManyFailures)])
def test_a_model_that_writes_no_report_fails_the_row(
    kind: str, faults: list[str], error: type[Exception]
) -> None:
    model = ScriptedChatModel(lambda prompt: "no report", faults=faults, cycle=True)
    bench = bench_of(random_facts(2, documents=90, entities=70), "what?", llm=model)
    with pytest.raises(error):
        make("graphrag_global", bench, {"communities": kind})


def test_attributed_communities_join_what_is_alike() -> None:
    facts = {f"{n}": [(f"honey bees {n}", "near", f"honey bees {n + 1}")] for n in range(0, 30, 2)}
    facts |= {f"s{n}": [(f"salt boiler {n}", "near", f"salt boiler {n + 1}")] for n in range(0, 30, 2)}
    bench = bench_of(facts, "what?")
    (alike, *_), (plain, *_) = hierarchy(bench, "attributed"), hierarchy(bench, "leiden")
    assert len(alike) < len(plain), "fifteen separate pairs each: relations alone join no two of them"
    names = bench.graph.names
    assert all(len({names[row].split()[0] for row in each.members}) == 1 for each in alike)


def test_each_ranking_has_its_share_of_the_tokens() -> None:
    bench = bench_of(CHAIN, "what?")
    streams = [(share, [Passage(f"{share} x x x", ("a",))] * 20) for share in (0.15, 0.5, 0.35)]
    found = [passage.text.split()[0] for passage in shared_out(streams, bench, 20)]
    assert [found.count(share) for share in ("0.15", "0.5", "0.35")] == [3, 10, 7]
    assert len(shared_out([(0.5, streams[0][1][:2]), (0.5, [])], bench, 9)) == 2


# RAPTOR


def test_no_level_is_made_of_eleven_nodes() -> None:
    facts = {f"{n:02}": [(f"thing {n}", "is like", f"thing {n + 1}")] for n in range(12)}
    for count, summaries in ((11, False), (12, True)):
        bench = bench_of(dict(list(facts.items())[:count]), "thing", view="nodes")
        found = make("raptor", bench).rank("thing", 60)
        assert any(len(node.documents) > 1 for node in found) == summaries


def test_a_cluster_that_is_too_long_for_a_summary_is_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.random.default_rng(0).choice([f"word{n}" for n in range(300)], (40, 60))
    facts: Facts = {f"{n:02}": [(" ".join(words[n]), "like", f"thing {n}")] for n in range(40)}

    def longest() -> int:
        model = ScriptedChatModel(lambda prompt: "summary")
        bench = bench_of(facts, "thing", llm=model)
        make("raptor", bench)
        return max(each.count(" like thing ") for each in model.prompts) * 63  # words of a passage

    assert 250 < longest() <= raptor.MOST_TOKENS
    monkeypatch.setattr(raptor, "MOST_TOKENS", 250)
    assert longest() <= 250


# Without retrieval


def test_zero_shot_and_chain_of_thought_retrieve_nothing_and_answer() -> None:
    model = ScriptedChatModel(
        lambda prompt: (
            json.dumps({"steps": "Sarn is north.", "answer": "honey"})
            if re.search("step by step", prompt)
            else "salt"
        )
    )
    bench = bench_of(CHAIN, "what?", llm=model)
    for name, said in (("zero_shot", "salt"), ("cot", "honey")):
        ranker = make(name, bench)
        assert ranker.rank("what?", 5) == []
        text, usage = answered(ranker, "what?")
        assert (text, usage.calls) == (said, 1)
        with pytest.raises(ModelError, match="llm="):
            make(name, bench_of(CHAIN, "what?"))
