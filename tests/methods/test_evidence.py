"""What a model extracted reaches the prompts of what a model writes (ERRATA M1, M2, N11)."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.ingest.graph.stage import Graph
from stratagraph.methods.noderag.heterograph import stating_units
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.opened import snapshot_of
from stratagraph.text.packing import divided
from stratagraph.types.records import EntityMention, Extraction, RelationMention, SemanticUnit

Given = tuple[list[sg.Document], dict[str, Extraction]]
TOWNS = ("Sarn", "Vell", "Orrin", "Crake", "Perrow")


def voyages(count: int, start: int = 0) -> Given:
    """Documents on ships, whose relations are described in other words than their units."""
    documents, given = [], {}
    for number in range(start, start + count):
        ship, master = f"Ship {number % 31}", f"Master {number % 43}"
        town, other = TOWNS[number % 5], TOWNS[(number + 1 + number // 5) % 5]
        units = (
            SemanticUnit(f"{master} took {ship} to {town} on day {number}.", (master, ship, town)),
            SemanticUnit(f"{ship} was seen at {other} on day {number}.", (ship, other)),
        )
        relations = (
            RelationMention(master, ship, f"{master} commands {ship}, voyage {number}.", 7.0),
            RelationMention(ship, other, f"{ship} calls at {other}, voyage {number}.", 4.0),
        )
        names = tuple(EntityMention(name, "", f"{name} is known.") for name in (ship, master, town, other))
        documents.append(sg.Document(f"day-{number:03}", " ".join(unit.text for unit in units)))
        given[f"day-{number:03}"] = Extraction(units, names, relations)
    return documents, given


class Scripted:
    """A chat model that answers by schema and keeps what it is asked, by the kind of prompt."""

    name = "scripted"

    def __init__(self) -> None:
        self.prompts: dict[str, list[str]] = {}

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        kind = schema.__name__ if schema else "describe" if "Description:" in prompt else "attribute"
        own = self.prompts.setdefault(kind, [])
        own.append(prompt)
        number = sum(map(len, self.prompts.values()))
        if kind == "SummarySchema":
            numbers = re.findall(r"^<member>\n\[(\d+)\]", prompt, re.MULTILINE)
            members = ["|".join(("5", *numbers[1:], "It is one."))]
            return json.dumps({"entities": [{"name": f"group {number}", "members": members}]})
        answers = {
            "MetaTypesSchema": {"types": ["ship"]},
            "ReportSchema": {"title": f"Title {number}", "summary": "A summary."},
            "FindingsSchema": {
                "title": f"Title {number}",
                "summary": "A summary.",
                "findings": [{"text": f"Finding {number}.", "members": [1, 2]}],
            },
            "ElementsSchema": {"elements": [{"title": f"Theme {number}", "text": "A text."}]},
        }
        return json.dumps(answers[kind]) if kind in answers else f"Text {number}."

    def with_relations(self, kind: str) -> tuple[int, int]:
        """The number of prompts of a kind, and of those that hold a relation's description."""
        prompts = self.prompts.get(kind, [])
        return len(prompts), sum("commands" in each or "calls at" in each for each in prompts)


def built(method: str, given: Given, llm: Any = None, **config: Any) -> sg.Index:
    documents, extraction = given
    return sg.build_index(
        documents, method, None, llm, FakeEmbedder(), config, progress=False, extraction=extraction
    )


@pytest.mark.parametrize(
    ("method", "kind", "least"),
    [("hirag", "FindingsSchema", 0.7), ("noderag", "ElementsSchema", 0.9), ("noderag", "attribute", 0.9)],
)
def test_descriptions_of_relations_are_in_the_prompts(method: str, kind: str, least: float) -> None:
    model = Scripted()
    built(method, voyages(60), model)
    asked, holding = model.with_relations(kind)
    assert asked >= 4
    assert holding >= least * asked


@pytest.mark.parametrize(
    ("method", "kind", "lengths"),
    [
        ("archrag", "FindingsSchema", ["summary_tokens"]),
        ("hirag", "FindingsSchema", ["report_tokens"]),
        ("noderag", "ElementsSchema", ["element_tokens", "attribute_tokens"]),
    ],
)
def test_a_group_that_says_little_is_told_without_a_call(method: str, kind: str, lengths: list[str]) -> None:
    asked, model = Scripted(), Scripted()
    given, more = voyages(40), voyages(1, start=40)
    built(method, given, asked, **{method: dict.fromkeys(lengths, 10)})
    assert len(asked.prompts[kind]) >= 4
    index = built(method, given, model, **{method: dict.fromkeys(lengths, 5_000)})
    index.insert(more[0], extraction=more[1])
    assert not {kind, "attribute"} & model.prompts.keys()
    own = snapshot_of(index).part(method)
    groups = [node for node in own.nodes(range(own.size)) if node.kind in ("community", "element")]
    texts = [node.text for node in groups if "is known." in node.text or "took Ship" in node.text]
    assert len(texts) >= 4
    assert all(line.strip() for text in texts for line in text.splitlines())
    assert all("by" not in node.extra and node.extra["title"] for node in groups)


