"""What an update takes over is neither written nor embedded again, whatever the method."""

from __future__ import annotations

import random
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.methods import NAMES
from stratagraph.store import nodes, records
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, documents
from stratagraph.testing.opened import snapshot_of
from stratagraph.types.records import Node

building = import_module("stratagraph.methods.archrag.build")  # as an attribute it is the function


class RecordingEmbedder(FakeEmbedder):
    """Remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.given += texts
        return super().embed_documents(texts)


@pytest.mark.parametrize("method", NAMES)
def test_an_insert_embeds_only_new_texts(method: str, tmp_path: Path) -> None:
    path, llm = tmp_path / "index", CountingModel()
    sg.build_index(documents(60), method, path, llm, FakeEmbedder(), progress=False).close()
    embedder = RecordingEmbedder()
    with sg.open_index(path, llm=llm, embedder=embedder) as index:
        before = {hit.text for hit in index.retrieve("ferry rope tide", k=10_000, fill=False).hits}
        index.insert(documents(3, start=60))
    assert embedder.given
    assert not before & set(embedder.given)


def meetings(count: int) -> list[sg.Document]:
    """Documents about people who meet, four in each place."""
    people = [
        f"{one} {other}" for one in ["Ada", "Otto", "Vera", "Nils", "Mara"] for other in SURNAMES.split()
    ]
    made = []
    for number in range(count):
        one, other = random.Random(number).sample(people, 2)
        place = f"Port{number // 4}ville"
        text = f"{one} met {other} in {place}. {place} sold {one} a lamp of number {number}."
        made.append(sg.Document(f"d{number:03}", text))
    return made


NAMED, SURNAMES = "Ada Otto Vera Nils Mara", "Marsh Lind Brook Falk Stone Reed Vale Thorn Moss Hart"


@pytest.mark.parametrize("method", NAMES)
def test_an_insert_reads_and_writes_few_of_the_nodes_there_are(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[object] = []
    for owner, name in ((records.Kind, "decoded"), (nodes, "_record")):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, real=real: handled.append(args[0]) or real(*args))
    index = sg.build_index(meetings(240), method, embedder=FakeEmbedder(), progress=False)
    handled.clear()
    index.insert([sg.Document("x", "Gerda Quill wrote to Hans Oberon of Farnoth. Farnoth was cold.")])
    handled_by_update = sum(each is records.NODES or isinstance(each, Node) for each in handled)
    assert snapshot_of(index).part("graph").size > 1000
    assert handled_by_update < 100


def test_the_groups_of_a_tree_are_made_anew_when_many_chunks_are_new() -> None:
    every = meetings(100)
    index = sg.build_index(every[:60], "lshtree", embedder=FakeEmbedder(), progress=False)
    for end, changed in ((70, 10), (75, 15), (100, 0)):  # 40 of 100 are more than 30 %
        index.insert(every[:end])
        assert index.stats()["methods"]["lshtree"]["changed"] == changed
    anew = sg.build_index(every, "lshtree", embedder=FakeEmbedder(), progress=False)
    assert _made_of(index, "lshtree") == _made_of(anew, "lshtree")


def _made_of(index: sg.Index, method: str) -> list[tuple[str, int, list[str]]]:
    return sorted((node.kind, node.level, sorted(node.sources)) for node in index.nodes(method))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("lshtree", {"max_cluster": 7}),
        ("archrag", {"max_community": 4}),
        ("noderag", {"resolution": 4.0}),
        ("hirag", {"max_community": 4}),
    ],
)
def test_other_settings_of_groups_give_the_groups_of_a_new_build(
    method: str, settings: dict[str, Any]
) -> None:
    def built(config: dict[str, Any]) -> sg.Index:
        return sg.build_index(
            meetings(60), method, None, None, FakeEmbedder(), {method: config}, progress=False
        )

    def groups(index: sg.Index) -> set[tuple[str, ...]]:
        return {tuple(sorted(node.members)) for node in index.nodes(method)}

    index, expected = built({}), groups(built(settings))
    assert groups(index) != expected
    index.add_method(method, settings)
    assert groups(index) == expected
