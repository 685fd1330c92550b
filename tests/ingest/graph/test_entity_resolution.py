from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import cases

from stratagraph.ingest.graph.entity_resolution import Candidate, candidates, resolve
from stratagraph.ingest.graph.layout import Entity
from stratagraph.ingest.names.index import canonical
from stratagraph.models.gate import ModelGate
from stratagraph.testing import FakeEmbedder


def entity(name: str, *texts: str, kind: str = "") -> Entity:
    return Entity(canonical(name), name, kind, texts, (0,))


def pairs(*names: str) -> list[tuple[str, str, str]]:
    return [(c.alias, c.kept, c.evidence) for c in candidates([entity(name) for name in names])]


@pytest.mark.parametrize(("alias", "kept", "evidence"), cases(__file__, "shortened and misspelt names"))
def test_shortened_and_misspelt_names(alias: str, kept: str, evidence: str) -> None:
    assert pairs(alias, kept) == [(canonical(alias), canonical(kept), evidence)]


@pytest.mark.parametrize("names", cases(__file__, "names that are not alike"))
def test_names_that_are_not_alike(names: list[str]) -> None:
    assert pairs(*names) == []


def test_a_part_of_several_names_is_nobodys_alias() -> None:
    assert pairs("Hopkinson", "John Hopkinson", "Mary Hopkinson") == []
    assert pairs("J Hopkinson", "John Hopkinson", "Jane Hopkinson") == []


def test_two_words_that_are_in_further_names_are_two_words() -> None:
    assert pairs("Karen Hopkinson", "Karin Hopkinson") != []
    assert pairs("Karen Hopkinson", "Karin Hopkinson", "Karen Blixen", "Karin Boye") == []


parts = st.sampled_from(["a", "b", "ab", "ba", "abab", "ii", "john", "jon", "hopkinson", "hopkinsen", "of"])


@given(st.lists(st.lists(parts, min_size=1, max_size=4).map(" ".join), max_size=8))
def test_nothing_is_a_candidate_for_itself_and_order_does_not_matter(drawn: list[str]) -> None:
    found = pairs(*drawn)
    assert all(alias != kept for alias, kept, _ in found)
    assert len({frozenset(each[:2]) for each in found}) == len(found)
    assert found == pairs(*drawn[::-1])
    assert found == pairs(*drawn, *drawn)


def merged(entities: list[Entity]) -> list[Candidate]:
    async def run() -> list[Candidate]:
        described = {each: each.fragments for each in entities}
        return await resolve(described, candidates(entities), ModelGate(None, FakeEmbedder()))

    return asyncio.run(run())


def aliases(found: list[Candidate]) -> dict[str, str]:
    return {candidate.alias: candidate.kept for candidate in found}


MISER = "an old miser who hates christmas and lives alone in london"
SHARED = "ebenezer scrooge was the miser, and scrooge lived alone"


def test_what_is_said_of_both_is_no_evidence() -> None:
    one, two = entity("Scrooge", SHARED), entity("Ebenezer Scrooge", SHARED)
    assert merged([one, two]) == []
    apart = [entity("Scrooge", MISER), entity("Ebenezer Scrooge", f"the {MISER}")]
    assert aliases(merged(apart)) == {"scrooge": "ebenezer scrooge"}


@pytest.mark.parametrize("names", [("Scrooge", "Ebenezer Scrooge"), ("Jon Hopkinson", "John Hopkinson")])
def test_names_told_of_side_by_side_are_two_things(names: list[str]) -> None:
    apart = [entity(names[0], MISER), entity(names[1], f"the {MISER}")]
    assert len(merged(apart)) == 1
    beside = [entity(names[0], MISER, SHARED), entity(names[1], f"the {MISER}", f" {SHARED.upper()} ")]
    assert merged(beside) == []


def test_a_shared_statement_explains_an_acronym_unless_what_is_said_apart_differs() -> None:
    long, shared = "International Monetary Fund", "the international monetary fund is called imf"
    assert aliases(merged([entity("IMF", shared), entity(long, shared)])) == {"imf": canonical(long)}
    lent = "lends money to states in need"
    assert len(merged([entity("IMF", shared, lent), entity(long, shared, f"it {lent}")])) == 1
    assert merged([entity("IMF", shared, "a film of horrors"), entity(long, shared, lent)]) == []


def test_an_acronym_that_is_mostly_used_elsewhere_is_not_explained() -> None:
    shared, other = "the economic partnership agreement (epa)", "the epa measured the range of the car"
    long = entity("Economic Partnership Agreement", shared)
    short = entity("EPA", shared, other)
    assert len(merged([short._replace(chunks=(0,)), long])) == 1
    assert merged([short._replace(chunks=(0, 7)), long]) == []


def test_things_of_two_types_are_two_things() -> None:
    one, two = (
        entity("Scrooge", MISER, kind="person"),
        entity("Ebenezer Scrooge", f"the {MISER}", kind="opera"),
    )
    assert merged([one, two]) == []
    assert len(merged([one._replace(type=""), two])) == 1
    assert len(merged([one._replace(type="Opera"), two])) == 1


def test_both_kinds_of_evidence_are_needed() -> None:
    found = merged(
        [
            entity("Scrooge", MISER),
            entity("Ebenezer Scrooge", f"the {MISER}"),
            entity("Marley", MISER),
            entity("Paris", "a hotel heiress"),
            entity("Paris Basin", "a geological region of france with chalk"),
        ]
    )
    assert aliases(found) == {"scrooge": "ebenezer scrooge"}
    assert "words" in str(found[0])


def test_without_a_description_nothing_is_merged() -> None:
    assert merged([entity("Scrooge"), entity("Ebenezer Scrooge")]) == []
    assert merged([]) == []


def test_a_common_word_brings_nobody_together() -> None:
    crowd = [entity(f"University of Town{number:04}") for number in range(300)]
    assert not [c for c in candidates([*crowd, entity("University")]) if c.evidence == "words"]
