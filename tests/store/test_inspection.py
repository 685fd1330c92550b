"""Folders of another format, and folders whose checksums are right and whose content is not."""

from __future__ import annotations

import json
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
from stratagraph.testing import FakeEmbedder
from tests.campaigns.faults import signed
from tests.campaigns.trials import documents
from tests.store.support import rewrite_arrays, rewrite_records

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
    signed(folder)


def test_arrays_with_right_checksums_are_asked(folder: Path) -> None:
    altered(folder, "numbers/noderag.arrays", "walk.indices", lambda array: array + 10**6)
    altered(folder, "numbers/lshtree.arrays", "children.indices", lambda array: array + 10**6)
    problems = verify_folder(folder)
    assert [each.partition(" of")[0] for each in problems] == ["part 'noderag'", "part 'lshtree'"]
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        assert index.verify() == problems


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["config"]["chunking"].update(size=-1),
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


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")
def test_vectors_whose_products_are_infinite_are_damage_to_a_question(folder: Path) -> None:
    for segment in sorted((folder / "generations" / "2" / "vectors").iterdir()):
        altered(folder, f"vectors/{segment.name}", "vectors", lambda array: np.full_like(array, -np.inf))
    assert any("no unit vector" in problem for problem in verify_folder(folder))
    index = sg.open_index(folder, embedder=FakeEmbedder())
    with index, pytest.raises(Damaged, match="vectors"):
        [index.retrieve("Who steers the Aurora?", method=method, view="chunks") for method in METHODS]


@pytest.mark.parametrize("extra", ['{"title": 1}', "{}", '{"name": 5, "type": [], "description": {}}'])
def test_nodes_without_what_was_written_are_damage(folder: Path, extra: str) -> None:
    def spoiled(record: bytes) -> bytes:
        values = json.loads(record)
        return json.dumps([*values[:4], json.loads(extra)]).encode() if values[1] == "entity" else record

    (path,) = folder.glob("generations/2/nodes/graph/*")
    rewrite_records(path, lambda records: list(map(spoiled, records)))
    signed(folder)
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
