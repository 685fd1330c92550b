"""Each way of searching: its default results, what options change, and options that are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import stratagraph as sg
from stratagraph import demo
from stratagraph.errors import MethodMissing
from stratagraph.methods import NAMES, get_method
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from stratagraph.testing.contract import CountingModel, documents

QUESTION = "the ferry captain and the apple blossom"
DEMO_QUESTIONS = [each.question for each in demo.questions()]


@pytest.fixture(scope="module")
def extractive() -> Iterator[sg.Index]:
    """The demo corpus by all methods, without a model."""
    with sg.build_index(demo.documents(), NAMES, embedder="hashing", progress=False) as index:
        yield index


@pytest.fixture(scope="module")
def written() -> Iterator[sg.Index]:
    """Notes by all methods, whose nodes a model wrote."""
    with sg.build_index(
        documents(60), NAMES, llm=CountingModel(), embedder=FakeEmbedder(), progress=False
    ) as index:
        yield index


# What a method returns by default


@pytest.mark.parametrize("method", NAMES)
def test_of_four_hits_one_is_the_methods_own_and_one_a_passage(extractive: sg.Index, method: str) -> None:
    for question in DEMO_QUESTIONS:
        kinds = [hit.kind for hit in extractive.retrieve(question, 4, method=method)]
        assert len(kinds) == 4
        assert 1 <= kinds.count("chunk") <= 3, (question, kinds)


@pytest.mark.parametrize("method", NAMES)
def test_passages_are_the_walks_and_have_a_share(
    extractive: sg.Index, written: sg.Index, method: str
) -> None:
    share = get_method(method).passages
    for index, question in ((extractive, DEMO_QUESTIONS[0]), (written, QUESTION)):
        found = index.retrieve(question, 16, method=method)
        assert found.method == method
        assert len({(hit.kind, hit.id) for hit in found}) == 16
        scores = [hit.score for hit in found]
        assert scores == sorted(scores, reverse=True)
        passages = [hit.id for hit in found if hit.kind == "chunk"]
        assert passages == [hit.id for hit in index.retrieve(question, len(passages), method="walk")]
        assert abs(len(passages) - 16 * share) <= 4, "repeats of the method's nodes leave room to others"
        for hit, told in zip(found.hits, found.trace, strict=True):
            assert told["view"] == ("passages" if hit.kind == "chunk" else method)


@pytest.mark.parametrize("method", NAMES)
def test_without_passages_the_ranking_is_the_methods_own(extractive: sg.Index, method: str) -> None:
    question = DEMO_QUESTIONS[0]
    own = extractive.retrieve(question, 12, method=method, fill=False)
    assert own.method == method
    assert all("view" not in told for told in own.trace)
    nodes = [hit.id for hit in own if hit.kind != "chunk"]
    assert nodes
    mixed = [hit.id for hit in extractive.retrieve(question, 8, method=method) if hit.kind != "chunk"]
    assert set(mixed) & set(nodes)


@pytest.mark.parametrize(
    ("method", "options", "kinds"),
    [
        ("lshtree", {"levels": (1,)}, {"summary"}),
        ("archrag", {"levels": (1,)}, {"community"}),
        ("noderag", {"types": ("S",)}, {"unit"}),
    ],
)
def test_options_that_select_levels_or_types_leave_passages_out(
    extractive: sg.Index, method: str, options: dict[str, Any], kinds: set[str]
) -> None:
    found = extractive.retrieve(DEMO_QUESTIONS[0], 6, method=method, **options)
    assert {hit.kind for hit in found} == kinds
    assert found.hits == extractive.retrieve(DEMO_QUESTIONS[0], 6, method=method, fill=False, **options).hits


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("noderag", {"steps": 3}),
        ("hirag", {"mode": "local"}),
        ("archrag", {"relations": False}),
        ("lshtree", {"mode": "per_level"}),
    ],
)
def test_other_options_change_the_nodes_and_not_the_passages(
    extractive: sg.Index, method: str, options: dict[str, Any]
) -> None:
    found = extractive.retrieve(DEMO_QUESTIONS[0], 8, method=method, **options)
    kinds = {hit.kind for hit in found}
    assert "chunk" in kinds
    assert len(kinds) > 1
    passages = [hit.id for hit in found if hit.kind == "chunk"]
    assert passages == [
        hit.id for hit in extractive.retrieve(DEMO_QUESTIONS[0], len(passages), method="walk")
    ]


@pytest.mark.parametrize("method", [*NAMES, "walk"])
def test_an_answer_rests_on_what_a_search_returns(extractive: sg.Index, method: str) -> None:
    question = DEMO_QUESTIONS[1]
    answer = extractive.answer(question, llm=ScriptedChatModel("They sail [1]."), method=method)
    k = extractive.answer_k(method)
    assert answer.retrieval.hits == extractive.retrieve(question, k, method=method).hits
    assert k == {"archrag": 30, "noderag": 30, "hirag": 40}.get(method, 20)


# The walk


class Untouched:
    """A model that nobody may ask."""

    name = "untouched"

    def complete(self, prompt: str, *, schema: Any = None) -> str:
        raise AssertionError("the model was asked")


@pytest.fixture
def walk() -> Iterator[sg.Index]:
    with sg.build_index(documents(40), llm=Untouched(), embedder=FakeEmbedder(), progress=False) as index:
        yield index


def test_an_index_for_the_walk_asks_no_model_to_build_and_to_search(walk: sg.Index) -> None:
    assert walk.methods == ()
    assert walk.last_report.usage.calls == 0
    assert not walk.last_report.notes
    assert sg.estimate(documents(40), llm=Untouched(), embedder=FakeEmbedder()).calls == 0
    walk.insert(documents(4, start=40))
    walk.delete(["doc-001"])
    found = walk.retrieve(QUESTION, 6)
    assert found.method == "walk"
    assert {hit.kind for hit in found} == {"chunk"}
    assert found.hits == walk.retrieve(QUESTION, 6, method="walk").hits
    assert found.hits == walk.retrieve(QUESTION, 6, view="chunks").hits
    assert [each.hits for each in walk.retrieve_many([QUESTION], 6)] == [found.hits]
    assert walk.verify() == []
    with sg.build_index(
        documents(4), "walk", llm=Untouched(), embedder=FakeEmbedder(), progress=False
    ) as named:
        assert named.methods == ()


def test_every_index_is_searched_by_the_walk(extractive: sg.Index) -> None:
    with sg.build_index(demo.documents(), embedder="hashing", progress=False) as walk:
        for question in DEMO_QUESTIONS[::4]:
            found = extractive.retrieve(question, 6, method="walk")
            assert found.method == "walk"
            assert [hit.id for hit in found] == [hit.id for hit in walk.retrieve(question, 6)]


@pytest.mark.parametrize("method", NAMES)
def test_a_method_is_added_to_an_index_for_the_walk(method: str, tmp_path: Any) -> None:
    model, given = CountingModel(), {"embedder": FakeEmbedder(), "progress": False}
    with sg.build_index(documents(40), path=tmp_path / "idx", llm=model, **given) as index:
        assert not model.prompts
        before = [hit.id for hit in index.retrieve(QUESTION, 6)]
        index.add_method(method)
        assert index.methods == (method,)
        assert model.prompts, "the model writes the method's nodes"
        found = index.retrieve(QUESTION, 6)
        assert found.method == method
        assert {"chunk"} < {hit.kind for hit in found}
        assert index.verify() == []
        if method == "lshtree":  # for which no names are asked for
            assert [hit.id for hit in index.retrieve(QUESTION, 6, method="walk")] == before
    with sg.build_index(documents(41), path=tmp_path / "idx", llm=model, **given) as again:
        assert again.methods == (method,), "None means the methods that are there"
        assert again.verify() == []


def test_an_index_for_the_walk_has_no_nodes_to_show(walk: sg.Index) -> None:
    for call in (walk.levels, lambda: list(walk.nodes())):
        with pytest.raises(MethodMissing, match=r"has no method .*of lshtree, archrag"):
            call()
    assert walk.regroup().generation == walk.generation, "there is nothing to group"
    for method in NAMES:
        with pytest.raises(MethodMissing, match=f"holds no method, not {method}; add it with"):
            walk.retrieve(QUESTION, method=method)
    with pytest.raises(ValueError, match="every index can be searched by the walk"):
        walk.add_method("walk")
    assert walk.to_networkx().number_of_nodes() > 0
    assert "Note 7 of the theatre" in walk.show().html
    assert "All 40 nodes" in walk.show("walk").html
    assert walk.browse("documents").total == 40
    assert json.loads(json.dumps(walk.stats()))["methods"] == {}


# Options that would be ignored


IGNORED = {
    "rank with a method": ({"method": "hirag", "rank": "bm25"}, "rank='bm25' orders passages, and hirag"),
    "rank with the first method": ({"rank": "dense"}, "rank='dense' orders passages, and lshtree"),
    "rank with a method's own ranking": ({"rank": "hybrid", "fill": False}, "rank='hybrid' orders passages"),
    "the walk without passages": ({"method": "walk", "fill": False}, "the walk finds nothing else"),
    "the chunks without passages": ({"view": "chunks", "fill": False}, "the walk finds nothing else"),
    "another view": ({"view": "nodes"}, "view must be \"chunks\" or None, not 'nodes'"),
    "a number per level of all together": ({"k_per_level": 2}, 'k_per_level is for mode="per_level"'),
}


@pytest.mark.parametrize("case", IGNORED)
def test_options_that_would_be_ignored_are_errors(extractive: sg.Index, case: str) -> None:
    options, message = IGNORED[case]
    for call in (extractive.retrieve, extractive.answer):
        with pytest.raises(ValueError, match=message):
            call(QUESTION, **options)


def test_options_of_a_method_are_none_of_the_walk(extractive: sg.Index) -> None:
    for call in (extractive.retrieve, extractive.answer):
        with pytest.raises(TypeError, match=r"no argument 'mode': .* with walk no more"):
            call(QUESTION, method="walk", mode="local")
        with pytest.raises(
            TypeError, match="'k_per_level' is an option of archrag, and view='chunks' searches"
        ):
            call(QUESTION, method="archrag", view="chunks", k_per_level=3)
        with pytest.raises(TypeError, match="'mode' is an option of lshtree, and view='chunks' searches"):
            call(QUESTION, view="chunks", mode="local")
        with pytest.raises(TypeError, match="no argument 'top_k'"):
            call(QUESTION, view="chunks", top_k=3)
    with pytest.raises(ValueError, match="there is no method 'treerag'; choose from walk, lshtree"):
        extractive.retrieve(QUESTION, method="treerag", view="chunks")
