"""A graph that updates bring up to date is, byte for byte, the one that a build makes."""

from __future__ import annotations

import random

import pytest
from tests.ingest.support import Spans

import stratagraph as sg
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, assert_equal_states, state, state_after_update

NAMES = [
    "Ada Marsh",
    "Miss Ada Marsh",
    "Miss Marsh",
    "Miss Vera Marsh",
    "Aunt Lind",
    "Brook Hall",
    "May",
    "Otto Lind",
    "Lind",
    "Port Elm",
    "Aunt Otto Lind",
]
THINGS = ["solar panel", "solar panel roof", "tide mill", "may fly", "glass lighthouse", "may rain"]


def passage(chance: random.Random) -> str:
    """Sentences in which names stand alone, at the front, and under a form of address, among phrases."""
    said = []
    for _ in range(chance.randrange(1, 4)):
        one, other = chance.sample(NAMES, 2)
        thing, also = chance.sample(THINGS, 2)
        said.append(
            chance.choice(
                [
                    f"{one} bought a {thing} from {other}.",
                    f"The {thing} near {one} was old.",
                    f"{one} met {other}, and {other} sold the {also}.",
                    f"We saw the {thing} with the {also}.",
                ]
            )
        )
    return " ".join(said)


def documents(chance: random.Random, count: int) -> dict[str, sg.Document]:
    return {f"d{at:03}": sg.Document(f"d{at:03}", passage(chance)) for at in range(count)}


def build(
    docs: dict[str, sg.Document],
    method: str,
    llm: CountingModel | None,
    *,
    pooled: bool = False,
    resolve: bool = False,
) -> sg.Index:
    embedder = Spans() if pooled else FakeEmbedder()
    config = {"extraction": {"resolve": resolve}}
    return sg.build_index(
        list(docs.values()), method=method, llm=llm, embedder=embedder, config=config, progress=False
    )


@pytest.mark.parametrize(
    ("method", "with_model", "pooled", "resolve"),
    [
        ("lshtree", False, False, True),
        ("hirag", False, False, False),
        ("noderag", True, False, False),
        ("hirag", True, True, False),
    ],
)
def test_an_updated_graph_is_that_of_a_build(
    method: str, with_model: bool, pooled: bool, resolve: bool
) -> None:
    chance, llm = random.Random(7), CountingModel() if with_model else None
    docs = documents(chance, 60)
    with build(docs, method, llm, pooled=pooled, resolve=resolve) as index:
        for step in range(6):
            if step % 4 == 1:
                gone = chance.sample(sorted(docs), 2)
                docs = {identity: each for identity, each in docs.items() if identity not in gone}
            changed = [
                sg.Document(chance.choice([*docs, f"n{step}"]), passage(chance))
                for _ in range(chance.randrange(1, 3))
            ]
            changed = list({each.id: each for each in changed}.values())
            docs |= {each.id: each for each in changed}
            if step % 4 == 1:
                index.delete(gone)
            index.insert(changed)
            if step % 2 == 0:
                continue
            with build(docs, method, llm, pooled=pooled, resolve=resolve) as fresh:
                found, wanted = state(index, method), state(fresh, method)
                assert_equal_states(found["graph"], wanted["graph"])
                assert of_graph(index.last_report) == of_graph(fresh.last_report)
        assert index.verify() == []


def of_graph(report: sg.BuildReport) -> dict[str, int]:
    """The notes on the graph; those on answers for groups tell what an operation asked."""
    return {note: count for note, count in report.notes.items() if not note.startswith("members of summary")}


def unspaced(chance: random.Random) -> str:
    """Chinese of so few characters that phrases repeat, and are parts of each other in some chunks alone."""
    said = ["".join(chance.choice("王国大学北京") for _ in range(chance.randrange(2, 6))) for _ in range(3)]
    return "。".join([*said, chance.choice(said)]) + "。Ada Marsh met Otto Lind."


def test_so_it_is_in_writing_without_capitals() -> None:
    chance = random.Random(3)
    docs = {f"d{at:02}": sg.Document(f"d{at:02}", unspaced(chance)) for at in range(40)}
    with build(docs, "lshtree", None) as index:
        for step in range(10):
            changed = sg.Document(chance.choice([*docs, f"n{step}"]), unspaced(chance))
            docs[changed.id] = changed
            index.insert([changed])
            if step % 3:
                continue
            with build(docs, "lshtree", None) as fresh:
                assert_equal_states(
                    state_after_update(index, "lshtree"), state_after_update(fresh, "lshtree")
                )
                assert index.last_report.notes == fresh.last_report.notes
