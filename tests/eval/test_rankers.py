"""The baselines, and what all rankers of a run share."""

from __future__ import annotations

import time

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.config import Config, as_config
from stratagraph.errors import ModelError
from stratagraph.eval.baselines import BASELINES, make
from stratagraph.eval.baselines.plain import Bm25, HyDE
from stratagraph.eval.baselines.raptor import GmmTree, clusters, halves
from stratagraph.eval.datasets import Dataset, Question
from stratagraph.eval.measuring import Meter
from stratagraph.eval.workbench import SharedEmbedder, Workbench
from stratagraph.models.gate import ModelGate
from stratagraph.testing import FakeEmbedder, MemoryCalls, MemoryVectors, ScriptedChatModel
from stratagraph.text.tokens import Estimate
from stratagraph.types.records import Document

TEXTS = {
    "keeper": "Ada Loom\nAda Loom kept the light of Windle Hill until 1881.",
    "hill": "Windle Hill\nWindle Hill stands on Orrin. It has 900 steps.",
    "orrin": "Orrin\nOrrin is an island north of Sarn, known for honey.",
    "ferry": "Ferry\nThe ferry to Sedge sails at seven.",
    "salt": "Salt\nSalt is boiled at Panhythe, a village on Sedge.",
}
QUESTION = "What is the island of Ada Loom's light known for?"


def bench(
    llm: object | None = None, view: str = "chunks", config: Config | None = None, **changes: object
) -> Workbench:
    documents = tuple(Document(key, text) for key, text in TEXTS.items())
    dataset = Dataset("islands", documents, (Question("q", QUESTION, ("honey",), ("keeper", "orrin")),))
    for name, value in changes.items():
        object.__setattr__(dataset, name, value)
    gate = ModelGate(llm, None, cache=MemoryCalls())
    shared = SharedEmbedder(FakeEmbedder(256))
    return Workbench(dataset, shared, config or as_config(None), gate, lambda text: len(text.split()), view)


GRAPH_ALONE = {
    "fastgraphrag",
    "graphrag_global",
    "graphrag_local",
    "hipporag",
    "hipporag2",
    "kag",
    "lightrag",
}
"""Baselines that rank by what is extracted: here by rules, which find little in five sentences."""
NEED_A_MODEL = {"cot", "hyde", "zero_shot"}


@pytest.mark.parametrize("name", sorted(set(BASELINES) - NEED_A_MODEL))
def test_every_baseline_ranks_passages_best_first_and_once(name: str) -> None:
    ranker = make(name, bench())
    assert ranker.name == name
    assert ranker.description
    ranking = [passage.documents[0] for passage in ranker.rank("the ferry to Sedge", 10)]
    assert ranking
    assert len(ranking) == len(set(ranking)) <= 5
    assert [each.documents[0] for each in ranker.rank("the ferry to Sedge", 1)] == ranking[:1]
    if name not in GRAPH_ALONE:
        assert ranking[0] == "ferry"


def test_bm25_knows_stems_and_writing_without_spaces() -> None:
    documents = (
        Document("bees", "Bees make honey"),
        Document("oil", "Oil burns"),
        Document("北", "北京大学在北京"),
    )
    ranker = Bm25(bench(documents=documents))
    assert [each.documents for each in ranker.rank("burning", 5)] == [("oil",)]
    assert [each.documents for each in ranker.rank("北京", 5)] == [("北",)]
    assert ranker.rank("unheard of", 5) == []
    assert ranker.rank("the", 5) == []


def test_the_tree_shows_summaries_as_nodes_and_their_passages_as_chunks() -> None:
    rng = np.random.default_rng(0)
    words = ["salt", "honey", "ferry", "comet"]
    documents = tuple(
        Document(
            f"{words[n % 4]}-{n:02}", " ".join([words[n % 4]] * 6 + rng.choice(words, 2).tolist() + [str(n)])
        )
        for n in range(40)
    )
    model = ScriptedChatModel(
        lambda prompt: "summary of " + " ".join(w for w in words if f"{w} {w}" in prompt)
    )
    nodes = GmmTree(bench(model, view="nodes", documents=documents))
    found = nodes.rank("salt", 60)
    summaries = [each for each in found if len(each.documents) > 1]
    assert summaries
    assert all(each.text.startswith("summary of") for each in summaries)
    chunks = GmmTree(bench(documents=documents)).rank("salt", 40)
    assert all(len(each.documents) == 1 for each in chunks)
    assert len({each.documents for each in chunks}) == len(chunks)
    assert {each.documents[0][:4] for each in chunks[:10]} == {"salt"}


