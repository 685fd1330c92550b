"""Folders of another format are refused, with what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stratagraph as sg
from stratagraph.errors import FormatMismatch
from stratagraph.store.manifest import FORMAT
from stratagraph.testing import FakeEmbedder
from tests.campaigns.faults import signed


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
