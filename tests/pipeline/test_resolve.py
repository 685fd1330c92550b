from __future__ import annotations

import asyncio

import pytest

from stratarag.models.gateway import ModelGate
from stratarag.pipeline.merge import Entity
from stratarag.pipeline.names import canonical
from stratarag.pipeline.resolve import Candidate, aliases, candidates, resolve
from stratarag.testing import FakeEmbedder


def entity(name: str, text: str = "") -> Entity:
    return Entity(canonical(name), name, "", (text,) if text else (), (0,))


def pairs(*names: str) -> list[tuple[str, str, str]]:
    return [(c.alias, c.kept, c.evidence) for c in candidates([entity(name) for name in names])]


def test_name_evidence() -> None:
    assert pairs("Scrooge", "Ebenezer Scrooge") == [("scrooge", "ebenezer scrooge", "words")]
    assert pairs("IMF", "International Monetary Fund") == [("imf", "international monetary fund", "acronym")]
    assert pairs("Jon Hopkinson", "John Hopkinson") == [("jon hopkinson", "john hopkinson", "spelling")]


@pytest.mark.parametrize(
    "names", [("Paris", "London"), ("1871", "1872"), ("Route 65", "Route 66"), ("Star", "Stargazer")]
)
def test_names_that_are_not_alike(names: tuple[str, str]) -> None:
    assert pairs(*names) == []


def merged(entities: list[Entity]) -> list[Candidate]:
    async def run() -> list[Candidate]:
        gate = ModelGate(None, FakeEmbedder())
        return await resolve(entities, gate, describe=lambda e: " ".join(e.fragments))

    return asyncio.run(run())


def test_both_kinds_of_evidence_are_needed() -> None:
    miser = "an old miser who hates christmas and lives alone in london"
    found = merged(
        [
            entity("Scrooge", miser),
            entity("Ebenezer Scrooge", "the " + miser),
            entity("Marley", miser),
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
