"""ArchRAG: its hierarchy on strange graphs, its ranking, its answers, and what an update costs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.errors import ParseFailed
from stratagraph.ingest.graph.stage import Graph
from stratagraph.methods.archrag.build import CHANGES
from stratagraph.methods.archrag.compose import FILTER
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, assert_sound, documents, written_summary
from stratagraph.testing.opened import snapshot_of
from stratagraph.types.records import EntityMention, Extraction, Node, RelationMention

Pair = tuple[str, str]


def graph_of(names: Sequence[str], pairs: Sequence[Pair], *, per_document: int = 5) -> dict[str, Any]:
    """Documents and the extraction that makes this graph of them; a relation is told by one document."""
    texts: dict[str, list[str]] = {}
    given: dict[str, Extraction] = {}
    home = {name: f"d{number // per_document:04}" for number, name in enumerate(names)}
    for name, document in home.items():
        texts.setdefault(document, []).append(f"{name} is described here as {name} of {document}.")
    for document, sentences in texts.items():
        own = [name for name in names if home[name] == document]
        told = [pair for pair in pairs if home[pair[0]] == document]
        ends = dict.fromkeys([*own, *(other for _, other in told)])
        given[document] = Extraction(
            (),
            tuple(
                EntityMention(name, "thing", f"{name} of {home[name]}" if name in own else "")
                for name in ends
            ),
            tuple(RelationMention(a, b, f"{a} meets {b}", 5.0) for a, b in told),
        )
        texts[document] = [" ".join(sentences)]
    return {"documents": [sg.Document(d, text[0]) for d, text in texts.items()], "extraction": given}


def named(count: int, word: str = "thing") -> list[str]:
    return [f"{word} {chr(97 + n % 26)}{n}" for n in range(count)]


def clustered(groups: int, size: int, *, seed: int = 0) -> dict[str, Any]:
    """Groups of things that meet each other, and a few that meet across groups."""
    chance = random.Random(seed)
    names = [f"{topic} {chr(97 + n)}" for topic in named(groups, "topic") for n in range(size)]
    pairs = []
    for group in range(groups):
        own = names[group * size : (group + 1) * size]
        pairs += [(a, b) for at, a in enumerate(own) for b in own[at + 1 :] if chance.random() < 0.6]
        pairs.append((own[0], names[((group + 1) % groups) * size]))
    return graph_of(names, pairs, per_document=size)


def built(given: Mapping[str, Any], **kwargs: Any) -> sg.Index:
    return sg.build_index(
        **given, method="archrag", progress=False, **{"embedder": FakeEmbedder(), "llm": None, **kwargs}
    )


def tables(index: sg.Index) -> tuple[Graph, list[Node], list[Node]]:
    snapshot = snapshot_of(index)
    graph = Graph(snapshot.part("graph"))
    own = snapshot.part("archrag")
    return graph, graph.stored.nodes(range(graph.entities)), own.nodes(range(own.size))


def assert_hierarchy(index: sg.Index) -> None:
    """A sound index whose levels shrink by the least share, and whose communities have titles."""
    assert_sound(index, "archrag")
    _, below, nodes = tables(index)
    assert all(node.extra["title"] for node in nodes)
    sizes = [len(below), *levels_of(index)]
    assert all(above <= 0.9 * size for size, above in pairwise(sizes))


def levels_of(index: sg.Index) -> list[int]:
    counts = np.bincount([node.level for node in tables(index)[2]])
    return [int(count) for count in counts[1:]]


# Strange graphs


class _Embedder(FakeEmbedder):
    def __init__(self, spoil: Callable[[int, list[float]], list[float]]) -> None:
        super().__init__()
        self._spoil = spoil

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        found = super().embed_documents(texts)
        return [self._spoil(len(text), vector) for text, vector in zip(texts, found, strict=True)]


def _equal(length: int, vector: list[float]) -> list[float]:
    return [1.0, *[0.0] * (len(vector) - 1)]


def _some_zero(length: int, vector: list[float]) -> list[float]:
    return [0.0] * len(vector) if length % 3 == 0 else vector


def _all_zero(length: int, vector: list[float]) -> list[float]:
    return [0.0] * len(vector)


STAR = [("hub", name) for name in named(120)]
GRAPHS = {
    "no relations": graph_of(named(80), []),
    "star": graph_of(["hub", *named(120)], STAR),
    "pieces": graph_of(named(90), [(named(90)[n], named(90)[n + 1]) for n in range(0, 90, 3)]),
    "clusters": clustered(8, 6),
    "three": graph_of(named(3), [(named(3)[0], named(3)[1])]),
    "one": graph_of(named(1), []),
}


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        *((name, None) for name in GRAPHS),
        ("star", _equal),
        ("clusters", _some_zero),
        ("no relations", _all_zero),
    ],
)
def test_strange_graphs_and_vectors(name: str, spoil: Any) -> None:
    index = built(GRAPHS[name], embedder=FakeEmbedder() if spoil is None else _Embedder(spoil))
    assert_hierarchy(index)
    for way in ({}, {"fill": False}, {"method": "walk"}):
        found = index.retrieve("Who does thing a0 meet?", k=4, **way)
        assert all(np.isfinite(hit.score) for hit in found)
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
        if spoil is None:
            known = len(tables(index)[1]) + (0 if "fill" in way else len(GRAPHS[name]["documents"]))
            assert len(found) >= (1 if "method" in way else min(4, known))


@pytest.mark.parametrize(
    ("augmentation", "clustering"), [("none", "leiden"), ("knn", "leiden"), ("none", "leidenalg")]
)
def test_any_augmentation_with_any_clustering(augmentation: str, clustering: str) -> None:
    config = {"archrag": {"augmentation": augmentation, "clustering": clustering, "max_community": 6}}
    index = built(GRAPHS["clusters"], config=config)
    assert_hierarchy(index)
    assert levels_of(index)


def test_a_clustering_of_the_users_own(tmp_path: Any) -> None:
    def pairs(vectors: Any, ends: Any, weights: Any, bound: int) -> Any:
        return np.arange(len(vectors)) // 2

    name = sg.register_clustering("pairs", pairs)
    index = built(GRAPHS["clusters"], config={"archrag": {"clustering": name}}, path=tmp_path / "idx")
    assert levels_of(index)[:2] == [24, 12]
    assert_hierarchy(index)
    index.close()
    with pytest.raises(ValueError, match="register_clustering"):
        built(GRAPHS["clusters"], config={"archrag": {"clustering": "custom:forgotten"}})


def test_an_augmentation_of_the_users_own() -> None:
    def ring(vectors: Any, ends: Any, weights: Any) -> Any:
        rows = np.arange(len(vectors))
        return np.column_stack([rows, (rows + 1) % len(rows)]), np.ones(len(rows))

    config = {"archrag": {"augmentation": sg.register_augmentation("ring", ring), "max_community": 4}}
    index = built(GRAPHS["clusters"], config=config)
    names = [node.extra["name"] for node in tables(index)[1]]
    place = {node.id: row for row, node in enumerate(tables(index)[1])}
    assert_hierarchy(index)
    for node in tables(index)[2]:
        if node.level == 1 and len(node.extra["members"]) > 1:
            rows = sorted(place[member] for member in node.extra["members"])
            gaps = [(b - a) % len(names) for a, b in zip(rows, [*rows[1:], rows[0]], strict=True)]
            assert sum(gap == 1 for gap in gaps) >= len(rows) - 1


@pytest.mark.parametrize(
    "register", [sg.register_augmentation, sg.register_clustering, sg.register_neighbours]
)
def test_what_cannot_be_registered_is_named(register: Any) -> None:
    with pytest.raises(TypeError, match="a name and a function"):
        register("no function", 5)
    with pytest.raises(TypeError, match="a name and a function"):
        register(5, print)
    with pytest.raises(ValueError, match="not empty"):
        register("", print)


def test_a_clustering_that_gives_no_labels_is_named() -> None:
    name = sg.register_clustering("halves", lambda vectors, ends, weights, bound: np.zeros(len(vectors)))
    with pytest.raises(ValueError, match="48 integers"):
        built(GRAPHS["clusters"], config={"archrag": {"clustering": name}})


# Reports


def test_reports_are_made_of_members_and_relations() -> None:
    model = CountingModel()
    index = built(GRAPHS["clusters"], llm=model)
    _, entities, nodes = tables(index)
    texts = {node.id: node.text for node in (*entities, *nodes)}
    prompts = [prompt for prompt in model.prompts if "<members>" in prompt]
    joined = [node for node in nodes if len(node.extra["members"]) > 1]
    assert len(prompts) == len(joined)
    for node in joined:
        assert any(all(texts[m] in prompt for m in node.extra["members"]) for prompt in prompts)
    first = next(node for node in joined if node.level == 1)
    prompt = next(p for p in prompts if all(texts[m] in p for m in first.extra["members"]))
    assert " meets " in prompt


def test_a_community_of_one_costs_no_call_and_is_not_found_twice() -> None:
    model = CountingModel()
    index = built(GRAPHS["pieces"], llm=model, config={"archrag": {"augmentation": "none"}})
    _, entities, nodes = tables(index)
    alone = [node for node in nodes if len(node.extra["members"]) == 1]
    assert alone
    assert {node.text for node in alone if node.level == 1} <= {entity.text for entity in entities}
    texts = [hit.text for hit in index.retrieve("thing b1", k=60) if hit.kind != "chunk"]
    assert len(texts) == len(set(texts))


# Search


def test_every_level_is_found_and_can_be_chosen() -> None:
    index = built(clustered(40, 6))
    assert len(levels_of(index)) >= 2
    found = index.retrieve("topic c2 a", k=12, fill=False)
    assert {hit.level for hit in found} == set(range(1 + len(levels_of(index))))
    own = [hit for hit in index.retrieve("topic c2 a", k=20) if hit.kind != "chunk"]
    assert {hit.level for hit in own} == set(range(1 + len(levels_of(index)))), "also among passages"
    for level in range(1 + len(levels_of(index))):
        hits = index.retrieve("topic c2 a", k=5, levels=(level,)).hits
        assert {hit.level for hit in hits if hit.kind != "chunk"} == {level}
    with pytest.raises(ValueError, match="level 9"):
        index.retrieve("topic c2 a", levels=(9,))


def test_relations_among_the_entities_found() -> None:
    index = built(clustered(10, 6))
    found = index.retrieve("topic c2 a topic c2 b topic c2 c", k=20, levels=(0,))
    names = {hit.metadata["name"] for hit in found if hit.kind == "entity"}
    relations = [hit for hit in found if hit.kind == "relation"]
    assert relations
    assert all(set(hit.metadata["ends"]) <= names for hit in relations)
    without = index.retrieve("topic c2 a topic c2 b topic c2 c", k=20, levels=(0,), relations=False)
    assert all(hit.kind != "relation" for hit in without)


def test_a_filter_is_exact_and_tight() -> None:
    given = clustered(20, 6)
    even = [sg.Document(d.id, d.text, {"even": int(d.id[1:]) % 2 == 0}) for d in given["documents"]]
    index = built({**given, "documents": even})
    graph, entities, nodes = tables(index)
    snapshot = snapshot_of(index)
    admitted = {d for d in snapshot.document_states() if int(d[1:]) % 2 == 0}
    of = [snapshot.document_ids(snapshot.chunk_documents().tolist())[row] for row in range(snapshot.size)]

    def passes(node: Node) -> bool:
        return all(of[row] in admitted for row in node.sources)

    found = index.retrieve("topic c2 a", k=10_000, where={"even": True})
    hits = {hit.id for hit in found}
    assert {node.id for node in entities if passes(node)} <= hits
    searched = [node for node in nodes if len(node.extra["members"]) > 1]
    assert {node.id for node in searched if passes(node)} <= hits
    assert not hits & {node.id for node in (*entities, *nodes) if not passes(node)}
    assert graph.entities > sum(map(passes, entities)) > 0


# Amounts


def test_so_many_of_each_level_with_their_relations_and_nothing_else() -> None:
    index = built(clustered(40, 6))
    question = "topic c2 a topic c2 b topic c2 c"
    count = 1 + len(levels_of(index))
    for wanted in (1, 5):
        found = index.retrieve(question, k=3, k_per_level=wanted, fill=False)
        nodes = [hit for hit in found if hit.kind != "relation"]
        sizes = [40 * 6, *levels_of(index)]
        per_level = [sum(hit.level == level for hit in nodes) for level in range(count)]
        assert per_level == [min(wanted, size) for size in sizes]
        named = {hit.metadata["name"] for hit in nodes if hit.level == 0}
        between = [hit for hit in found if hit.kind == "relation"]
        assert all(set(hit.metadata["ends"]) <= named for hit in between)
        bare = index.retrieve(question, k=3, k_per_level=wanted, fill=False, relations=False)
        assert len(bare) == len(nodes)
    assert between


# Answers


def analyst(prompt: str) -> str:
    """Makes one point of each text it is shown, scored by the number of it."""
    if "<texts>" not in prompt:
        return (
            "It meets it [1]." if "<points>" in prompt or "<passages>" in prompt else written_summary(prompt)
        )
    body = prompt.split("<texts>\n")[1].split("\n</texts>")[0]
    numbers = [int(line[1:].split("]")[0]) for line in body.splitlines() if line.startswith("[")]
    points = [{"description": f"point of {n}", "score": 100 - n, "sources": [n]} for n in numbers]
    return json.dumps({"points": [*points, {"description": "nothing", "score": 0, "sources": numbers}]})


@pytest.fixture(scope="module")
def answering() -> tuple[sg.Index, CountingModel]:
    model = CountingModel(analyst)
    return built(clustered(40, 6), llm=model), model


def test_each_level_is_analysed_and_the_best_points_come_first(answering: Any) -> None:
    index, model = answering
    model.prompts.clear()
    answer = index.answer("What does topic c2 a meet?", k=12, guided=False)
    filters = [prompt for prompt in model.prompts if "<texts>\n" in prompt]
    assert len(filters) == len({(hit.kind == "chunk", hit.level) for hit in answer.retrieval})
    merge = model.prompts[-1]
    scores = [int(part.split(")")[0]) for part in merge.split("(score ")[1:]]
    assert scores == sorted(scores, reverse=True)
    assert "point of 1 [1]" in merge
    assert "nothing" not in merge.split("<points>\n")[1]
    assert [citation.id for citation in answer.citations] == [answer.retrieval.hits[0].id]
    model.prompts.clear()
    assert index.answer("What does topic c2 a meet?", k=12, mode="direct", guided=False).citations
    assert len(model.prompts) == 1, "the paper's ablation, in which nothing is analysed"


@pytest.mark.parametrize("bound", [60, 1000])
def test_analyses_and_points_stay_within_the_limit(answering: Any, bound: int) -> None:
    index, model = answering
    model.prompts.clear()
    index.answer(f"What does topic c2 a meet, within {bound}?", k=40, max_tokens=bound, guided=False)
    shown = [
        prompt.split("<texts>\n")[1].split("\n</texts>")[0] for prompt in model.prompts if "<texts>" in prompt
    ]
    assert shown
    assert sum(len(text) / 4 for text in shown) <= bound
    points = model.prompts[-1].split("<points>\n")[1].split("\n</points>")[0]
    assert 0 < points.count("(score") <= bound / 6


def test_an_analysis_without_points_falls_back_to_what_was_found() -> None:
    def silent(prompt: str) -> str:
        return '{"points": []}' if "<texts>" in prompt else analyst(prompt)

    model = CountingModel(silent)
    index = built(GRAPHS["clusters"], llm=model)
    answer = index.answer("What does topic c2 a meet?", k=6)
    assert "<passages>" in model.prompts[-1]
    assert answer.citations[0].id == answer.retrieval.hits[0].id


def test_the_merge_prompt_of_the_paper_lets_the_model_answer_from_what_it_knows(answering: Any) -> None:
    index, model = answering
    model.prompts.clear()
    index.answer("What does topic c2 a meet?", k=12, merge="paper")
    assert "answer from what you know" in model.prompts[-1]
    assert "point of 1 [1]" in model.prompts[-1]

    def silent(prompt: str) -> str:
        return '{"points": []}' if "<texts>" in prompt else analyst(prompt)

    other = CountingModel(silent)
    built(GRAPHS["clusters"], llm=other).answer("What does topic c2 a meet?", k=6, merge="paper")
    assert "<points>\n\n</points>" in other.prompts[-1]


def test_points_that_cannot_be_read_are_left_out() -> None:
    good = {"description": "a finding", "score": 80, "sources": ["[2]", "5"]}
    bad = [{"description": "", "score": 3}, {"description": "x", "score": "high"}, "nothing", {"score": 4}]
    found = FILTER.parse(json.dumps({"points": [bad[0], good, *bad[1:]]}))
    assert [(point.description, point.score, point.sources) for point in found.points] == [
        ("a finding", 80, [2, 5])
    ]
    with pytest.raises(ParseFailed):
        FILTER.parse(json.dumps({"points": bad}))
    assert FILTER.parse('{"points": []}').points == []


def test_an_answer_takes_at_most_10_000_tokens_and_those_of_the_guide() -> None:
    def long(prompt: str) -> str:
        if "<texts>" in prompt:
            numbers = [line[1:].split("]")[0] for line in prompt.splitlines() if line[:1] == "["]
            points = [
                {"description": "a finding " * 20, "score": 50, "sources": [int(number)]}
                for number in numbers[:6]
                if number.isdigit()
            ]
            return json.dumps({"points": points})
        if "<members>" in prompt:
            return json.dumps({"title": f"t {crc32(prompt.encode())}", "summary": "long words " * 200})
        return "The answer [1]. " * 20

    index = built(clustered(150, 8), llm=CountingModel(long), config={"archrag": {"max_community": 6}})
    assert len(levels_of(index)) >= 4
    for guided, bound in ((False, 10_000), (None, 13_000)):
        answer = index.answer(f"What does topic c2 a meet within {bound}?", guided=guided)
        assert answer.usage.calls >= 3  # one for each level that the hits are of, and the answer
        assert answer.usage.input_tokens + answer.usage.output_tokens <= bound


# Updates


def report_calls(model: CountingModel) -> int:
    return sum("<members>" in prompt for prompt in model.prompts)


def grown(groups: int, size: int, *, scattered: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """A corpus, and one percent more of it: things that join one group, or a group each."""
    base = clustered(groups, size)
    count = groups // 100
    hosts = [random.Random(7).randrange(groups) if scattered else 3 for _ in range(count)]
    hosts = [(host + 37 * n) % groups for n, host in enumerate(hosts)] if scattered else hosts
    documents_, extraction = [], {}
    for n, host in enumerate(hosts):
        topic = named(groups, "topic")[host]
        name, identity = f"{topic} newcomer {n}", f"x{n:04}"
        documents_.append(sg.Document(identity, f"{name} has arrived."))
        met = [RelationMention(name, f"{topic} {letter}", f"{name} meets it", 5.0) for letter in "abc"]
        extraction[identity] = Extraction(
            (),
            (EntityMention(name, "thing", "new here"), *(EntityMention(each.target) for each in met)),
            tuple(met),
        )
    return base, {"documents": documents_, "extraction": extraction}


@pytest.mark.parametrize("scattered", [True, False])
def test_one_percent_more_costs_a_tenth_at_most(scattered: bool) -> None:
    base, more = grown(300, 5, scattered=scattered)
    model = CountingModel()
    given = {"documents": base["documents"], "extraction": base["extraction"] | more["extraction"]}
    index = built(given, llm=model)
    made = report_calls(model)
    before = {node.id for node in tables(index)[2]}
    index.insert(more["documents"])
    assert 0 < report_calls(model) - made <= made / 10
    assert_hierarchy(index)
    kept = [node for node in tables(index)[2] if node.id in before]
    assert len(kept) >= 0.8 * len(before)


def test_the_index_is_brought_up_to_date_and_finds_what_a_scan_finds() -> None:
    index = built({"documents": documents(80)})

    def changes() -> int:
        return int(snapshot_of(index).part("archrag").arrays[CHANGES][0])

    assert changes() == 0
    index.insert(documents(2, start=80))
    after_insert = changes()
    index.delete([documents(8)[7].id])
    assert 0 < after_insert < changes()
    for question in [document.text for document in documents(82)[::9]]:
        fast = index.retrieve(question, k=15, fill=False)
        scanned = index.retrieve(question, k=15, fill=False, where=lambda metadata: True)
        assert [hit.id for hit in fast] == [hit.id for hit in scanned]
    index.delete([document.id for document in documents(70)[10:]])
    assert changes() == 0
    assert_hierarchy(index)


def test_what_large_deletions_leave_is_clustered_anew() -> None:
    given = graph_of(named(300), [])
    index = built(given)
    index.delete([each.id for number, each in enumerate(given["documents"]) if number % 6])
    fresh = built({key: _some(given[key], 6) for key in given})
    assert tables(index)[0].entities == tables(fresh)[0].entities
    assert levels_of(index)[0] <= 2 * levels_of(fresh)[0]
    assert_hierarchy(index)


def _some(given: Any, step: int) -> Any:
    return dict(list(given.items())[::step]) if isinstance(given, dict) else given[::step]