def test_members_that_the_model_leaves_out_are_not_related() -> None:
    model = Scripted()
    index = built("hirag", voyages(60), model, hirag={"cluster_size": 4, "max_cluster": 8})
    own = snapshot_of(index).part("hirag")
    nodes = own.nodes(range(own.size))
    summaries = {node.id: node for node in nodes if node.kind == "summary_entity"}
    assert summaries
    graph = snapshot_of(index).part("graph")
    ids = [*graph.ids(range(int(graph.arrays["counts"][0]))), *summaries]
    rows = {identity: row for row, identity in enumerate(ids)}
    indptr, indices = own.arrays["layered.indptr"], own.arrays["layered.indices"]
    left_out = 0
    for node in summaries.values():
        row = rows[node.id]
        near = {ids[other] for other in indices[indptr[row] : indptr[row + 1]].tolist()}
        listed = {member for each in node.extra["summaries"] for member in each["members"]}
        assert near & set(node.extra["members"]) == listed
        left_out += len(set(node.extra["members"]) - listed)
    assert left_out >= len(summaries)


def test_units_state_the_relations_of_their_own_chunks_alone() -> None:
    documents, given = voyages(12)
    later = SemanticUnit("Master 0 sold Ship 0.", ("Master 0", "Ship 0"))
    documents.append(sg.Document("sale", later.text))
    given["sale"] = Extraction((later,), (), ())
    graph = Graph(snapshot_of(built("noderag", (documents, given))).part("graph"))
    pairs = stating_units(graph)
    indptr, indices = graph.sources
    first = graph.entities + graph.relations
    for relation, unit in pairs.tolist():
        chunks = [
            set(indices[indptr[row] : indptr[row + 1]].tolist())
            for row in (graph.entities + relation, first + unit)
        ]
        assert chunks[0] & chunks[1]
    texts = graph.stored.texts([first + unit for unit in np.unique(pairs[:, 1]).tolist()])
    assert "Master 0 took Ship 0 to Sarn on day 0." in texts
    assert later.text not in texts


def hub(guests: int) -> Given:
    """A corpus in which Ada meets each guest once, and her friends often. Her friends meet each other."""
    documents, given = [], {}
    for number in range(guests):
        friend, other = f"Friend {number % 4}", f"Friend {(number + 1) % 4}"
        units = [SemanticUnit(f"Ada met Guest {number}.", ("Ada", f"Guest {number}"))]
        units += [SemanticUnit(f"Ada and {friend} dined, day {number}.", ("Ada", friend))]
        units += [SemanticUnit(f"{friend} wrote to {other}, day {number}.", (friend, other))]
        relation = RelationMention("Ada", friend, f"Ada is a friend of {friend}.")
        documents.append(sg.Document(f"d{number:03}", " ".join(unit.text for unit in units)))
        given[f"d{number:03}"] = Extraction(tuple(units), (), (relation,))
    documents.append(sg.Document("alone", "Ada was born in May."))
    given["alone"] = Extraction((SemanticUnit("Ada was born in May.", ("Ada",)),), (), ())
    return documents, given


def test_an_attribute_is_made_of_the_most_important_statements() -> None:
    model = Scripted()
    built("noderag", hub(40), model, noderag={"statements": 9, "attribute_tokens": 10})
    (prompt,) = (each for each in model.prompts["attribute"] if "Ada was born in May." in each)
    found = [line[2:] for line in prompt.splitlines() if line.startswith("- ") and "Ada" in line]
    assert found[0] == "Ada was born in May."
    assert len({text.split(":")[0] for text in found[1:5] if text.startswith("Ada - Friend")}) == 4
    assert len(found) == 9


def told_often(count: int) -> Given:
    """One pair and its entities, described at length by each of many documents."""
    documents, given = [], {}
    for number in range(count):
        text = f"On day {number} the ferry Amberbell crossed the Narrow with {number} passengers and no post."
        relation = RelationMention("Amberbell", "Narrow", f"The Amberbell crosses the Narrow: {text}")
        entity = EntityMention("Amberbell", "ship", f"The Amberbell is a ferry. {text}")
        documents.append(sg.Document(f"d{number}", text))
        unit = SemanticUnit(text, ("Amberbell", "Narrow"))
        given[f"d{number}"] = Extraction((unit,), (entity,), (relation,))
    return documents, given


