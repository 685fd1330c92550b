"""Folders of another format, and folders whose checksums are right and whose content is not."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.errors import Damaged, FormatMismatch, StoreError
from stratagraph.operations.inspection import verify_folder
from stratagraph.store.arrays import open_arrays, write_arrays
from stratagraph.store.files import Directory
from stratagraph.store.manifest import FORMAT
from stratagraph.store.records import NODES, Records, packed
from stratagraph.testing import FakeEmbedder
from tests.campaigns.faults import signed
from tests.campaigns.trials import documents
from tests.store.support import rewrite_arrays

METHODS = ("archrag", "hirag", "noderag", "lshtree")
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "idx"
    made = sg.build_index(documents(), METHODS, path, embedder=FakeEmbedder(), progress=False)
    made.insert(documents(8, 9))  # generation 2, as `signed` expects
    made.close()
    return path


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "idx"))


def altered(folder: Path, file: str, array: str, change: Callable[[Array], Array]) -> None:
    """Another array in a file of the generation, with checksums that are right."""
    path = folder / "generations" / "2" / file
    rewrite_arrays(path, lambda arrays: {array: change(arrays[array])})
    signed(folder, lambda content: None)


def with_nan(array: Array) -> Array:
    array[len(array) // 2 :] = np.nan
    return array


def test_arrays_with_right_checksums_are_asked(folder: Path) -> None:
    altered(folder, "numbers/noderag.arrays", "walk.indices", lambda array: array + 10**6)
    altered(folder, "numbers/lshtree.arrays", "children.indices", lambda array: array + 10**6)
    problems = verify_folder(folder)
    assert [each.partition(" of")[0] for each in problems] == ["part 'noderag'", "part 'lshtree'"]
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        assert index.verify() == problems


def test_settings_that_are_not_valid_are_a_problem(folder: Path) -> None:
    signed(folder, lambda content: content["config"]["chunking"].update(size=-1))
    (problem,) = verify_folder(folder)
    assert "manifest.json" in problem
    assert "size" in problem


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(methods=["extraction"]),
        lambda content: content["config"].update(prompts={"lshtree/summarize": "{{passages}} {{secret}}"}),
        lambda content: content["config"].update(prompts={"lshtree/summarize": 5}),
        lambda content: content["config"]["extraction"].update(gleaning=10**9),
    ],
)
def test_what_no_version_would_do_is_not_done(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    signed(folder, change)
    with pytest.raises(Damaged, match=r"manifest\.json"):
        sg.open_index(folder, embedder=FakeEmbedder())
    assert any("manifest.json" in problem for problem in verify_folder(folder))


def test_an_index_of_nothing_is_sound(tmp_path: Path) -> None:
    with sg.build_index(documents(0, 2), METHODS, tmp_path, embedder=FakeEmbedder(), progress=False) as index:
        index.delete(["note-000", "note-001"])
        assert index.verify() == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("name", ["lock", "calls.sqlite-wal", "stratagraph-index"])
def test_what_is_no_file_is_a_problem(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert verify_folder(folder) == [f"{folder / name}: a named pipe, where a file of the index should be"]


def test_vectors_of_no_numbers_are_damage_to_an_update(folder: Path) -> None:
    segment = min((folder / "generations" / "2" / "vectors").iterdir())
    altered(folder, f"vectors/{segment.name}", "vectors", with_nan)
    assert any(f"vectors/{segment.name}" in problem for problem in verify_folder(folder))
    index = sg.open_index(folder, embedder=FakeEmbedder())
    with index, contextlib.suppress(Damaged):  # a bare error, or a crash, would end the test
        index.insert(documents(30, 40))


def ask_all(index: sg.Index) -> None:
    for method in METHODS:
        index.retrieve("Who steers the Aurora?", method=method, view="chunks")


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")
def test_vectors_whose_products_are_infinite_are_damage_to_a_question(folder: Path) -> None:
    for segment in sorted((folder / "generations" / "2" / "vectors").iterdir()):
        altered(folder, f"vectors/{segment.name}", "vectors", lambda array: np.full_like(array, -np.inf))
    assert any("no unit vector" in problem for problem in verify_folder(folder))
    index = sg.open_index(folder, embedder=FakeEmbedder())
    with index, pytest.raises(Damaged, match="vectors"):
        ask_all(index)


@pytest.mark.parametrize(
    ("file", "array", "change"),
    [
        ("parts/hirag.arrays", "vectors.keys", lambda array: array[None]),
        ("numbers/hirag.arrays", "clusters.indptr", lambda array: array + 1),
    ],
)
def test_arrays_are_checked_before_an_update_follows_them(
    folder: Path, file: str, array: str, change: Callable[[Array], Array]
) -> None:
    altered(folder, file, array, change)
    index = sg.open_index(folder, embedder=FakeEmbedder())
    with index, pytest.raises(Damaged, match=re.escape(array)):
        index.insert(documents(30, 31))


@pytest.mark.parametrize("extra", ['{"title": 1}', "{}", '{"name": 5, "type": [], "description": {}}'])
def test_nodes_without_what_was_written_are_damage(folder: Path, extra: str) -> None:
    generation = folder / "generations" / "2" / "nodes" / "graph"
    (path,) = generation.iterdir()
    with Directory.open(generation) as directory:
        descriptor = directory.descriptor(path.name)
        segment = open_arrays(directory, path.name, descriptor)
        os.close(descriptor)
        slots = np.arange(len(segment["lengths"]))
        raw = [json.loads(each) for each in Records(NODES, "graph", {path.name: segment}, slots).raw(slots)]
        spoiled = [json.dumps([*each[:4], json.loads(extra)]).encode() for each in raw if each[1] == "entity"]
        others = [json.dumps(each).encode() for each in raw if each[1] != "entity"]
        order = np.argsort([each[1] != "entity" for each in raw], kind="stable")
        path.unlink()
        write_arrays(directory, path.name, packed([*spoiled, *others], NODES.block))
    back = np.argsort(order)
    altered(folder, "numbers/graph.arrays", "nodes.slots", lambda slots: back[slots].astype(np.uint32))
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        assert any("graph" in problem for problem in index.verify())
        with pytest.raises(Damaged, match="name"):
            list(index.entities())


def test_a_foreign_number_of_dimensions_is_not_allocated(folder: Path) -> None:
    signed(folder, lambda content: content.update(embedder="hashing-" + "9" * 5000))
    with pytest.raises(Damaged, match="hashing-999"):
        sg.open_index(folder)


def test_a_pipeline_that_only_a_folder_names_is_not_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    class Spacy:
        __spec__ = ModuleSpec("spacy", None)

        @staticmethod
        def load(name: str) -> None:
            loaded.append(name)
            raise OSError("not here")

    monkeypatch.setitem(sys.modules, "spacy", Spacy)
    signed(folder, lambda content: content["config"]["extraction"].update(spacy="strangers_pipeline"))
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        index.retrieve("Who steers the Aurora?")
        for operation in (index.insert, index.estimate):
            with pytest.raises(StoreError, match=r"spacy='strangers_pipeline'"):
                operation(documents(30, 31))
    assert loaded == []
    index = sg.open_index(folder, embedder=FakeEmbedder(), spacy="strangers_pipeline")
    with index, pytest.raises(ValueError, match="strangers_pipeline"):
        index.insert(documents(30, 31))
    assert loaded == ["strangers_pipeline"]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index")
    sg.build_index(["A ferry lands."], path=path, embedder=FakeEmbedder(), progress=False).close()
    return path / "generations" / "1" / "manifest.json"


def test_a_manifest_names_the_format(manifest: Path) -> None:
    content = json.loads(manifest.read_text())
    assert content["stratagraph"] == FORMAT
    assert isinstance(content["version"], str)


@pytest.mark.parametrize(
    "format_of",
    [{"stratagraph": 2}, {"stratagraph": "0.1.0", "format": 6}, {"stratagraph": True}, {"format": 6}],
)
def test_a_folder_of_another_format_is_refused(manifest: Path, format_of: dict[str, object]) -> None:
    path, sound = manifest.parents[2], manifest.read_text()
    content = {key: value for key, value in json.loads(sound).items() if key != "stratagraph"}
    manifest.write_text(json.dumps(content | format_of))
    told = rf"build it again.*stratagraph build DOCUMENTS -o {path}`.*build_index\(documents, path='{path}'"
    try:
        with pytest.raises(FormatMismatch, match=told):
            sg.open_index(path, embedder=FakeEmbedder())
        with pytest.raises(FormatMismatch, match=told):
            sg.build_index(["A ferry lands."], path=path, embedder=FakeEmbedder(), progress=False)
    finally:
        manifest.write_text(sound)


def test_a_folder_with_settings_of_another_version_is_refused(manifest: Path) -> None:
    path, sound = manifest.parents[2], manifest.read_text()
    told = "not those of this version of stratagraph .*'bygone'.*; build the index again in another folder"
    signed(path, lambda content: content["config"].update(bygone=None))
    try:
        with pytest.raises(FormatMismatch, match=told):
            sg.open_index(path, embedder=FakeEmbedder())
        with pytest.raises(FormatMismatch, match=told):
            sg.build_index(
                ["A ferry lands."], path=path, embedder=FakeEmbedder(), progress=False, rebuild=True
            )
    finally:
        manifest.write_text(sound)
