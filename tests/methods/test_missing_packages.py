"""Methods whose packages are not installed: named before anything is asked or written, and still searched."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import stratagraph as sg
from stratagraph.errors import MissingExtra
from stratagraph.testing import FakeEmbedder, ScriptedChatModel

TEXTS = [sg.Document(f"d{n}", f"Ada Quill steered the Dunlin past Cape {n} in {1880 + n}.") for n in range(8)]
NEW = [sg.Document("new", "The Dunlin ran aground off Cape Ellery.")]
LINE = r"pip install 'stratagraph\[methods\]'"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def hide() -> None:
        for module in ("igraph", "leidenalg", "sklearn"):
            monkeypatch.setitem(sys.modules, module, None)

    return hide


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("method", ["archrag", "noderag", "hirag"])
def test_every_change_names_the_line_before_a_call_or_a_write(
    tmp_path: Path, without: Callable[[], None], method: str, sharded: bool
) -> None:
    path, llm = tmp_path / "idx", ScriptedChatModel([])
    build = sg.build_shards if sharded else sg.build_index
    spread = {"shards": 2} if sharded else {}
    build(TEXTS, path=path, method=method, embedder=FakeEmbedder(), progress=False, **spread).close()
    with sg.open_index(path, embedder=FakeEmbedder(), llm=llm) as index:
        found = [hit.id for hit in index.retrieve("Who steered the Dunlin?", method=method)]
        without()
        before = contents(path)
        for change in (
            lambda: index.insert(NEW),
            lambda: index.delete(["d1"]),
            lambda: index.add_method(method, {"seed": 1}),
            lambda: index.regroup(),
            lambda: index.estimate(NEW),
            lambda: build(TEXTS + NEW, path=path, embedder=FakeEmbedder(), progress=False, **spread),
        ):
            with pytest.raises(MissingExtra, match=LINE):
                change()
        assert contents(path) == before
        assert index.stats()["interrupted"] is None
        assert [hit.id for hit in index.retrieve("Who steered the Dunlin?", method=method)] == found
    with pytest.raises(MissingExtra, match=LINE):
        build(TEXTS, path=tmp_path / "other", method=method, llm=llm, progress=False, **spread)
    with pytest.raises(MissingExtra, match=LINE):
        sg.estimate(TEXTS, method=method, llm=llm)
    assert not (tmp_path / "other").exists()
    assert not llm.calls


def test_the_walk_and_the_tree_are_built_and_changed_without_them(
    tmp_path: Path, without: Callable[[], None]
) -> None:
    without()
    with sg.build_index(TEXTS, "lshtree", tmp_path / "idx", embedder=FakeEmbedder(), progress=False) as index:
        index.insert(NEW)
        assert index.retrieve("What ran aground off Cape Ellery?", k=1).hits[0].documents == ("new",)


def test_processes_name_their_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "loky", None)
    with pytest.raises(MissingExtra, match=r"pip install 'stratagraph\[parallel\]'"):
        sg.mapper("processes")