@pytest.mark.parametrize("count", [2, 700])
def test_clusters_cover_all_rows(count: int) -> None:
    vectors = np.random.default_rng(count).standard_normal((count, 24)).astype(np.float32)
    found = clusters(vectors)
    assert {row for group in found for row in group} == set(range(count))
    assert clusters(vectors) == found, "seeded"
    assert len(found) <= max(1, count // 4)


def test_hyde_searches_by_what_the_model_makes_up() -> None:
    model = ScriptedChatModel("Salt is boiled at Panhythe, a village on Sedge.")
    ranker = HyDE(bench(model))
    assert ranker.rank("What is boiled?", 1)[0].documents == ("salt",)
    assert "What is boiled?" in model.prompts[0]
    ranker.rank("What is boiled?", 3)
    assert model.calls == 1, "the second time it comes from the cache"
    with pytest.raises(ModelError, match="llm="):
        HyDE(bench())


def test_passages_are_those_of_an_index() -> None:
    long = tuple(Document(key, " ".join([text] * 9)) for key, text in TEXTS.items())
    config = as_config({"chunking": {"size": 40, "overlap": 5}})
    shared = bench(config=config, documents=long)
    ours = Workbench(shared.dataset, shared.embedder, config, shared.gate, Estimate()).chunks
    with sg.build_index(long, embedder=FakeEmbedder(8), config=config, progress=False) as index:
        theirs = [chunk.text for chunks in index.chunks().values() for chunk in chunks]
    assert [chunk.text for chunk in ours] == theirs
    assert len(ours) > len(long)


def test_the_embedder_is_asked_once_per_text_and_what_is_kept_lasts() -> None:
    passages, questions = ["one", "two", "one"], [f"what is {number}?" for number in range(30)]
    kept = MemoryVectors()
    shared = SharedEmbedder(inner := FakeEmbedder(16), kept)
    shared.learn(passages, questions)
    assert shared.name == inner.name
    assert (sum(inner.requests), shared.embedded) == (2, 2)
    vectors = shared.documents(passages)
    assert sum(inner.requests) == 2
    assert np.allclose(shared.question(questions[25]), inner.embed_query(questions[25]), atol=1e-6)

    again = SharedEmbedder(other := FakeEmbedder(16), kept)
    again.learn(passages, questions)
    assert np.array_equal(again.documents(passages), vectors)
    assert (sum(other.requests), again.embedded) == (0, 0)

    another = SharedEmbedder(FakeEmbedder(8), kept)
    another.learn(passages, questions)
    assert another.documents(passages).shape == (3, 8)


def test_the_meter_sees_seconds_and_memory() -> None:
    with Meter() as meter:
        block = np.ones(8_000_000)
        until = time.monotonic() + 60
        while meter.peak_memory is not None and meter.peak_memory < 30_000_000 and time.monotonic() < until:
            time.sleep(0.01)
        del block
    assert meter.seconds > 0
    assert meter.peak_memory is None or meter.peak_memory > 30_000_000


def test_balanced_groups_part_the_rows_and_keep_what_is_alike_together() -> None:
    rng = np.random.default_rng(0)
    places = np.repeat(np.eye(4, 16, dtype=np.float32), 12, axis=0)
    vectors = places + rng.normal(0, 0.02, places.shape).astype(np.float32)
    groups = halves(vectors)
    assert sorted(row for group in groups for row in group) == list(range(48))
    assert {len(group) for group in groups} == {12}
    assert all(len({row // 12 for row in group}) == 1 for group in groups)
    assert all(len(group) <= 5 for group in halves(vectors, 5))
    assert len(halves(np.ones((30, 4), np.float32))) >= 3, "equal vectors are parted too"
