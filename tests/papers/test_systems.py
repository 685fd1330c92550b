"""The compared systems: the walks against their equations, the others by what they return, ask and answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nltk")
pytest.importorskip("rouge_score")

from papers.corpus import Corpus
from papers.harness import SYSTEMS, make
from papers.walks import synonyms
from tests.cases import cases

from papers import raptor
from stratagraph.config import as_config
from stratagraph.errors import ModelError, TooManyFailures
from stratagraph.eval import Dataset, Passage, Question
from stratagraph.eval.embedding import SharedEmbedder
from stratagraph.eval.rankers import Workbench
from stratagraph.models.gate import ModelGate
from stratagraph.testing import FakeEmbedder, MemoryCalls, ScriptedChatModel
from stratagraph.types.records import Document, EntityMention, Extraction, RelationMention

Facts = Mapping[str, Sequence[tuple[str, str, str]]]
"""The triples that each document states."""

STANFORD: Facts = {
    "1 thomas at stanford": [("Thomas Südhof", "is professor at", "Stanford")],
    "2 thomas on alzheimer": [("Thomas Südhof", "researches", "Alzheimer's")],
    "3 other at stanford": [("Ada Loom", "is professor at", "Stanford")],
    "4 another at stanford": [("Ben Crake", "is professor at", "Stanford")],
    "5 other on alzheimer": [("Cora Marl", "researches", "Alzheimer's")],
    "6 another on alzheimer": [("Dan Perrow", "researches", "Alzheimer's")],
    "7 elsewhere": [("Eve Hathe", "keeps bees in", "Sarn")],
}
"""The example of HippoRAG's Figure 1: one professor at Stanford works on Alzheimer's."""
STANFORD_QUESTION = "Which Stanford professor works on the neuroscience of Alzheimer's?"
STANFORD_NAMES = ("Stanford", "Alzheimer's")


def said(facts: Sequence[tuple[str, str, str]]) -> Extraction:
    names = dict.fromkeys(end for subject, _, target in facts for end in (subject, target))
    return Extraction(
        entities=tuple(map(EntityMention, names)),
        relations=tuple(RelationMention(subject, target, said) for subject, said, target in facts),
    )


def ready(name: str, facts: Facts, names: Sequence[str] = (), llm: object | None = None) -> Any:
    """A system over documents that say their triples; rules find these names in every question."""
    texts = {key: " ".join(f"{' '.join(fact)}." for fact in stated) for key, stated in facts.items()}
    documents = tuple(Document(key, text or key) for key, text in texts.items())
    extractions = {key: said(stated) for key, stated in facts.items()}
    dataset = Dataset("facts", documents, (Question("q", "what?"),), extractions)
    gate = ModelGate(llm, None, cache=MemoryCalls())
    shared = SharedEmbedder(FakeEmbedder(256))
    bench = Workbench(dataset, shared, as_config(None), gate, lambda text: len(text.split()), llm)
    system: Any = make(name, Corpus())
    system.prepare(bench)
    if names:
        system.names = lambda question: tuple(names)
    return system


def random_facts(seed: int, documents: int = 25, entities: int = 14) -> Facts:
    """Random triples over entities whose names share words, so that some are synonyms."""
    rng = np.random.default_rng(seed)
    words = [f"{first}{last}" for first in ("kel", "dor", "min") for last in ("ab", "ed", "ix", "ol", "un")]
    names = [f"{words[n % 15]} {words[(n * 7 + 3) % 15]}{'x' * (n // 15)}" for n in range(entities)]
    facts = {}
    for number in range(documents):
        ends = rng.choice(entities, (int(rng.integers(1, 4)), 2))
        facts[f"{number:02}"] = [
            (names[a], f"{words[int(rng.integers(15))]} to", names[b]) for a, b in ends.tolist() if a != b
        ] or [(names[0], "near", names[1])]
    return facts


def ids(ranking: Sequence[Passage]) -> list[str]:
    """The documents of a ranking of passages."""
    return [passage.documents[0] for passage in ranking]


def on_random_facts(name: str, seed: int) -> list[str]:
    facts = random_facts(seed)
    first, second = sorted({end for said in facts.values() for a, _, b in said for end in (a, b)})[1:3]
    names = (first, second) if seed % 2 else (first, f"{second.split()[0]} unheard")
    system = ready(f"{name}/passages", facts, names)
    return ids(system.rank(f"what ties {' and '.join(names)}?", len(facts)))


@pytest.mark.parametrize("case", cases(__file__, "rankings"), ids=lambda case: f"{case[0]}-{case[1]}")
def test_rankings_are_those_of_the_equations(case: tuple[str, int, list[str]]) -> None:
    """They were computed by solving the equations of each paper over dense matrices."""
    name, seed, ranking = case
    assert on_random_facts(name, seed) == ranking


def test_hipporag_finds_the_professor_that_joins_both_names() -> None:
    ranking = ids(ready("hipporag", STANFORD, STANFORD_NAMES).rank(STANFORD_QUESTION, 7))
    assert ranking[:2] == ["1 thomas at stanford", "2 thomas on alzheimer"]
    assert "7 elsewhere" not in ranking


def test_synonyms_are_alike_and_long_enough() -> None:
    names = ["Ada Loom", "Ada Looms", "UK", "Sarn"]
    vectors = np.array([[1, 0], [0.9, np.sqrt(1 - 0.81)], [0, 1], [0, 1]], np.float32)
    pairs, likeness = synonyms(names, vectors, 0.8)
    assert pairs.tolist() == [[0, 1], [2, 3]]
    assert likeness == pytest.approx([0.9, 1])
    assert synonyms(["UK", "US"], vectors[2:], 0.8)[0].tolist() == [], "found, but does not look itself"


def test_recognition_memory_strikes_out_triples_and_all_struck_out_is_plain_search() -> None:
    def recognise(prompt: str) -> str:
        kept = [line[1] for line in prompt.splitlines() if line.startswith("[") and "Eve Hathe" in line]
        return f'{{"facts": [{", ".join(kept)}]}}'

    question = "Which professor keeps bees in Sarn near Stanford?"
    model = ScriptedChatModel(recognise)
    assert ids(ready("hipporag2", STANFORD, llm=model).rank(question, 1)) == ["7 elsewhere"]
    assert model.calls == 1
    assert "[5]" in model.prompts[0]
    assert "[6]" not in model.prompts[0], "five triples are linked"
    nothing = ready("hipporag2", STANFORD, llm=ScriptedChatModel('{"facts": []}'))
    assert ids(nothing.rank(question, 7)) == ids(nothing.shown(nothing.nearest(question, 7)))
    failing, plain = (
        ready("hipporag2", STANFORD, llm=ScriptedChatModel("no JSON")),
        ready("hipporag2", STANFORD),
    )
    assert ids(failing.rank(question, 7)) == ids(plain.rank(question, 7))
    assert [(each.stage, each.item) for each in failing.failures] == [("ask recognition", question)]


@pytest.mark.parametrize(
    "name", sorted(name for name in SYSTEMS if not name.startswith(("graphrag_g", "lightrag-")))
)
def test_a_corpus_in_which_nothing_was_found_is_no_error(name: str) -> None:
    model = ScriptedChatModel('{"facts": [], "names": [], "high_level": [], "low_level": []}')
    assert len(ready(name, {"only": [], "other": []}, llm=model).rank("who?", 3)) <= 2


CHAIN: Facts = {
    "a": [("Windle Hill", "stands on", "Orrin")],
    "b": [("Orrin", "lies north of", "Sarn"), ("Sarn", "trades with", "Orrin")],
    "c": [("Sarn", "sells", "Honey")],
    "d": [("Panhythe", "boils", "Salt")],
}


@pytest.mark.parametrize(
    ("name", "low", "high", "first"),
    [
        # Orrin is in a and b; its neighbours are Windle Hill (in a) and Sarn (in b): one each, so in order.
        ("lightrag-local", ["Orrin"], [], ["a", "b"]),
        ("lightrag-global", [], ["boils Salt"], ["d"]),
        ("lightrag-local", [], ["boils Salt"], []),
        ("lightrag", ["Windle Hill"], ["boils Salt"], ["a", "d"]),
    ],
)
def test_lightrag_takes_entities_by_low_and_relations_by_high_keywords(
    name: str, low: list[str], high: list[str], first: list[str]
) -> None:
    said = json.dumps({"low_level": low, "high_level": high})
    model = ScriptedChatModel(lambda prompt: said if "low_level" in prompt else '{"entities": []}')
    assert ids(ready(f"{name}/passages", CHAIN, llm=model).rank("what?", 4))[: max(len(first), 1)] == first
    texts = [passage.text for passage in ready(name, CHAIN, llm=model).rank("what?", 12)]
    assert any(" - " in text for text in texts) == bool(first), "relations are nodes too"
    assert "c" in ids(ready("lightrag/passages", CHAIN).rank("what does Sarn sell?", 3)), "without a model"


def test_graphrags_local_search_goes_from_entities_to_passages_reports_and_relations() -> None:
    chunks = ids(ready("graphrag_local/passages", STANFORD).rank("Stanford", 7))
    assert {each[0] for each in chunks[:3]} == {"1", "3", "4"}, "Stanford's own passages come first"
    nodes = ready("graphrag_local", STANFORD).rank("Stanford", 60)
    assert any(len(node.documents) > 1 for node in nodes), "a report on a community"
    assert any("Stanford" in text for text in (node.text.split(":")[0] for node in nodes) if " - " in text)


def reporting(prompt: str) -> str:
    if "<points>" in prompt:
        return "Sarn"
    if "<reports>" in prompt:
        points = [("weak", 20), ("useless", 0), ("strong", 90)]
        return json.dumps({"points": [{"description": text, "score": score} for text, score in points]})
    report = {"title": "Trade", "summary": f"Of {len(prompt)}.", "rating": "8/10", "rating_reason": "Much."}
    return json.dumps(
        {**report, "findings": [{"summary": "Honey is sold.", "explanation": "Sarn sells it."}]}
    )


def test_graphrags_global_search_maps_over_all_reports_and_reduces_the_best_points() -> None:
    model = ScriptedChatModel(reporting)
    system = ready("graphrag_global", CHAIN, llm=model)
    assert all(each.text.endswith("## Honey is sold.\n\nSarn sells it.") for each in system.reports)
    assert {each.rating for each in system.reports} == {8.0}
    before = model.calls
    text, usage = asyncio.run(system.answer("where?", 1000, "brief"))
    assert text == "Sarn"
    assert model.calls - before == usage.calls == 2, "all reports fit one call"
    reduced = model.prompts[-1]
    assert reduced.index("(90) strong") < reduced.index("(20) weak")
    assert "useless" not in reduced
    again, cost = asyncio.run(system.answer("where?", 1000, "brief"))
    assert (again, cost.calls, cost.cached_calls) == ("Sarn", 0, 2), "its own cost, not that of both"


@pytest.mark.parametrize(("faults", "error"), [(["auth"], ModelError), ([], TooManyFailures)])
def test_a_model_that_writes_no_report_fails_the_row(faults: list[str], error: type[Exception]) -> None:
    model = ScriptedChatModel(lambda prompt: "no report", faults=faults, cycle=True)
    with pytest.raises(error):
        ready("graphrag_global", random_facts(2, documents=90, entities=70), llm=model)


def test_raptor_shows_summaries_as_nodes_and_their_passages_as_passages() -> None:
    rng, words = np.random.default_rng(0), ["salt", "honey", "ferry", "comet"]
    facts: Facts = {
        f"{words[n % 4]}-{n:02}": [
            (" ".join([words[n % 4]] * 6 + rng.choice(words, 2).tolist()), "of", str(n))
        ]
        for n in range(40)
    }
    model = ScriptedChatModel(
        lambda prompt: "summary of " + " ".join(w for w in words if f"{w} {w}" in prompt)
    )
    summaries = [
        each for each in ready("raptor", facts, llm=model).rank("salt", 60) if len(each.documents) > 1
    ]
    assert summaries
    assert all(each.text.startswith("summary of") for each in summaries)
    chunks = ready("raptor/passages", facts).rank("salt", 40)
    assert all(len(each.documents) == 1 for each in chunks)
    assert len(set(ids(chunks))) == len(chunks)
    assert {each[:4] for each in ids(chunks)[:10]} == {"salt"}
    few = ready("raptor", dict(list(facts.items())[:11])).rank("salt", 60)
    assert all(len(node.documents) == 1 for node in few), "no level is made of eleven nodes"


@pytest.mark.parametrize("count", [2, 700])
def test_raptors_clusters_cover_all_rows(count: int) -> None:
    vectors = np.random.default_rng(count).standard_normal((count, 24)).astype(np.float32)
    found = raptor.clusters(vectors)
    assert {row for group in found for row in group} == set(range(count))
    assert raptor.clusters(vectors) == found, "seeded"
    groups = raptor.halves(vectors)
    assert sorted(row for group in groups for row in group) == list(range(count))
    assert max(map(len, groups)) <= raptor.MOST_MEMBERS


def test_what_asks_the_model_alone() -> None:
    def said(prompt: str) -> str:
        if "step by step" in prompt:
            return json.dumps({"steps": "Sarn is north.", "answer": "honey"})
        return "Panhythe boils Salt." if "Write a short passage" in prompt else "salt"

    model = ScriptedChatModel(said)
    hyde = ready("hyde", CHAIN, llm=model)
    assert ids(hyde.rank("What is boiled?", 1)) == ["d"]
    hyde.rank("What is boiled?", 3)
    assert (model.calls, hyde.asking.calls) == (1, 1), "asked once"
    for name, answer in (("zero_shot", "salt"), ("cot", "honey")):
        system = ready(name, CHAIN, llm=model)
        assert system.rank("what?", 5) == []
        text, usage = asyncio.run(system.answer("what?", 1000, "brief"))
        assert (text, usage.calls) == (answer, 1)
        with pytest.raises(ModelError, match="--llm"):
            ready(name, CHAIN)