@pytest.mark.parametrize(("method", "names"), [("noderag", 0), ("archrag", 1)])
def test_long_descriptions_are_condensed_by_the_model_where_a_method_uses_them(
    method: str, names: int
) -> None:
    model = Scripted()
    index = built(method, told_often(40), model, extraction={"form": "full"})
    prompts = model.prompts["describe"]
    assert sum("<name>\nAmberbell - Narrow\n</name>" in prompt for prompt in prompts) == 1
    assert sum("<name>\nAmberbell\n</name>" in prompt for prompt in prompts) == names
    (relation,) = index.relations()
    assert re.fullmatch(r"Amberbell - Narrow: Text \d+\.", relation.text)
    assert snapshot_of(index).manifest.complete["graph"]
    documents, given = told_often(42)
    index.insert(documents[40:41], extraction={"d40": given["d40"]})
    assert sum("<name>\nAmberbell - Narrow\n</name>" in prompt for prompt in prompts) == 2
    index.insert([sg.Document("other", "Nothing of it.")], extraction={"other": Extraction()})
    assert len(prompts) == 2 * (1 + 2 * names)  # the Narrow is described by its units
    assert snapshot_of(index).manifest.complete["graph"]


@pytest.mark.parametrize("method", ["archrag", "hirag"])
def test_reports_have_findings_and_an_insert_asks_for_no_more_than_of_short_ones(method: str) -> None:
    inserted = {}
    for form in ("findings", "short"):
        model = Scripted()
        index = built(
            method, voyages(60), model, **({method: {"report_form": form}} if form == "short" else {})
        )
        kind = {"findings": "FindingsSchema", "short": "ReportSchema"}[form]
        asked = len(model.prompts[kind])
        part = snapshot_of(index).part(method)
        nodes = [node for node in part.nodes(range(part.size)) if "findings" in node.extra]
        assert len(nodes) == (asked if form == "findings" else 0)
        documents, given = voyages(1, start=60)
        index.insert(documents, extraction=given)
        inserted[form] = len(model.prompts[kind]) - asked
        part = snapshot_of(index).part(method)
        for node in part.nodes(range(part.size)):
            for finding in node.extra.get("findings", ()):
                assert finding["text"] in node.text.splitlines()
                assert 0 < len(finding["members"]) <= 2
                assert set(finding["members"]) <= set(node.extra["members"])
        assert {"findings": "ReportSchema", "short": "FindingsSchema"}[form] not in model.prompts
    assert inserted["findings"] <= inserted["short"] < asked


@pytest.mark.parametrize("method", ["archrag", "noderag", "hirag"])
def test_contexts_for_themes_are_packed_by_vectors_that_are_stored(method: str) -> None:
    class Telling(Scripted):
        async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
            answer = await super().acomplete(prompt, schema=schema)
            return answer.replace(
                "A summary.", "A ship sailed. A harbour was rebuilt after the storm of the year."
            )

    documents, extraction = voyages(60)
    embedder = FakeEmbedder()
    index = sg.build_index(
        documents, method, None, Telling(), embedder, None, progress=False, extraction=extraction
    )
    own = snapshot_of(index).part(method)
    borders, vectors = own.arrays["statements.indptr"], own.arrays["statements.vectors"]
    several = np.flatnonzero(np.diff(borders) > 1)
    assert len(several) >= 4
    node = own.nodes([int(several[0])])[0]
    texts = divided(node.text)
    assert np.allclose(
        np.asarray(vectors[borders[several[0]] : borders[several[0] + 1]]),
        embedder.embed_documents(texts),
        atol=1e-3,
    )
    embedder.requests.clear()
    retrieval = index.retrieve("How was the lamp lit by people of the town?", k=60, fill=False)
    assert retrieval.theme is not None
    assert {hit.id for hit in retrieval} >= set(retrieval.theme.statements)
    assert str(retrieval.context(300))
    assert not embedder.requests
    assert index.retrieve("Who commands Ship 3?", k=20).theme is None


def test_a_community_of_several_elements_keeps_all_of_them() -> None:
    class Prolific(Scripted):
        async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
            if schema is None or schema.__name__ != "ElementsSchema":
                return await super().acomplete(prompt, schema=schema)
            themes = [f"{theme} of {sum(map(ord, prompt))}" for theme in ("Ships", "Harbours", "Storms")]
            return json.dumps({"elements": [{"title": each, "text": f"{each}."} for each in themes]})

    index = built("noderag", voyages(60), Prolific())
    texts = [node.text for node in index.nodes("noderag")]
    assert sum(text.startswith("Ships") for text in texts) >= 4
    index.add_method("lshtree")
    assert [node.text for node in index.nodes("noderag")] == texts
