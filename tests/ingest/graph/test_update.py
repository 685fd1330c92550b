"""A graph that updates bring up to date is, byte for byte, the one that a build makes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.ingest.support import Spans

import stratagraph as sg
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, assert_equal_states, state

NAMES = [
    *("Ada Marsh", "Miss Ada Marsh", "Miss Marsh", "Miss Vera Marsh", "Aunt Lind", "Brook Hall", "May"),
    *("Otto Lind", "Lind", "Port Elm", "Aunt Otto Lind"),
]
THINGS = ["solar panel", "solar panel roof", "tide mill", "may fly", "glass lighthouse", "may rain"]


def passage(chance: random.Random) -> str:
    """Sentences in which names stand alone, at the front, and under a form of address, among phrases."""
    said = []
    for _ in range(chance.randrange(1, 4)):
        one, other = chance.sample(NAMES, 2)
        thing, also = chance.sample(THINGS, 2)
        sentences = (
            f"{one} bought a {thing} from {other}.",
            f"The {thing} near {one} was old.",
            f"{one} met {other}, and {other} sold the {also}.",
            f"We saw the {thing} with the {also}.",
        )
        said.append(chance.choice(sentences))
    return " ".join(said)


def unspaced(chance: random.Random) -> str:
    """Chinese of so few characters that phrases repeat, and are parts of each other in some chunks alone."""
    said = ["".join(chance.choice("王国大学北京") for _ in range(chance.randrange(2, 6))) for _ in range(3)]
    return "。".join([*said, chance.choice(said)]) + "。Ada Marsh met Otto Lind."


@pytest.mark.parametrize(
    ("method", "with_model", "pooled", "resolve", "said"),
    [
        ("lshtree", False, False, True, passage),
        ("lshtree", False, False, False, unspaced),
        ("noderag", True, False, False, passage),
        ("hirag", True, True, False, passage),
    ],
)
def test_an_updated_graph_is_that_of_a_build(
    method: str, with_model: bool, pooled: bool, resolve: bool, said: Callable[[random.Random], str]
) -> None:
    chance, llm = random.Random(7), CountingModel() if with_model else None
    docs = {f"d{at:03}": sg.Document(f"d{at:03}", said(chance)) for at in range(60)}

    def build() -> sg.Index:
        embedder, config = Spans() if pooled else FakeEmbedder(), {"extraction": {"resolve": resolve}}
        given: dict[str, Any] = {"llm": llm, "embedder": embedder, "config": config, "progress": False}
        return sg.build_index(list(docs.values()), method, **given)

    def of_graph(report: sg.BuildReport) -> dict[str, int]:
        """The notes on the graph; those on answers for groups tell what an operation asked."""
        return {note: n for note, n in report.notes.items() if not note.startswith("members of summary")}

    with build() as index:
        for step in range(6):
            if step % 4 == 1:
                gone = chance.sample(sorted(docs), 2)
                docs = {identity: each for identity, each in docs.items() if identity not in gone}
                index.delete(gone)
            ids = {chance.choice([*docs, f"n{step}"]) for _ in range(chance.randrange(1, 3))}
            changed = {identity: sg.Document(identity, said(chance)) for identity in sorted(ids)}
            docs |= changed
            index.insert(list(changed.values()))
            if step % 2:
                with build() as fresh:
                    assert_equal_states(state(index, method)["graph"], state(fresh, method)["graph"])
                    assert of_graph(index.last_report) == of_graph(fresh.last_report)
        assert index.verify() == []
